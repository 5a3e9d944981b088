"""
The runner of a worker: drives runs that it has claimed, and lets go of those that have nothing to do.

    free and due ──claimed──► here ──finished──► (no row in the queue)
                                │ └── only waits, idle, parked ──► released
                                └── another process has taken it over ──► dropped
    claimed and this process cannot continue it ──► deferred: free, due a little later
    finished, and has messages ──► they are taken from the inbox, or retry the run

It is an :class:`AsyncRunner`, with another choice of what stays in memory, and it starts attempts only while the store
is sure of its lease.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from weft.core.workflow import Workflow
from weft.errors import OwnershipLost, StoreError
from weft.fleet import decisions
from weft.fleet.resting import Resting, is_resting
from weft.ports.clock import Clock
from weft.ports.executor import Executor
from weft.ports.queue import QUEUE, QueueStore
from weft.ports.store import FINISHED, Append, InboxStore, LogStore, RunRecord
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.execution.worker import Worker
from weft.runner.runner import AsyncRunner

_log = logging.getLogger("weft.fleet")


class FleetStore(LogStore, InboxStore, QueueStore, Protocol):
    """The store of a fleet."""


class FleetRunner(AsyncRunner):
    """
    Drives runs of *workflows* that it claims from *store*.

    Args:
        queues: where it claims.
        concurrency: how many runs may be active at once; those that wait do not count.
        left: called when a run has left, so that there may be room for another.
    """

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
        threads: int | None = None,
        executor: str = "thread",
        executors: Mapping[str, Executor] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            store, context=context, grace=grace, threads=threads, executor=executor, executors=executors, clock=clock
        )
        self._queue_store, self._queues, self._concurrency, self._has_left = store, tuple(queues), concurrency, left
        self.register(*workflows)
        self._names = sorted({(each.name, each.version) for each in workflows})
        runtime, registry = self._runtime, self._registry
        time = runtime.dispatcher.clock.time
        self._resting = Resting(
            registry, runtime.ownership, runtime.bulk_resume, runtime.dispatcher.timers, time, self._has_left
        )
        runtime.sleepers = registry.sleepers = self._resting
        runtime.has_workers = registry.is_shared = True
        registry.told = self._told_of
        runtime.dispatcher.start_only_while(lambda: store.is_sure)

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

    def go_on(self) -> None:
        """Start what was held back while the lease was not certain."""
        self._runtime.dispatcher.wake()

    async def claim(self, *, is_asked: bool) -> bool | None:
        """
        Claim as many runs as there is room for, and continue them; return whether there may be more, None without room.

        Raises:
            StoreUnavailable: not now.
        """
        limit = decisions.room(self.active, self._concurrency, is_asked=is_asked)
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
        refused = await self._registry.shielded.finish(self._runtime.bulk_resume.claimed(live, self._options))
        for record in claimed:
            if record.status in FINISHED and not await self._has_read(record):
                refused.append(record.id)
        if refused:
            await self._again(partial(self._queue_store.defer, refused, decisions.DEFERRED))

    async def _has_read(self, record: RunRecord) -> bool:
        """Let a finished run that was claimed have its messages; return False if that has failed."""
        try:
            if record.status == "failed":
                await self._runtime.mailbox.look_after(record.id, self._options)
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
