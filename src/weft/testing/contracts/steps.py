"""
The steps that the contract of executors runs.

They are at the top level of a module that imports little, so that a worker process loads it quickly.
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
    """Raise an error that a caller can recognise."""
    raise LookupError("no such thing", x)


def leave(x: object) -> None:
    """Raise SystemExit."""
    sys.exit(f"leaving: {x}")


def count_down(x: int) -> Iterator[int]:
    """Yield the numbers below *x*."""
    yield from range(x - 1, -1, -1)


def has_elements(x: list[object]) -> list[object]:
    """Return a value that is true or false."""
    return x


def whoami(x: object) -> tuple[str, str, int, str, object]:
    """Return the data of ``weft.current()``."""
    me = current()
    return me.run_id, me.component, me.attempt, me.idempotency_key, x


def mark(x: int) -> int:
    """Return the value of the context variable, and set it."""
    before = seen.get()
    seen.set(x)
    return before


class Mark:
    """Sets the context variable, before the function of an attempt is called."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __call__(self) -> None:
        seen.set(self.x)


def own_pid(_: object) -> int:
    """Return the number of the process it runs in."""
    return os.getpid()
