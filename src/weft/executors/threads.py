"""
Execution on threads, for plain functions, which may block.

Threads are started when there is work for them, and stay: an idle thread costs nothing but its stack.  They are
daemons, so none ever delays the exit of the process.

A thread cannot be stopped.  If its work was cancelled, for instance by a timeout, it is abandoned: it ends when its
work ends, and the result is dropped.  It does not count as one of *max_workers*, so another one takes its place, until
*max_left* hang like that; each further one leaves one thread less for other work.  When all of them hang, no slot is
free, an error is logged, and waiting work continues when one of them ends.

A step that may hang forever belongs in :class:`~weft.executors.processes.ProcessExecutor`, which can kill it.
"""

from __future__ import annotations

import contextvars
import os
from time import monotonic
from typing import Final

from weft.calling import attempt
from weft.core.run.runnable import Outcome
from weft.executors.pool import Pool, Work

CAPACITY = 1_000
MAX_LEFT = 64


class ThreadExecutor(Pool):
    """
    Runs plain functions on up to *max_workers* threads.

    Args:
        max_workers: by default four more than there are processors, at most 32.
        capacity: how many tickets may be inside, waiting ones and uncollected ones included.
        max_left: how many threads may hang in cancelled work before there are fewer for other work.
    """

    in_process: Final = True
    """Functions run in this process."""

    def __init__(self, max_workers: int | None = None, *, capacity: int = CAPACITY, max_left: int = MAX_LEFT) -> None:
        workers = min(32, (os.cpu_count() or 1) + 4) if max_workers is None else max_workers
        super().__init__(_Caller, workers=workers, capacity=capacity, spare=max_left)


class _Caller:
    """Runs work by calling it."""

    __slots__ = ()

    def run(self, work: Work, context: contextvars.Context) -> Outcome:
        """Execute *work* in a separate context."""
        work.started = monotonic()
        return context.copy().run(attempt, work.runnable)

    def stop(self, work: Work) -> None:
        """Do nothing: a thread cannot be stopped."""

    def close(self) -> None:
        """Do nothing: it holds nothing."""
