"""
Waiting for runs: until one is done, has finished or fulfils a condition, and for the results of many.

A run that another process drives is looked at whenever it has changed.  None of them changes a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast, overload

from weft.core import events as ev
from weft.core.run.run import Run
from weft.errors import (
    HistoryNotLoaded,
    InvalidArgument,
    InvalidOption,
    NoInput,
    RunClosed,
    RunNotFound,
    RunNotHeld,
    RunParked,
    WaitTimeout,
)
from weft.log.outcome import decode_outcome
from weft.ports.store import AT_REST, FINISHED, RunRecord, RunStatus
from weft.runner.durability.rehydration import answered, is_partial
from weft.runner.durability.unsaved import CONTINUED
from weft.runner.execution.status import is_done
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, RunHandle, RunHandles, RunRef, as_ref
from weft.runner.option_checks import check_timeout
from weft.runner.registry.lookup import is_same
from weft.runner.runtime import Runtime
from weft.runner.slices import pause
from weft.runner.waiting.changes import Follower
from weft.runner.waiting.group import Member, WaitGroup
from weft.runner.waiting.outputs import WentOn, checked_output, output_at, output_of, settled_run
from weft.typing import Out

T = TypeVar("T")

WATCHED: Final = (0.01, 1.5, 0.25)
"""How many seconds pass between two looks at a run that another process drives: at first, times this, at most."""

AT_ONCE: Final = 512
"""How many runs of a group are processed before other work of the event loop runs."""


class WaitingQueries:
    """The methods of a runner that wait for runs."""

    _runtime: Runtime

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
            return settled_run(found).frozen_copy(found.state)
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
        async with aclosing(self._seen(ref)) as seen:  # left to the collector, each would cost a task that closes it
            async for found in seen:
                if isinstance(found, Worker):
                    is_over = found.presence == "left" or is_done(found)
                    return found if is_over else await self._runtime.waiters.done(found)
                if found.status == "parked":
                    raise RunParked(ref.id, found.reason)
                if found.status in AT_REST and not _is_reopened(found) and not await self._is_addressed(found):
                    return found
        raise AssertionError("a run is looked at until it is done")

    async def _is_addressed(self, record: RunRecord) -> bool:
        """Whether a run that is idle has messages, so that it has something to do once a process drives it."""
        return record.status == "idle" and await self._runtime.mailbox.has_messages(record.id)

    async def _seen(self, ref: RunRef, *, follow: bool = False) -> AsyncGenerator[Worker | RunRecord, None]:
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

    async def _until_finished(self, run: str) -> None:
        """
        Wait until *run* has finished, also while it is parked, wherever it is.

        Return before that if it was deleted, or if another process drove it and does not any more.

        Raises:
            RunNotHeld: no process drives it, and its store does not tell what other processes do with it.
        """
        was_driven = False
        while True:
            try:
                async with aclosing(self._seen(RunRef(run))) as seen:
                    async for found in seen:
                        if isinstance(found, Worker):
                            if not found.has_left:
                                await self._runtime.waiters.left(found)
                            return
                        is_driven = found.owner is not None and not found.owner_died
                        if found.status in FINISHED or (was_driven and not is_driven):
                            return
                        was_driven = is_driven
            except RunNotFound:
                return
            except RunNotHeld:
                if not self._runtime.mailbox.is_there:
                    raise

    async def _input_done(self, ref: RunRef) -> Worker | RunRecord:
        """Like :meth:`_awaited`, but for an open run waits only for the input that *ref* names."""
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
        Check that a handle that belongs to no input can mean only one input: the run has had one, and accepts no other.

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
        return await answered(run, question, self._runtime.ownership.again)

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
        """Load the history of a run, for questions that are repeated."""
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
        if here is not None and ref.is_clear and here.run.memory.is_ending:  # the usual case, without a search
            found = here if is_done(here) else await self._runtime.waiters.done(here)
        else:
            found = await self._done(ref, timeout, of_input=True)
        is_whole = isinstance(found, Worker) and found.run.memory.successor is None  # the usual case
        if not is_whole and (moved := await self._moved(ref, found)) is not None:
            return cast("Out", await self.result(AsyncHandle(self, moved), timeout))
        if isinstance(found, Worker):
            worker = found
            try:
                return cast("Out", output_at(worker, ref))
            except HistoryNotLoaded:
                return cast("Out", await self._answered(worker.run, partial(output_at, worker, ref)))
        if found.status == "cancelled":
            raise RunClosed(ref.id, found.reason)
        stored = decode_outcome(found.outcome)
        if stored is not None and ref.input in (None, stored.ordinal):
            return cast("Out", checked_output(ref.id, stored))
        return cast("Out", output_of((await self._runtime.loader.read(ref.id)).run, ref.input))

    async def _moved(self, ref: RunRef, found: Worker | RunRecord) -> RunRef | None:
        """Return where an input went on that still waited when its run was continued as a new one; else None."""
        if isinstance(found, Worker):
            run = found.run
        elif found.status == "completed" and found.reason.startswith(CONTINUED):
            run = await self._run(found)
        else:
            return None
        if run.memory.successor is None:
            return None
        event = await self._answered(run, _last_event)
        if not isinstance(event, ev.ContinuedAsNew):
            return None
        ordinal = run.memory.received if ref.input is None else ref.input
        return next((RunRef(event.run, new) for old, new in event.inputs if old == ordinal), None)

    async def _result_of_key(self, ref: RunRef) -> Any:
        """Return the result of an input that was left in the inbox of its run, once the run has taken it in."""
        return await self.result(AsyncHandle(self, await self._numbered(ref)))

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
        group = WaitGroup(refs, output_at)
        try:
            await self._joined(group, timeout)
        finally:
            for member in group.members:
                worker = self._runtime.registry.get(member.ref.id) if member.is_left else None
                if worker is not None:
                    self._runtime.waiters.forget(worker, member)
        for member in group.members:
            if isinstance(member.error, HistoryNotLoaded | WentOn):
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
            if worker.presence == "left" or (worker.acknowledged and is_done(worker)):
                member.settled(worker)  # there was no time to look at it
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
            if found.presence == "left" or is_done(found):
                member.settled(found)
            else:
                self._runtime.waiters.add(found, member)
        except Exception as error:  # noqa: BLE001 - it is in the place of the output
            member.tell(error)


def _seen_as(state: RunStatus, predicate: Callable[[Run], bool], run: Run) -> Run | None:
    """Return *run* as it is now, frozen and in this *state*, if *predicate* holds for it; else None."""
    return run.frozen_copy(state).where(predicate)


def _is_reopened(record: RunRecord) -> bool:
    """Whether a run that has failed is about to be retried: a process owns it again, and has not written that yet."""
    return record.status == "failed" and record.owner is not None and not record.owner_died


def _last_event(run: Run) -> ev.AnyEvent:
    return run.memory.log[-1]
