"""
The executor of steps that any worker of a queue may run: the side of the owner.

    unsent ──► sent ──► running ──► ended ──► collected
       │         │         │
       └─────────┴─────────┴──► cancelled: its row is removed
                                left: its row stays, for the next owner of the run

A task sends what was submitted, removes what was cancelled, and takes what has ended, each by one statement for all.

Invariants:

1. One task makes all statements, and removes before it sends: a row that is removed is never a later one.
2. An outcome is read, not removed.  Its receipt removes it in the transaction of the append that has it in the log.
3. A row that is missing is sent again: rows of a run of an outdated owner are not accepted.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from time import monotonic, perf_counter_ns
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from weft.calling import failed
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import ExecutorClosed, ExecutorFull, OwnershipLost, StoreClosed, StoreError, WorkerDied
from weft.executors.outbox import Outbox
from weft.fleet import decisions
from weft.fleet.spread.frames import Kinds, LargeValues, pack, unpack_outcome, unpack_report
from weft.ports.tasks import SentTask, Task, TaskNews, TaskStore
from weft.typing import RunId

_log = logging.getLogger("weft.fleet")

CAPACITY: Final = 4_000
BATCH: Final = 512
"""How many steps are sent, or outcomes read, by one statement, at most."""
LARGEST: Final = 1 << 22
"""How many bytes are sent by one statement, about."""
_REMEMBERED: Final = 10_000
"""How many outcomes are remembered that may not be in the log yet."""
_LOST = "it may be the step that ends its process; a retry runs it on another one"


class Route(NamedTuple):
    """Where a step goes, and how it is found there."""

    queue: str
    priority: int
    epoch: int
    workflow: str
    version: str
    node: str
    """The name of its function in the plan of the workflow."""
    executor: str
    """Where it runs there."""
    kinds: Kinds
    """The classes that its result may have."""


class _Work:
    """One ticket inside the executor."""

    __slots__ = ("id", "is_dropped", "key", "route", "runnable", "started", "ticket")

    def __init__(self, ticket: int, runnable: Runnable, route: Route) -> None:
        self.ticket, self.runnable, self.route = ticket, runnable, route
        self.id: tuple[RunId, str] = ("", "")
        self.key: int | None = None
        """Key of its row."""
        self.started: float | None = None
        self.is_dropped = False


class QueueExecutor:
    """
    Offers steps to the workers of a fleet, and returns their outcomes.

    Args:
        route: says where a runnable goes; it raises if that is not known.
        poll: after how many seconds rows are looked at without a notification.
        capacity: how many tickets may be inside, waiting ones and uncollected ones included.
    """

    def __init__(
        self,
        store: TaskStore,
        route: Callable[[Runnable], Route],
        *,
        poll: float = decisions.POLL,
        capacity: int = CAPACITY,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r}: use a number of at least 1")
        self.capacity = capacity
        self._store, self._route, self._poll = store, route, poll
        self._outbox: Outbox[tuple[int, Outcome | None]] | None = None
        self._works: dict[int, _Work] = {}
        """Every ticket that has not ended, by ticket."""
        self._unsent: dict[int, _Work] = {}
        self._sent: dict[int, _Work] = {}
        """By the key of its row."""
        self._live: dict[int, None] = {}
        """The tickets that are to be collected."""
        self._drops: list[int] = []
        self._delivered: dict[tuple[RunId, str], tuple[int, int]] = {}
        """The row and the attempt of outcomes that were returned, and may not be in the log yet."""
        self._places = 0
        self._large = LargeValues()
        self._is_open = self._is_heard = False
        self._heard: dict[int, None] = {}
        """The keys of rows that have news."""
        self._stop_listening: Callable[[], None] | None = None
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Event | None = None

    # -- the protocol ------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many more tickets it accepts now."""
        return self.capacity - self._places if self._is_open else 0

    def open(self, wake: Callable[[], None]) -> None:
        """Open it; nothing is asked of the store before the first ticket."""
        if self._outbox is not None:
            raise ExecutorClosed("QueueExecutor", "was open before")
        self._outbox, self._is_open = Outbox(wake), True

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Send *runnable*, with what is submitted in the same turn of the event loop."""
        if not self._is_open:
            raise ExecutorClosed("QueueExecutor", "is not open")
        if self._places >= self.capacity:
            raise ExecutorFull("QueueExecutor", self.capacity)
        work = _Work(ticket, runnable, self._route(runnable))
        self._works[ticket], self._live[ticket], self._unsent[ticket] = work, None, work
        self._places += 1
        self._ring()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="weft-spread")

    def started(self, ticket: int) -> float | None:
        """Return when the news came that *ticket* runs."""
        work = self._works.get(ticket)
        return None if work is None else work.started

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return the outcomes that were not collected yet."""
        if self._outbox is None:
            return []
        taken = self._outbox.take()
        self._places -= len(taken)
        live = self._live
        return [(t, outcome) for t, outcome in taken if live.pop(t, 0) is None and outcome is not None]

    def cancel(self, ticket: int) -> None:
        """Drop *ticket*, and notify the worker that runs it."""
        work = self._forget(ticket)
        if work is None:
            return
        work.is_dropped = True
        if work.key is not None:
            self._drops.append(work.key)
            self._ring()

    def leave(self, ticket: int) -> None:
        """Forget *ticket*; its row stays for the next owner of the run."""
        self._forget(ticket)

    def _forget(self, ticket: int) -> _Work | None:
        if self._live.pop(ticket, 0) is not None:
            return None
        work = self._works.get(ticket)
        if work is not None:  # else it has ended, and was not collected
            self._unsent.pop(ticket, None)
            if work.key is not None:
                self._sent.pop(work.key, None)
            self._end(work, None)
        return work

    async def close(self, grace: float) -> list[int]:
        """Send nothing more, let what was sent end within *grace* seconds, and remove the rest."""
        if not self._is_open:
            return []
        self._is_open = False
        self._changed = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 0)):
                while self._works:
                    await self._changed.wait()
                    self._changed.clear()
        given_up = list(self._works)
        for ticket in given_up:
            self.cancel(ticket)
        if self._outbox is not None:
            self._outbox.mute()
        self._ring()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=max(grace, 1.0))
            self._task.cancel()
        if self._stop_listening is not None:
            self._stop_listening()
        return given_up

    # -- the task ----------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._bell.set()

    def _hear(self, keys: Collection[int] | None = None) -> None:
        """There is news of rows; without *keys*, of any."""
        if keys is None:
            self._is_heard = True
        else:
            self._heard.update(dict.fromkeys(keys))
        self._bell.set()

    async def _run(self) -> None:
        failures = 0
        while self._is_open or self._works or self._drops:
            try:
                if self._stop_listening is None:
                    self._stop_listening = await self._store.watch_answers(self._hear)
                self._bell.clear()
                await self._work()
                failures = 0
            except StoreClosed:
                return
            except StoreError as error:
                failures += 1
                if failures == 1:
                    _log.warning("steps cannot be handed to other workers now, trying again: %s", error)
                self._large.forget()
                self._is_heard = True
                await asyncio.sleep(decisions.backoff(failures, random.random()))  # noqa: S311 - not a secret
                continue
            await self._wait()

    async def _wait(self) -> None:
        """Wait until there is something to do; rows are also checked now and then, without a notification."""
        if not self._sent:
            if self._is_open or self._unsent:
                await self._bell.wait()
            return
        try:
            async with asyncio.timeout(self._poll):
                await self._bell.wait()
        except TimeoutError:
            self._is_heard = True

    async def _work(self) -> None:
        if self._drops:
            await self._store.drop_tasks(self._drops[:])
            self._drops.clear()
        while self._unsent:
            await self._send(self._next_batch())
        heard, self._heard = self._heard, {}
        if asked := [key for key in heard if key in self._sent]:
            for each in await self._store.take_outcomes(asked, limit=len(asked)):
                self._take(each)
        while self._is_heard and self._sent:
            self._is_heard = False
            found = await self._store.take_outcomes(list(self._sent), limit=BATCH)
            for each in found:
                self._take(each)
            if sum(each.state == "done" for each in found) == BATCH:
                self._is_heard = True

    def _next_batch(self) -> list[tuple[_Work, Task]]:
        """Return the next steps to send; what cannot be sent has failed."""
        self._values: dict[tuple[RunId, bytes], bytes] = {}
        batch: dict[tuple[RunId, str], tuple[_Work, Task]] = {}
        room = LARGEST
        for ticket, work in list(self._unsent.items()):
            if len(batch) >= BATCH or room <= 0:
                break
            del self._unsent[ticket]
            began, route, runnable = perf_counter_ns(), work.route, work.runnable
            try:
                work.id = runnable.run_id, runnable.id
                packed = pack(runnable, route.node, route.executor, self._large)
            except BaseException as error:  # noqa: BLE001 - what cannot be sent is a failed attempt
                self._end(work, failed(runnable, error, began))
                continue
            room -= len(packed.body) + sum(map(len, packed.values.values()))
            self._values.update(packed.values)
            run, name = work.id
            batch[work.id] = (
                work,
                Task(
                    run=run,
                    runnable=name,
                    attempt=runnable.attempt,
                    epoch=route.epoch,
                    queue=route.queue,
                    priority=route.priority,
                    workflow=route.workflow,
                    version=route.version,
                    body=packed.body,
                ),
            )
        return list(batch.values())

    async def _send(self, batch: list[tuple[_Work, Task]]) -> None:
        if not batch:
            return
        old = [key for work, task in batch for key, attempt in self._before(work.id) if attempt == task.attempt]
        try:
            if old:  # this is another execution: the outcome of the one before is not its own
                await self._store.drop_tasks(old)
            sent = await self._store.send_tasks([task for _, task in batch], self._values)
        except StoreError:
            self._unsent = {work.ticket: work for work, _ in batch if not work.is_dropped and self._is_inside(work)} | (
                self._unsent
            )
            raise
        by_id = {work.id: work for work, _ in batch}
        for each in sent:
            self._sent_as(by_id.pop((each.run, each.runnable)), each)
        for work in by_id.values():
            if self._is_inside(work):
                error = OwnershipLost(work.runnable.run_id, work.route.epoch, work.route.epoch + 1)
                self._end(work, failed(work.runnable, error, perf_counter_ns()))

    def _before(self, id_: tuple[RunId, str]) -> Iterator[tuple[int, int]]:
        """Forget the last outcome of a runnable that was returned, and yield its row and attempt."""
        if id_ in self._delivered:
            yield self._delivered.pop(id_)

    def _is_inside(self, work: _Work) -> bool:
        return self._works.get(work.ticket) is work

    def _sent_as(self, work: _Work, sent: SentTask) -> None:
        if work.is_dropped:
            self._drops.append(sent.key)
            self._ring()
        elif self._is_inside(work):  # else it was left
            work.key = sent.key
            self._sent[sent.key] = work
            self._is_heard = self._is_heard or sent.has_news

    def _take(self, news: TaskNews) -> None:
        work = self._sent.get(news.key)
        if work is None:
            return
        if news.state == "claimed":
            work.started = work.started or monotonic()
            if news.report is not None:
                _pass_on(work.runnable, news.report)
            return
        del self._sent[news.key]
        work.key = None
        if news.state is None:
            work.started = None
            self._unsent[work.ticket] = work
            self._ring()
            return
        if news.outcome is None:
            how, began = "has died, as those before it that ran this attempt", perf_counter_ns()
            outcome = failed(work.runnable, WorkerDied(work.runnable.component, None, how, _LOST), began)
        else:
            outcome = unpack_outcome(work.runnable, news.outcome, work.route.kinds)
        if len(self._delivered) >= _REMEMBERED:
            del self._delivered[next(iter(self._delivered))]
        self._delivered[work.id] = news.key, work.runnable.attempt
        self._end(work, replace(outcome, receipt=(news.key, news.fence)))

    def _end(self, work: _Work, outcome: Outcome | None) -> None:
        del self._works[work.ticket]
        if self._outbox is not None:
            self._outbox.put((work.ticket, outcome))
        if self._changed is not None:
            self._changed.set()


def _pass_on(runnable: Runnable, report: bytes) -> None:
    """Pass a report on to the runner of *runnable*."""
    reporter = None if runnable.runner is None else runnable.runner.reporter
    if reporter is None:
        return
    try:
        reporter.report(runnable, *unpack_report(report))
    except msgspec.DecodeError as error:
        _log.warning("the progress of %r in run %r cannot be read: %s", runnable.component, runnable.run_id, error)
