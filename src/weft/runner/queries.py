"""
The queries of a runner: waiting for runs, reading their state, and listing what is stored.

None of them changes a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from weft.core import events as ev
from weft.core.failure import described
from weft.core.functions.references import MISSING
from weft.core.run.input_results import results_of
from weft.core.run.run import Run
from weft.errors import (
    HistoryNotLoaded,
    InvalidOption,
    NothingProduced,
    RunClosed,
    RunFailed,
    RunnerClosed,
    RunNotHeld,
    RunParked,
    StepFailed,
    StoreUnavailable,
    WaitTimeout,
)
from weft.log.outcome import RunOutcome, decode_outcome, outcome_of
from weft.ports.store import AT_REST, FINISHED, RunRecord, RunStatus
from weft.runner.durability.rehydration import is_partial
from weft.runner.execution.status import is_done
from weft.runner.execution.worker import Worker
from weft.runner.handle import Handle, Handles, RunRef, as_ref
from weft.runner.options import as_statuses
from weft.runner.runtime import Runtime
from weft.runner.slices import pause
from weft.runner.waiting.group import Member, WaitGroup

T = TypeVar("T")

AT_ONCE: Final = 512
"""How many runs of a group are processed before other work of the event loop runs."""


class RunnerQueries:
    """The methods of a runner that change nothing."""

    _runtime: Runtime

    # -- waiting ---------------------------------------------------------------------------------

    async def wait(self, run: str | Handle[Any], timeout: float | None = None) -> Run:
        """
        Wait until *run*, an id or a handle, has nothing left to do, and all of that is durable; return it as it is.

        A stored run with nothing left to do is read, and stays where it is.

        Raises:
            RunNotFound: no run has this id.
            RunNotHeld: it has something to do, and this runner does not drive it.
            WaitTimeout: it took longer than *timeout* seconds.
            RunParked: it was set aside until a person resumes it.
        """
        ref = as_ref(run)
        found = await self._done(ref, timeout)
        if isinstance(found, Worker):
            return _settled(found).frozen_copy(found.state)
        return (await self._runtime.registry.read(ref.id)).run.frozen_copy()

    async def _in_time(self, ref: RunRef, timeout: float | None, work: Awaitable[T]) -> T:
        return await (work if timeout is None else self._runtime.in_time(ref.id, timeout, work))

    async def _done(self, ref: RunRef, timeout: float | None, *, of_input: bool = False) -> Worker | RunRecord:
        """Return the worker of a run that is done, or whose input is, or its record if it is only stored."""
        try:
            return await self._in_time(ref, timeout, self._input_done(ref) if of_input else self._awaited(ref))
        except WaitTimeout:
            left = self._left(ref)
            if left is None or ref.id in self._runtime.registry:
                raise
            return left  # there was no time to ask the store whether it was retried

    async def _awaited(self, ref: RunRef) -> Worker | RunRecord:
        found = await self._found(ref)
        if isinstance(found, Worker):
            return found if found.has_left or is_done(found) else await self._runtime.waiters.done(found)
        if found.status == "parked":
            raise RunParked(ref.id, found.reason)
        if found.status not in AT_REST:
            raise RunNotHeld(ref.id, found.owner)
        return found

    async def _input_done(self, ref: RunRef) -> Worker | RunRecord:
        """As :meth:`_awaited`, of an open run as soon as the input that *ref* refers to is done."""
        worker = self._runtime.registry.get(ref.id)
        if ref.input is None or worker is None or worker.run.memory.is_ending or is_done(worker):
            return await self._awaited(ref)
        worker = await self._runtime.held(ref.id)
        if worker is None:
            return await self._awaited(ref)
        await self._runtime.waiters.input_done(worker, ref.input)
        return self._runtime.registry.get(ref.id) or worker

    async def _found(self, ref: RunRef) -> Worker | RunRecord:
        """
        Return the worker of a run that is here, or was when it finished; otherwise its record.

        Raises:
            RunNotFound: no run has this id.
        """
        worker = await self._runtime.held(ref.id)
        if worker is not None:
            return worker
        left = self._left(ref)
        if left is not None and left.state != "failed":
            return left
        stored = await self._runtime.ownership.record(ref.id)
        return stored if left is None or left.acknowledged != stored.head else left  # else it was retried since

    def _left(self, ref: RunRef) -> Worker | None:
        """Return the worker of a run that has finished here, if it is still in memory."""
        kept = self._runtime.registry.recent.get(ref.id) or ref.worker
        return kept if kept is not None and kept.has_left else None

    async def _run(self, found: Worker | RunRecord) -> Run:
        """Return the run that was *found*: the one that is here, or else as the store has it."""
        return found.run if isinstance(found, Worker) else (await self._runtime.registry.read(found.id)).run

    async def _answered(self, run: Run, question: Callable[[Run], T]) -> T:
        """Return the answer to *question* about *run*; if it is in the history, that is loaded for it."""
        try:
            return question(run)
        except HistoryNotLoaded:
            loaded = run.frozen_copy()  # what is loaded for one question is not kept in the run
            await self._runtime.ownership.again(loaded.load)
            return question(loaded)

    async def wait_until(
        self, run: str | Handle[Any], predicate: Callable[[Run], bool], timeout: float | None = None
    ) -> Run:
        """
        Wait until *predicate* holds for *run*, an id or a handle, as far as it is durable; as :meth:`wait`.

        Raises:
            RunClosed, RunParked: it does not hold, and never will.
        """
        ref = as_ref(run)
        return await self._in_time(ref, timeout, self._until(ref, predicate))

    async def _until(self, ref: RunRef, predicate: Callable[[Run], bool]) -> Run:
        found = await self._found(ref)
        if isinstance(found, Worker):
            await self._loaded(found)
        if isinstance(found, Worker) and not found.has_left:
            return await self._runtime.waiters.until(found, predicate)
        if not isinstance(found, Worker) and found.status not in AT_REST:
            raise RunNotHeld(ref.id, found.owner)
        state = found.state if isinstance(found, Worker) else found.status
        seen = (await self._run(found)).where(predicate)
        if seen is None:
            raise RunClosed(ref.id, found.reason, status=state) if state in FINISHED else RunNotHeld(ref.id)
        return seen

    async def _loaded(self, worker: Worker) -> None:
        """Load the history of a run, for questions that are asked again and again."""
        if is_partial(worker.run):
            await self._runtime.ownership.again(worker.run.load)

    async def result(self, run: str | Handle[Any], timeout: float | None = None) -> Any:
        """
        Wait until *run*, an id or a handle, has nothing left to do; return the output of its last input.

        With a handle that ``start`` or ``send`` returned, it is the output of that input, as soon as nothing that
        follows from it is left to do.

        Raises:
            RunFailed: something failed for this input, and nothing has handled it.
            NothingProduced: nothing came of it; the error says why.
            RunClosed: the run was cancelled.
        """
        ref = as_ref(run)
        found = await self._done(ref, timeout, of_input=True)
        if isinstance(found, Worker):
            known = found.outcome
            if known is not None and ref.input in (None, known.ordinal) and found.state != "cancelled":
                return await self._answered(found.run, lambda run: checked_output(ref.id, known, run))
            return await self._answered(_settled(found), lambda run: output_of(run, ref.input))
        if found.status == "cancelled":
            raise RunClosed(ref.id, found.reason)
        stored = decode_outcome(found.outcome)
        if stored is not None and ref.input in (None, stored.ordinal):
            return checked_output(ref.id, stored)
        return output_of((await self._runtime.registry.read(ref.id)).run, ref.input)

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
            RunNotFound, RunNotHeld, RunParked, RunClosed, RunFailed, NothingProduced: as :meth:`result`.
        """
        self._runtime.check_open()
        if isinstance(runs, str | Handle):
            raise InvalidOption(f"gather({runs!r}): use a list of ids or handles")
        refs = runs.refs if isinstance(runs, Handles) else [as_ref(each) for each in runs]
        group = WaitGroup(refs, lambda worker, ref: output_of(_settled(worker), ref.input))
        try:
            await self._joined(group, timeout)
        finally:
            for member in group.members:
                worker = self._runtime.registry.get(member.ref.id) if member.is_left else None
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
        worker = self._runtime.registry.get(member.ref.id) or self._left(member.ref)
        if worker is not None:
            self._runtime.waiters.forget(worker, member)
            if worker.has_left or (worker.acknowledged and is_done(worker)):  # there was no time to look at it
                member.settled(worker)
                return
        member.tell(self._runtime.timed_out(member.ref.id, timeout))

    async def _join(self, member: Member) -> None:
        """Let *member* wait for its run; a run that is only stored has its result already."""
        ref = member.ref
        try:
            found = await self._found(ref)
            if not isinstance(found, Worker):
                member.have(await self.result(Handle(self, ref)))
                return
            await self._loaded(found)
            if found.has_left or is_done(found):
                member.settled(found)
            else:
                self._runtime.waiters.add(found, member)
        except Exception as error:  # noqa: BLE001 - it is in the place of the output
            member.tell(error)

    # -- looking ---------------------------------------------------------------------------------

    async def results(self, run: str | Handle[Any]) -> dict[str, Any]:
        """
        Return the latest values that the leaves of *run*, an id or a handle, have produced.

        With a handle that ``start`` or ``send`` returned, they are those of that input.
        """
        ref = as_ref(run)
        found = await self._found(ref)
        stored = None if isinstance(found, Worker) else decode_outcome(found.outcome)
        if stored is not None and (ref.input == stored.ordinal or stored.ordinal <= 1):
            return stored.results
        number = ref.input
        return await self._answered(
            await self._run(found), lambda run: run.results() if number is None else results_of(run, number)
        )

    async def get(self, run: str | Handle[Any]) -> Run:
        """Return *run*, an id or a handle, as it is now."""
        found = await self._found(as_ref(run))
        return (await self._run(found)).frozen_copy(found.state if isinstance(found, Worker) else found.status)

    async def log(self, run: str | Handle[Any]) -> list[ev.AnyEvent]:
        """Return everything that has happened in *run*, an id or a handle."""
        return await self._answered(await self._run(await self._found(as_ref(run))), lambda run: run.log())

    async def status(self, run: str | Handle[Any]) -> RunStatus:
        """Return the status of *run*, an id or a handle."""
        found = await self._found(as_ref(run))
        return found.state if isinstance(found, Worker) else found.status

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
        failed: bool | None = None,
        since: float | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """
        Return the records of stored runs, newest first.

        Args:
            status: only runs in this status, or in one of these.
            workflow: only runs of the workflow with this name.
            failed: only runs with failures that nothing has handled, open ones included; False: only those without.
            since: only runs that were created at this time or later, in seconds since the epoch.
            limit: how many of them at most.
            after: the last record of the page before.
        """
        self._runtime.check_open()
        return await self._runtime.ownership.records(
            statuses=as_statuses(status), workflow=workflow, failed=failed, since=since, limit=limit, after=after
        )

    async def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs :meth:`runs` has on all of its pages together, without reading them."""
        self._runtime.check_open()
        return await self._runtime.ownership.count(
            statuses=as_statuses(status), workflow=workflow, failed=failed, since=since
        )


def _settled(worker: Worker) -> Run:
    """Return the run of *worker*, which has nothing left to do."""
    if isinstance(worker.lost, StoreUnavailable):  # the time to close was up before the store was back
        raise RunnerClosed from worker.lost
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    return worker.run


def output_of(run: Run, number: int | None) -> Any:
    """Return what came of the input *number* of *run*, or else of its last one; raise why there is nothing."""
    memory = run.memory
    if memory.cancelled is not None:
        raise RunClosed(run.id, memory.cancelled)
    if not memory.failures and memory.received == 1:  # as nearly always
        return run.output
    return checked_output(run.id, outcome_of(run, memory.received if number is None else number), run)


def checked_output(run_id: str, outcome: RunOutcome, run: Run | None = None) -> Any:
    """
    Return the output of *outcome*; *run* has the exceptions of its failures.

    Raises:
        RunFailed: something failed, and nothing has handled it.
        NothingProduced: nothing was produced.
    """
    if outcome.failures:
        failures = {each.component: _failure(each, run) for each in outcome.failures}
        error = RunFailed(run_id, failures, outcome.results)
        raise error from next(iter(failures.values()))
    if outcome.output is MISSING:
        name, reason = outcome.nothing or ("the run", "it has had no input")
        if run is not None and outcome.nothing is not None:
            raise run.nothing_produced(name, outcome.ordinal)
        raise NothingProduced(name, reason)
    return outcome.output


def _failure(event: ev.RunnableFailed, run: Run | None) -> StepFailed:
    if run is not None:
        return run.failure_of(event)
    failure = StepFailed(event.component, event.attempts, event.error.type, event.error.message)
    failure.__cause__ = described(event.error)
    return failure
