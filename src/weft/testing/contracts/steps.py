"""
What the contract of executors has run.

At the top of a module that imports little, so that a worker process finds it soon.
"""

from __future__ import annotations

import contextvars
import os
import sys
from collections.abc import Iterator

from weft.core.functions.current import current

seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)


def double(x: int) -> int:
    """Return twice *x*."""
    return 2 * x


def refuse(x: object) -> None:
    """Raise something that a caller can recognise."""
    raise LookupError("no such thing", x)


def leave(x: object) -> None:
    """Want the process to end."""
    sys.exit(f"leaving: {x}")


def count_down(x: int) -> Iterator[int]:
    """Give the numbers below *x*, each once."""
    yield from range(x - 1, -1, -1)


def has_elements(x: list[object]) -> list[object]:
    """Return something that is true or not."""
    return x


def whoami(x: object) -> tuple[str, str, int, str, object]:
    """Return what a step knows about itself."""
    me = current()
    return me.run_id, me.component, me.attempt, me.idempotency_key, x


def mark(x: int) -> int:
    """Return what the context variable held, and set it."""
    before = seen.get()
    seen.set(x)
    return before


def own_pid(_: object) -> int:
    """Return in which process it runs."""
    return os.getpid()
