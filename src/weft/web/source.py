"""
Where the pages read from: a runner on the store, opened with the first request, and the runs that were read last.

The runner drives nothing: reading owns no run, and what a page changes goes through the inbox of the run.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from weft.core.run.run import Run
from weft.errors import CorruptLog, HistoryTruncated, InvalidOption, RunNotFound
from weft.fleet.client import AsyncClient
from weft.ports.deadlines import Endangered
from weft.ports.schedules import ScheduleStore
from weft.ports.store import DUE, FINISHED, OwnedStore, RunRecord, RunStatus, Store
from weft.runner.blocking import Runner
from weft.runner.runner import AsyncRunner
from weft.runner.schedules.rows import ScheduleStatus
from weft.shield import shielded
from weft.stores import PostgresStore
from weft.views import Attention, Undriven, queued, undriven
from weft.views.code import modules_of
from weft.web.commands import Commands, store_option
from weft.web.slow_answers import SlowAnswers, looked_at

MOST_EVENTS: Final = 400_000
"""How many events the runs that are kept may have together."""


T = TypeVar("T")
UNREADABLE: Final = (CorruptLog, RunNotFound, HistoryTruncated)
"""Raised for a run that a list shows by its record alone."""
Kept = tuple[str, int, int, str]
"""The id of a run, its last event, the event as of which it is kept, and its status."""

MOST_LINES: Final = 2_000
"""The number of long runs for which the line of a list is kept."""
DAY: Final = 86_400.0
MOST_COUNTED: Final = 1_000
"""How many interrupted runs are counted: more are shown as this many."""
AT_ONCE: Final = 20_000
"""How many events the lines of one list may read together: a fraction of a second."""
READ_WHOLE: Final = 2_000
"""A run with more events than this is shown in a list without its components: its page reads it."""


class Budget:
    """How many events the lines of one list may still read; runs beyond that are shown by their records."""

    def __init__(self, events: int = AT_ONCE) -> None:
        self._left = events

    def allows(self, record: RunRecord) -> bool:
        """Return whether the log of a run may be read, and count it."""
        if record.head > READ_WHOLE or record.head > self._left:
            return False
        self._left -= record.head
        return True


class Reader(Protocol):
    """The questions about many runs that pages ask."""

    async def find(self, id: str) -> RunRecord:
        """Return the record of a run."""
        ...

    async def runs(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Return the records of a page of runs, newest first."""
        ...

    async def waiting_runs(
        self,
        *,
        workflow: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Return the records of a page of waiting runs, the next one to be woken first."""
        ...

    async def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        ...

    async def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status."""
        ...

    async def count_versions(self, workflow: str) -> dict[str, int]:
        """Return how many runs a workflow has, by version."""
        ...

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> dict[tuple[int, RunStatus], int]:
        """Return how many runs were created when."""
        ...

    async def endangered(self, *, limit: int = 100) -> list[Endangered]:
        """Return the runs whose deadline is in danger."""
        ...

    async def schedules(self) -> list[ScheduleStatus]:
        """Return the schedules."""
        ...

    async def next_firings(self, name: str, count: int = 5) -> list[datetime]:
        """Return the next times of a schedule."""
        ...


class Source:
    """A runner on the store that the pages show."""

    def __init__(self, source: AsyncRunner | Store | str | Path) -> None:
        if isinstance(source, Runner):
            raise InvalidOption("app(Runner(...)): a Runner has another event loop; use AsyncRunner, or the store")
        self._is_own = not isinstance(source, AsyncRunner)
        self._runner = source if isinstance(source, AsyncRunner) else AsyncRunner(source)
        self._opening: asyncio.Task[AsyncRunner] | None = None
        self._client: AsyncClient | None = None
        self.answers = SlowAnswers()
        """Numbers that took long to count."""
        self.commands = Commands(store_option(source))
        """Writes what a person types where the code is."""
        self._modules: dict[tuple[str, str], tuple[str, ...]] = {}
        """By workflow and version of the runs that were read: the modules with their code."""
        self.lines: OrderedDict[Hashable, Any] = OrderedDict()
        """By run: the line of a list for a long one that has finished."""
        self._kept: OrderedDict[Kept, Run] = OrderedDict()
        self._reading: dict[tuple[str, int | None], asyncio.Future[tuple[RunRecord, Run]]] = {}

    async def runner(self) -> AsyncRunner:
        """Return the runner, open; an application that mounts the pages need not pass its lifespan on."""
        if self._is_own:
            if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
                self._opening = asyncio.ensure_future(self._runner.open())
            await shielded(self._opening)
        return self._runner

    async def reader(self) -> Reader:
        """Return what reads records from the store; :meth:`runner` also changes runs, and is for the actions."""
        return await self.runner()

    async def has_schedules(self) -> bool:
        """Return whether the store keeps schedules."""
        return isinstance((await self.runner()).store, ScheduleStore)

    @property
    def has_fleet(self) -> bool:
        """Whether workers of a fleet claim the runs of this store."""
        return isinstance(self._runner.store, PostgresStore)

    async def fleet(self) -> AsyncClient | None:
        """Return a client of the fleet whose store this is; None if other stores have none."""
        store = (await self.runner()).store
        if not isinstance(store, PostgresStore):
            return None
        if self._client is None:
            self._client = AsyncClient(store)
        return await self._client.open()

    @property
    def drives(self) -> bool:
        """Whether the runner drives runs: that of the pages does not, one that the application has passed does."""
        return not self._is_own

    def can_retry(self, record: RunRecord) -> bool:
        """
        Return whether a retry of this run can be asked for here.

        A run that has not finished finds the request in its inbox.  One that has failed is driven by a worker of the
        fleet, or by the runner that retries it: that of the pages drives nothing, one that the application has passed
        does.
        """
        return record.status not in FINISHED or (record.status == "failed" and (self.drives or self.has_fleet))

    async def workers(self) -> int | None:
        """Return how many workers of the fleet are alive; None if there is no fleet."""
        client = await self.fleet()
        if client is None:
            return None

        async def count() -> int:
            return len(await client.workers())

        found = self.answers.soon("workers", count)
        return await found if isinstance(found, asyncio.Future) else found

    async def undriven(self, record: RunRecord) -> Undriven | None:
        """Return that no process drives a run with work left, if that is so, with the command that goes on."""
        if record.status not in DUE or record.owner is not None:
            return None
        return undriven(
            record,
            workers=await self.workers(),
            modules=self.modules(record),
            option=self.commands.option,
        )

    async def queued(self, record: RunRecord) -> Attention | None:
        """Return that a run of the fleet is due, and no worker has it; None if that is not so."""
        if record.status != "running" or record.owner is not None or not await self.workers():
            return None
        found = self.answers.soon("known", self._known)
        known = await found if isinstance(found, asyncio.Future) else found
        return queued(record, is_stranded=(record.workflow, record.version) not in known, now=time.time())

    async def _known(self) -> set[tuple[str, str]]:
        """Return the workflows and versions that living workers have the code of."""
        client = await self.fleet()
        return set() if client is None else {key for each in await client.workers() for key in each.serves.workflows}

    async def list_undriven(self, limit: int, statuses: Collection[RunStatus] = DUE) -> list[RunRecord]:
        """Return runs that have work left and no process, the oldest first; of a fleet with workers there are none."""
        store = (await self.runner()).store
        if not isinstance(store, OwnedStore) or await self.workers():
            return []
        return [self.seen(each) for each in await store.list_free(statuses=statuses, limit=limit)]

    def seen(self, record: RunRecord) -> RunRecord:
        """Return what pages may see of a record."""
        return record

    def keep_line(self, question: Hashable, line: object) -> None:
        """Keep what lists show of a run, in place of the one that was kept first if they are many."""
        self.lines[question] = line
        while len(self.lines) > MOST_LINES:
            self.lines.popitem(last=False)

    def modules(self, record: RunRecord) -> tuple[str, ...]:
        """Return the modules with the code of a run, if one of its workflow and version was read."""
        return self._modules.get((record.workflow, record.version), ())

    async def code_of(self, record: RunRecord) -> tuple[str, ...]:
        """Like :meth:`modules`, but reads a short run if none like it was read."""
        if not self.modules(record) and Budget().allows(record):
            with suppress(*UNREADABLE):
                await self.run(record.id)
        return self.modules(record)

    async def close(self) -> None:
        """Close the runner, unless it belongs to the application."""
        if self._client is not None:
            await self._client.close()
        if self._is_own and self._opening is not None:
            await self._runner.close()

    async def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status; of very many, as it was up to a minute ago."""
        return await self.answers.get("tally", (await self.reader()).tally)

    async def tally_within(self, seconds: float | None) -> dict[tuple[str, RunStatus], int] | None:
        """Like :meth:`tally`, but returns None if counting takes longer than *seconds*."""
        return await self.answers.within(seconds, "tally", (await self.reader()).tally)

    async def count_versions(self, workflow: str) -> dict[str, int]:
        """Return how many runs *workflow* has, by version; of very many, as it was up to a minute ago."""
        count = (await self.reader()).count_versions
        return await self.answers.get(("versions", workflow), partial(count, workflow))

    async def problems(self) -> int:
        """Return how many runs are parked, were interrupted, have failed in the last day, or are open with failures."""

        async def count() -> int:
            runner = await self.reader()
            failed = await runner.count(status="failed", since=time.time() - DAY)
            failed += await runner.count(status=["running", "waiting", "idle"], failed=True)
            stopped = len(await self.list_undriven(MOST_COUNTED, ["running"]))
            return failed + stopped + await runner.count(status="parked")

        found = self.answers.soon("problems", count)
        return await found if isinstance(found, asyncio.Future) else found

    async def view(self, record: RunRecord, run: Run, name: Hashable, look: Callable[[], T]) -> T:
        """
        Return the result of *look* for *run*, which must not change the run.

        For a long run it is computed on a thread, so that other pages are answered meanwhile, and kept for a while.
        """
        if record.head <= READ_WHOLE:
            return look()
        question = (record.id, record.head, len(run.memory.log), record.status, name)
        return await self.answers.get(question, partial(asyncio.to_thread, look))

    async def run(self, id: str, at: int | None = None) -> tuple[RunRecord, Run]:
        """
        Return a run and its record: as it is, or as it was after the event *at*.

        Raises:
            RunNotFound: nothing is stored under this id.
            HistoryTruncated: its log was truncated, and it cannot be shown as it was at an earlier event.
        """
        record = await (await self.reader()).find(id)
        head = record.head if at is None else max(1, min(at, record.head))
        key = (id, record.head, head, record.status)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return record, kept
        # A run that grows faster than it is read would be read many times at once: the reading that goes on is shared.
        reading = self._reading.get((id, at))
        if reading is None:
            reading = self._reading[id, at] = asyncio.ensure_future(self._read(record, key))
            reading.add_done_callback(lambda _: self._reading.pop((id, at), None))
            reading.add_done_callback(looked_at)
        return await shielded(reading)

    def known(self, id: str) -> Run | None:
        """Return a run as it was when it was read last, if that is known."""
        return next((run for key, run in reversed(self._kept.items()) if key[0] == id and key[1] == key[2]), None)

    async def _read(self, record: RunRecord, key: Kept) -> tuple[RunRecord, Run]:
        """Read a run as it was after an event."""
        id, _, head, _ = key
        whole = self._kept.get((id, record.head, record.head, record.status))
        run = await (await self.runner()).get(id) if whole is None else whole
        if head < len(run.memory.log):
            if record.first > 1:
                raise HistoryTruncated(id, record.first)
            events = list(run.memory.log[:head])
            run = Run.from_log(events) if record.head <= READ_WHOLE else await asyncio.to_thread(Run.from_log, events)
        return record, self._keep(key, record, run)

    def _keep(self, key: Kept, record: RunRecord, run: Run) -> Run:
        """Keep a run that was read, in place of what the same run was before."""
        for old in [each for each in self._kept if each[0] == key[0] and each[1] != key[1]]:
            del self._kept[old]
        self._kept[key] = run
        if (record.workflow, record.version) not in self._modules:
            self._modules[record.workflow, record.version] = modules_of(run.workflow)
        while sum(head for _, _, head, _ in self._kept) > MOST_EVENTS and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return run
