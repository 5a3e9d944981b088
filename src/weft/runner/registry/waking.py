"""
Loads what a run in memory was restored without: the values that its next step needs, or its history.

A worker that needs one of them asks its registry and stops for now; it continues when the load is done.  A load that
fails for good is a crash of the worker, so the supervisor decides what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from weft.runner.durability.ownership import Ownership
from weft.runner.durability.rehydration import is_partial
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.worker import Worker
from weft.runner.registry.shielded_tasks import ShieldedTasks


class Waking:
    """The loads of one runner; a worker has at most one load of its values at a time."""

    def __init__(self, ownership: Ownership, dispatcher: Dispatcher, shielded: ShieldedTasks) -> None:
        self._ownership, self._dispatcher, self._shielded = ownership, dispatcher, shielded
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        """By worker whose values are being loaded: the task that loads them."""

    def wake(self, worker: Worker) -> asyncio.Task[None]:
        """Load the values that *worker* needs, and let it take its turn then; a second call joins the first."""
        task = self._tasks.get(worker)
        if task is None:
            task = self._tasks[worker] = self._shielded.start(self._wake(worker))
        return task

    async def awake(self, worker: Worker) -> None:
        """Wait until *worker*, which is about to receive a call, has the values that it needs."""
        if worker.sleeping is not None and worker.starts:
            await asyncio.wait([self.wake(worker)])

    async def _wake(self, worker: Worker) -> None:
        try:
            if worker.sleeping is not None:
                await self._ownership.again(worker.sleeping.wake)
        except Exception as error:  # noqa: BLE001 - the worker crashes with it
            self._dispatcher.guard(worker, _raise, error)
        else:
            worker.sleeping = None
            self._dispatcher.guard(worker, worker.turn)
        finally:
            self._tasks.pop(worker, None)

    def load_history(
        self, worker: Worker, then: Callable[[], object], finally_: Callable[[], object] | None = None
    ) -> None:
        """Load the history of the run of *worker*, and call *then*; afterwards, and if that fails, call *finally_*."""
        self._shielded.start(self._load_history(worker, then, finally_))

    async def _load_history(
        self, worker: Worker, then: Callable[[], object], finally_: Callable[[], object] | None
    ) -> None:
        try:
            await self._ownership.again(worker.run.load)
        except Exception as error:  # noqa: BLE001 - the worker crashes with it
            self._dispatcher.guard(worker, _raise, error)
        else:
            self._dispatcher.guard(worker, then)
        finally:
            if finally_ is not None:
                finally_()

    async def load(self, worker: Worker) -> None:
        """Load the history of the run of *worker*, which is about to be changed, unless it is there."""
        if is_partial(worker.run):
            await self._ownership.again(worker.run.load)


def _raise(error: Exception) -> None:
    raise error
