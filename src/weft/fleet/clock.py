"""
The clock of a fleet: the time of day is that of its database, so that all machines agree when something is due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.runner import defaults

SKEW: Final = 2.0
"""Seconds by which the clock of a machine may differ from that of the database before it is said."""


class FleetClock:
    """
    Tells the time of a database, and waits as this machine does.

    Args:
        time: returns the time of day by the clock of the database.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time, self._local = time, defaults.clock()

    def time(self) -> float:
        """Return the time of day in seconds since the epoch."""
        return self._time()

    def sleep(self, seconds: float) -> None:
        """Block for *seconds*."""
        self._local.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Suspend for *seconds*."""
        await self._local.asleep(seconds)
