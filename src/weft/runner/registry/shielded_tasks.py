"""
Changes that complete even if their caller is cancelled.

Starting, resuming, stopping and deleting a run, and closing a runner, are each several calls of the store.  If the
caller is cancelled in between (a timeout around the call, a Ctrl-C), the run must not be left owned by the runner and
driven by no worker, or the other way round.  So each change is a separate task, which its callers wait for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from weft.shield import shielded

T = TypeVar("T")
_log = logging.getLogger("weft.runner")


class ShieldedTasks:
    """The changes of one runner that are being made."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run *work* as a task, which is waited for when the runner is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* as a task, and return its result; the task continues if the caller is cancelled."""
        return await shielded(self.start(work))

    async def ended(self) -> None:
        """Wait until nothing is left to do."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:  # the callers that still wait get it too
            _log.debug("%s ended with %s: %s", task.get_coro(), type(error).__name__, error)
