"""
The runs that are in a runner: creates them, loads them from the store, rebuilds them after a crash, releases them.

    (not here) ──create──► undecided ──stored──► here ──stop──► leaving ──► (not here)
                               │                 ▲  │ ▲                         ▲
                               └── it exists ────┼──┼─┼─────────────────────────┘
    (not here) ──resume, resume_all──► loading ──┘  └─┘ rebuilt after a crash

Invariants:

1. A run has at most one worker, and is created, loaded or released by one task at a time: its lock is held from the
   first call of the store to the last, even if the caller is cancelled in between.
2. A run that is loaded is acquired under that lock, in a new epoch, so no other living runner has it.
3. A run whose first events were not stored was never here: callers that ask for it wait until that is decided.
4. A run that is being stopped accepts nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.scope import Key
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import (
    AnotherGraph,
    HistoryNotLoaded,
    InvalidOption,
    RedactedRun,
    RunClosed,
    RunExists,
    RunNotFound,
    RunNotHeld,
    RunOwned,
)
from weft.log import needs_encoding
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.runner.durability.log_reader import LogReader
from weft.runner.durability.ownership import AcquiredRun, Ownership
from weft.runner.durability.recovery import Recovered
from weft.runner.durability.rehydration import is_partial
from weft.runner.durability.takeover import Takeover, takeover
from weft.runner.durability.unsaved import UnsavedLog, whole
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.large_values import encoded_input
from weft.runner.execution.status import text_of_poison
from weft.runner.execution.worker import Worker
from weft.runner.options import IfExists, RunOptions, StartRequest, check_text
from weft.runner.portability import check_portable
from weft.runner.registry.continuation import begun_from
from weft.runner.registry.keyed_lock import HeldLock, KeyedLock
from weft.runner.registry.recent_runs import RecentRuns
from weft.runner.registry.same_start import difference
from weft.runner.registry.shielded_tasks import ShieldedTasks
from weft.runner.registry.supervisor import Supervisor
from weft.runner.waiting.waiters import Waiters
from weft.telemetry import bus
from weft.telemetry.levels import Levels

T = TypeVar("T")
Graph = Literal["the same", "its own", "any"]
"""
Which graph a workflow that is passed for a stored run may have: the one that the run follows; another one, of which
only functions are used, which is logged; or any, because the run is only read, or is about to be upgraded.
"""
_log = logging.getLogger("weft.runner")

_LOOKED_THROUGH: Final = 4096
"""How many runs are looked through to see whose they are; among more, some are taken to be of other callers."""


class Children(Protocol):
    """The children of runs, as the registry sees them."""

    def orphaned(self, parent: Worker) -> None:
        """A cancelled *parent* was brought back, whose children may not be cancelled yet."""
        ...


class WaitingRuns(Protocol):
    """The runs that only wait, as the registry sees them."""

    def __contains__(self, run: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    @property
    def is_full(self) -> bool:
        """Whether no further run that only waits stays in memory."""
        ...

    def add(self, worker: Worker) -> None:
        """*worker* only waits, and all of it is stored."""
        ...

    def put_stored(self, record: RunRecord, options: RunOptions) -> None:
        """Let a stored run, which was acquired, sleep on until it is due."""
        ...

    def forget(self, worker: Worker) -> None:
        """*worker* has left."""
        ...

    def woken(self, run: str) -> None:
        """*run* is in memory, or was released."""
        ...

    async def awaken(self, runs: Iterable[str]) -> None:
        """Bring *runs* back into memory, those of them that are asleep."""
        ...


class Inbox(Protocol):
    """The mailbox, as the registry sees it."""

    def came_in(self, worker: Worker) -> None:
        """Look for messages for *worker*, whose run was brought back."""
        ...

    def left(self, worker: Worker) -> None:
        """Look for messages that came too late for *worker*, whose run has failed."""
        ...


class RunRegistry:
    """The workers of one runner, by run."""

    def __init__(self, ownership: Ownership, waiters: Waiters, dispatcher: Dispatcher) -> None:
        """Create an empty registry, whose workers share *dispatcher*."""
        self._ownership, self._waiters, self._dispatcher = ownership, waiters, dispatcher
        self._workers: dict[str, Worker] = {}
        ownership.is_here = self._workers.__contains__
        self.recent = RecentRuns()
        """Runs that have finished here, for callers that ask right after."""
        self._registered: dict[tuple[str, str], Workflow] = {}
        """Definitions that the application has registered, by name and version."""
        self._started: WeakValueDictionary[tuple[str, str], Workflow] = WeakValueDictionary()
        """Definitions of which a run was started here, for as long as a run or the application holds them."""
        self._locks = KeyedLock()
        self.continuing: set[str] = set()
        """Runs that are being continued as new ones."""
        self._waking: dict[Worker, asyncio.Task[None]] = {}
        """Workers whose values are being loaded, and the tasks that load them."""
        self.shielded = ShieldedTasks()
        self.children: Children | None = None
        """Told of a cancelled run that was brought back before its children were cancelled."""
        self.sleepers: WaitingRuns | None = None
        """The runs that are here and not in memory, and those that may leave it."""
        self.mailbox: Inbox | None = None
        """Told of a run that was brought back, and may have messages."""
        self.told: Callable[[Worker], object] | None = None
        """Told of a run that has left, or has nothing left to do."""
        self.is_shared = False
        """Whether other processes drive runs that are started here; then one of theirs is watched."""
        self.supervisor = Supervisor(self._rebuild, self._parked)

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def __contains__(self, run: object) -> bool:
        return run in self._workers

    def has_only(self, runs: Mapping[str, object]) -> bool:
        """Whether all runs here are among *runs*; many are not looked through."""
        here = self._workers
        return len(here) <= _LOOKED_THROUGH and here.keys() <= runs.keys()

    def get(self, run: str) -> Worker | None:
        """Return the worker of *run*, if it is here."""
        return self._workers.get(run)

    def in_flight(self, run: str) -> list[Key]:
        """Return the runnables of *run* that are in flight here; called on any thread."""
        worker = self._workers.get(run)
        return [] if worker is None else list(worker.queue.by_key)

    def lock(self, run: str) -> HeldLock:
        """Return the lock of *run*, under which it is created, loaded or released."""
        return self._locks.lock(run)

    def try_lock(self, run: str) -> HeldLock | None:
        """Lock *run* without waiting; return None if it is locked already."""
        return self._locks.try_lock(run)

    def is_locked(self, run: str) -> bool:
        """Whether *run* is being created, loaded or released."""
        return self._locks.is_locked(run)

    def change(self, run: str, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Do *work* under the lock of *run*; it completes even if the caller is cancelled."""
        lock = self._locks.try_lock(run)
        if lock is None:
            return self.shielded.start(self.locked(run, work))
        task = self.shielded.start(work())
        lock.release_after(task)
        return task

    async def locked(self, run: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do *work* under the lock of *run*, as soon as that is free."""
        async with self._locks.lock(run):
            return await work()

    def register(self, workflow: Workflow) -> None:
        """Make *workflow* known, so that stored runs of it find functions that cannot be found by name."""
        self._registered[workflow.name, workflow.version] = workflow

    def follows(self, workflow: Workflow) -> None:
        """A run here follows *workflow*: other runs of it find its functions, for as long as something holds it."""
        self._started[workflow.name, workflow.version] = workflow

    # -- coming in -------------------------------------------------------------------------------

    async def create(self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest) -> Worker:
        """
        Create a new run, wait until its first events are stored, and return its worker.

        Raises:
            RunExists: a run with this id exists.
        """
        if request.encoded is None and needs_encoding(request.input):
            request = replace(request, encoded=await encoded_input(request.input))
        lock = self._locks.try_lock(run)  # as nearly always: neither this nor leave() needs a coroutine
        if lock is None:
            lock = await self._locks.lock(run).acquire()
        try:
            worker, position = self.begin(run, workflow, options, request)
            try:
                await self._waiters.stored_at(worker, position)
            except RunExists:
                self.drop(worker)
                raise
            except asyncio.CancelledError:  # the run goes on, unless it turns out to exist
                lock.release_after(self.shielded.start(self._decide(worker)))
                raise
            except BaseException as error:
                self.drop(worker)
                if isinstance(error, Exception) and worker.lost is not None:  # the store may have taken it all the same
                    lock.release_after(self.shielded.start(self._ownership.release([run])))
                raise
        finally:
            lock.leave()
        return worker

    def begin(self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest) -> tuple[Worker, int]:
        """
        Hand the beginning of a new *run*, which is locked, to the journal; return its worker, and the position at
        which the beginning is stored.

        Raises:
            RunExists: a run of this id is here.
        """
        worker = self._new_worker(run, workflow, options, request.by)
        if request.policies is None:
            worker.policies.check_all()
        else:
            worker.policies.change(request.policies, request.policies_mode, request.by)
        key = (workflow.name, workflow.version)
        if self._started.get(key) is not workflow:  # a weak reference costs more than a look
            self._started[key] = workflow
            if self._ownership.is_durable:
                check_portable(workflow, options, is_required=False)
        self._workers[run] = worker
        try:
            if request.input is not MISSING:
                worker.take(
                    request.input,
                    deadline=request.deadline,
                    last=request.is_last,
                    by=request.by,
                    encoded=request.encoded,
                )
            if bus.workflow_start:
                worker.report.called()
            worker.checkpoint()
        except BaseException:
            self.drop(worker)
            raise
        return worker, 1 if request.input is MISSING else len(worker.run.memory.log)

    async def _decide(self, worker: Worker) -> None:
        """Wait until the store has accepted or refused the new run of *worker*, whose creator was cancelled."""
        try:
            await self._waiters.durable(worker, 1)
        except BaseException:
            self.drop(worker)
            raise

    def drop(self, worker: Worker) -> None:
        """Remove *worker*: its run was released, or was never created."""
        if self._workers.get(worker.id) is worker:
            del self._workers[worker.id]
        if self.sleepers is not None:
            self.sleepers.forget(worker)
        self._waiters.gone(worker)

    async def adopt(self, run: Run, options: RunOptions, change: Callable[[Worker], object]) -> Worker:
        """
        Write *run*, a new one with a history, make a *change* first, and continue it.

        It is written in one transaction: there is never a part of it in the store.

        Raises:
            RunExists: a run with this id exists.
        """
        return await asyncio.shield(self.change(run.id, partial(self._adopt, run, options, change)))

    async def _adopt(self, run: Run, options: RunOptions, change: Callable[[Worker], object]) -> Worker:
        check_text("id", run.id)
        if run.id in self._workers:
            raise RunExists(run.id)
        self._dispatcher.check_open()
        options = self._restored(run, options)
        run.check_context()
        unsaved = UnsavedLog(run)
        worker = Worker(self._dispatcher, run, options, self, unsaved)
        change(worker)
        worker.policies.check_all()
        await self._ownership.create(await whole(run, unsaved, self._dispatcher.clock.time()))
        self.follows(run.workflow)
        self._workers[run.id] = worker
        worker.report.resumed(self._dispatcher.clock.time)
        self._dispatcher.guard(worker, worker.turn)
        return worker

    async def store(self, run: Run, status: RunStatus, reason: str) -> None:
        """
        Write *run*, a new one with a history, in one transaction, and leave it to be resumed or read.

        Raises:
            RunExists: a run with this id exists.
        """
        await asyncio.shield(self.change(run.id, partial(self._store, run, status, reason)))

    async def _store(self, run: Run, status: RunStatus, reason: str) -> None:
        check_text("id", run.id)
        if run.id in self._workers:
            raise RunExists(run.id)
        appends = await whole(run, UnsavedLog(run), self._dispatcher.clock.time(), status, reason)
        async with self._ownership.freeing([run.id]):
            await self._ownership.create(appends)

    def _restored(self, run: Run, options: RunOptions) -> RunOptions:
        """Return *options* over those that *run* was started with."""
        options = options.restored(getattr(run.memory.log[0], "options", None))
        if options.executor not in self._dispatcher.queues:
            raise InvalidOption(
                f"run {run.id!r} was started with executor={options.executor!r}, and this runner has only "
                f"{', '.join(map(repr, self._dispatcher.queues))}; pass Runner(executors=...), or resume(executor=...)"
            )
        return options

    def _new_worker(self, run: str, workflow: Workflow, options: RunOptions, by: str | None) -> Worker:
        check_text("id", run)
        if run in self._workers:
            raise RunExists(run)
        self._dispatcher.check_open()
        new = Run(workflow, id=run, context=options.context, options=options.said, by=by)
        new.check_context()
        return Worker(self._dispatcher, new, options, self)

    async def start(
        self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest, if_exists: IfExists = "same"
    ) -> Worker | None:
        """
        Create a run as :meth:`create` does; if there is one with this id, do what *if_exists* says.

        A run that is stored as parked stays so: it needs a person, and a program that is started again is not one.

        Returns:
            The worker of a run that is here, or was a moment ago.

        Raises:
            RunExists: another run has this id.
            RunOwned: the same run is held by another process that is alive.
        """
        while True:
            try:
                return await self.create(run, workflow, options, request)
            except RunExists:
                if if_exists == "error":
                    raise
            try:
                if if_exists == "restart":
                    await asyncio.shield(self.change(run, partial(self._clear, run)))
                    continue
                if if_exists == "same":
                    known = await self._looked_up(run)
                    differs = difference(known, workflow, request)
                    if differs:
                        raise RunExists(run, differs)
                return await self.resume(run, workflow, options, parked=False, graph="its own")
            except RunOwned:
                if not self.is_shared:
                    raise
                return None
            except RunNotFound:  # it was deleted meanwhile: then this is a new one
                pass

    async def _looked_up(self, run: str) -> Run:
        """Return *run*, from here or from the store, to be compared."""
        async with self._locks.lock(run):  # it may be about to be created
            here = self._workers.get(run) or self.recent.get(run)
        return here.run if here is not None and not is_partial(here.run) else (await self.read(run)).run

    async def _clear(self, run: str) -> None:
        """Delete *run*, which is locked, so that another one can have its id; refuse one that has not finished."""
        known = self._workers.get(run)
        if known is not None and known.state in FINISHED:
            await self._write(known)  # then it leaves
        if run in self._workers or (await self._ownership.record(run)).status not in FINISHED:
            raise RunExists(run, "and has not finished: cancel() it first")
        self.recent.forget(run)
        await self._ownership.delete(run)

    async def read(self, run: str, *, workflow: Workflow | None = None) -> Recovered:
        """
        Return the stored *run* as it is, without owning it.

        Args:
            workflow: where functions that cannot be found by name are taken from; its graph may be another one.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        loaded = await self._ownership.load(run, None)
        return await loaded.recover(self._live(workflow, "any"), context={}, strict=False, goes_on=False)

    def follow(self, run: str) -> LogReader:
        """Return what reads the log of the stored *run* as it grows, without owning it."""
        return LogReader(self._ownership, run, self._live(None, "any"))

    async def resume(
        self,
        run: str,
        workflow: Workflow | None,
        options: RunOptions,
        *,
        strict: bool = False,
        parked: bool = True,
        graph: Graph = "the same",
    ) -> Worker | None:
        """
        Load the stored *run*, and continue it; a run that is here already is left as it is, unless it is parked.

        A run that has finished is not loaded, nor is one that is stored as parked, unless *parked* is set.

        Returns:
            The worker of the run; None if it has finished, unless that was a moment ago.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
            AnotherGraph: *workflow* has another graph, and *graph* does not allow that.
        """
        known = self._workers.get(run)
        if known is None or known.state == "parked" or self._locks.is_locked(run):
            back = partial(self.bring_back, run, workflow, options, strict=strict, parked=parked, graph=graph)
            await asyncio.shield(self.change(run, back))
        return self._workers.get(run) or self.recent.get(run)

    async def check_given(self, run: str, workflow: Workflow) -> None:
        """
        Refuse a *workflow* to resume *run* with that is not the one that the run follows.

        Raises:
            RunNotFound: nothing is stored under this id.
            InvalidOption: the run is one of another workflow.
            AnotherGraph: the workflow has another graph.
        """
        known = self._workers.get(run)
        if known is None:
            stored = await self._ownership.record(run)
            name, version = stored.workflow, stored.version
        else:
            present = known.run.memory.workflow
            name, version = present.name, present.version
        if workflow.name != name:
            raise InvalidOption(f"workflow={workflow.name!r}: run {run!r} is a run of {name!r}; pass that one, or none")
        _check_graph(run, workflow, version, "the same")

    def options_of(self, run: str, usual: RunOptions) -> RunOptions:
        """Return the options with which *run* has finished here, if that is remembered; else the *usual* ones."""
        known = self.recent.get(run)
        return usual if known is None else known.options

    async def reopen(
        self,
        run: str,
        options: RunOptions,
        change: Callable[[Worker], object],
        *,
        upgrade: Workflow | None = None,
    ) -> Worker | None:
        """
        Load *run*, which has failed, make a *change* after which it has something to do, and continue it.

        Args:
            upgrade: the workflow that the change moves the run to; then the run need not have finished.

        Returns:
            Its worker; None if another caller has reopened it meanwhile, so that the run is here, without the change.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunClosed: it has completed, or was cancelled.
            RunNotHeld: it has not finished, and is not here.
        """
        return await asyncio.shield(self.change(run, partial(self._reopen, run, options, change, upgrade)))

    async def _reopen(
        self, run: str, options: RunOptions, change: Callable[[Worker], object], upgrade: Workflow | None
    ) -> Worker | None:
        await self.supervisor.restarted(run)
        if run in self._workers:
            return None
        stored = await self._ownership.record(run)
        if stored.status in FINISHED and stored.status != "failed":
            raise RunClosed(run, stored.reason, status=stored.status)
        if stored.status != "failed" and upgrade is None:
            raise RunNotHeld(run, stored.owner)
        graph: Graph = "the same" if upgrade is None else "any"
        worker = await self._take_over(run, upgrade, options, strict=False, change=change, graph=graph)
        self.recent.forget(run)
        return worker

    async def bring_back(
        self,
        run: str,
        workflow: Workflow | None,
        options: RunOptions,
        *,
        strict: bool,
        parked: bool = True,
        graph: Graph = "the same",
    ) -> bool:
        """
        Load *run*, which is locked, and continue it; return False if it was here already, or is left as it is.

        Raises:
            RunNotFound, RunOwned: as :meth:`resume`.
        """
        await self.supervisor.restarted(run)
        known = self._workers.get(run)
        if known is not None and known.state != "parked":
            return False
        if known is not None:
            if not parked and known.lost is None:
                return False
            await self._write(known)
        else:
            status = (await self._ownership.record(run)).status
            if status in FINISHED or (status == "parked" and not parked):
                return False
        await self._take_over(run, workflow, options, strict=strict, was_parked=known is not None, graph=graph)
        return True

    async def _take_over(
        self,
        run: str,
        workflow: Workflow | None,
        options: RunOptions,
        *,
        strict: bool,
        change: Callable[[Worker], object] | None = None,
        was_parked: bool = False,
        graph: Graph = "the same",
    ) -> Worker:
        """Acquire *run*, load it, make a *change*, and continue it; if that fails, release it again."""
        owned = await self._ownership.acquire(run)
        async with self._ownership.freeing([run]) as free:
            # A change may revise the log, and that needs all of it.
            loaded = await self._ownership.load(run, owned, options.rehydration if change is None else "full")
            worker = await self.come_in(
                loaded, workflow, options, strict=strict, change=change, was_parked=was_parked, graph=graph
            )
            free.clear()
            return worker

    async def come_in(
        self,
        loaded: AcquiredRun,
        workflow: Workflow | None,
        options: RunOptions,
        *,
        strict: bool,
        change: Callable[[Worker], object] | None = None,
        was_parked: bool = False,
        graph: Graph = "the same",
    ) -> Worker:
        """
        Continue a run that was acquired and *loaded*, after a *change*; park it if it keeps killing its owners.

        Args:
            was_parked: whether it was parked here, which the store may not know yet.
        """
        # An upgrade may remove what this process could not continue with.
        found = await loaded.recover(
            self._live(workflow, graph), context=options.context, strict=strict, goes_on=graph != "any"
        )
        self._dispatcher.check_open()  # the runner may have been closed meanwhile
        if graph != "any":
            note_changed_code(found.run)
        options = self._restored(found.run, options)
        worker = Worker(self._dispatcher, found.run, options, self, _unsaved(found))
        worker.sleeping = found.sleeping
        if graph != "any":
            worker.policies.check_all()
        if change is not None:
            change(worker)
            worker.revised()
            worker.owes_notice = options.on_complete is not None  # it was told of all that had happened before
        if found.run.memory.redacted:
            raise RedactedRun(found.run.id, found.run.memory.redacted)
        if graph == "any":
            found.check(workflow)
            worker.policies.check_all()
        taken = self._taken_over(worker, loaded.owned, was_parked=was_parked)
        old = self._workers.get(worker.id)  # it has crashed, or was parked
        self._workers[worker.id] = worker
        if old is not None:
            self._waiters.moved(old, worker)
        if self.sleepers is not None:
            self.sleepers.woken(worker.id)
        if self.mailbox is not None:
            self.mailbox.came_in(worker)
        worker.report.resumed(self._dispatcher.clock.time)
        if taken is not None and taken.is_poison:
            self._parked(worker, text_of_poison(found.run, taken))
            return worker
        if taken is not None:
            worker.take_over(taken)
        self._dispatcher.guard(worker, worker.turn)
        if worker.orphans and self.children is not None:
            self.children.orphaned(worker)
        return worker

    @staticmethod
    def _taken_over(worker: Worker, owned: RunRecord | None, *, was_parked: bool) -> Takeover | None:
        """Return what the log of a run that was acquired has to note before something of it starts."""
        is_at_rest = worker.is_idle and not worker.owes_notice and worker.options.checkpoints.takes_input_first
        if owned is None or is_at_rest:  # under other strategies the log may not know of what was in flight
            return None
        was_parked = was_parked or owned.status == "parked"
        return takeover(worker.run.memory.log, owned.epoch, owner_died=owned.owner_died, was_parked=was_parked)

    async def visit(self, run: str, call: Callable[[Worker], Awaitable[T]]) -> T:
        """
        Call a function with the worker of *run*; if the run is not here, with a temporary worker that only writes.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
        """
        return await asyncio.shield(self.change(run, partial(self._visit, run, call)))

    async def _visit(self, run: str, call: Callable[[Worker], Awaitable[T]]) -> T:
        await self.supervisor.restarted(run)  # a worker that crashed writes nothing more, the next one does
        here = self._workers.get(run)
        if here is not None:
            return await call(here)
        owned = await self._ownership.acquire(run)
        async with self._ownership.freeing([run]):
            loaded = await self._ownership.load(run, owned)
            found = await loaded.recover(self._live(None), context={}, strict=False, goes_on=False)
            self._dispatcher.check_open()
            return await call(Worker(self._dispatcher, found.run, RunOptions(), self, _unsaved(found)))

    async def continue_as_new(self, run: str, new_id: str, by: str | None) -> Worker:
        """
        End *run*, which is here, and start *new_id* from its state, in one transaction; return the new worker.

        Raises:
            RunBusy: something is left to do in it.
            RunExists: a run with the new id exists.
        """
        check_text("new_id", new_id)
        lock = self._locks.try_lock(new_id)  # without waiting: two runs might wait for each other
        if lock is None:
            raise RunExists(new_id, "or is being created")
        task = self.change(run, partial(self._continue_as_new, run, new_id, by))
        lock.release_after(task)
        return await asyncio.shield(task)

    async def _continue_as_new(self, run: str, new_id: str, by: str | None) -> Worker:
        old = self._workers.get(run)
        if old is None or new_id in self._workers:
            raise RunNotHeld(run) if old is None else RunExists(new_id)
        old.check_continuable()
        old.is_leaving = True  # it accepts nothing more
        self.continuing.add(run)
        try:
            await self._waiters.all_stored(old)
            event, at = ev.ContinuedAsNew(len(old.run.memory.log) + 1, new_id, by), self._dispatcher.clock.time()
            try:
                begun, last = begun_from(old.run, new_id, by), old.last_append(event, at)
            except HistoryNotLoaded:
                await self._ownership.again(old.run.load)
                begun, last = begun_from(old.run, new_id, by), old.last_append(event, at)
            new = Worker(self._dispatcher, begun, old.options, self)
            group = f"{run} {new_id}"
            appends = [replace(last, group=group), replace(new.first_append(at), group=group, continues=run)]
            await self._ownership.append_together(appends)
        except BaseException:
            old.is_leaving = False
            raise
        finally:
            self.continuing.discard(run)
        old.continued(event, appends[0])
        self._workers[new_id] = new
        self.over(old)
        new.committed(appends[1])
        if self.mailbox is not None:
            self.mailbox.came_in(new)
        return new

    def _live(self, given: Workflow | None, graph: Graph = "the same") -> Callable[[RunRecord], Workflow | None]:
        """Return a function that finds the live definition of a stored run."""

        def live(stored: RunRecord) -> Workflow | None:
            key = (stored.workflow, stored.version)
            if given is not None and given.name == stored.workflow:
                _check_graph(stored.id, given, stored.version, graph)
                return given
            return self._registered.get(key) or self._started.get(key)

        return live

    # -- being here ------------------------------------------------------------------------------

    async def _rebuild(self, worker: Worker) -> None:
        """Write the unsaved events of a crashed *worker*, and load its run from the store again."""
        if self._workers.get(worker.id) is worker and not worker.is_leaving:
            await self._write(worker)
            if not worker.has_left:  # else there was only its end to write
                await self._take_over(worker.id, worker.run.workflow, worker.options, strict=False, graph="any")

    async def _write(self, worker: Worker) -> None:
        """Write the unsaved events of *worker*, which is about to be replaced."""
        if worker.lost is None:
            worker.checkpoint()
            await self._waiters.durable(worker, len(worker.run.memory.log))

    def _parked(self, worker: Worker, reason: str) -> None:
        worker.park(reason)
        worker.report.parked(reason)
        self.settled(worker)

    def crashed(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*: rebuild it, or park its run."""
        self.supervisor.crashed(worker, error)

    def over(self, worker: Worker) -> None:
        """The run of *worker* has finished, and was released: it leaves."""
        if self._workers.get(worker.id) is worker:
            del self._workers[worker.id]
            worker.has_left, worker.left_after = True, self._ownership.deletions
            if self.sleepers is not None:
                self.sleepers.forget(worker)
            self.recent.add(worker)
            self._waiters.over(worker)
            if self.mailbox is not None and worker.state == "failed":
                self.mailbox.left(worker)
            if self.told is not None:
                self.told(worker)

    def wake(self, worker: Worker) -> asyncio.Task[None]:
        """*worker* has something to do: load the values that it needs, and let it take its turn then."""
        task = self._waking.get(worker)
        if task is None:
            task = self._waking[worker] = self.shielded.start(self._wake(worker))
        return task

    async def awake(self, worker: Worker) -> None:
        """Wait until *worker*, which is about to be told something, has the values that it needs."""
        if worker.sleeping is not None and not worker.is_stopping:
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
            self._waking.pop(worker, None)

    def load_history(self, worker: Worker, then: Callable[[], object]) -> None:
        """Load the history of the run of *worker*, and call *then*."""
        self.shielded.start(self._load_history(worker, then))

    async def _load_history(self, worker: Worker, then: Callable[[], object]) -> None:
        try:
            await self._ownership.again(worker.run.load)
        except Exception as error:  # noqa: BLE001 - the worker crashes with it
            self._dispatcher.guard(worker, _raise, error)
        else:
            self._dispatcher.guard(worker, then)

    async def load(self, worker: Worker) -> None:
        """Load the history of the run of *worker*, which is about to be changed."""
        if is_partial(worker.run):
            await self._ownership.again(worker.run.load)

    def settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do: tell the callers, unless it has been replaced."""
        if self._workers.get(worker.id) is worker:
            if isinstance(worker.lost, RunExists):  # it has never been here
                del self._workers[worker.id]
            self._waiters.settled(worker)
            if self.told is not None:
                self.told(worker)

    # -- waiting ---------------------------------------------------------------------------------

    def waits(self, worker: Worker) -> None:
        """*worker* only waits, and all of it is stored: its run, or another one, may leave memory."""
        if self.sleepers is not None and self._workers.get(worker.id) is worker:
            self.sleepers.add(worker)

    def put_to_sleep(self, worker: Worker) -> bool:
        """Remove *worker*, which only waits, from memory, and go on owning its run; return False if a caller waits."""
        is_here = self._workers.get(worker.id) is worker and not self._locks.is_locked(worker.id)
        if not is_here or self._waiters.is_awaited(worker):
            return False
        del self._workers[worker.id]
        worker.sleep()
        worker.report.evicted()
        return True

    def is_asleep(self, run: str) -> bool:
        """Whether *run* is here, and not in memory."""
        return self.sleepers is not None and run in self.sleepers

    async def awaken(self, runs: Iterable[str]) -> None:
        """Bring *runs* back into memory, those of them that are asleep."""
        if self.sleepers is not None:
            await self.sleepers.awaken(runs)

    def told_to_end(self, worker: Worker) -> None:
        """A message has cancelled the run of *worker*: cancel its children too."""
        if worker.orphans and self.children is not None:
            self.children.orphaned(worker)

    def add_levels(self, levels: Levels) -> None:
        """Add the runs that are here, and their runnables, to *levels*; called from any thread."""
        counts: dict[tuple[str, str], int] = {}
        for worker in self:
            workflow, queue = worker.run.memory.workflow.name, worker.queue
            key = (workflow, worker.state)
            counts[key] = counts.get(key, 0) + 1
            known, is_upcoming = len(queue.by_key), worker.upcoming is not None
            if known or is_upcoming:
                queued, used = len(queue.line), queue.slots_used
                waiting = max(0, known - queued - used)  # another thread may change them meanwhile
                levels.add_runnables(workflow, in_flight=used, queued=queued + is_upcoming, waiting=waiting)
        levels.add_runs(counts)

    # -- leaving ---------------------------------------------------------------------------------

    async def leave(self, worker: Worker) -> None:
        """Release a run that has been stopped."""
        self.drop(worker)
        await self._ownership.release([worker.id])

    def clear(self) -> None:
        """Remove all runs: the runner is closed."""
        self._workers.clear()


def _raise(error: Exception) -> None:
    raise error


def _check_graph(run: str, workflow: Workflow, version: str, graph: Graph) -> None:
    """
    Refuse a *workflow* for *run*, which follows *version*, if it has another graph and *graph* does not allow that.

    Raises:
        AnotherGraph: it is not allowed.
    """
    if version in ("", workflow.version) or graph == "any":  # a store need not know the version
        return
    if graph == "the same":
        raise AnotherGraph(run, workflow.name)
    _log.warning(
        "run %r keeps its graph: that of the workflow %r which was passed is another one, and only its functions are "
        "used; upgrade() moves the run to it",
        *(run, workflow.name),
    )


def note_changed_code(run: Run) -> None:
    """Record that the code of components of *run* has changed since it was written, once for each change."""
    changed = tuple(run.workflow.changed)
    if changed:
        memory = run.memory
        record(memory, ev.CodeChanged(len(memory.log) + 1, changed, run.workflow))
        _log.info("run %r continues with changed code of %s", run.id, ", ".join(map(repr, changed)))


def _unsaved(found: Recovered) -> UnsavedLog:
    stored = found.record
    return UnsavedLog(
        found.run,
        epoch=stored.epoch,
        stored=stored.head,
        link=stored.chain,
        status=stored.status,
        wake_at=stored.wake_at,
    )
