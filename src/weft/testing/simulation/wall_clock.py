"""
The clock of the system in a simulation: the time of the event loop, and the amount by which the clock was set.

    >>> clock = WallClock()
    >>> clock.set(at=100.0, by=-30.0)
    >>> clock.at(90.0), clock.at(110.0)
    (90.0, 80.0)
    >>> clock.highest(until=110.0)
    100.0
    >>> clock.moment(80.0, until=120.0)
    110.0
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator


class WallClock:
    """Shows the time of the loop until it is set; it outlives the processes."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, float]] = [(-math.inf, 0.0)]
        """Pairs of a time of the loop and how many seconds the clock is ahead from then on."""

    def set(self, *, at: float, by: float) -> None:
        """Set it forward *by* seconds, at this time of the loop; back, if they are negative."""
        self._changes.append((at, self._changes[-1][1] + by))

    def at(self, time: float) -> float:
        """Return what it showed at this *time* of the loop."""
        return time + next(ahead for since, ahead in reversed(self._changes) if since <= time)

    def highest(self, *, until: float) -> float:
        """Return the latest time that it has shown, up to a time of the loop."""
        return max(min(end, until) + ahead for since, end, ahead in self._periods() if since <= until)

    def moment(self, shown: float, *, until: float) -> float | None:
        """Return when it last showed a time, up to a time of the loop; None if it never did."""
        found = (shown - ahead for since, end, ahead in self._periods() if since <= shown - ahead <= min(end, until))
        return max(found, default=None)

    def _periods(self) -> Iterator[tuple[float, float, float]]:
        ends = [since for since, _ in self._changes[1:]] + [math.inf]
        for (since, ahead), end in zip(self._changes, ends, strict=True):
            yield since, end, ahead


class ProcessClock:
    """The clock of the system, as the process sees it whose loop is running; also when that loop is dead."""

    def __init__(self, wall: WallClock) -> None:
        self._wall, self._loop = wall, asyncio.get_running_loop()

    def time(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._wall.at(self._loop.time())

    def sleep(self, seconds: float) -> None:
        """Refuse: a simulation that blocks would wait for itself."""
        raise NotImplementedError(f"code must not block for {seconds} seconds in virtual time; await it")

    async def asleep(self, seconds: float) -> None:
        """Suspend for *seconds* of the loop."""
        await asyncio.sleep(seconds)
