"""
Execution in the event loop: each runnable is a task.

A cancelled coroutine gets its ``CancelledError`` and keeps its slot until it has really ended: cleaning up takes time,
and one that ignores cancellation must not make room for another one like it.  Tasks that still run when the grace time
of ``close`` is over are cancelled; those that do not end even then are logged and abandoned.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns

from weft.calling import aattempt, failed
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import ExecutorClosed, ExecutorFull
from weft.executors.blocking_watch import BlockingWatch
from weft.executors.outbox import Outbox

CAPACITY = 1_000
CANCEL_GRACE = 1.0
"""Longest time that ``close`` leaves cancelled coroutines for cleanup, in seconds."""

_log = logging.getLogger(__name__)


class TaskExecutor:
    """Runs up to *capacity* coroutines at once in the running event loop; a plain function blocks that loop."""

    def __init__(self, *, capacity: int = CAPACITY, blocking_threshold: float | None = None) -> None:
        """
        Make one.

        Args:
            capacity: how many coroutines may run at once.
            blocking_threshold: log a step that blocks the event loop for longer than this many seconds.
        """
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r}: use a number of at least 1")
        self.capacity = capacity
        self._watch = None if blocking_threshold is None else BlockingWatch(blocking_threshold, lambda: self._tasks)
        self._outbox: Outbox[tuple[int, Outcome | None]] | None = None
        self._context = contextvars.Context()
        self._tasks: dict[int, asyncio.Task[Outcome]] = {}
        """Every task that has not ended, cancelled or not."""
        self._live: dict[int, float] = {}
        """Start time of each uncollected ticket."""
        self._places = 0
        """How many tickets are inside: their task has not ended, or their outcome was not collected."""
        self._lent: set[int] = set()
        """The tickets that only wait, and have lent their slots."""
        self._is_open = False

    @property
    def free(self) -> int:
        """How many more coroutines may run."""
        return self.capacity - self._places if self._is_open else 0

    def open(self, wake: Callable[[], None]) -> None:
        """Open it, in the running event loop."""
        if self._outbox is not None:
            raise ExecutorClosed("TaskExecutor", "was open before")
        self._loop = asyncio.get_running_loop()
        self._outbox, self._context, self._is_open = Outbox(wake), contextvars.copy_context(), True

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Start *runnable*; it first runs when the caller yields to the loop."""
        if not self._is_open:
            raise ExecutorClosed("TaskExecutor", "is not open")
        if self._places >= self.capacity:
            raise ExecutorFull("TaskExecutor", self.capacity)
        task = self._loop.create_task(aattempt(runnable), context=self._context.copy())
        task.add_done_callback(partial(self._end, ticket, runnable, perf_counter_ns()))
        self._tasks[ticket], self._live[ticket] = task, self._loop.time()
        self._places += 1
        if self._watch is not None and not self._watch.is_awake:
            self._watch.wake()

    def _end(self, ticket: int, runnable: Runnable, begun: int, task: asyncio.Task[Outcome]) -> None:
        self.reclaim(ticket)
        del self._tasks[ticket]
        outcome: Outcome | None = None
        if task.cancelled():
            if ticket in self._live:  # the step has cancelled its own task
                outcome = failed(runnable, asyncio.CancelledError(), begun)
        elif task.exception() is None:  # the only other case is the Ctrl-C that has ended the loop
            outcome = task.result()
        assert self._outbox is not None  # noqa: S101
        self._outbox.put((ticket, outcome))

    def started(self, ticket: int) -> float | None:
        """Return when *ticket* was submitted: a task does not wait for a worker."""
        return self._live.get(ticket) if ticket in self._tasks else None

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return the outcomes that were not collected yet."""
        if self._outbox is None:
            return []
        taken = self._outbox.take()
        self._places -= len(taken)
        live = self._live
        return [(t, outcome) for t, outcome in taken if live.pop(t, None) is not None and outcome is not None]

    def cancel(self, ticket: int) -> None:
        """Cancel the task of *ticket*; its slot is free when it has ended."""
        if self._live.pop(ticket, None) is not None and ticket in self._tasks:
            self._tasks[ticket].cancel()

    def lend(self, ticket: int) -> None:
        """Let another coroutine run while *ticket* waits."""
        if ticket in self._tasks and ticket not in self._lent:
            self._lent.add(ticket)
            self._places -= 1

    def reclaim(self, ticket: int) -> None:
        """Count *ticket* again."""
        if ticket in self._lent:
            self._lent.remove(ticket)
            self._places += 1

    async def close(self, grace: float) -> list[int]:
        """Wait up to *grace* seconds for running tasks, then cancel them; log and abandon those that do not end."""
        self._is_open = False
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=max(grace, 0))
        given_up = [ticket for ticket in self._tasks if ticket in self._live]
        for ticket in given_up:
            self.cancel(ticket)
        if self._tasks:
            _, remaining = await asyncio.wait(list(self._tasks.values()), timeout=CANCEL_GRACE)
            for task in remaining:
                _log.warning("%r ignores its cancellation and is abandoned: let CancelledError pass", task)
        if self._outbox is not None:
            self._outbox.mute()
        if self._watch is not None:
            self._watch.close()
        return given_up
