"""
What is run: steps that add one, and say so to whoever counts.

A step does next to nothing, but enough to show in the result that each has run.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

from weft import Workflow, current, step

STEPS = 5

listeners: list[Callable[[str, str], object]] = []
"""Told the run and the component of every step that begins, while somebody counts."""


def add_one(x: int) -> int:
    return x + 1


def add_one_and_tell(x: int) -> int:
    running = current()
    for listener in listeners:
        listener(running.run_id, running.component)
    return x + 1


def chain(size: int, function: Callable[[int], int] = add_one) -> Workflow:
    """Return *size* steps in a row."""
    return Workflow("chain", functools.reduce(operator.rshift, (step(function, name=f"step_{i}") for i in range(size))))
