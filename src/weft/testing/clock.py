"""
A clock for tests: a sleep returns at once and advances the time.

    >>> clock = VirtualClock()
    >>> clock.sleep(3600)
    >>> clock.slept, clock.time()
    ([3600], 3600.0)
"""

from __future__ import annotations

import asyncio
import threading


class VirtualClock:
    """Starts at *start*; every sleep returns at once and advances it."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self.slept: list[float] = []
        """The length of every sleep, in order."""

    def time(self) -> float:
        """Return the virtual time, in seconds since the epoch."""
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        """Advance by *seconds*, and return at once."""
        with self._lock:
            self.slept.append(seconds)
            self._now += seconds

    async def asleep(self, seconds: float) -> None:
        """Advance by *seconds*, and let other tasks run."""
        self.sleep(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Advance by *seconds* without a sleep."""
        with self._lock:
            self._now += seconds
