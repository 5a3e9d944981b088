"""
The pause between two slices of large work, in which other work of the event loop and other threads run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from weft.log.event_codec import AT_ONCE

_MOMENT: Final = 50e-6
"""
How many seconds the thread sleeps, so that another one gets the interpreter.

A loop that always has something to do never frees it for long enough: a thread that waits for it, such as the writer of
a store, then gets it after 5 ms, several times per commit.
"""


def let_threads_run() -> None:
    """Let another thread run, if one waits for the interpreter."""
    time.sleep(_MOMENT)


async def pause(*, threads: bool = True) -> None:
    """
    Let the other work of the event loop run.

    Args:
        threads: whether to let other threads run too, which takes a sleep.  On a busy machine that can last as long as
            twenty slices: pass False if no thread works for the runner.
    """
    if threads:
        let_threads_run()
    await asyncio.sleep(0)


class Pace:
    """Lets other work of the event loop run after every :data:`AT_ONCE` events."""

    __slots__ = ("_count", "_pause")

    def __init__(self, pause: Callable[[], Awaitable[object]] = pause) -> None:
        self._pause, self._count = pause, 0

    async def keep(self, events: int) -> None:
        """Note that *events* more were processed; pause if there were enough of them since the last pause."""
        self._count += events
        if self._count >= AT_ONCE:
            self._count = 0
            await self._pause()
