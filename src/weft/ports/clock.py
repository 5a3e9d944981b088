"""
The clock, passed in as a dependency.

Everything in Weft that waits does so on a clock that was passed in, so tests advance time instead of sleeping.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time, and waits."""

    def time(self) -> float:
        """Return the time of day in seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for *seconds*."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Suspend for *seconds*."""
        ...
