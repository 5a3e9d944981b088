"""
A worker: claims runs from one PostgreSQL and drives them, until it is told to stop.

    new ──► opening ──► working ──stop──► closing ──► stopped
              │  ▲        │  ▲  │            │
              └──┘        └──┘  │            └── a second stop: what is in flight is abandoned
           not there   anything fails: tried again, later each time
                                │
                                └──drain──► draining ──its runs are free──► drained ──resume──► opening

Nothing that fails ends a worker, except a schema that is newer than this Weft, and options that cannot be used.
A worker that drains waits for the steps in flight, however long they take, so that nothing is repeated.
See docs/adr/0045-a-fleet-that-is-told-and-moves.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from weft.core.workflow import Workflow
from weft.errors import (
    InvalidOption,
    InvalidStoreOption,
    NewerStore,
    ReadOnlyStore,
    RunnerClosed,
    StoreError,
    StoreUnavailable,
    UnwrittenEvents,
)
from weft.fleet import decisions, health
from weft.fleet import registry as known_workflows
from weft.fleet.client import AsyncClient
from weft.fleet.clock import SKEW, FleetClock
from weft.fleet.other_shards import OtherShards
from weft.fleet.runner import DRAIN_GRACE, TASKS, FleetRunner
from weft.ports.queue import QUEUE
from weft.ports.workers import Load, Served, is_drain
from weft.runner.jobs.loop import JobLoop
from weft.stores.postgres import PostgresStore
from weft.stores.postgres.presence import WorkerReport

_log = logging.getLogger("weft.fleet")

CONCURRENCY = 256
"""Runs of a worker that are active at once, unless it is given another number."""
SNAPSHOT_EVERY = 1000
"""Events between two snapshots of a run, unless a worker is given another number."""
_PAGE_GRACE = 5.0
"""Seconds that a page of a job gets to end when a worker stops; another worker goes on when its time is over."""
_UNSURE = "the database has not renewed its lease in time"
_FOR_GOOD = (NewerStore, InvalidStoreOption, InvalidOption, ReadOnlyStore)
"""Errors that trying again does not resolve."""

State = Literal["new", "opening", "working", "draining", "drained", "closing", "stopped"]


class FleetWorker:
    """
    Claims and drives runs of *workflows*, by default all that were added to ``weft.registry``.

    Args:
        dsn: ``postgresql://user:password@host:port/database``.
        queues: where it claims.
        concurrency: how many runs are active at once; those that wait do not count.
        lease: after how many seconds without a sign of life its runs are free for others.
        schema: where the tables are.
        listen_dsn: a direct address of the same server, if *dsn* goes through a transaction pooler.
        prepared: False if that pooler does not keep prepared statements.
        context: values for parameters that read ``context(key)``.
        grace: how many seconds steps in flight get to end when it is stopped.
        snapshot_every: after how many of its events a snapshot of a run is written, so that the next worker reads that
            and what came after it; None for never.
        threads: how many threads there are at most.
        tasks: how many steps of other workers, of components whose policy names a queue, it executes at once.
        health_file: a file that says every few seconds what it does; removed at its end.
        is_orphan: asked at each look; True stops the worker, since the process that supervises it is gone.
        client: returns a client of all databases of the fleet, if there are several: it starts children that are
            given an id.
        most: returns how many runs may be active now, if fewer than *concurrency*.
    """

    def __init__(
        self,
        dsn: str,
        workflows: Iterable[Workflow[Any, Any]] | None = None,
        *,
        queues: Collection[str] = (QUEUE,),
        concurrency: int = CONCURRENCY,
        lease: float = 10.0,
        schema: str = "public",
        listen_dsn: str | None = None,
        prepared: bool = True,
        context: Mapping[str, Any] | None = None,
        grace: float = 10.0,
        snapshot_every: int | None = SNAPSHOT_EVERY,
        threads: int | None = None,
        tasks: int = TASKS,
        health_file: Path | None = None,
        is_orphan: Callable[[], bool] = lambda: False,
        client: Callable[[], AsyncClient] | None = None,
        most: Callable[[], int] | None = None,
    ) -> None:
        self._workflows = list(known_workflows.workflows() if workflows is None else workflows)
        if not self._workflows:
            raise InvalidOption("a worker needs workflows: import a module that adds some to weft.registry")
        if concurrency < 1:
            raise InvalidOption(f"concurrency={concurrency!r}: use a number of runs, 1 or more")
        if tasks < 1:
            raise InvalidOption(f"tasks={tasks!r}: use a number of steps, 1 or more")
        if not queues:
            raise InvalidOption("queues=[]: a worker claims from one queue or more")
        self._make_store: Callable[[], PostgresStore] = lambda: PostgresStore(
            dsn, schema=schema, lease=lease, listen_dsn=listen_dsn, prepared=prepared, queue=next(iter(queues))
        )
        self._make_runner: Callable[[PostgresStore], FleetRunner] = lambda store: FleetRunner(
            store,
            self._workflows,
            queues=queues,
            concurrency=concurrency,
            left=self._wake,
            context=context,
            grace=grace,
            snapshot_every=snapshot_every,
            threads=threads,
            lease=lease,
            tasks=tasks,
            clock=FleetClock(store.clock.time),
            other_databases=OtherShards(store, client or self._own_client, next(iter(queues))),
        )
        self._make_client = partial(AsyncClient, [dsn], schema=schema, prepared=prepared)
        self._client: AsyncClient | None = None
        self._most = most
        self.store_name = self._make_store().name  # raises at once for options that cannot be used
        """The address of its database, without a password."""
        self._lease, self._grace, self._health, self._is_orphan = lease, grace, health_file, is_orphan
        self._queues = tuple(queues)
        self._concurrency, self._serves = concurrency, _served(queues, self._workflows)
        self.id = uuid.uuid4().hex[:12]
        """The id that clients know it by."""
        self._wants_drain = False
        """Whether this process requested that it drain."""
        self._wanted = ""
        """The request of a client, in the database; sent again with each new lease."""
        self._ceiling: int | None = None
        """Limit on active runs after a release, until the next report of the other workers."""
        self._heard = 0
        """The renewal of the lease that was last looked at."""
        self._bell = asyncio.Event()
        self._is_rung = self._is_stopping = False
        self._hurries, self._stopped = asyncio.Event(), asyncio.Event()
        self._runner: FleetRunner | None = None
        self._problem = ""
        self._clock_ahead = 0.0
        """By how many seconds the clock of this machine is ahead of the database's, as of the last renewal."""
        self.state: State = "new"
        """The step of its life that it is in."""

    # -- requests to the worker -------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more, let steps in flight end, release all runs; a second call abandons what is in flight."""
        if self._is_stopping:
            self._hurries.set()
        self._is_stopping = True
        self._stopped.set()
        self._bell.set()

    def drain(self) -> None:
        """Release all runs when nothing of them is in flight, and claim none until :meth:`resume`."""
        self._wants_drain = True
        self._bell.set()

    def resume(self) -> None:
        """Claim again, after :meth:`drain`."""
        self._wants_drain = False
        self._bell.set()

    def _ring(self) -> None:
        """A run may be due and free."""
        self._is_rung = True
        self._bell.set()
        if self._runner is not None:
            self._runner.schedule_loop.wake()

    def _wake(self) -> None:
        """There may be room for another run."""
        self._bell.set()

    # -- working ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """
        Work until :meth:`stop` is called.

        Raises:
            NewerStore: a newer Weft has migrated the database.
            InvalidStoreOption: the database cannot be used with these options.
        """
        failures = 0
        try:
            while not self._is_stopping:
                begun = time.monotonic()
                try:
                    if await self._work() and not self._is_stopping:
                        await self._rest()
                except _FOR_GOOD:
                    raise
                except Exception as error:  # noqa: BLE001 - a worker goes on, whatever happens
                    failures = decisions.failures_after(failures, time.monotonic() - begun)
                    known = isinstance(error, StoreUnavailable | UnwrittenEvents)
                    _log.error("the worker starts again: %s", error, exc_info=None if known else error)
                    self._problem = str(error)
                    await self._pause(decisions.backoff(failures, random.random()))  # noqa: S311 - not a secret
        finally:
            self.state = "stopped"
            if self._client is not None:
                await self._client.close()
            if self._health is not None:
                self._health.unlink(missing_ok=True)

    async def _work(self) -> bool:
        """Open a store and a runner, claim until it is told to stop, and close them; return whether to drain."""
        self.state = "opening"
        self._tell_health()
        store = self._make_store()
        self._say(store)
        grace, self._heard = self._grace, 0
        runner = self._runner = self._make_runner(store)
        firing: asyncio.Task[None] | None = None
        jobs, driving = JobLoop(store, self.id, store.clock.time), None
        sharing: asyncio.Task[None] | None = None
        serving: asyncio.Task[None] | None = None
        try:
            await runner.open()
            await store.watch_queue(self._ring, queues=self._queues)
            await store.expire_dead_processes()
            self.state = "working"
            self._say(store)
            await store.present(self._wake)
            firing = asyncio.create_task(runner.schedule_loop.run(), name="weft-schedules")
            await store.watch_jobs(jobs.wake)
            driving = asyncio.create_task(jobs.run(), name="weft-jobs")
            sharing = asyncio.create_task(runner.limits.run(), name="weft-limits")
            serving = asyncio.create_task(runner.tasks.run(), name="weft-tasks")
            _log.info("worker %s is ready", self.id)
            await self._claim_all(store, runner)
            if self._shall_drain(store) and not self._is_stopping:
                self.state, grace = "draining", DRAIN_GRACE
                _log.info("worker %s drains: it releases %d runs", self.id, runner.active)
                self._say(store)
                store.renew_soon()
                return True
            return False
        finally:
            if self.state != "draining":
                self.state = "closing"
            self._tell_health()
            if driving is not None:
                await self._end_jobs(jobs, driving)
            if firing is not None:
                firing.cancel()
                await asyncio.wait([firing])
            await self._close(runner, grace)
            if serving is not None:
                await asyncio.wait([serving])
            if sharing is not None:
                sharing.cancel()
                await asyncio.wait([sharing])
                await self._leave_places(runner)
            self._runner = None

    async def _end_jobs(self, jobs: JobLoop, driving: asyncio.Task[None]) -> None:
        """Let the page of a job that is in progress end, so that another worker goes on with the job at once."""
        jobs.stop()
        if jobs.is_driving:
            await asyncio.wait([driving], timeout=min(self._grace, _PAGE_GRACE))
        driving.cancel()
        await asyncio.wait([driving])

    async def _leave_places(self, runner: FleetRunner) -> None:
        """Give back the places of limits that steps had until the end."""
        if runner.limits.has_places:
            with suppress(StoreError):  # their time ends by itself
                async with self._make_store() as store:
                    await runner.limits.leave(store)

    async def _rest(self) -> None:
        """Hold a lease and no run, until it is told to claim again or to stop."""
        store = self._make_store()
        self.state = "drained"
        self._say(store)
        self._tell_health()
        async with store:
            await store.present(self._wake)
            _log.info("worker %s is drained", self.id)
            while self._shall_drain(store) and not self._is_stopping:
                store.check_version()
                self._bell.clear()
                await self._pause(decisions.poll(self._lease), until_rung=True)
                self._tell_health()
                if self._is_orphan():
                    self.stop()

    def _shall_drain(self, store: PostgresStore) -> bool:
        """Whether the worker is draining, by its own or a client's request."""
        if store.presence.renewals:
            self._wanted = store.presence.reply.wanted
        return self._wants_drain or is_drain(self._wanted)

    def _say(self, store: PostgresStore) -> None:
        """Let the next renewal of the lease say what this worker does."""
        active = 0 if self._runner is None else self._runner.active
        store.presence.report = WorkerReport(self.id, self.state, self._wanted, self._serves, active, self._concurrency)

    def _balance(self, store: PostgresStore, runner: FleetRunner) -> None:
        """After each renewal: let some runs go, if this worker has many more than its share."""
        self._say(store)
        while store.presence.endangered:
            runner.tell_danger(store.presence.endangered.popleft())
        if store.presence.renewals == self._heard:
            return
        self._heard = store.presence.renewals
        self._look_at_clock(store.clock.ahead)
        mine, others = Load(runner.active, self._concurrency), store.presence.reply.peers
        count = decisions.surplus(mine, others)
        self._ceiling = decisions.ceiling(mine, others) if count else None
        if count:
            _log.info("worker %s has %d active runs, and releases %d to others", self.id, runner.active, count)
            runner.let_go(count)

    def _look_at_clock(self, ahead: float) -> None:
        """Log, once, that the clock of this machine is wrong."""
        self._clock_ahead, was = ahead, self._clock_ahead
        if abs(ahead) > SKEW >= abs(was):
            _log.warning(
                "the clock of this machine is %.1f s %s that of the database, which is used instead; "
                "let the machine set its clock by NTP",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )

    async def _claim_all(self, store: PostgresStore, runner: FleetRunner) -> None:
        failures, loop = 0, asyncio.get_running_loop()
        look_at = 0.0
        """When the queue is looked at again, with or without a notification until then."""
        may_have_more = True
        """Whether runs may be due for which there was no room: then the end of a run is a reason to look."""
        while not (self._is_stopping or self._shall_drain(store)):
            store.check_version()
            self._balance(store, runner)
            self._bell.clear()
            now = loop.time()
            is_asked, self._is_rung = now >= look_at or self._is_rung or store.is_called, False
            look_at = now + decisions.poll(self._lease) if is_asked else look_at
            wait: float | None = None
            try:
                if store.is_sure and (is_asked or may_have_more):
                    answer = await runner.claim(is_asked=is_asked, ceiling=self._lowest())
                    may_have_more = answer is not False
                    if answer is None:
                        await store.pass_calls_on()
                    elif not answer:
                        store.calls_answered()
                    wait = 0.0 if answer else None
                failures, self._problem = 0, "" if store.is_sure else _UNSURE
            except RunnerClosed:
                raise
            except Exception as error:  # noqa: BLE001 - the runs that are here go on, and claiming is tried again
                failures += 1
                known = isinstance(error, StoreUnavailable)
                if not known or failures == 1:
                    _log.warning(
                        "runs cannot be claimed now, trying again: %s", error, exc_info=None if known else error
                    )
                wait = decisions.backoff(failures, random.random())  # noqa: S311 - not a secret
                self._problem = str(error)
            if store.is_sure:  # it may not have been for a moment since the last look
                runner.go_on()
            self._tell_health()
            if self._is_orphan():
                self.stop()
            if wait != 0:
                await self._pause(look_at - loop.time() if wait is None else wait, until_rung=not failures)
            look_at = 0.0 if failures else look_at

    def _own_client(self) -> AsyncClient:
        """Return a client of the one database that this worker was given; if there are others, it cannot be used."""
        if self._client is None:
            self._client = self._make_client()
        return self._client

    def _lowest(self) -> int | None:
        """Return how many runs may be active now, if that is limited."""
        if self._most is None:
            return self._ceiling
        return self._most() if self._ceiling is None else min(self._most(), self._ceiling)

    async def _pause(self, seconds: float, *, until_rung: bool = False) -> None:
        """Wait for *seconds*, or for a reason to look sooner."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self._is_stopping and (left := end - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._bell.wait()
            if self._bell.is_set() and until_rung:
                return
            self._bell.clear()

    async def _close(self, runner: FleetRunner, grace: float) -> None:
        """Close *runner* with this *grace*; a stop meanwhile shortens it, and a second one ends it."""
        closing = asyncio.ensure_future(runner.close(grace=grace))
        hurries = [(self._stopped, self._grace)] if grace > self._grace else []
        calls: list[asyncio.Future[None]] = []
        for told, shorter in [*hurries, (self._hurries, 0.0)]:
            waiting = asyncio.ensure_future(told.wait())
            await asyncio.wait([closing, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if closing.done():
                break
            calls.append(asyncio.ensure_future(runner.close(grace=shorter)))
        await asyncio.gather(*calls, return_exceptions=True)  # the first call reports what they raise
        await closing

    # -- health ----------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """How many of its runs have something to do."""
        return 0 if self._runner is None else self._runner.active

    def status(self) -> dict[str, Any]:
        """Return what it does, as plain data."""
        runner = self._runner
        problem = self._problem or ("" if runner is None or runner.is_sure else _UNSURE)
        return {
            "state": self.state,
            "ready": self.state == "working" and not problem,
            "at": time.time(),
            "id": self.id,
            "pid": os.getpid(),
            "active": self.active,
            "held": 0 if runner is None else len(runner.held),
            "tasks": 0 if runner is None else runner.tasks.running,
            "problem": problem,
            "clock_ahead": round(self._clock_ahead, 3),
        }

    def _tell_health(self) -> None:
        if self._health is not None:
            health.write(self._health, self.status())


def _served(queues: Collection[str], workflows: Iterable[Workflow[Any, Any]]) -> str:
    """Return a text that is the same for workers that can take each other's runs."""
    return Served(tuple(queues), tuple((each.name, each.version) for each in workflows)).text
