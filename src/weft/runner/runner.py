"""
The embedded runner: many runs in one process, durable, supervised, addressable by id.

    >>> import asyncio
    >>> from weft import Workflow, step
    >>> double = Workflow("double", step(lambda x: x * 2, name="double"))
    >>> async def main():
    ...     async with AsyncRunner() as runner:
    ...         handle = await runner.start(double, 21)
    ...         return await handle.result()
    >>> asyncio.run(main())
    42

All runs share one event loop, one journal and a few executors; a run that waits costs its memory and nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Literal, Self

from weft.core.functions.offered import offer_module
from weft.core.functions.references import MISSING
from weft.core.run.runnable import RunnableRef
from weft.core.workflow import Workflow
from weft.errors import InvalidOption, RunExists, RunNotFound
from weft.log import register as register_class
from weft.log.module_names import workflows_of
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor
from weft.ports.scheduler import Scheduler
from weft.ports.store import FINISHED, LogStore, RunStatus, Store
from weft.runner import defaults
from weft.runner.checkpoints import Checkpoints, as_checkpoints, check_count
from weft.runner.collector import Thresholds, as_thresholds
from weft.runner.delivery import Delivery
from weft.runner.durability.residency import as_bytes
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, AsyncHandles, RunHandle, RunRef, as_ref, id_of
from weft.runner.holding import HoldingCommands
from weft.runner.live import LiveViews
from weft.runner.option_checks import (
    Time,
    as_statuses,
    as_time,
    check_choice,
    check_context,
    check_deadline,
    check_grace,
    check_seconds,
    check_undo,
    check_workflow,
)
from weft.runner.options import IfExists, OnComplete, RunOptions, StartRequest, WorkerHooks
from weft.runner.portability import check_portable
from weft.runner.registry.bulk_start import new_runs
from weft.runner.registry.continuation import next_id
from weft.runner.registry.sleepers import RESIDENT
from weft.runner.revision_commands import RevisionCommands
from weft.runner.revisions import Revisions
from weft.runner.runtime import Runtime, RuntimeParts
from weft.runner.schedules.commands import ScheduleCommands, declared_schedule
from weft.runner.schedules.decision import Overlap
from weft.runner.schedules.embedded import EmbeddedSchedules
from weft.runner.schedules.rows import ScheduleStatus
from weft.runner.usual_options import UsualOptions
from weft.typing import In, Out, PoliciesMode

_UNSAID: Final = (None,) * 10
"""The options of a run of which the caller has said nothing."""


class AsyncRunner(HoldingCommands, RevisionCommands, LiveViews, ScheduleCommands):
    """Runs workflows in the event loop that it was opened in."""

    def __init__(
        self,
        store: Store | str | Path | None = None,
        *,
        executor: str = "thread",
        max_concurrency: int = 16,
        checkpoint: str | Checkpoints = "every_cycle",
        context: Mapping[str, Any] | None = None,
        grace: float = 10.0,
        threads: int | None = None,
        processes: int | None = None,
        executors: Mapping[str, Executor] | None = None,
        clock: Clock | None = None,
        counters: Counters | None = None,
        modules: Iterable[ModuleType] = (),
        collector: Literal["auto", "unchanged", "seldom"] | Thresholds = "auto",
        blocking_threshold: float | None = 0.5,
        check_arguments: bool = False,
        resident: int = RESIDENT,
        memory_budget: int | str | None = None,
        snapshot_every: int | None = None,
        continue_after: int | None = None,
        keep_values_for: float | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """
        Make a runner; ``async with`` opens it.

        Args:
            store: where runs outlive the process: the path of a file (``"runs.db"``, ``"sqlite:runs.db"``), a database
                (``"postgresql://user@host/database"``), or a store, which is opened and closed by the runner unless it
                is open already.  Not given, or ``"memory:"``: they are kept in memory.
            executor: where plain functions run: ``"thread"``, ``"inline"`` or ``"process"``.
            max_concurrency: how many runnables of one run may be in flight at once.
            checkpoint: when events become durable; a run can choose another strategy.
            context: values for parameters that read ``context(key)``; never stored.
            grace: how many seconds steps in flight get to end when the runner is closed.
            threads: how many threads there are at most.
            processes: how many worker processes there are at most.
            executors: more executors, by name, or others in place of the usual ones.
            clock: the clock for the time of day.
            counters: where the states of limits are kept.
            modules: modules of the application whose functions stored runs may name; see :meth:`register`.
            collector: how often Python's garbage collector looks for cycles.  That is a setting of the process:
                ``"auto"`` makes full collections rare while there are hundreds of live runs, ``"seldom"`` while the
                runner is open, ``"unchanged"`` never; three numbers are the arguments of ``gc.set_threshold``.
            blocking_threshold: log a coroutine function that blocks the event loop for longer than this many seconds,
                with the component and the place; None for never.
            check_arguments: copy the arguments of each attempt and fail it with ``ChangedArgument`` if it changes one.
                That is for tests and for a search: it costs two encodings and a copy for each argument.
            resident: how many runs that only wait, for time or a signal, stay in memory.  Those that have waited
                longest leave it first, and come back when they are due or are sent something.
            scheduler: says how many runnables go to an executor together, such as ``ChainBatching()``; one by one if
                not given.
            snapshot_every: write a snapshot of a run after this many of its events, so that a resume reads that and the
                later events instead of the whole log; None for never.  A run can choose another number.
            continue_after: continue an open run as a new one after this many events, as soon as it is quiet; None
                for never.  A run can choose another number.
            memory_budget: how many bytes the values of the runs in it may take, as a number or as ``"512 MB"``; above
                that, values that nothing needs are only in the store, and are read from there when they are asked for.
            keep_values_for: after how many seconds values that nothing needs are only in the store; None for never.  A
                run can choose another number.
        """
        check_seconds("blocking_threshold", blocking_threshold)
        check_grace(grace)
        if type(resident) is not int or resident < 0:
            raise InvalidOption(f"resident={resident!r}: use a number of runs, 0 or more")
        known = {
            **defaults.executors(threads=threads, processes=processes, blocking_threshold=blocking_threshold),
            **(executors or {}),
        }
        check_context(context)
        self._usual = UsualOptions(
            RunOptions(
                max_concurrency=max_concurrency,
                checkpoints=as_checkpoints(checkpoint),
                executor=executor,
                context=dict(context or {}),
                check_arguments=check_arguments,
                snapshot_every=snapshot_every,
                continue_after=continue_after,
                keep_values_for=keep_values_for,
            ),
            known,
        )
        self._runtime = Runtime(
            self,
            defaults.store(store),
            known,
            clock or defaults.clock(),
            counters or defaults.counters(),
            grace,
            self._usual.of_child,
            as_thresholds(collector),
            resident,
            defaults.scheduler(scheduler),
            as_bytes("memory_budget", memory_budget),
            self._parts(),
        )
        self._registry = self._runtime.registry
        self._embedded_schedules = EmbeddedSchedules(self._runtime, self._start_firing, self.cancel)
        self._delivery = Delivery(self._runtime)
        self._revisions = Revisions(self._runtime, self._delivery, self._usual.options)
        self.register(*modules)

    def _parts(self) -> RuntimeParts:
        """Return what the runner of a fleet has and others have not; called while it is being made."""
        return RuntimeParts()

    @property
    def store(self) -> LogStore:
        """The store that it reads and writes, as it was given or found."""
        return self._runtime.store

    # -- opening and closing ---------------------------------------------------------------------

    async def open(self) -> Self:
        """
        Open the store and get ready.

        Raises:
            StoreError: the store cannot be used.
            RunnerClosed: it was closed before.
        """
        await self._runtime.open()
        return self

    async def close(self, *, grace: float | None = None) -> None:
        """
        Start nothing more, let steps in flight end, write everything, and release all runs.

        A second caller joins the first, and the close continues if its caller is cancelled.

        Args:
            grace: how many seconds steps in flight get to end, and an unavailable store gets to come back.

        Raises:
            UnwrittenEvents: the store stayed unavailable; the runner is closed nevertheless.
        """
        if grace is not None:
            check_grace(grace)
        await self._embedded_schedules.close()
        await self._runtime.close(grace)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- starting --------------------------------------------------------------------------------

    async def start(
        self,
        workflow: Workflow[In, Out],
        input: In = MISSING,  # noqa: A002 - what one would say
        *,
        id: str | None = None,
        open: bool = False,  # noqa: A002 - what one would say
        if_exists: IfExists = "same",
        unique: str | None = None,
        portable: bool = False,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        continue_after: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
        by: str | None = None,
    ) -> AsyncHandle[Out]:
        """
        Start a run of *workflow*; it is stored when this returns.

        A run that is started with its *input* finishes when nothing is left to do.  One that is started without input
        stays open for inputs that are sent to it, until :meth:`finish` is called.

        Args:
            input: its first input.
            id: the id of the run; a unique one is generated if not given.
            open: whether the run stays open although it has its first input.
            if_exists: what to do if there is a run with this id.  ``"same"``: return a handle of it if it was started
                with the same workflow name and an equal input, whichever process drives it, else raise RunExists.
                ``"return"``: return a handle of it in any case.  ``"error"``: raise RunExists in any case.
                ``"restart"``: delete it and start again if it has finished, else raise RunExists; the new run has the
                same idempotency keys.  A run that is parked stays so until :meth:`resume`.
            unique: a key, such as ``"customer-42"``, that no other unfinished run of a workflow of this name has, in
                this store.  If one has it, *if_exists* says what to do with that one; ``"restart"`` is ``"error"``.
            portable: refuse a run with parts that another process could not find again, such as lambdas and hooks;
                otherwise that is a warning of the logger ``weft.runner``, once for each definition on a durable store.
            max_concurrency: how many of its runnables may be in flight at once.
            checkpoint: when its events become durable.
            snapshot_every: after how many of its events a snapshot is written.
            continue_after: after how many of its events the run is continued as a new one, once it is quiet: its
                state, and what waits, go on under the next id (``w~2``), and what is sent to this one goes there.
            keep_values_for: after how many seconds its values that nothing needs are only in the store.
            executor: where its plain functions run.
            context: values for parameters that read ``context(key)``, over those of the runner; never stored.
            policies: rules in front of the workflow's own, or in their place.
            policies_mode: ``"merge"`` or ``"replace"``.
            deadline: seconds within which everything that follows from the input must be done.
            on_complete: called with the id and the run whenever nothing is left to do: a function, or where to find
                one, ``"module:function"``.
            on_complete_args: further arguments for it.
            hooks: functions that are called when the worker does something.
            by: the name of the caller; kept in the log.

        Raises:
            NotPortable: *portable*, and another process could not find some parts of the run.
            RunExists: a run with this id exists, and it is not the same, or *if_exists* says so.
            UniqueKeyTaken: another run has the unique key, and it is not the same, or *if_exists* says so.
            UnencodableValue: the input could not be stored.
            InvalidPolicy: a policy that this runner cannot honour.
            MissingContext: a required context key was not given.
        """
        self._runtime.check_open()
        check_workflow(workflow)
        if deadline is not None:
            check_deadline(deadline)
            if input is MISSING:
                raise InvalidOption(f"deadline={deadline!r}: it counts from an input; pass it with send()")
        if if_exists != "same":
            check_choice("if_exists", if_exists, IfExists)
        run = uuid.uuid4().hex if id is None else id
        told = self._usual.options
        options = (max_concurrency, checkpoint, snapshot_every, continue_after, keep_values_for, executor, context)
        said = (*options, on_complete, on_complete_args, hooks)
        if said != _UNSAID:
            told = self._usual.but(
                max_concurrency=max_concurrency,
                checkpoint=checkpoint,
                snapshot_every=snapshot_every,
                continue_after=continue_after,
                keep_values_for=keep_values_for,
                executor=executor,
                context=context,
                on_complete=on_complete,
                on_complete_args=on_complete_args,
                hooks=hooks,
            )
        if portable:
            check_portable(workflow, told)
        rules = None if policies is None else list(policies)
        request = StartRequest(input, rules, policies_mode, deadline, not open, by, unique=unique)
        number, creator = None if input is MISSING else 1, self._runtime.creator
        while True:
            if unique is None:
                try:  # what start() of the creator does, without a coroutine around the one that waits
                    worker: Worker | None = await creator.create(run, workflow, told, request)
                except RunExists as error:
                    worker = await creator.start_existing(error, run, workflow, told, request, if_exists)
            else:
                run, worker = await creator.start_unique(run, workflow, told, request, if_exists)
            if worker is not None:
                return AsyncHandle(self, RunRef(run, number, worker))
            with suppress(RunNotFound):  # it was deleted meanwhile, and is started after all
                return AsyncHandle(self, RunRef(run, number, at=(await self.find(run)).created_at))

    async def start_many(
        self,
        workflow: Workflow[In, Out],
        inputs: Iterable[In],
        *,
        ids: Iterable[str] | None = None,
        open: bool = False,  # noqa: A002 - what one would say
        if_exists: IfExists = "same",
        unique: Iterable[str] | None = None,
        portable: bool = False,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
        by: str | None = None,
    ) -> AsyncHandles[Out]:
        """
        Start a run of *workflow* for each of *inputs*, as :meth:`start` does; all of them are stored when this returns.

        Many runs share a commit, and ``await handles.gather()`` waits for all outputs.  All inputs are read and checked
        before the first run is started.  If the caller is cancelled, the present slice of runs is still started, and
        later ones are not.

        Args:
            inputs: anything that can be iterated over; it is read to its end first, in slices, so a generator must not
                change and yield the same object again.
            ids: the ids of the runs, in the order of the inputs; unique ones are generated if not given.
            unique: the unique keys of the runs, in the order of the inputs.

        The other arguments are those of :meth:`start`, for all of the runs.

        Returns:
            Handles in the order of *inputs*.  An id that exists is the same run if its input is equal.

        Raises:
            NotPortable: *portable*, and another process could not find some parts of the runs.
            RunExists: a run with one of the ids exists, and it is not the same, or *if_exists* says so; all others are
                started, and a note says so.
            InvalidOption: there is not one id for each input, an id occurs twice, or an input was changed meanwhile.
            UnencodableValue: an input could not be stored; the error says which.
        """
        self._runtime.check_open()
        check_workflow(workflow, "start_many")
        told = self._usual.but(
            max_concurrency=max_concurrency,
            checkpoint=checkpoint,
            snapshot_every=snapshot_every,
            keep_values_for=keep_values_for,
            executor=executor,
            context=context,
            on_complete=on_complete,
            on_complete_args=on_complete_args,
            hooks=hooks,
        )
        check_choice("if_exists", if_exists, IfExists)
        if portable:
            check_portable(workflow, told)
        runs = await new_runs(inputs, ids, unique)
        request = StartRequest(MISSING, policies, policies_mode, deadline, not open, by)
        workers, holders = await self._runtime.bulk_start.start(runs, workflow, told, request, if_exists)
        started = [holders.get(run.id, run.id) for run in runs]
        return AsyncHandles(self, [RunRef(run, 1, workers.get(run)) for run in started])

    def register(
        self,
        *offered: Workflow | ModuleType | type,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        """
        Offer functions and classes that stored runs may use.

        Args:
            offered: a workflow, whose runs then find functions that cannot be found by name; a module, for the
                functions that it defines and the workflows at its top; a class, whose instances come back from logs.
            encode: returns an instance of the class, the only one that is *offered*, as data.
            decode: returns the instance again.

        Raises:
            InvalidOption: something else.
            InvalidComponent: a class whose instances are not their fields, without *encode* and *decode*.
        """
        if encode is not None or decode is not None:
            if len(offered) != 1 or not isinstance(offered[0], type):
                raise InvalidOption("register(Class, encode=..., decode=...): the functions are for one class")
            register_class(offered[0], encode=encode, decode=decode)
            return
        for thing in offered:
            if isinstance(thing, Workflow):
                self._runtime.definitions.register(thing)
            elif isinstance(thing, ModuleType):
                offer_module(thing)
                for workflow in workflows_of(thing):
                    self._runtime.definitions.register(workflow)
            elif isinstance(thing, type):  # pyright: ignore[reportUnnecessaryIsInstance]
                register_class(thing)
            else:
                raise InvalidOption(f"register({thing!r}): use a workflow, a module or a class")

    # -- schedules -------------------------------------------------------------------------------

    async def schedule(
        self,
        name: str,
        workflow: Workflow[Any, Any],
        *,
        cron: str | None = None,
        timezone: str = "UTC",
        every: float | timedelta | None = None,
        at: Time | None = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        jitter: float = 0.0,
        catch_up: int = 1,
        tolerance: float = 60.0,
        overlap: Overlap = "skip",
    ) -> ScheduleStatus:
        """
        Start a run of *workflow* at each time that a rule names, while this runner is open.

        See docs/how-to/schedules.md.

        The schedule is stored.  Declare it again whenever the program starts: one that is stored is changed, and goes
        on where it was.  If several processes declare it, one of them starts each run.

        Args:
            name: the name of the schedule.  The run for a time has the id ``name@2026-11-18T03:00:00Z``.
            cron: five fields, such as ``"0 3 * * *"``, or six with seconds first.
            timezone: the time zone of the times of *cron*.
            every: an interval in seconds, or a timedelta; its multiples since the epoch are the times.
            at: one time.
            input: the input of each run; if not given, it is the time, as a datetime in UTC.
            jitter: delay each run by a part of this many seconds.
            catch_up: how many missed times are fired afterwards, the latest ones.
            tolerance: a time is missed after this many seconds, 1 or more.
            overlap: what to do if the run before has not finished: ``"skip"`` the time, ``"queue"`` it, ``"allow"``
                both to run, or ``"cancel"`` the run before.

        Raises:
            InvalidOption: the schedule cannot fire.
            UnencodableValue: the input cannot be stored.
        """
        self._runtime.check_open()
        check_workflow(workflow)
        declared = declared_schedule(
            name,
            workflow.name,
            cron=cron,
            timezone=timezone,
            every=every,
            at=at,
            input=input,
            jitter=jitter,
            catch_up=catch_up,
            tolerance=tolerance,
            overlap=overlap,
        )
        self.register(workflow)
        status = await self._declare(declared)
        self._embedded_schedules.add(self._schedule_store(), workflow)
        return status

    def _schedules_changed(self) -> None:
        self._embedded_schedules.wake()

    async def _start_firing(self, workflow: Workflow[Any, Any], value: Any, run: str, by: str) -> None:
        await self.start(workflow, value, id=run, if_exists="return", by=by)

    # -- input -----------------------------------------------------------------------------------

    async def send(
        self,
        id: str | RunHandle[Any],
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        by: str | None = None,
    ) -> AsyncHandle:
        """
        Send the run *id*, an id or a handle, an input, and return a handle of that input.

        When this returns, the input is as durable as the strategy requires.

        Args:
            key: makes sending it twice harmless.
            deadline: seconds within which everything that follows from the input must be done.
            policies: rules that hold from now on; if the *key* was seen before, they are ignored like the input.
            policies_mode: whether they go in front of those in force (``"merge"``) or in their place (``"replace"``).
            by: the name of the caller; kept in the log.

        Raises:
            RunNotFound: no run has this id.
            RunNotHeld: this runner does not drive it.
            UnencodableValue: the value could not be stored.
            RunClosed: the run has finished, or finishes with the input that it has.
        """
        check_deadline(deadline)
        ref = await self._delivery.send(
            as_ref(id), input, key=key, deadline=deadline, policies=policies, policies_mode=policies_mode, by=by
        )
        return AsyncHandle(self, ref)

    async def signal(
        self,
        id: str | RunHandle[Any],
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """
        Send the run *id* the signal *name*: the component that has waited for it longest takes it, or it is kept.

        When this returns, the signal is stored.  A run that another process drives finds it in its inbox, and that
        process gets a second to take it in or refuse it.  A run that no process drives takes it when it is resumed: the
        signal is refused here if the run would not take it as it is now, and if that changes before, only its log says
        so.  In a fleet, where a worker comes for the run, it is not looked at here.

        Args:
            value: what is sent along.
            key: makes sending it twice harmless.
            by: the name of the caller; kept in the log.

        Raises:
            UnknownSignal: no component of the run waits for it.
            InvalidSignal: the value does not fit what is waited for.
            RunNotFound: no run has this id.
            RunClosed: the run has finished, perhaps before the signal was taken in, which :meth:`unread` has then.
            UnencodableValue: the value could not be stored.
        """
        posted = await self._delivery.signal(as_ref(id), name, value, key=key, by=by)
        if posted is not None:
            await self._answer(posted)

    async def continue_as_new(
        self, id: str | RunHandle[Any], new_id: str | None = None, *, by: str | None = None
    ) -> AsyncHandle:
        """
        Start another run from the state of the run *id*, which ends with that; return a handle of the new one.

        That is for an open run whose history has grown long.  The new run has its workflow, the states of its
        components and the last values that others read, its policies and options, the keys of inputs and signals that
        were seen, the signals that no component has taken, and its inbox.  Both are stored in one transaction.  The old
        run is ``completed``, and its record names the new one; ``get`` and ``log`` of the old id read the old run, and
        ``send`` and ``signal`` go to the new one.

        Args:
            new_id: the id of the new run; ``w~2`` after ``w``, ``w~3`` after ``w~2``, if not given.
            by: the name of the caller; kept in both logs.

        Raises:
            RunBusy: something is in flight or waits, or there are dead letters.
            InvalidOption: the store writes one run at a time.
            RunExists: a run with the new id exists; nothing has changed.
            RunNotFound, RunNotHeld, RunClosed: as :meth:`send`.
        """
        id = id_of(id)
        await self._runtime.lookup.changeable(id)
        successor = next_id(id) if new_id is None else new_id
        worker = await self._runtime.continuation.begin(id, successor, by)
        return AsyncHandle(self, RunRef(successor, None, worker))

    async def finish(self, id: str | RunHandle[Any], *, by: str | None = None) -> None:
        """
        Let the run *id* accept no more input, and finish when nothing is left to do.

        Raises:
            RunNotFound: no run has this id.
            RunNotHeld: this runner does not drive it.
            RunClosed: it was cancelled.
        """
        await self._delivery.finish(as_ref(id), by)

    async def cancel(
        self,
        id: str | RunHandle[Any],
        reason: str = "",
        *,
        component: str | RunnableRef | None = None,
        undo: bool = True,
        by: str | None = None,
    ) -> None:
        """
        Close the run *id* for good: attempts in flight are cancelled or abandoned, and what it has done is undone.

        Sagas that have not completed run their compensations, and so do steps in flight whose policy compensates.  This
        returns when the request is stored, and the children that are cancelled with the run have it too; ``wait`` and
        ``result`` return when nothing is left to undo.  Until then the run is not ``cancelled``, and its reason says
        that it is undoing.  A second call changes nothing, except that ``undo=False`` ends the undoing.  A run with
        nothing to undo is cancelled at once.

        A run has not completed or failed before its ``on_complete`` has returned: until then it can be cancelled.

        Args:
            reason: kept in the log.
            undo: whether compensations run, here and in the children; if not, everything stays as it is.
            component: cancel only what this component is at work on, or waits for; a ref (``runnable.ref()``) names
                one runnable.  It has failed then, with ``StepCancelled``: it is not retried, its compensation is
                called, and error routes and sagas apply.
            by: the name of the caller; kept in the log.

        Raises:
            RunNotFound: no run has this id.
            RunNotHeld: this runner does not drive it.
            RunClosed: it has completed or failed.
            UnknownRunnable: nothing of *component* is ready, in flight or waiting.
            InvalidOption: *undo* with a *component*, whose compensation is always called.
        """
        check_undo(undo, component)
        if component is None:
            await self._delivery.cancel(as_ref(id), reason, by, undo=undo)
        else:
            await self._delivery.cancel_steps(as_ref(id), component, reason, by)

    # -- forgetting ------------------------------------------------------------------------------

    async def delete(self, id: str | RunHandle[Any]) -> None:
        """
        Delete the stored run *id*, its log and its values; a run that is in this runner is stopped first.

        A later run with the same id has the same idempotency keys, which are derived from the id: services that
        remember them take its calls for repetitions.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
        """
        id = id_of(id)
        await self._runtime.delete(id)

    async def purge(
        self,
        *,
        before: Time,
        statuses: RunStatus | Collection[RunStatus] = FINISHED,
        limit: int | None = None,
    ) -> int:
        """
        Delete finished runs that were last written *before* a time; return how many.

        Args:
            before: seconds since the epoch, or a datetime with a time zone.
            statuses: only runs in one of these; ``"idle"`` can be one of them, runs with work left cannot.
            limit: how many of them at most.

        Raises:
            InvalidOption: one of these is something else.
        """
        self._runtime.check_open()
        if limit is not None:
            check_count("limit", limit)
        moment, chosen = as_time("before", before), as_statuses(statuses) or ()
        try:
            return await self._runtime.ownership.purge(before=moment, statuses=chosen, limit=limit)
        finally:  # also if it was cut short
            self._registry.recent.clear()
