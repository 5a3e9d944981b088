"""
The queries of a runner: waiting for runs, reading their state, and listing what is stored.

None of them changes a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast, overload

from weft.core import events as ev
from weft.core.failure import described
from weft.core.functions.references import MISSING
from weft.core.run.input_results import results_of
from weft.core.run.run import Run
from weft.errors import (
    HistoryNotLoaded,
    InvalidArgument,
    InvalidOption,
    NoInput,
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
from weft.runner.durability.rehydration import answered, is_partial
from weft.runner.durability.unsaved import CONTINUED
from weft.runner.execution.status import is_done
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, RunHandle, RunHandles, RunRef, as_ref
from weft.runner.options import Time, as_statuses, as_time, check_listing, check_page, check_timeout
from weft.runner.registry.lookup import is_same
from weft.runner.runtime import Runtime
from weft.runner.slices import pause
from weft.runner.waiting.changes import Follower
from weft.runner.waiting.group import Member, WaitGroup
from weft.typing import Out

T = TypeVar("T")

WATCHED: Final = (0.01, 1.5, 0.25)
"""How many seconds pass between two looks at a run that another process drives: at first, times this, at most."""

AT_ONCE: Final = 512
"""How many runs of a group are processed before other work of the event loop runs."""

_HAS_OUTCOME: Final = FINISHED - {"cancelled"}
"""A run in another state has no result: it goes on, was cancelled, or the store has refused its end."""


class RunnerQueries:
    """The methods of a runner that change nothing."""

    _runtime: Runtime

    # -- waiting ---------------------------------------------------------------------------------

    async def wait(self, run: str | RunHandle[Out], timeout: float | None = None) -> Run[Out]:
        """
        Wait until *run*, an id or a handle, has nothing left to do, and all of that is durable; return it as it is.

        A stored run with nothing left to do is read, and stays where it is.

        Raises:
            RunNotFound: no run has this id.
            RunNotHeld: it has something to do, this runner does not drive it, and its store takes no messages.
            WaitTimeout: it took longer than *timeout* seconds.
            RunParked: it was set aside until a person resumes it.
        """
        ref = as_ref(run)
        if timeout is not None:
            check_timeout(timeout)
        found = await self._done(ref, timeout)
        if isinstance(found, Worker):
            return _settled(found).frozen_copy(found.state)
        return (await self._runtime.loader.read(ref.id)).run.frozen_copy()

    async def _in_time(self, ref: RunRef, timeout: float | None, work: Awaitable[T]) -> T:
        return await (work if timeout is None else self._runtime.in_time(ref.id, timeout, work))

    async def _done(self, ref: RunRef, timeout: float | None, *, of_input: bool = False) -> Worker | RunRecord:
        """Return the worker of a run that is done, or whose input is, or its record if it is only stored."""
        try:
            return await self._in_time(ref, timeout, self._input_done(ref) if of_input else self._awaited(ref))
        except WaitTimeout:
            left = self._runtime.lookup.left(ref)
            if left is None or ref.id in self._runtime.registry:
                raise
            return left  # there was no time to ask the store whether it was retried

    async def _awaited(self, ref: RunRef) -> Worker | RunRecord:
        async for found in self._seen(ref):
            if isinstance(found, Worker):
                return found if found.has_left or is_done(found) else await self._runtime.waiters.done(found)
            if found.status == "parked":
                raise RunParked(ref.id, found.reason)
            if found.status in AT_REST and not await self._is_addressed(found):
                return found
        raise AssertionError("a run is looked at until it is done")

    async def _is_addressed(self, record: RunRecord) -> bool:
        """Whether a run that is idle has messages, so that it has something to do once a process drives it."""
        return record.status == "idle" and await self._runtime.mailbox.has_messages(record.id)

    async def _seen(self, ref: RunRef, *, follow: bool = False) -> AsyncIterator[Worker | RunRecord]:
        """
        Yield the worker of a run that is here; of a run that another process drives its record, again and again.

        Args:
            follow: whether every event may matter, and not only the status.

        Raises:
            RunNotFound: no run has this id.
            RunNotHeld: it has something to do, and its store does not tell what other processes do with it.
        """
        changes = self._runtime.changes
        change, follower = changes.of(ref.id), Follower(changes, ref.id) if follow else None
        waiting = changes.pauses(WATCHED)
        while True:
            number = change.number
            await self._runtime.lookup.resident(ref.id)  # it may have fallen asleep again
            found = await self._found(ref)
            yield found
            if isinstance(found, Worker):
                return
            if not self._runtime.mailbox.is_there:
                raise RunNotHeld(ref.id, found.owner, owner_died=found.owner_died)
            self._runtime.watched(found)
            if changes.is_missing:
                await changes.listen()  # and look again: it may have changed before
            elif follower is None or not await follower.ask():
                await change.beyond(number, next(waiting))

    async def _input_done(self, ref: RunRef) -> Worker | RunRecord:
        """As :meth:`_awaited`, of an open run as soon as the input that *ref* refers to is done."""
        if not ref.is_clear:
            await self._check_input(ref, await self._found(ref))
        worker = self._runtime.registry.get(ref.id)
        if ref.input is None or worker is None or worker.run.memory.is_ending or is_done(worker):
            return await self._awaited(ref)
        worker = await self._runtime.lookup.held(ref.id)
        if worker is None or not is_same(ref, worker):
            return await self._awaited(ref)
        await self._runtime.waiters.input_done(worker, ref.input)
        return self._runtime.registry.get(ref.id) or worker

    async def _check_input(self, ref: RunRef, found: Worker | RunRecord) -> None:
        """
        See that a handle that belongs to no input can mean only one: the run has had no other, and accepts none.

        Raises:
            NoInput: it could mean several, or a later one.
        """
        if isinstance(found, Worker):
            memory = found.run.memory
            is_clear = memory.cancelled is not None or (memory.is_ending and memory.received <= 1)
        elif found.status in ("completed", "failed"):
            stored = decode_outcome(found.outcome)
            is_clear = (stored.ordinal if stored is not None else (await self._run(found)).memory.received) <= 1
        else:
            is_clear = found.status != "idle"  # others are not waited for, whatever the handle means
        if not is_clear:
            raise NoInput(ref.id)

    async def _found(self, ref: RunRef) -> Worker | RunRecord:
        """
        Return the worker of a run that is here, or was when it finished; otherwise its record.

        Raises:
            RunNotFound: no run has this id.
        """
        return await self._runtime.lookup.found(ref)

    async def _run(self, found: Worker | RunRecord) -> Run:
        """Return the run that was *found*: the one that is here, or else as the store has it."""
        return await self._runtime.lookup.run(found)

    async def _answered(self, run: Run, question: Callable[[Run], T]) -> T:
        """Return the answer to *question* about *run*; if it is in the history, that is loaded for it."""
        try:
            return question(run)
        except HistoryNotLoaded:
            loaded = run.frozen_copy()  # what is loaded for one question is not kept in the run
        return await answered(loaded, question, self._runtime.ownership.again)

    async def wait_until(
        self, run: str | RunHandle[Out], predicate: Callable[[Run[Out]], bool], timeout: float | None = None
    ) -> Run[Out]:
        """
        Wait until *predicate* holds for *run*, an id or a handle, as far as it is durable; as :meth:`wait`.

        Raises:
            RunClosed, RunParked: it does not hold, and never will.
        """
        ref = as_ref(run)
        if timeout is not None:
            check_timeout(timeout)
        if not callable(predicate):
            raise InvalidArgument(f"wait_until() takes a function of the run, got {predicate!r:.80}")
        return await self._in_time(ref, timeout, self._until(ref, predicate))

    async def _until(self, ref: RunRef, predicate: Callable[[Run], bool]) -> Run:
        looked_at = (-1, "")
        async for found in self._seen(ref, follow=True):
            if isinstance(found, Worker) and not found.has_left:
                try:
                    return await self._runtime.waiters.until(found, predicate)
                except HistoryNotLoaded:  # it asks about the past, again and again: that stays in memory meanwhile
                    with self._runtime.dispatcher.residency.held(found.id):
                        await self._loaded(found)
                        if not found.has_left:
                            return await self._runtime.waiters.until(found, predicate)
            head = found.acknowledged if isinstance(found, Worker) else found.head
            state = found.state if isinstance(found, Worker) else found.status
            if (head, state) == looked_at:
                continue
            looked_at = head, state
            seen = await self._answered(await self._run(found), partial(_seen_as, state, predicate))
            if seen is not None:
                return seen
            if state in FINISHED:
                raise RunClosed(ref.id, found.reason, status=state)
            if state == "parked":
                raise RunParked(ref.id, found.reason)
        raise AssertionError("a run is looked at until it is done")

    async def _loaded(self, worker: Worker) -> None:
        """Load the history of a run, for questions that are asked again and again."""
        if is_partial(worker.run):
            await self._runtime.ownership.again(worker.run.load)

    async def result(self, run: str | RunHandle[Out], timeout: float | None = None) -> Out:
        """
        Wait until *run*, an id or a handle, has nothing left to do; return the output of its last input.

        With a handle that ``start`` or ``send`` returned, it is the output of that input, as soon as nothing that
        follows from it is left to do.  A handle that belongs to no input has a result only if the run has had one input
        and accepts no other.

        Raises:
            RunFailed: something failed for this input, and nothing has handled it.
            NothingProduced: nothing came of it; the error says why.
            NoInput: a handle that belongs to no input, of a run that is open or has had several.
            RunClosed: the run was cancelled.
        """
        ref = as_ref(run)
        if timeout is not None:
            check_timeout(timeout)
        if ref.key is not None:
            return await self._in_time(ref, timeout, self._result_of_key(ref))
        here = self._runtime.lookup.here(ref) if timeout is None else None
        found: Worker | RunRecord
        if (
            here is not None and ref.is_clear and here.run.memory.is_ending
        ):  # as nearly always: what _done() does, in two coroutines
            found = here if is_done(here) else await self._runtime.waiters.done(here)
        else:
            found = await self._done(ref, timeout, of_input=True)
        if (moved := await self._moved(ref, found)) is not None:
            return cast("Out", await self.result(AsyncHandle(self, moved), timeout))
        if isinstance(found, Worker):
            worker = found
            try:
                return cast("Out", _output(worker, ref))
            except HistoryNotLoaded:
                return cast("Out", await self._answered(worker.run, lambda run: _output(worker, ref, run)))
        if found.status == "cancelled":
            raise RunClosed(ref.id, found.reason)
        stored = decode_outcome(found.outcome)
        if stored is not None and ref.input in (None, stored.ordinal):
            return cast("Out", checked_output(ref.id, stored))
        return cast("Out", output_of((await self._runtime.loader.read(ref.id)).run, ref.input))

    async def _moved(self, ref: RunRef, found: Worker | RunRecord) -> RunRef | None:
        """Return where an input went on that still waited when its run was continued as a new one; else None."""
        if isinstance(found, Worker):
            memory = found.run.memory
        elif found.status == "completed" and found.reason.startswith(CONTINUED):
            memory = (await self._run(found)).memory
        else:
            return None
        event = memory.log[-1] if memory.successor is not None else None
        if not isinstance(event, ev.ContinuedAsNew):
            return None
        ordinal = memory.received if ref.input is None else ref.input
        return next((RunRef(event.run, new) for old, new in event.inputs if old == ordinal), None)

    async def _result_of_key(self, ref: RunRef) -> Any:
        """Return the result of an input that was left in the inbox of its run, once the run has taken it in."""
        return await self.result(AsyncHandle(self, await self._numbered(ref)))

    async def _results_of_key(self, ref: RunRef, found: Worker | RunRecord) -> dict[str, Any]:
        """Return the results of an input that was left in the inbox of its run; none if the run does not have it."""
        memory = (await self._run(found)).memory
        number = (memory.keys or {}).get(ref.key or "")
        if number is not None:
            return await self.results(AsyncHandle(self, RunRef(ref.id, number)))
        if memory.successor is not None:  # the message was passed on to it
            return await self.results(AsyncHandle(self, RunRef(memory.successor, key=ref.key)))
        return {}

    async def _numbered(self, ref: RunRef) -> RunRef:
        """Return *ref* with the number of its input, once the run has it."""

        number: int | None = None

        def has_it(run: Run) -> bool:  # noted here: a frozen run would fold its whole log for it
            nonlocal number
            number = (run.memory.keys or {}).get(ref.key or "")
            return number is not None

        try:
            await self._until(ref, has_it)
        except RunClosed:
            successor = await self._runtime.lookup.successor(ref.id)  # the message was passed on to it
            if successor is None:
                raise
            return await self._numbered(RunRef(successor, key=ref.key))
        return RunRef(ref.id, number)

    @overload
    async def gather(
        self,
        runs: Iterable[str | RunHandle[Out]],
        timeout: float | None = None,
        *,
        return_exceptions: Literal[False] = False,
    ) -> list[Out]: ...
    @overload
    async def gather(
        self, runs: Iterable[str | RunHandle[Out]], timeout: float | None = None, *, return_exceptions: bool
    ) -> list[Out | Exception]: ...
    async def gather(
        self,
        runs: Iterable[str | RunHandle[Any]],
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
        if timeout is not None:
            check_timeout(timeout)
        if isinstance(runs, str | RunHandle) or not hasattr(runs, "__iter__"):
            raise InvalidOption(f"gather({runs!r}): use a list of ids or handles")
        refs = runs.refs if isinstance(runs, RunHandles) else [as_ref(each) for each in runs]
        group = WaitGroup(refs, _output)
        try:
            await self._joined(group, timeout)
        finally:
            for member in group.members:
                worker = self._runtime.registry.get(member.ref.id) if member.is_left else None
                if worker is not None:
                    self._runtime.waiters.forget(worker, member)
        for member in group.members:
            if isinstance(member.error, HistoryNotLoaded | _WentOn):
                await self._ask_again(member)
        errors = (member.error for member in group.members if member.error is not None)
        if not return_exceptions and (error := next(errors, None)) is not None:
            raise error
        return [member.value if member.error is None else member.error for member in group.members]

    async def _ask_again(self, member: Member) -> None:
        """Let *member*, whose run is done, have its result although that is in the history of the run."""
        try:
            member.value, member.error = await self.result(AsyncHandle(self, member.ref)), None
        except Exception as error:  # noqa: BLE001 - it is in the place of the output
            member.error = error

    async def _joined(self, group: WaitGroup, timeout: float | None) -> None:
        """Wait until every run of *group* has a result or an error, or until the time is up."""
        wait = asyncio.timeout(timeout)
        try:
            async with wait:
                for number, member in enumerate(group.members, start=1):
                    here = self._runtime.lookup.here(member.ref) if member.ref.is_clear else None
                    if here is None:
                        await self._join(member)
                    elif is_done(here):
                        member.settled(here)
                    else:
                        self._runtime.waiters.add(here, member)
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
        worker = self._runtime.lookup.here(member.ref) or self._runtime.lookup.left(member.ref)
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
            if not ref.is_clear:
                await self._check_input(ref, found)
            if not isinstance(found, Worker):
                member.have(await self.result(AsyncHandle(self, ref)))
                return
            if found.has_left or is_done(found):
                member.settled(found)
            else:
                self._runtime.waiters.add(found, member)
        except Exception as error:  # noqa: BLE001 - it is in the place of the output
            member.tell(error)

    # -- looking ---------------------------------------------------------------------------------

    async def results(self, run: str | RunHandle[Any]) -> dict[str, Any]:
        """
        Return the latest values that the leaves of *run*, an id or a handle, have produced.

        With a handle that ``start`` or ``send`` returned, they are those of that input; there are none of an input that
        the run has not taken in.
        """
        ref = as_ref(run)
        found = await self._found(ref)
        if ref.key is not None:
            return await self._results_of_key(ref, found)
        if (moved := await self._moved(ref, found)) is not None:
            return await self.results(AsyncHandle(self, moved))
        stored = None if isinstance(found, Worker) else decode_outcome(found.outcome)
        if stored is not None and (ref.input == stored.ordinal or stored.ordinal <= 1):
            return stored.results
        number = ref.input
        return await self._answered(
            await self._run(found),
            lambda run: run.results() if number is None else results_of(run, number),
        )

    async def get(self, run: str | RunHandle[Out]) -> Run[Out]:
        """Return *run*, an id or a handle, as it is now."""
        found = await self._found(as_ref(run))
        return (await self._run(found)).frozen_copy(found.state if isinstance(found, Worker) else found.status)

    async def log(self, run: str | RunHandle[Any]) -> list[ev.AnyEvent]:
        """Return everything that has happened in *run*, an id or a handle."""
        return await self._answered(await self._run(await self._found(as_ref(run))), lambda run: run.log())

    async def unread(self, run: str | RunHandle[Any]) -> list[ev.AnyEvent]:
        """
        Return the messages in the inbox of *run*, an id or a handle, that it has not taken in, in order.

        Each is the event that its sender wants.  A run that is held takes its messages in within moments; one that has
        finished takes in none, so that those which came too late stay here until it is deleted.

        Raises:
            RunNotFound: no run has this id.
        """
        ref = as_ref(run)
        await self._found(ref)
        return await self._runtime.mailbox.unread(ref.id)

    async def status(self, run: str | RunHandle[Any]) -> RunStatus:
        """Return the status of *run*, an id or a handle."""
        found = await self._found(as_ref(run))
        return found.state if isinstance(found, Worker) else found.status

    def __contains__(self, id: object) -> bool:
        return id in self._runtime.registry or id in self._runtime.sleepers

    @property
    def held(self) -> list[str]:
        """The ids of the runs that this runner drives, those that only wait and are not in memory included."""
        return [*(worker.id for worker in self._runtime.registry), *self._runtime.sleepers]

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
        since: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """
        Return the records of stored runs, newest first.

        Args:
            status: only runs in this status, or in one of these.
            workflow: only runs of the workflow with this name.
            failed: only runs with failures that nothing has handled, open ones included; False: only those without.
            since: only runs that were created at this time or later: seconds since the epoch, or a datetime with a
                time zone.
            limit: how many of them at most.
            after: the last record of the page before.

        Raises:
            InvalidOption: one of these is something else.
        """
        self._runtime.check_open()
        check_listing(workflow, failed)
        check_page(limit, after)
        return await self._runtime.ownership.records(
            statuses=as_statuses(status),
            workflow=workflow,
            failed=failed,
            since=as_time("since", since),
            limit=limit,
            after=after,
        )

    async def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
    ) -> int:
        """Return how many runs :meth:`runs` has on all of its pages together, without reading them."""
        self._runtime.check_open()
        check_listing(workflow, failed)
        return await self._runtime.ownership.count(
            statuses=as_statuses(status), workflow=workflow, failed=failed, since=as_time("since", since)
        )

    async def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs are stored, by the name of their workflow and their status."""
        self._runtime.check_open()
        return dict(await self._runtime.ownership.tally())

    async def histogram(
        self, *, since: Time, width: float, workflow: str | None = None
    ) -> dict[tuple[int, RunStatus], int]:
        """
        Return how many runs were created in each period of *width* seconds, by the number of the period and status.

        Args:
            since: when the period 0 begins: seconds since the epoch, or a datetime with a time zone.
            workflow: only runs of the workflow with this name.

        Raises:
            InvalidOption: one of these is something else.
        """
        self._runtime.check_open()
        check_listing(workflow, None)
        begin = as_time("since", since)
        if not width > 0:
            raise InvalidOption(f"width={width!r}: use a number of seconds above 0")
        return dict(await self._runtime.ownership.histogram(since=begin, width=float(width), workflow=workflow))


class _WentOn(Exception):
    """An input goes on in the run that continues its own; never leaves this module."""


def _seen_as(state: RunStatus, predicate: Callable[[Run], bool], run: Run) -> Run | None:
    """Return *run* as it is now, frozen and in this *state*, if *predicate* holds for it; else None."""
    return run.frozen_copy(state).where(predicate)


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


def _output(worker: Worker, ref: RunRef, run: Run | None = None) -> Any:
    """
    Return the output of the input that *ref* refers to; *worker* is done, and *run* is its run if that was loaded.

    Raises:
        RunFailed, NothingProduced, RunClosed, RunParked: there is none.
    """
    memory = worker.run.memory
    if memory.successor is not None and isinstance(last := memory.log[-1], ev.ContinuedAsNew) and last.inputs:
        ordinal = memory.received if ref.input is None else ref.input
        if any(old == ordinal for old, _ in last.inputs):
            raise _WentOn
    known = worker.outcome
    if known is not None and ref.input in (None, known.ordinal) and worker.state in _HAS_OUTCOME:
        return checked_output(ref.id, known, run or worker.run)
    settled = _settled(worker)
    return output_of(run or settled, ref.input)


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
        name, reason = outcome.nothing or ("", "it has had no input")
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
