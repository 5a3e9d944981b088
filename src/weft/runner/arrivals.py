"""
Runs on their way into a runner, one at a time each.

Starting and resuming ask the store and wait for it.  Whoever wants the same run meanwhile waits too, and then finds it
there: otherwise two workers would drive one run, and one of them would lose.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Arrivals:
    """Who is on the way, by run."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[asyncio.Future[None]] | None] = {}
        """Who waits until it is his turn; None as long as nobody does, as nearly always."""

    def alone(self, run: str) -> _Turn:
        """Be the only one who brings *run* in: inside of ``async with``."""
        return _Turn(self._lines, run)


class _Turn:
    __slots__ = ("_lines", "_run")

    def __init__(self, lines: dict[str, deque[asyncio.Future[None]] | None], run: str) -> None:
        self._lines, self._run = lines, run

    async def __aenter__(self) -> None:
        lines, run = self._lines, self._run
        if run not in lines:
            lines[run] = None
            return
        line = lines[run]
        if line is None:
            line = lines[run] = deque()
        mine = asyncio.get_running_loop().create_future()
        line.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was his turn already: then it is the next one's
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        """Let the next one in that still waits; if there is none, the run is on its way no more."""
        line = self._lines[self._run]
        while line:
            following = line.popleft()
            if not following.done():
                following.set_result(None)
                return
        del self._lines[self._run]
