"""
The runs that are in a runner: their workers by run, their locks, and their notifications.

    (not here) ──created──► undecided ──stored──► here ──stop──► leaving ──► (not here)
                               │                  ▲  │ ▲                         ▲
                               └── it exists ─────┼──┼─┼─────────────────────────┘
    (not here) ──resume, resume_all──► loading ───┘  └─┘ rebuilt after a crash

Runs come in by :mod:`.creation` and :mod:`.loading`, and one takes the place of another by :mod:`.continuation`.

Invariants:

1. A run has at most one worker, and is created, loaded or released by one task at a time: its lock is held from the
   first call of the store to the last, even if the caller is cancelled in between.
2. A run that is being stopped accepts nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

from weft.errors import RunExists, UniqueKeyTaken
from weft.ports.store import RunRecord
from weft.runner.collector import CollectorWatch
from weft.runner.durability.ownership import Ownership
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions
from weft.runner.registry.keyed_lock import HeldLock, KeyedLock
from weft.runner.registry.recent_runs import RecentRuns
from weft.runner.registry.run_table import RunTable
from weft.runner.registry.shielded_tasks import ShieldedTasks
from weft.runner.registry.supervisor import Supervisor
from weft.runner.registry.waking import Waking
from weft.runner.waiting.waiters import Waiters
from weft.telemetry.levels import Levels

T = TypeVar("T")
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

    def owned(self, run: str) -> RunRecord | None:
        """Return what is known of the record of *run*, if it is asleep and is not to be acquired again."""
        ...

    def disown(self, run: str) -> None:
        """*run* was acquired by another caller, and may be asleep: it is acquired again before it is loaded."""
        ...

    def forget(self, worker: Worker) -> None:
        """*worker* has left."""
        ...

    def kept(self, run: str) -> AbstractContextManager[None]:
        """Keep *run* in memory, once it is there, as long as this context lasts."""
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

    supervisor: Supervisor
    """Decides what follows when a worker crashes."""
    sleepers: WaitingRuns
    """The runs that are here and not in memory, and those that may leave it."""
    _children: Children
    _mailbox: Inbox
    _quiet: Callable[[Worker], object]

    def __init__(
        self,
        table: RunTable,
        recent: RecentRuns,
        ownership: Ownership,
        waiters: Waiters,
        dispatcher: Dispatcher,
        told: Callable[[Worker], object] | None,
    ) -> None:
        """
        Keep the workers that are in *table* and share *dispatcher*; :meth:`connect` has to follow.

        Args:
            told: called with a worker whose run has left, or has nothing left to do.
        """
        self._ownership, self._waiters, self._dispatcher = ownership, waiters, dispatcher
        self._table, self._workers, self._told = table, table.workers, told
        self.collector = CollectorWatch()
        """Told when there are many live runs, and few again."""
        self.recent = recent
        """Runs that have finished here, for callers that ask right after."""
        self._residency = dispatcher.residency
        self._locks = KeyedLock()
        self.shielded = ShieldedTasks()
        self.waking = Waking(ownership, dispatcher, self.shielded)

    def connect(
        self,
        *,
        supervisor: Supervisor,
        sleepers: WaitingRuns,
        mailbox: Inbox,
        children: Children,
        quiet: Callable[[Worker], object],
    ) -> None:
        """
        Take the parts that need the registry, before the first run comes in.

        Args:
            mailbox: told of a run that was brought back, and may have messages.
            children: told of a cancelled run that was brought back before its children were cancelled.
            quiet: called when a run that may be continued as a new one has nothing to do, or only waits.
        """
        self.supervisor, self.sleepers = supervisor, sleepers
        self._mailbox, self._children, self._quiet = mailbox, children, quiet

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._table)

    def look_for_dangers(self) -> None:
        """Runs that were not loaded may have deadlines: ask the store for them."""
        self._dispatcher.dangers.look()

    def __contains__(self, run: object) -> bool:
        return run in self._workers

    def has(self, run: str) -> bool:
        """Whether *run* is here, in memory or asleep."""
        return self._table.has(run)

    def has_only(self, runs: Mapping[str, object]) -> bool:
        """Whether all runs here are among *runs*; many are not looked through."""
        here = self._workers
        return len(here) <= _LOOKED_THROUGH and here.keys() <= runs.keys()

    def get(self, run: str) -> Worker | None:
        """Return the worker of *run*, if it is here."""
        return self._workers.get(run)

    def add(self, worker: Worker) -> None:
        """Let *worker* drive its run, which is a new one and locked."""
        self._workers[worker.id] = worker
        if len(self._workers) >= self.collector.many:
            self.collector.grown()

    def put(self, worker: Worker) -> None:
        """Let *worker* drive its run from now on, in place of one that has crashed, was parked or was asleep."""
        old = self._workers.get(worker.id)
        self.add(worker)
        if old is not None:
            self._residency.forget(old)
            self._waiters.moved(old, worker)
        self.sleepers.woken(worker.id)
        self._mailbox.came_in(worker)

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

    def _remove(self, worker: Worker) -> None:
        del self._workers[worker.id]
        if len(self._workers) < self.collector.few:
            self.collector.shrunk()

    # -- coming in -------------------------------------------------------------------------------

    def drop(self, worker: Worker) -> None:
        """Remove *worker*: its run was released, or was never created."""
        if self._workers.get(worker.id) is worker:
            self._remove(worker)
        self.sleepers.forget(worker)
        self._residency.forget(worker)
        self._waiters.gone(worker)

    # -- being here ------------------------------------------------------------------------------

    def park(self, worker: Worker, reason: str) -> None:
        """Set the run of *worker* aside until a person looks at it, and tell the callers."""
        worker.park(reason)
        worker.report.parked(reason)
        self.settled(worker)

    def crashed(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*: rebuild it, or park its run."""
        self.supervisor.crashed(worker, error)

    def replace(self, worker: Worker) -> None:
        """The run of *worker*, which was parked, goes on: build the next worker of it."""
        self.supervisor.replace(worker)

    def over(self, worker: Worker) -> None:
        """The run of *worker* has finished, and was released: it leaves."""
        if self._workers.get(worker.id) is worker:
            self._remove(worker)
            worker.end(self._ownership.deletions)
            self.sleepers.forget(worker)
            self._residency.finished(worker)
            self.recent.add(worker)
            self._waiters.over(worker)
            if worker.state == "failed":
                self._mailbox.left(worker)
            if self._told is not None:
                self._told(worker)

    def wake(self, worker: Worker) -> None:
        """*worker* has something to do: load the values that it needs, and let it take its turn then."""
        self.waking.wake(worker)

    def load_history(
        self, worker: Worker, then: Callable[[], object], finally_: Callable[[], object] | None = None
    ) -> None:
        """Load the history of the run of *worker*, and call *then*."""
        self.waking.load_history(worker, then, finally_)

    def settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do: tell the callers, unless it has been replaced."""
        if self._workers.get(worker.id) is worker:
            if isinstance(worker.lost, RunExists | UniqueKeyTaken):  # it has never been here
                self._remove(worker)
                if worker.acknowledged:  # it has failed, and was to be retried
                    _log.warning("run %r is not retried: %s", worker.id, worker.lost)
                    self.shielded.start(self._ownership.release([worker.id]))
            self._waiters.settled(worker)
            if self._told is not None:
                self._told(worker)
            if worker.options.continue_after is not None:
                self._quiet(worker)

    # -- waiting ---------------------------------------------------------------------------------

    def waits(self, worker: Worker) -> None:
        """*worker* only waits, and all of it is stored: its run, or another one, may leave memory."""
        if self._workers.get(worker.id) is worker:
            self.sleepers.add(worker)
            if worker.options.continue_after is not None:
                self._quiet(worker)

    def put_to_sleep(self, worker: Worker) -> bool:
        """Remove *worker*, which only waits, from memory, but keep its run owned; return False if a caller waits."""
        is_here = self._workers.get(worker.id) is worker and not self._locks.is_locked(worker.id)
        if not is_here or self._waiters.is_awaited(worker):
            return False
        self._remove(worker)
        self._residency.forget(worker)
        worker.sleep()
        worker.report.evicted()
        return True

    def is_asleep(self, run: str) -> bool:
        """Whether *run* is here, and not in memory."""
        return run in self._table.asleep

    def kept(self, run: str) -> AbstractContextManager[None]:
        """Keep *run* in memory, once it is there, as long as this context lasts."""
        return self.sleepers.kept(run)

    async def awaken(self, runs: Iterable[str]) -> None:
        """Bring *runs* back into memory, those of them that are asleep."""
        await self.sleepers.awaken(runs)

    def cancel_orphans(self, worker: Worker) -> None:
        """Cancel the children of the run of *worker*, if it is cancelled and they are not yet."""
        if worker.orphans:
            self._children.orphaned(worker)

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
        levels.add_resident_bytes(self._residency.bytes)

    # -- leaving ---------------------------------------------------------------------------------

    async def leave(self, worker: Worker) -> None:
        """Release a run that has been stopped."""
        self.drop(worker)
        await self._ownership.release([worker.id])

    def clear(self) -> None:
        """Remove all runs: the runner is closed."""
        self._workers.clear()
