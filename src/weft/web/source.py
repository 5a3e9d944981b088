"""
Where the pages read from: a runner on the store, opened with the first request, and the runs that were read last.

The runner drives nothing: reading owns no run, and what a page changes goes through the inbox of the run.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from weft.core.run.run import Run
from weft.errors import HistoryTruncated, InvalidOption
from weft.fleet.client import AsyncClient
from weft.ports.store import FINISHED, RunRecord, RunStatus, Store
from weft.runner.blocking import Runner
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore
from weft.web.slow_answers import SlowAnswers

MOST_EVENTS: Final = 400_000
"""How many events the runs that are kept may have together."""


T = TypeVar("T")

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
        self._kept: OrderedDict[tuple[str, int, int, str], Run] = OrderedDict()

    async def runner(self) -> AsyncRunner:
        """Return the runner, open; an application that mounts the pages need not pass its lifespan on."""
        if self._is_own:
            if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
                self._opening = asyncio.ensure_future(self._runner.open())
            await asyncio.shield(self._opening)
        return self._runner

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

    async def close(self) -> None:
        """Close the runner, unless it belongs to the application."""
        if self._client is not None:
            await self._client.close()
        if self._is_own and self._opening is not None:
            await self._runner.close()

    async def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status; of very many, as it was up to a minute ago."""
        return await self.answers.get("tally", (await self.runner()).tally)

    async def view(self, record: RunRecord, run: Run, name: Hashable, look: Callable[[], T]) -> T:
        """
        Return what *look* makes of *run*, which is not changed by that.

        Of a long run it is made on a thread, so that other pages are answered meanwhile, and kept for a while.
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
        runner = await self.runner()
        record = await runner.find(id)
        head = record.head if at is None else max(1, min(at, record.head))
        key = (id, record.head, head, record.status)
        kept = self._kept.get(key)
        if kept is None:
            run = await runner.get(id)
            if head < len(run.memory.log):
                if record.first > 1:
                    raise HistoryTruncated(id, record.first)
                run = Run.from_log(run.log()[:head])
            kept = self._kept[key] = run
            while sum(head for _, _, head, _ in self._kept) > MOST_EVENTS and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return record, kept
