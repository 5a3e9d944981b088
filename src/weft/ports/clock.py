"""
Time, handed in.

Nothing in Weft waits but on a clock that it was given, so that tests pass time instead of spending it.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where time comes from, and how to let it pass."""

    def time(self) -> float:
        """Return the time of day in seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for *seconds*."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Suspend for *seconds*."""
        ...
