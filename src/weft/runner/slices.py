"""
The stop between two slices of large work: everything else in the loop has its turn, and so have other threads.
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
    """Let another thread have the interpreter, if one waits for it."""
    time.sleep(_MOMENT)


async def pause(*, threads: bool = True) -> None:
    """
    Let everything else in the loop have its turn.

    Args:
        threads: whether to let other threads run, too.  On a busy machine the sleep that this takes can last as long as
            twenty slices: where no thread has anything to do for the runner, it is better left out.
    """
    if threads:
        let_threads_run()
    await asyncio.sleep(0)
