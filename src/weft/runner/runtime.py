"""
The parts of a runner: its store, its dispatcher with the executors, its registry of runs, and the callers that wait.

    new ──open──► open ──close──► closing ──► closed
                  │  ▲               │
                  └──┘ runs start    └── it could not be finished: another close() continues it

All parts are opened together and closed together, in an order in which nothing is lost: first nothing more starts, then
attempts in flight end, then everything is written, and the store is closed last.  Opening and closing are each one task
that every caller joins, and that continues if a caller is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from weft.errors import (
    RunnerClosed,
    UnwrittenEvents,
    WaitTimeout,
)
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor
from weft.ports.scheduler import Scheduler
from weft.ports.store import LogStore, RunRecord
from weft.runner import collector
from weft.runner.collector import Thresholds
from weft.runner.deadline import Deadline
from weft.runner.durability.ownership import Ownership
from weft.runner.durability.store_spans import spanned
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.streams import StreamHub
from weft.runner.execution.worker import Worker
from weft.runner.registry.bulk_resume import BulkResume
from weft.runner.registry.bulk_start import BulkStart
from weft.runner.registry.children import ChildRuns, Given, OtherDatabases
from weft.runner.registry.continuation import Continuation
from weft.runner.registry.creation import RunCreator
from weft.runner.registry.definitions import Definitions
from weft.runner.registry.loading import RunLoader
from weft.runner.registry.lookup import RunLookup
from weft.runner.registry.mailbox import Mailbox
from weft.runner.registry.recent_runs import RecentRuns
from weft.runner.registry.registry import RunRegistry
from weft.runner.registry.run_table import RunTable
from weft.runner.registry.sleepers import Sleepers
from weft.runner.registry.supervisor import Supervisor
from weft.runner.waiting.changes import Changes
from weft.runner.waiting.diagnosis import diagnose
from weft.runner.waiting.waiters import Waiters
from weft.shield import shielded
from weft.telemetry.levels import forget, watch

if TYPE_CHECKING:
    from weft.runner.runner import AsyncRunner

T = TypeVar("T")
_log = logging.getLogger("weft.runner")


MOST_WATCHED: Final = 1024
"""Of how many runs that are not here the last record is remembered."""


@dataclass(frozen=True)
class RuntimeParts:
    """The parts that only the runner of a fleet has; a runner that is alone has none of them."""

    has_workers: bool = False
    """Whether other processes claim the runs that no process drives."""
    sleepers: Callable[[Runtime], Sleepers] | None = None
    """Makes what knows the runs that only wait, once the registry is there."""
    other_databases: OtherDatabases | None = None
    """Starts children in other databases."""
    told: Callable[[Worker], object] | None = None
    """Called with a worker whose run has left, or has nothing left to do."""
    may_start: Callable[[], bool] | None = None
    """Whether attempts may start now."""
    spreads: Callable[[Worker, InFlight], bool] | None = None
    """Whether any worker may run what has a queue."""


class _Stop:
    """A run that is being stopped."""

    __slots__ = ("deadline", "task")

    def __init__(self, task: asyncio.Task[None], deadline: Deadline) -> None:
        self.task, self.deadline = task, deadline


class Runtime:
    """The parts of a runner, and their opening and closing."""

    def __init__(
        self,
        runner: AsyncRunner,
        store: LogStore,
        executors: Mapping[str, Executor],
        clock: Clock,
        counters: Counters,
        grace: float,
        given: Given,
        thresholds: Thresholds | Literal["auto"] | None,
        resident: int,
        scheduler: Scheduler | None = None,
        memory_budget: int | None = None,
        parts: RuntimeParts = RuntimeParts(),  # noqa: B008 - it is frozen
    ) -> None:
        """
        Create the parts of *runner*; :meth:`open` opens them.

        Args:
            given: checks the options of children.
            grace: how many seconds what is in flight gets to end when it is stopped.
            thresholds: those of the garbage collector while it is open; "auto" if the number of live runs decides.
            resident: how many runs that only wait stay in memory.
            scheduler: groups runnables; each goes out by itself if not given.
            memory_budget: how many bytes of values stay in memory where they need not be; None for any number.
            parts: what it has of a fleet.
        """
        self.executors = executors
        self._store, self._grace, self._thresholds = store, grace, thresholds
        self._owns_store = False
        self._opening: asyncio.Task[None] | None = None
        self._openers = 0
        """How many callers have opened it, or wait until it is open."""
        self._closing: asyncio.Task[None] | None = None
        self._deadline: Deadline | None = None
        """The time until which work in flight may end, once the runner is being closed."""
        self._stops: dict[str, _Stop] = {}
        """By run: its stop, which every caller joins."""
        self._graces: set[Deadline] = set()
        """The deadlines of all runs that are being released."""
        self._is_spent = False
        self._closers = 0
        """How many callers wait until it is closed."""
        self._watched: dict[str, RunRecord] = {}
        """By run that is not here and is waited for: its record, as it was last seen."""
        self._is_told = False
        """Whether a caller of :meth:`close` knows what could not be written."""
        self.has_workers = parts.has_workers
        """Whether other processes claim the runs that no process drives."""
        table, recent = RunTable(), RecentRuns(_uncount)
        self.dispatcher = Dispatcher(
            store=store,
            executors=executors,
            clock=clock,
            counters=counters,
            worker_of=table.get,
            drop_finished=recent.drop_oldest,
            scheduler=scheduler,
            memory_budget=memory_budget,
            may_start=parts.may_start,
            spreads=parts.spreads,
        )
        """Shared by all workers."""
        self.ownership = Ownership(store, self.is_open, self.may_wait, table.has, clock.time)
        self.waiters = Waiters(clock.time)
        self.definitions = Definitions()
        self.changes = Changes(store)
        shared = (self.ownership, self.waiters, self.dispatcher)
        self.registry = RunRegistry(table, recent, *shared, parts.told)
        self.loader = RunLoader(self.registry, self.definitions, *shared)
        self.creator = RunCreator(self.registry, self.loader, self.definitions, *shared)
        self.continuation = Continuation(self.registry, *shared)
        self.lookup = RunLookup(
            self.registry,
            self.loader,
            self.continuation,
            self.ownership,
            self.waiters,
            is_open=self.is_open,
            check_open=self.check_open,
        )
        self.bulk_start = BulkStart(self.registry, self.creator, self.waiters, self.ownership)
        self.bulk_resume = BulkResume(
            self.registry,
            self.loader,
            self.ownership,
            clock.time,
            lambda: self.ownership.writes_in_a_thread and self.dispatcher.journal.is_writing,
        )
        self.table = table
        """The runs that are here."""
        self.sleepers = self._usual_sleepers(resident) if parts.sleepers is None else parts.sleepers(self)
        self.mailbox = Mailbox(store, self.registry, self.loader, self.registry.waking, clock.time, self.may_wait)
        self.streams = StreamHub(store, self.dispatcher.journal, clock.time, table.in_flight)
        self.children = ChildRuns(
            runner,
            self.registry,
            self.creator,
            self.loader,
            self.waiters,
            self.mailbox,
            given,
            self.streams,
            parts.other_databases,
            runner._until_finished,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        )
        self._connect()
        self.dispatcher.residency.check()

    def _usual_sleepers(self, resident: int) -> Sleepers:
        return Sleepers(
            self.table,
            resident,
            self.dispatcher.timers,
            self.dispatcher.clock.time,
            put_to_sleep=self.registry.put_to_sleep,
            bring_back=self.bulk_resume.together,
        )

    def _connect(self) -> None:
        """
        Give the registry and the dispatcher the parts that were made of them.

        These are the cycles that are left.  The registry is notified of what happens to a run, and some of it makes it
        load, release or continue a run: a worker that has crashed is rebuilt, a run that waits is put to sleep and
        brought back, a message brings a run in, a cancelled one cancels its children, and a long one is continued.
        And a step that runs at the dispatcher may start a child, which is a run.
        """
        self.registry.connect(
            supervisor=Supervisor(self.loader.rebuild, self.registry.park),
            sleepers=self.sleepers,
            mailbox=self.mailbox,
            children=self.children,
            quiet=self.continuation.look_at,
        )
        self.dispatcher.step_runner = self.children

    @property
    def store(self) -> LogStore:
        """Where the runs are."""
        return self._store

    # -- opening and closing ---------------------------------------------------------------------

    def is_open(self) -> bool:
        """Whether runs can come in."""
        return self.dispatcher.is_open and not self.dispatcher.is_closing

    def may_wait(self) -> bool:
        """Whether an unavailable store is worth waiting for: the runner is open, or has time left to close."""
        return self.is_open() or (self._deadline is not None and not self._deadline.is_past)

    def check_open(self) -> None:
        """
        Refuse to do anything unless the runner is open.

        Raises:
            RunnerClosed: it is not.
        """
        self.dispatcher.check_open()

    async def open(self) -> None:
        """
        Open the store and get ready; do nothing if it is open already.

        Raises:
            StoreError: the store cannot be used.
            RunnerClosed: it was closed before.
        """
        if self._is_spent or self._closing is not None:
            raise RunnerClosed(again=True)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="weft-open")
        opening = self._opening
        self._openers += 1
        try:
            await shielded(opening)
        except BaseException:
            self._openers -= 1
            if opening.done() and (opening.cancelled() or opening.exception() is not None):
                if self._opening is opening:
                    self._opening = None  # it may be tried again
            elif not self._openers and self._closing is None:  # no caller is left that would close it
                self._begin_to_close(0.0)
            raise

    async def _open(self) -> None:
        if not self._store.is_open:
            await spanned(self._store, "open", [], self.dispatcher.clock.time, self._store.open)
            self._owns_store = True
        try:
            self.children.open()
            self.streams.open()
            self.dispatcher.open()
            self.ownership.open()
            await self.mailbox.open()
        except BaseException:
            if self._owns_store:
                self._owns_store = False
                await self._store.close()
            raise
        watch(self.registry)
        if self._thresholds == "auto":
            self.registry.collector.open()
        elif isinstance(self._thresholds, tuple):
            collector.hold(self._thresholds)

    async def close(self, grace: float | None = None) -> None:
        """
        Start nothing more, let steps in flight end, write everything, and release all runs.

        A second caller joins the first; the shorter *grace* applies to both.

        Raises:
            UnwrittenEvents: the store stayed unavailable until the grace time was over.
        """
        if self._opening is None:
            return
        closing = self._closing
        if closing is None or (closing.done() and not self._is_spent):
            closing = self._begin_to_close(self._grace if grace is None else grace)
        elif grace is not None and self._deadline is not None:
            self._deadline.hurry(grace)
        if self._is_told:
            return
        self._closers += 1
        try:
            await shielded(closing)
        except UnwrittenEvents:
            self._is_told = self._is_spent
            raise
        finally:
            self._closers -= 1

    def _begin_to_close(self, grace: float) -> asyncio.Task[None]:
        self._deadline = Deadline(grace)
        self._closing = asyncio.get_running_loop().create_task(self._close(self._deadline), name="weft-close")
        self._closing.add_done_callback(self._closed)
        return self._closing

    def _closed(self, closing: asyncio.Task[None]) -> None:
        if not closing.cancelled() and (error := closing.exception()) is not None and not self._closers:
            _log.error("closing a runner failed, and no caller waits for the error: %s", error)

    async def _close(self, deadline: Deadline) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
        dispatcher = self.dispatcher
        if not dispatcher.is_open:
            self._is_spent = True
            return
        dispatcher.is_closing = True
        self.changes.close()
        await self.mailbox.close()
        asleep = await self.sleepers.close()
        dispatcher.timers.close()
        await dispatcher.dangers.close()
        dispatcher.residency.close()
        self.registry.supervisor.close()
        self.children.close()
        workers = list(self.registry)
        await self._finish_attempts(dispatcher, workers, deadline)
        self.waiters.drop_calls()
        for grace in self._graces:
            grace.hurry(0.0)
        for worker in workers:
            worker.abandon()
            worker.checkpoint()
        await self.streams.close()
        await dispatcher.journal.close(deadline)
        self.waiters.close()
        await self.registry.shielded.ended()
        unwritten = {worker.id: worker.unwritten for worker in workers if worker.unwritten}
        reasons = (worker.lost for worker in workers if worker.unwritten)
        try:
            if self._owns_store:  # closing it gives up all runs
                await spanned(self._store, "close", [], dispatcher.clock.time, self._store.close)
            else:
                await self.ownership.release_all([*(worker.id for worker in workers), *asleep])
        except Exception as error:
            if unwritten:
                raise UnwrittenEvents(unwritten, next(reasons)) from error
            raise
        forget(self.registry)
        self.registry.clear()
        self.ownership.close()
        dispatcher.is_open, self._is_spent = False, True
        self.registry.collector.close()
        if isinstance(self._thresholds, tuple):
            collector.release(self._thresholds)
        if unwritten:
            raise UnwrittenEvents(unwritten, next(reasons))

    async def _finish_attempts(self, dispatcher: Dispatcher, workers: Sequence[Worker], deadline: Deadline) -> None:
        """Start nothing more, and let attempts in flight end until the *deadline*; the outcomes until then are kept."""
        for worker in workers:
            worker.begin_leaving()
            worker.stop()
        closing = [asyncio.ensure_future(executor.close(deadline.left)) for executor in self.executors.values()]
        if not await deadline.wait(closing):  # executors do not know of a deadline that is brought forward
            dispatcher.collect()
            for worker in workers:
                worker.abandon()
        await asyncio.gather(*closing)
        dispatcher.collect()
        await self.waiters.called(workers, deadline)

    # -- waiting for runs ------------------------------------------------------------------------

    async def in_time(self, run: str, timeout: float, work: Awaitable[T]) -> T:
        """
        Await *work*, which is about *run*.

        Raises:
            WaitTimeout: it took longer than *timeout* seconds.
        """
        wait = asyncio.timeout(timeout)
        try:
            async with wait:
                return await work
        except TimeoutError:
            if not wait.expired():
                raise
        raise self.timed_out(run, timeout)

    def timed_out(self, run: str, timeout: float) -> WaitTimeout:
        """Return the error for a caller that has waited *timeout* seconds for *run*."""
        worker = self.registry.get(run)
        watched = self._watched.get(run)
        if worker is None and watched is not None:
            return self._timed_out_elsewhere(watched, timeout)
        if worker is None:
            return WaitTimeout(run, timeout, "unknown", "the store has not said whether it has the run")
        why = diagnose(worker, is_calling=self.waiters.is_calling(worker))
        return WaitTimeout(run, timeout, worker.state, why)

    def watched(self, stored: RunRecord) -> None:
        """A caller waits for a *stored* run that is not here: log once if no process drives it."""
        before = self._watched.pop(stored.id, None)
        self._watched[stored.id] = stored
        if len(self._watched) > MOST_WATCHED:
            del self._watched[next(iter(self._watched))]
        if stored.owner is None and not self.has_workers and (before is None or before.owner is not None):
            died = ", since the one that did has died" if stored.owner_died else ""
            _log.warning(
                "run %r is %s and no process drives it%s, so waiting for it may take for ever; resume(%r) it",
                *(stored.id, stored.status, died, stored.id),
            )

    def _timed_out_elsewhere(self, stored: RunRecord, seconds: float) -> WaitTimeout:
        """Return the error for a caller that has watched a *stored* run, which is not here."""
        died = ", since the one that did has died" if stored.owner_died else ""
        nothing = f"no process drives it{died}, and resume({stored.id!r}) continues it with what it was sent"
        if self.has_workers:
            died = ", since the process that had it has died" if stored.owner_died else ""
            nothing = f"no worker has it now{died}: is one running that knows its workflow and its queue?"
        why = nothing if stored.owner is None else f"{stored.owner} drives it"
        return WaitTimeout(stored.id, seconds, stored.status, why, is_here=False)

    # -- releasing them ----------------------------------------------------------------------------

    async def stop(self, run: str, *, persist: bool = True, grace: float | None = None) -> None:
        """
        Release *run*, after attempts in flight have had their *grace* time; that uses up no attempt.

        A second caller joins the first; the shorter *grace* applies to both.

        Args:
            persist: whether to write the events since the last checkpoint; if several callers stop the run, the choice
                of the first one counts.

        Raises:
            StoreError: not all events could be written; the run is released nevertheless.
        """
        if await self.lookup.held(run) is None:
            if self.registry.is_asleep(run):
                await shielded(self.registry.change(run, partial(self._stop, run, Deadline(0.0), persist=True)))
            return
        stop = self._stops.get(run)
        if stop is None:
            stop = self._begin_to_stop(run, persist=persist, grace=self._grace if grace is None else grace)
        elif grace is not None:
            stop.deadline.hurry(grace)
        await shielded(stop.task)

    def _begin_to_stop(self, run: str, *, persist: bool, grace: float) -> _Stop:
        deadline, worker = Deadline(grace), self.registry.get(run)
        if worker is not None and not worker.has_crashed and not self.registry.is_locked(run):
            _withdraw(worker, persist=persist)  # at once: the caller may be a step of this run
        task = self.registry.change(run, partial(self._stop, run, deadline, persist=persist))
        stop = self._stops[run] = _Stop(task, deadline)
        task.add_done_callback(lambda _: self._stops.pop(run, None))
        return stop

    async def _stop(self, run: str, deadline: Deadline, *, persist: bool) -> None:
        await self.registry.supervisor.restarted(run)
        worker = self.registry.get(run)
        if worker is not None:  # else it has left meanwhile
            await self._let_go(worker, deadline, persist=persist)
        elif self.registry.is_asleep(run):
            self.sleepers.woken(run)
            await self.ownership.release([run])

    async def delete(self, run: str) -> None:
        """
        Delete the stored *run*; a run that is here is stopped first.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
        """
        self.check_open()
        await shielded(self.registry.change(run, partial(self._delete, run)))

    async def _delete(self, run: str) -> None:
        await self._stop(run, Deadline(self._grace), persist=True)
        self.registry.recent.forget(run)
        await self.ownership.delete(run)

    async def _let_go(self, worker: Worker, deadline: Deadline, *, persist: bool) -> None:
        in_flight = _withdraw(worker, persist=persist)
        self._graces.add(deadline)
        try:
            if in_flight:
                over = self.waiters.nothing_in_flight(worker)
                if not await deadline.wait([over]):
                    over.cancel()
                    worker.dispatcher.collect()  # what ends in the last moment counts
            await self.waiters.called([worker], deadline)
            worker.abandon()
            if persist and worker.lost is None:  # else all callers know why nothing can be written
                worker.checkpoint()
                await self.lookup.written(worker)
        except (Exception, asyncio.CancelledError):  # it is dropped all the same
            await self.registry.leave(worker)
            raise
        finally:
            self._graces.discard(deadline)
        await self.registry.leave(worker)


def _uncount(worker: Worker) -> None:
    """Stop counting the values of *worker*: its run has finished, and is not kept."""
    worker.dispatcher.residency.forget(worker)


def _withdraw(worker: Worker, *, persist: bool) -> list[InFlight]:
    """Let *worker* start and accept nothing more; return its attempts that executors have."""
    worker.begin_leaving()
    if not persist:
        worker.forget()
    return worker.stop()
