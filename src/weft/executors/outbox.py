"""
A queue of outcomes that were not collected yet.

Workers put, one owner takes.  The first item after a take wakes the owner, and later ones do not: one wake-up, which
costs more than a step, serves all results that are there by the time the owner looks.

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

    __slots__ = ("_is_muted", "_items", "_wake", "_woken")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._is_muted = False
        self._items: deque[T] = deque()
        self._woken = threading.Lock()
        """Held from a wake-up until the owner takes; of several threads, the one that acquires it wakes the owner."""

    def put(self, item: T) -> None:
        """Add *item*, and wake the owner unless it has been woken already."""
        self._items.append(item)
        if self._woken.acquire(blocking=False):
            try:
                self._wake()
            except Exception:
                if not self._is_muted:
                    raise

    def mute(self) -> None:
        """Stop waking the owner: it has closed, and its loop may be gone when the last thread ends."""
        self._is_muted = True
        self._wake = _ignore

    def take(self) -> list[T]:
        """Remove and return everything.  Only the owner calls this."""
        # First release, then take: an item that arrives in between causes one wake-up too many, never one too few.
        if self._woken.locked():
            self._woken.release()
        items = self._items
        return [items.popleft() for _ in range(len(items))]


def _ignore() -> None:
    """Do nothing."""
