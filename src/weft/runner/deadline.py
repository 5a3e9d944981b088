"""
The end of a grace time, which can be brought forward while something waits for it.

When a run is stopped or a runner is closed, the steps in flight get a grace time.  A second caller may ask for a
shorter one: then everything that waits for the deadline waits for the earlier time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


class Deadline:
    """Create a deadline *seconds* from now, by the loop's clock."""

    __slots__ = ("_waits", "at")

    def __init__(self, seconds: float) -> None:
        self.at = asyncio.get_running_loop().time() + seconds
        self._waits: set[asyncio.Timeout] = set()

    @property
    def is_past(self) -> bool:
        """Whether the time is up."""
        return asyncio.get_running_loop().time() >= self.at

    @property
    def left(self) -> float:
        """How many seconds are left."""
        return max(0.0, self.at - asyncio.get_running_loop().time())

    def hurry(self, seconds: float) -> None:
        """Move the deadline to *seconds* from now, if that is earlier."""
        at = asyncio.get_running_loop().time() + seconds
        if at < self.at:
            self.at = at
            for wait in self._waits:
                if not wait.expired():
                    wait.reschedule(at)

    async def wait(self, futures: Collection[asyncio.Future[Any]]) -> bool:
        """Wait until all *futures* are done; return False, and leave them as they are, if the time is up before."""
        if not futures:
            return True
        try:
            async with asyncio.timeout_at(self.at) as wait:
                self._waits.add(wait)
                try:
                    await asyncio.wait(futures)
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            return False
        return True
