"""
Runs on their way into a runner, one at a time each.

Starting and resuming ask the store and wait for it.  Whoever wants the same run meanwhile waits too, and then finds it
there: otherwise two workers would drive one run, and one of them would lose.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Arrivals:
    """Who is on the way, by run."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def alone(self, run: str) -> AsyncGenerator[None, None]:
        """Be the only one who brings *run* in."""
        lock, count = self._locks.get(run, (asyncio.Lock(), 0))
        self._locks[run] = (lock, count + 1)
        try:
            async with lock:
                yield
        finally:
            lock, count = self._locks[run]
            if count == 1:
                del self._locks[run]
            else:
                self._locks[run] = (lock, count - 1)
