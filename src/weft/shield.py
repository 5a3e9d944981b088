"""
Waiting for work that goes on when its caller is cancelled, as ``asyncio.shield`` did before Python 3.14.

Since then, ``asyncio.shield`` reports an exception of the work to the loop as soon as one of its callers was cancelled,
even if another caller receives it.  Callers of a runner share their work, and each may put a timeout around its call:
an error that was raised where it belongs would be in the log of the application as well.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


def shielded(work: asyncio.Future[T]) -> asyncio.Future[T]:
    """Return a future of the result of *work*; cancelling it leaves *work* alone."""
    if work.done():
        return work
    answer: asyncio.Future[T] = work.get_loop().create_future()

    def worked(work: asyncio.Future[T]) -> None:
        if work.cancelled():
            answer.cancel()
            return
        error = work.exception()  # from here on it is known: asyncio would report it otherwise
        if answer.done():
            return
        if error is None:
            answer.set_result(work.result())
        else:
            answer.set_exception(error)

    def answered(_: asyncio.Future[T]) -> None:
        work.remove_done_callback(worked)

    work.add_done_callback(worked)
    answer.add_done_callback(answered)
    return answer
