"""Functions that the workers of a cluster run, in a module that they can import."""

from __future__ import annotations

import threading

import weft


class Declined(Exception):
    """An exception of the application."""


def hang_at_first(_: object) -> int:
    """Hang in the first attempt; return the number of the second."""
    if weft.current().attempt == 1:
        threading.Event().wait()
    return weft.current().attempt


def add(total: int, x: int) -> int:
    """Return the sum."""
    return total + x


def decline(x: object) -> None:
    """Raise an exception of the application."""
    raise Declined("no money", x)


def repeat(x: int) -> str:
    """Return a text of this length."""
    return "x" * x
