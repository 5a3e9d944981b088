"""
The questions to a runner: how its runs stand, what is stored, and when they are done.

Nothing here changes a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from weft.core import events as ev
from weft.core.run.run import Run
from weft.errors import RunClosed, RunnerClosed, RunParked, StoreUnavailable
from weft.ports.store import RunRecord
from weft.runner.execution.status import is_done
from weft.runner.handle import Handle
from weft.runner.runtime import Runtime


class RunnerQueries:
    """The part of a runner that only answers."""

    _runtime: Runtime

    # -- waiting ---------------------------------------------------------------------------------

    async def wait(self, id: str, timeout: float | None = None) -> Run:
        """
        Wait until the run *id* has nothing left to do, and all of that is durable; return it as it is then.

        Raises:
            WorkflowNotFound: there is no such run here.
            WaitTimeout: it took longer than *timeout* seconds.
            RunParked: it needs a person.
        """
        return (await self._done_in(id, timeout)).frozen_copy()

    async def _done_in(self, id: str, timeout: float | None) -> Run:
        """Return the run *id* itself, once it is done."""
        if timeout is None:
            return await self._done(id)
        return await self._runtime.in_time(id, timeout, self._done(id))

    async def _done(self, id: str) -> Run:
        worker = await self._runtime.worker(id)
        if not is_done(worker):
            await self._runtime.waiters.done(worker)
        worker = self._runtime.registry.get(id) or worker
        if isinstance(worker.lost, StoreUnavailable):  # the time to close was up before the store was back
            raise RunnerClosed from worker.lost
        if worker.state == "parked":
            raise RunParked(id, worker.reason)
        return worker.run

    async def wait_until(self, id: str, predicate: Callable[[Run], bool], timeout: float | None = None) -> Run:
        """Wait until *predicate* holds for the run as far as it is durable; as :meth:`wait`."""
        if timeout is None:
            return await self._held(id, predicate)
        return await self._runtime.in_time(id, timeout, self._held(id, predicate))

    async def _held(self, id: str, predicate: Callable[[Run], bool]) -> Run:
        worker = await self._runtime.worker(id)
        return await self._runtime.waiters.until(worker, predicate)

    async def result(self, id: str, timeout: float | None = None) -> Any:
        """
        Wait until the run *id* has nothing left to do; return its output.

        Raises:
            StepFailed: something failed, and there is no output.
            RunClosed: the run was cancelled.
        """
        run = await self._done_in(id, timeout)
        if run.memory.cancelled is not None:
            raise RunClosed(id, run.memory.cancelled)
        if run.failed and not run.results():
            raise next(iter(run.failures.values()))
        return run.output

    # -- looking ---------------------------------------------------------------------------------

    async def get_results(self, id: str) -> dict[str, Any]:
        """Return what the leaves of the run *id* have made so far."""
        return (await self._runtime.worker(id)).run.results()

    async def get_workflow(self, id: str) -> Run:
        """Return the run *id* as it is now."""
        return (await self._runtime.worker(id)).run.frozen_copy()

    async def log(self, id: str) -> list[ev.AnyEvent]:
        """Return everything that has happened in the run *id*."""
        return (await self._runtime.worker(id)).run.log()

    async def status(self, id: str) -> str:
        """Return the state of the run *id*."""
        return (await self._runtime.worker(id)).state

    async def lookup(self, id: str) -> Handle[Self] | None:
        """Return a handle of the run *id*, or None if it is not in this runner."""
        return Handle(self, id) if id in self._runtime.registry else None

    async def list_workflows(self) -> list[str]:
        """Return the ids of the runs in this runner."""
        return [worker.id for worker in self._runtime.registry]

    async def stored(self, **filters: Any) -> list[str]:
        """Return the ids of all runs in the store, oldest first; *filters* are those of its ``list``."""
        return [found.id for found in await self.records(**filters)]

    async def records(self, **filters: Any) -> list[RunRecord]:
        """Return what the store knows of its runs, oldest first."""
        self._runtime.check_open()
        return await self._runtime.ownership.records(**filters)

    async def count(self, **filters: Any) -> int:
        """Return how many runs the store has, without reading them; *filters* are those of its ``count``."""
        self._runtime.check_open()
        return await self._runtime.ownership.count(**filters)
