"""
A clock for tests: waiting passes time instead of spending it.

    >>> clock = VirtualClock()
    >>> clock.sleep(3600)
    >>> clock.slept, clock.time()
    ([3600], 3600.0)
"""

from __future__ import annotations

import asyncio
import threading


class VirtualClock:
    """Starts at *start*; every sleep returns at once and moves it on."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self.slept: list[float] = []
        """Every wait that was asked for, in order."""

    def time(self) -> float:
        """Return the virtual time, in seconds since the epoch."""
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        """Let *seconds* have passed."""
        with self._lock:
            self.slept.append(seconds)
            self._now += seconds

    async def asleep(self, seconds: float) -> None:
        """Let *seconds* have passed, and others have a turn."""
        self.sleep(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Move on by *seconds* that nobody slept."""
        with self._lock:
            self._now += seconds
