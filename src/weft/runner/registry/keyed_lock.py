"""
One lock per run, so that a run is started, resumed, stopped or deleted by one task at a time.

These changes wait for the store.  Callers that use the same run meanwhile wait too, and then see the result of the
change: otherwise two workers might drive one run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Self


class KeyedLock:
    """A lock per run."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[asyncio.Future[None]] | None] = {}
        """The waiters of each locked run, in order; None while there are none, which is the usual case."""

    def lock(self, run: str) -> HeldLock:
        """Return the lock of *run*, for ``async with``."""
        return HeldLock(self._lines, run)

    def is_locked(self, run: str) -> bool:
        """Whether a change of *run* is being made."""
        return run in self._lines

    def try_lock(self, run: str) -> HeldLock | None:
        """Lock *run* without waiting; return None if it is locked already."""
        if run in self._lines:
            return None
        self._lines[run] = None
        return HeldLock(self._lines, run)


class HeldLock:
    """A lock that is held."""

    __slots__ = ("_is_released_later", "_lines", "_run")

    def __init__(self, lines: dict[str, deque[asyncio.Future[None]] | None], run: str) -> None:
        self._lines, self._run, self._is_released_later = lines, run, False

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def acquire(self) -> Self:
        """Wait until the run is not locked, and lock it."""
        lines, run = self._lines, self._run
        if run not in lines:
            lines[run] = None
            return self
        line = lines[run]
        if line is None:
            line = lines[run] = deque()
        mine = asyncio.get_running_loop().create_future()
        line.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # the lock was given to this waiter already: give it to the next
                self.release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Unlock the run, unless a task does that later."""
        if not self._is_released_later:
            self.release()

    def release_after(self, task: asyncio.Task[Any]) -> None:
        """Release the lock when *task* has ended, in whatever way."""
        self._is_released_later = True
        task.add_done_callback(lambda _: self.release())

    def release(self) -> None:
        """Unlock the run, for the next waiter that has not been cancelled."""
        line = self._lines[self._run]
        while line:
            following = line.popleft()
            if not following.done():
                following.set_result(None)
                return
        del self._lines[self._run]
