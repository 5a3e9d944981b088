"""
Brings stored runs into a runner: acquires them, loads them, rebuilds their workers, and lets them continue.

    (not here) ──resume, a claim, a visit──► acquired ──► loaded ──► here
                                               ▲                      │
                                               └── it crashed, or was parked and is resumed

Invariants:

1. A run is loaded under its lock, in a new epoch, so no other living runner has it; if that fails, it is released.
   After a crash it is loaded without the lock, since those that hold that wait for it.
2. A worker that is replaced writes its unsaved events first.
3. A run that is only read is neither locked nor acquired.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import InvalidOption, RedactedRun, RunClosed, RunNotHeld
from weft.ports.store import FINISHED, RunRecord
from weft.runner.durability.log_reader import LogReader
from weft.runner.durability.ownership import AcquiredRun, Ownership
from weft.runner.durability.recovery import Recovered
from weft.runner.durability.takeover import Takeover, takeover
from weft.runner.durability.unsaved import UnsavedLog
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.status import text_of_poison
from weft.runner.execution.taken_over import TakenOver
from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions
from weft.runner.registry.definitions import Definitions, Graph, check_graph, note_changed_code
from weft.runner.registry.registry import RunRegistry
from weft.runner.waiting.waiters import Waiters
from weft.shield import shielded

T = TypeVar("T")


class RunLoader:
    """Loads the stored runs of one runner into its registry."""

    def __init__(
        self,
        registry: RunRegistry,
        definitions: Definitions,
        ownership: Ownership,
        waiters: Waiters,
        dispatcher: Dispatcher,
    ) -> None:
        """Load runs into *registry*."""
        self._registry, self._definitions = registry, definitions
        self._ownership, self._waiters, self._dispatcher = ownership, waiters, dispatcher

    async def read(self, run: str, *, workflow: Workflow | None = None) -> Recovered:
        """
        Return the stored *run* as it is, without owning it.

        Args:
            workflow: where functions that cannot be found by name are taken from; its graph may be another one.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        loaded = await self._ownership.load(run, None)
        live = self._definitions.finder(workflow, "any")
        found = await loaded.recover(live, context={}, strict=False, goes_on=False)
        if loaded.is_truncated:  # it comes from its snapshot; what is left of its history is there too, as of any other
            await self._ownership.again(found.run.load)
        return found

    def follow(self, run: str, after: RunRecord | None = None) -> LogReader:
        """Return what reads the log of the stored *run* as it grows, if given *after* this record; it owns nothing."""
        return LogReader(self._ownership, run, self._definitions.finder(None, "any"), after)

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
        known = self._registry.get(run)
        if known is None or known.state == "parked" or self._registry.is_locked(run):
            back = partial(self.bring_back, run, workflow, options, strict=strict, parked=parked, graph=graph)
            await shielded(self._registry.change(run, back))
        return self._registry.get(run) or self._registry.recent.get(run)

    async def check_given(self, run: str, workflow: Workflow) -> None:
        """
        Refuse a *workflow* to resume *run* with that is not the one that the run follows.

        Raises:
            RunNotFound: nothing is stored under this id.
            InvalidOption: the run is one of another workflow.
            AnotherGraph: the workflow has another graph.
        """
        known = self._registry.get(run)
        if known is None:
            stored = await self._ownership.record(run)
            name, version = stored.workflow, stored.version
        else:
            present = known.run.memory.workflow
            name, version = present.name, present.version
        if workflow.name != name:
            raise InvalidOption(f"workflow={workflow.name!r}: run {run!r} is a run of {name!r}; pass that one, or none")
        check_graph(run, workflow, version, "the same")

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
            UniqueKeyTaken: another unfinished run has its unique key.
        """
        return await shielded(self._registry.change(run, partial(self._reopen, run, options, change, upgrade)))

    async def _reopen(
        self, run: str, options: RunOptions, change: Callable[[Worker], object], upgrade: Workflow | None
    ) -> Worker | None:
        await self._registry.supervisor.restarted(run)
        if run in self._registry:
            return None
        stored = await self._ownership.record(run)
        if stored.status in FINISHED and stored.status != "failed":
            raise RunClosed(run, stored.reason, status=stored.status)
        if stored.status != "failed" and upgrade is None:
            raise RunNotHeld(run, stored.owner, owner_died=stored.owner_died)
        if stored.status == "failed":
            await self._ownership.check_key(run)
        graph: Graph = "the same" if upgrade is None else "any"
        worker = await self._take_over(run, upgrade, options, strict=False, change=change, graph=graph)
        self._registry.recent.forget(run)
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
        await self._registry.supervisor.restarted(run)
        known = self._registry.get(run)
        if known is not None and known.state != "parked":
            return False
        if known is not None:
            if not parked and known.lost is None:
                return False
            await self.write(known)
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
        first: Callable[[Worker], object] | None = None,
        was_parked: bool = False,
        graph: Graph = "the same",
    ) -> Worker:
        """
        Continue a run that was acquired and *loaded*, after a *change*; park it if it keeps killing its owners.

        Args:
            first: called with its worker before anything of it starts.
            was_parked: whether it was parked here, which the store may not know yet.
        """
        # An upgrade may remove what this process could not continue with.
        found = await loaded.recover(
            self._definitions.finder(workflow, graph), context=options.context, strict=strict, goes_on=graph != "any"
        )
        self._dispatcher.check_open()  # the runner may have been closed meanwhile
        if graph != "any":
            note_changed_code(found.run)
        options = restored_options(found.run, options, self._dispatcher)
        worker = Worker(self._dispatcher, found.run, options, self._registry, _unsaved(found))
        worker.sleeping = found.sleeping
        if graph != "any":
            worker.policies.check_all()
        if change is not None:
            change(worker)
            worker.revised()
            worker.owes_notice = options.on_complete is not None  # it was called for all that had happened before
        if found.run.memory.redacted:
            raise RedactedRun(found.run.id, found.run.memory.redacted)
        if graph == "any":
            found.check(workflow)
            worker.policies.check_all()
        taken = self._taken_over(worker, loaded.owned, was_parked=was_parked)
        self._registry.put(worker)
        worker.report.resumed(self._dispatcher.clock.time)
        if found.run.memory.has_deadlines:
            worker.unsaved.due_changed = self._dispatcher.dangers.due_changed
            self._dispatcher.dangers.look()
        if taken is not None and taken.is_poison:
            self._registry.park(worker, text_of_poison(found.run, taken))
            return worker
        if taken is not None:
            worker.taken_over = TakenOver(worker, taken)
        if first is not None:
            self._dispatcher.guard(worker, first, worker)
        self._dispatcher.guard(worker, worker.turn)
        if worker.taken_over is not None:
            worker.taken_over.note_deaths()  # also if it has crashed just now: the next worker would not know of them
        self._registry.cancel_orphans(worker)
        return worker

    @staticmethod
    def _taken_over(worker: Worker, owned: RunRecord | None, *, was_parked: bool) -> Takeover | None:
        """Return what the log of a run that was acquired has to note before something of it starts."""
        is_at_rest = worker.is_idle and not worker.owes_notice and worker.options.checkpoints.takes_input_first
        if owned is None or is_at_rest:  # under other strategies the log may not know of what was in flight
            return None
        was_parked = was_parked or owned.status == "parked"
        return takeover(worker.run.memory.log, owned.died_in, was_parked=was_parked)

    async def visit(self, run: str, call: Callable[[Worker], Awaitable[T]]) -> T:
        """
        Call a function with the worker of *run*; if the run is not here, with a temporary worker that only writes.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
        """
        return await shielded(self._registry.change(run, partial(self._visit, run, call)))

    async def _visit(self, run: str, call: Callable[[Worker], Awaitable[T]]) -> T:
        await self._registry.supervisor.restarted(run)  # a worker that crashed writes nothing more, the next one does
        here, sleepers = self._registry.get(run), self._registry.sleepers
        if here is not None:
            return await call(here)
        owned = await self._ownership.acquire(run)
        async with self._ownership.freeing([run]) as free:
            if run in sleepers:  # it sleeps on here, unless it is finished now
                free.clear()
                sleepers.disown(run)
            loaded = await self._ownership.load(run, owned)
            found = await loaded.recover(self._definitions.finder(None), context={}, strict=False, goes_on=False)
            self._dispatcher.check_open()
            visitor = Worker(self._dispatcher, found.run, RunOptions(), self._registry, _unsaved(found))
            try:
                return await call(visitor)
            finally:
                self._dispatcher.residency.forget(visitor)
                if visitor.state in FINISHED:
                    sleepers.woken(run)
                    free.add(run)

    async def rebuild(self, worker: Worker) -> None:
        """Write the unsaved events of a crashed *worker*, and load its run from the store again."""
        if self._registry.get(worker.id) is worker and worker.accepts:
            await self.write(worker)
            if not worker.has_left:  # else there was only its end to write
                was_parked = worker.state == "parked"
                await self._take_over(
                    worker.id, worker.run.workflow, worker.options, strict=False, was_parked=was_parked, graph="any"
                )

    async def write(self, worker: Worker) -> None:
        """Write the unsaved events of *worker*, which is about to be replaced."""
        if worker.lost is None:
            worker.checkpoint()
            await self._waiters.durable(worker, len(worker.run.memory.log))


def restored_options(run: Run, options: RunOptions, dispatcher: Dispatcher) -> RunOptions:
    """
    Return *options* over those that *run* was started with.

    Raises:
        InvalidOption: *dispatcher* does not have the executor.
    """
    options = options.restored(getattr(run.memory.log[0], "options", None))
    if options.executor not in dispatcher.queues:
        raise InvalidOption(
            f"run {run.id!r} was started with executor={options.executor!r}, and this runner has only "
            f"{', '.join(map(repr, dispatcher.queues))}; pass Runner(executors=...), or resume(executor=...)"
        )
    return options


def _unsaved(found: Recovered) -> UnsavedLog:
    stored = found.record
    return UnsavedLog(
        found.run,
        epoch=stored.epoch,
        stored=stored.head,
        link=stored.chain,
        status=stored.status,
        wake_at=stored.wake_at,
        created_at=stored.created_at,
    )
