"""
The queries of a runner: waiting for runs, reading their state, and listing what is stored.

None of them changes a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from weft.core import events as ev
from weft.core.run.run import Run
from weft.errors import InvalidOption, RunClosed, RunnerClosed, RunParked, StoreUnavailable
from weft.ports.store import RunRecord, RunStatus
from weft.runner.execution.status import is_done
from weft.runner.execution.worker import Worker
from weft.runner.handle import Handle
from weft.runner.options import as_statuses
from weft.runner.runtime import Runtime
from weft.runner.slices import pause
from weft.runner.waiting.group import Member, WaitGroup

AT_ONCE: Final = 512
"""How many runs of a group are processed before other work of the event loop runs."""


class RunnerQueries:
    """The methods of a runner that change nothing."""

    _runtime: Runtime

    # -- waiting ---------------------------------------------------------------------------------

    async def wait(self, id: str, timeout: float | None = None) -> Run:
        """
        Wait until the run *id* has nothing left to do, and all of that is durable; return it as it is then.

        Raises:
            RunNotFound: there is no such run.
            RunNotHeld: this runner does not drive it.
            WaitTimeout: it took longer than *timeout* seconds.
            RunParked: it was set aside until a person resumes it.
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
        return _settled(self._runtime.registry.get(id) or worker)

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
        return _output(await self._done_in(id, timeout))

    async def gather(
        self,
        runs: Iterable[str | Handle[Any]],
        timeout: float | None = None,
        *,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """
        Wait until all of *runs* have had nothing left to do; return their outputs, in order.

        All of them are waited for, even if one fails.  Then the first error, in the order of *runs*, is raised.

        Args:
            runs: their ids, or handles of them.
            timeout: how many seconds to wait for all of them together.
            return_exceptions: return an error in the place of an output, and raise none.

        Raises:
            WaitTimeout: a run took longer than *timeout* seconds.
            RunNotFound, RunNotHeld, RunParked, RunClosed, StepFailed: as :meth:`result`.
        """
        self._runtime.check_open()
        if isinstance(runs, str | Handle):
            raise InvalidOption(f"gather({runs!r}): use a list of ids or handles")
        group = WaitGroup(
            (each.id if isinstance(each, Handle) else each for each in runs), lambda worker: _output(_settled(worker))
        )
        try:
            await self._joined(group, timeout)
        finally:
            for member in group.members:
                worker = self._runtime.registry.get(member.run) if member.is_left else None
                if worker is not None:
                    self._runtime.waiters.forget(worker, member)
        errors = (member.error for member in group.members if member.error is not None)
        if not return_exceptions and (error := next(errors, None)) is not None:
            raise error
        return [member.value if member.error is None else member.error for member in group.members]

    async def _joined(self, group: WaitGroup, timeout: float | None) -> None:
        """Wait until every run of *group* has a result or an error, or until the time is up."""
        wait = asyncio.timeout(timeout)
        try:
            async with wait:
                for number, member in enumerate(group.members, start=1):
                    await self._join(member)
                    if number % AT_ONCE == 0:
                        await pause()
                await group.future
        except TimeoutError:
            if not wait.expired():
                raise
            assert timeout is not None  # noqa: S101
            for member in group.members:
                if member.is_left:
                    self._end_wait(member, timeout)

    def _end_wait(self, member: Member, timeout: float) -> None:
        """Let *member*, which has waited for *timeout* seconds, wait no longer."""
        worker = self._runtime.registry.get(member.run)
        if worker is not None:
            self._runtime.waiters.forget(worker, member)
            if worker.acknowledged and is_done(worker):  # there was no time to look at it
                member.settled(worker)
                return
        member.tell(self._runtime.timed_out(member.run, timeout))

    async def _join(self, member: Member) -> None:
        waiters = self._runtime.waiters
        try:
            worker = await self._runtime.worker(member.run)
        except Exception as error:  # noqa: BLE001 - it is in the place of the output
            member.tell(error)
            return
        if is_done(worker):
            member.settled(worker)
        else:
            waiters.add(worker, member)

    # -- looking ---------------------------------------------------------------------------------

    async def results(self, id: str) -> dict[str, Any]:
        """Return the values that the leaves of the run *id* have produced so far."""
        return (await self._runtime.worker(id)).run.results()

    async def get(self, id: str) -> Run:
        """Return the run *id* as it is now."""
        return (await self._runtime.worker(id)).run.frozen_copy()

    async def log(self, id: str) -> list[ev.AnyEvent]:
        """Return everything that has happened in the run *id*."""
        return (await self._runtime.worker(id)).run.log()

    async def status(self, id: str) -> str:
        """Return the state of the run *id*."""
        return (await self._runtime.worker(id)).state

    def __contains__(self, id: object) -> bool:
        return id in self._runtime.registry

    @property
    def held(self) -> list[str]:
        """The ids of the runs that this runner drives."""
        return [worker.id for worker in self._runtime.registry]

    async def find(self, id: str) -> RunRecord:
        """
        Return the record of the run *id*.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        self._runtime.check_open()
        return await self._runtime.ownership.record(id)

    async def runs(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """
        Return the records of stored runs, oldest first.

        Args:
            status: only runs in this status, or in one of these.
            workflow: only runs of the workflow with this name.
            limit: how many of them at most.
            after: the last record of the page before.
        """
        self._runtime.check_open()
        return await self._runtime.ownership.records(
            statuses=as_statuses(status), workflow=workflow, limit=limit, after=after
        )

    async def count(
        self, *, status: RunStatus | Collection[RunStatus] | None = None, workflow: str | None = None
    ) -> int:
        """Return how many runs :meth:`runs` has on all of its pages together, without reading them."""
        self._runtime.check_open()
        return await self._runtime.ownership.count(statuses=as_statuses(status), workflow=workflow)


def _settled(worker: Worker) -> Run:
    """Return the run of *worker*, which has nothing left to do."""
    if isinstance(worker.lost, StoreUnavailable):  # the time to close was up before the store was back
        raise RunnerClosed from worker.lost
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    return worker.run


def _output(run: Run) -> Any:
    """Return the output of *run*, which has nothing left to do, or raise why there is none."""
    if run.memory.cancelled is not None:
        raise RunClosed(run.id, run.memory.cancelled)
    if run.failed and not run.results():
        raise next(iter(run.failures.values()))
    return run.output
