"""
What has ended and nobody has collected yet.

Workers put, one owner takes.  The owner is woken by the first thing that comes after it last took, and then left
alone: one wake-up, which costs more than a step, for as many results as there are by the time it looks.

    >>> woken = []
    >>> outbox = Outbox(lambda: woken.append("now"))
    >>> outbox.put(1); outbox.put(2)
    >>> woken, outbox.take(), outbox.take()
    (['now'], [1, 2], [])
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """A queue from many threads to one, with one *wake* per batch."""

    __slots__ = ("_is_muted", "_items", "_told", "_wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._is_muted = False
        self._items: deque[T] = deque()
        self._told = threading.Lock()
        """Held from a wake-up until the owner takes: of several threads, the one that gets it wakes."""

    def put(self, item: T) -> None:
        """Add *item*, and wake the owner unless that has been done."""
        self._items.append(item)
        if self._told.acquire(blocking=False):
            try:
                self._wake()
            except Exception:
                if not self._is_muted:
                    raise

    def mute(self) -> None:
        """Wake the owner no more: it has closed, and its loop may be gone when the last thread ends."""
        self._is_muted = True
        self._wake = _nobody

    def take(self) -> list[T]:
        """Remove and return everything.  Only the owner calls this."""
        # First let go, then look: what comes in between wakes once too often, never once too seldom.
        if self._told.locked():
            self._told.release()
        items = self._items
        return [items.popleft() for _ in range(len(items))]


def _nobody() -> None:
    """Wake nobody."""
