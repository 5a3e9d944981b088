"""
The time of day by the clock of the database, as one process knows it.

Due times, deadlines and records of a fleet are compared by many machines, so they follow one clock: that of the
database.  It is read by statements that are executed anyway; between them, the monotonic clock of this process counts.

    >>> clock = ServerClock()
    >>> now = monotonic()
    >>> clock.heard(sent=now - 2.0, told=1_000_000.0, received=now)
    >>> 1_000_001 <= clock.time() < 1_000_002
    True
"""

from __future__ import annotations

import time
from collections.abc import Callable

from weft.stores.postgres.lease import monotonic


class ServerClock:
    """
    The clock of one database.

    Args:
        local: the time of day of this machine, used until the database has told its own.
    """

    def __init__(self, local: Callable[[], float] = lambda: time.time()) -> None:  # noqa: PLW0108 - it may be replaced
        self._local = local
        self._offset: float | None = None
        """The seconds that have to be added to the monotonic clock."""

    def heard(self, sent: float, told: float, received: float) -> None:
        """
        Take the time that the database has *told*, between two moments of the monotonic clock.

        The offset that was known before stays if the answer allows it, so that the time does not jump with each answer.
        """
        earliest, latest = told - received, told - sent
        if self._offset is None or not earliest <= self._offset <= latest:
            self._offset = (earliest + latest) / 2

    def time(self) -> float:
        """Return the time of day in seconds since the epoch."""
        offset = self._offset
        return self._local() if offset is None else monotonic() + offset

    @property
    def ahead(self) -> float:
        """By how many seconds the clock of this machine is ahead of it; below 0 if it is behind."""
        return 0.0 if self._offset is None else self._local() - self.time()
