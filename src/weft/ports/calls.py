"""
A call for workers: some runs are free and due, and as many workers as there are such runs should poll the queue.

A call reaches all workers of a database, since PostgreSQL wakes every listener, whatever the channel.  Each worker
computes from a random number in the call whether it should answer: workers that serve the same are ordered by their
keys, and the call is for those that follow the drawn place.  The next one in that order is the backup: it polls a
moment later, in case one of them is dead, or has no room.  See docs/adr/0058-a-start-calls-one-worker.md.

    >>> call = Call(count=1, draw=0.5)
    >>> [call.answered_after(rank, 4) for rank in range(4)]
    [None, None, 0.0, 0.1]
    >>> Call.read(call.text) == call, Call.read("")
    (True, None)
"""

from __future__ import annotations

from typing import Final

import msgspec

BACKUP_DELAY: Final = 0.1
"""Seconds after which the backup looks."""
HOPS: Final = 3
"""How often workers that have no room pass a call on."""


class Call(msgspec.Struct, frozen=True):
    """A call for some of the workers that can take each other's runs."""

    count: int
    """How many runs there are."""
    draw: float
    """The random number that chooses the workers: from 0 to 1, without 1."""
    hops: int = 0
    """How often it was passed on."""
    queue: str = ""
    """The queue of the runs; empty if they are in several."""

    @property
    def text(self) -> str:
        """The payload of the notification; ``append.sql`` writes the same."""
        return f"{self.count} {self.draw!r} {self.hops} {self.queue}"

    @staticmethod
    def read(text: str | None) -> Call | None:
        """Parse *text*; return None if the call is for all workers."""
        try:
            count, draw, hops, queue = (text or "").split(" ", 3)
            return Call(int(count), min(max(float(draw), 0.0), 1.0), int(hops), queue)
        except ValueError:
            return None

    def answered_after(self, rank: int, size: int) -> float | None:
        """
        Return after how many seconds the worker with this *rank* looks; None if it does not.

        Args:
            rank: its place among those that serve the same, from 0.
            size: the number of workers that serve the same.
        """
        place = (rank - int(self.draw * size)) % max(size, 1)
        if place < self.count:
            return 0.0
        return BACKUP_DELAY if place == self.count else None

    def passed_on(self, draw: float) -> Call | None:
        """Return the call for another worker, by a new *draw*; None if it was passed on often enough."""
        return Call(1, draw, self.hops + 1, self.queue) if self.hops < HOPS else None
