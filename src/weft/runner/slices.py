"""
The pause between two slices of large work, in which other work of the event loop and other threads run.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

_MOMENT: Final = 50e-6
"""
How many seconds the thread sleeps, so that another one gets the interpreter.

A loop that always has something to do never lets go of it long enough: a thread that waits for it, such as the writer
of a store, then gets it after 5 ms, several times per commit.
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
