"""
Rebuilds workers that crash from the store, and parks the runs of those that keep crashing.

A failed step is not a crash: it is part of its run.  A worker crashes if its own code raises, because of a bug or of
impossible data.  It is rebuilt after a growing pause; after three restarts within a minute (``MOST``, ``WINDOW``) its
run is parked with the reason, until it is resumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from weft.core.failure import text_of
from weft.errors import WeftError
from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")

MOST, WINDOW = 3, 60.0
"""How many restarts a run gets, and within how many seconds they count."""
PAUSE = 0.05
"""How many seconds to wait before the first restart; twice as many before each further one."""


class Supervisor:
    """Decides whether a crashed worker is rebuilt or its run is parked."""

    def __init__(self, rebuild: Callable[[Worker], Awaitable[None]], park: Callable[[Worker, str], None]) -> None:
        self._rebuild, self._park = rebuild, park
        self._restarts: dict[str, list[float]] = {}
        """By run: when it crashed, within the window; in the order of their last crash."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By run: the task that restarts it."""
        self._is_closed = False

    def crashed(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*; later errors, until it is replaced, are taken for consequences."""
        if not worker.has_crashed:
            self._count(worker, error)

    def _count(self, worker: Worker, error: BaseException) -> None:
        """Rebuild *worker* after a pause, or park its run if it has crashed too often."""
        if self._is_closed:
            return
        worker.die()
        if not worker.accepts:  # what it has done is written, and resuming the run builds the next one
            _log.error("the worker of run %r crashed while the run was stopped", worker.id, exc_info=error)
            return
        now = asyncio.get_running_loop().time()
        recent = [at for at in self._restarts.pop(worker.id, ()) if now - at < WINDOW]
        recent.append(now)
        self._restarts[worker.id] = recent
        while now - self._restarts[first := next(iter(self._restarts))][-1] >= WINDOW:
            del self._restarts[first]
        worker.report.restarted(error, len(recent))
        if len(recent) > MOST:
            self._park(worker, f"its worker crashed {len(recent)} times: {type(error).__name__}: {text_of(error)}")
            return
        self._start(worker, PAUSE * 2 ** (len(recent) - 1))

    def replace(self, worker: Worker) -> None:
        """Build the next worker of a run that was parked, and goes on; *worker* drives nothing more."""
        if not self._is_closed and worker.id not in self._tasks:
            self._start(worker, 0.0)

    def _start(self, worker: Worker, pause: float) -> None:
        restart = self._restart(worker, pause)
        task = asyncio.get_running_loop().create_task(restart, name=f"weft-restart-{worker.id}")
        self._tasks[worker.id] = task
        task.add_done_callback(partial(self._ended, worker))

    async def _restart(self, worker: Worker, pause: float) -> None:
        await asyncio.sleep(pause)
        await self._rebuild(worker)

    def _ended(self, worker: Worker, restart: asyncio.Task[None]) -> None:
        """
        A *restart* has ended: if the run could not be rebuilt, that counts as another crash.

        So does a restart that other code has cancelled, perhaps before it began.
        """
        if self._tasks.get(worker.id) is restart:  # else the next worker has crashed as soon as it was here
            del self._tasks[worker.id]
        error = asyncio.CancelledError() if restart.cancelled() else restart.exception()
        if error is not None:
            self._count(worker, error)

    @property
    def is_at_work(self) -> bool:
        """Whether some run is being rebuilt."""
        return bool(self._tasks)

    async def restarted(self, run: str) -> None:
        """Wait while *run* is being rebuilt; return at once if it is not."""
        while (task := self._tasks.get(run)) is not None:
            await asyncio.wait([task])

    def unresumable(self, run: str, error: BaseException) -> None:
        """Log that a stored run could not be resumed: errors of Weft in one line, others with their traceback."""
        unknown = None if isinstance(error, WeftError) else error
        _log.error("run %r could not be resumed: %s: %s", run, type(error).__name__, error, exc_info=unknown)

    def close(self) -> None:
        """Restart nothing more."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
