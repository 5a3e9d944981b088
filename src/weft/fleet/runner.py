"""
The runner of a worker: drives runs that it has claimed, and releases those that have nothing to do.

    free and due ──claimed──► here ──finished──► (no row in the queue)
                                │ └── only waits, idle, parked ──► released
                                └── another process has taken it over ──► dropped
    claimed and this process cannot continue it ──► deferred: free, due a little later
    finished, and has messages ──► they are taken from the inbox, or retry the run

It is an :class:`AsyncRunner`, with another choice of what stays in memory, and it starts attempts only while the store
is sure of its lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from weft.core.run.runnable import Runnable
from weft.core.workflow import Workflow
from weft.errors import OwnershipLost, StoreError
from weft.fleet import decisions
from weft.fleet.limits import SharedCounters
from weft.fleet.resting import Resting, is_resting
from weft.fleet.schedules import schedule_loop
from weft.fleet.spread.executor import QueueExecutor, Route
from weft.fleet.spread.frames import Kinds
from weft.fleet.spread.server import TaskServer
from weft.log.known_types import known_types
from weft.ports.clock import Clock
from weft.ports.deadlines import Endangered
from weft.ports.executor import Executor
from weft.ports.limits import LimitStore
from weft.ports.queue import QUEUE, QueueStore
from weft.ports.schedules import ScheduleStore
from weft.ports.store import FINISHED, Append, InboxStore, LogStore, RunRecord
from weft.ports.tasks import TaskStore
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.execution.dispatcher import QUEUE as QUEUE_EXECUTOR
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.worker import Worker
from weft.runner.registry.children import OtherDatabases
from weft.runner.runner import AsyncRunner
from weft.runner.runtime import Runtime, RuntimeParts

_log = logging.getLogger("weft.fleet")

TASKS: Final = 32
"""Steps of other workers that a worker executes at once, unless it is given another number."""
DRAIN_GRACE: Final = 7 * 24 * 3600.0
"""How many seconds steps in flight get to end when a worker drains, or lets a run go."""


class FleetStore(LogStore, InboxStore, QueueStore, ScheduleStore, LimitStore, TaskStore, Protocol):
    """The store of a fleet."""


class FleetRunner(AsyncRunner):
    """
    Drives runs of *workflows* that it claims from *store*.

    Args:
        queues: where it claims.
        concurrency: how many runs may be active at once; those that wait do not count.
        left: called when a run has left, so that there may be room for another.
        lease: for how many seconds places of limits are taken.
        tasks: how many steps of other workers are executed at once.
        snapshot_every: after how many of its events a snapshot of a run is written; None for never.
    """

    _resting: Resting

    def __init__(
        self,
        store: FleetStore,
        workflows: Iterable[Workflow[Any, Any]],
        *,
        queues: Collection[str] = (QUEUE,),
        concurrency: int = 256,
        left: Callable[[], object] = lambda: None,
        context: Mapping[str, Any] | None = None,
        grace: float = 10.0,
        snapshot_every: int | None = None,
        threads: int | None = None,
        executor: str = "thread",
        executors: Mapping[str, Executor] | None = None,
        clock: Clock | None = None,
        lease: float = 10.0,
        tasks: int = TASKS,
        other_databases: OtherDatabases | None = None,
    ) -> None:
        self.limits = SharedCounters(
            store,
            lease=lease,
            now=lambda: self._runtime.dispatcher.monotonic(),  # noqa: PLW0108 - it is known later
            is_sure=lambda: store.is_sure,
        )
        """The limits of its steps, which it shares with all workers while its task runs."""
        self._queue_store, self._queues, self._concurrency, self._has_left = store, tuple(queues), concurrency, left
        self._other_databases = other_databases
        super().__init__(
            store,
            context=context,
            grace=grace,
            snapshot_every=snapshot_every,
            threads=threads,
            executor=executor,
            executors={
                **(executors or {}),
                QUEUE_EXECUTOR: QueueExecutor(store, self._route, poll=decisions.poll(lease)),
            },
            clock=clock,
            counters=self.limits,
        )
        self._own_grace = grace
        workflows = list(workflows)
        self._going: dict[str, asyncio.Task[None]] = {}
        """Runs that are being released, so that other workers have them."""
        self.register(*workflows)
        self.schedule_loop = schedule_loop(
            store, store, self._runtime, self._usual.options, {each.name: each for each in workflows}, self.cancel
        )
        """Fires the schedules of its workflows while it runs."""
        self._names = sorted({(each.name, each.version) for each in workflows})
        self._served = frozenset(self._names)
        self._kinds: dict[tuple[str, str], Kinds] = {}
        """By workflow and version: the classes of its values."""
        self.tasks = TaskServer(
            store,
            workflows,
            queues=self._queues,
            slots=tasks,
            context=context,
            is_sure=lambda: store.is_sure,
            lease=lease,
        )
        """Executes steps of other workers while its task runs."""

    def _parts(self) -> RuntimeParts:
        return RuntimeParts(
            has_workers=True,
            sleepers=self._rest_in,
            other_databases=self._other_databases,
            told=self._told_of,
            may_start=lambda: self._queue_store.is_sure,
            spreads=self._spreads,
        )

    def _rest_in(self, runtime: Runtime) -> Resting:
        """Return what releases the runs of *runtime* that have nothing to do."""
        self._resting = Resting(runtime, self._has_left)
        return self._resting

    @property
    def is_sure(self) -> bool:
        """Whether no other worker can take its runs now."""
        return self._queue_store.is_sure

    @property
    def active(self) -> int:
        """How many of its runs have something to do."""
        return len(list(self._registry)) - len(self._resting)

    def _told_of(self, worker: Worker) -> None:
        """The run of *worker* has left, is at rest, or was taken over."""
        if isinstance(worker.lost, OwnershipLost):
            _log.warning("run %r was taken over by another process, and is dropped here", worker.id)
            self._registry.drop(worker)
        elif is_resting(worker):
            self._resting.add(worker)
        self._has_left()

    # -- steps that any worker may run -------------------------------------------------------------

    def _spreads(self, worker: Worker, inflight: InFlight) -> bool:
        """
        Whether other workers can run *inflight*, whose policy names a queue.

        Not the function of a fallback, nor what has the context of one; nor a step of a workflow that was changed while
        its run was running, which no other worker has.
        """
        workflow, attempt = worker.run.workflow, inflight.attempt
        if (workflow.name, workflow.version) not in self._served:
            return False
        if attempt is None or inflight.runnable is None:
            return True
        return attempt.runnable.override is None and attempt.runnable.kwargs is inflight.runnable.kwargs

    def _route(self, runnable: Runnable) -> Route:
        """Return where *runnable* goes, as its policy says."""
        worker = self._registry.get(runnable.run_id)
        assert worker is not None  # noqa: S101 - its run is here
        policy, workflow = worker.queue.by_key[runnable.key].policy, worker.run.workflow
        assert policy is not None and policy.queue is not None  # noqa: S101, PT018 - else it would not be spread
        key = workflow.name, workflow.version
        kinds = self._kinds.get(key)
        if kinds is None:
            kinds = self._kinds[key] = known_types([workflow])
        executor = policy.executor or worker.options.executor
        return Route(policy.queue, policy.priority, worker.unsaved.epoch, *key, runnable.node.name, executor, kinds)

    async def close(self, *, grace: float | None = None) -> None:
        """Let steps of other workers end, then close the runner."""
        await self.tasks.close(self._own_grace if grace is None else grace)
        await super().close(grace=grace)

    def tell_danger(self, found: Endangered) -> None:
        """Tell that the deadline of a run that no process has is in danger; this worker was the first to find it."""
        self._runtime.dispatcher.dangers.tell(found)

    def go_on(self) -> None:
        """Start what was held back while the lease was not certain."""
        self._runtime.dispatcher.wake()

    def let_go(self, count: int) -> None:
        """Release *count* active runs, each as soon as nothing of it is in flight; other workers can have them."""
        resting = self._resting.workers()
        for worker in list(self._registry):
            if count <= 0:
                return
            if worker in resting or worker.id in self._going or not worker.accepts:
                continue
            task = asyncio.get_running_loop().create_task(self._let_go(worker.id), name="weft-let-go")
            self._going[worker.id] = task
            task.add_done_callback(partial(self._gone, worker.id))
            count -= 1

    async def _let_go(self, run: str) -> None:
        try:
            await self.stop(run, grace=DRAIN_GRACE)
        except StoreError as error:
            _log.warning("run %r was released, and not all of it could be written: %s", run, error)

    def _gone(self, run: str, _: asyncio.Task[None]) -> None:
        self._going.pop(run, None)
        self._has_left()

    async def claim(self, *, is_asked: bool, ceiling: int | None = None) -> bool | None:
        """
        Claim as many runs as there is room for, and continue them; return whether there may be more, None without room.

        Args:
            ceiling: how many runs may be active for now, if fewer than ever.

        Raises:
            StoreUnavailable: not now.
        """
        concurrency = self._concurrency if ceiling is None else min(ceiling, self._concurrency)
        limit = decisions.room(self.active, concurrency, is_asked=is_asked)
        if not limit:
            return None
        claimed = await self._queue_store.claim(limit, queues=self._queues, workflows=self._names)
        if claimed:
            await self._take(claimed)
        return len(claimed) == limit

    async def _take(self, claimed: Sequence[RunRecord]) -> None:
        for record in claimed:
            old = self._registry.get(record.id)
            if old is not None:  # another process had it meanwhile: what is here is of the past
                old.refused(OwnershipLost(record.id, record.epoch - 1, record.epoch))
                self._registry.drop(old)
        live = [record for record in claimed if record.status not in FINISHED]
        first = await self._runtime.mailbox.cancellations([record.id for record in live if record.unread])
        coming = self._runtime.bulk_resume.claimed(live, self._usual.options, first)
        refused = await self._registry.shielded.finish(coming)
        finished = [record for record in claimed if record.status in FINISHED]
        read = await asyncio.gather(*(self._has_read(record) for record in finished))
        refused += [record.id for record, has_read in zip(finished, read, strict=True) if not has_read]
        if refused:
            await self._again(partial(self._queue_store.defer, refused, decisions.DEFERRED))

    async def _has_read(self, record: RunRecord) -> bool:
        """Let a finished run that was claimed have its messages; return False if that has failed."""
        try:
            if record.status == "failed":
                await self._runtime.mailbox.look_after(record.id, self._usual.options)
            if record.id not in self._registry:
                await self._discard_messages(record.id)
        except StoreError as error:
            self._registry.supervisor.unresumable(record.id, error)
            return False
        return True

    async def _discard_messages(self, run: str) -> None:
        """Take all messages of *run*, which has finished and is owned, from its inbox, and release it."""
        store = self._queue_store
        record = await self._runtime.ownership.record(run)
        if record.status not in FINISHED:
            return
        messages = await self._again(partial(store.messages, [run]))
        for message in messages:
            _log.warning("a message (%s) for run %r came too late: it has %s", message.kind, run, record.status)
        append = Append(
            run=run,
            expected=record.head,
            epoch=record.epoch,
            count=0,
            body=b"",
            chain=record.chain,
            at=record.updated_at,
            taken=tuple(message.number for message in messages),
            release=True,
        )
        (refused,) = await self._again(partial(store.append, [append]))
        if refused is not None and not isinstance(refused, OwnershipLost):
            raise refused

    async def _again(self, call: Callable[[], Any]) -> Any:
        return await retry_while_unavailable(call, while_=self._runtime.may_wait)
