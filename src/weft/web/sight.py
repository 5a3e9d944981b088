"""
The source of a request: the one way by which anything of a run reaches a page, its data or a stream.

Those who may see values are given the source itself.  All others are given a twin of it, whose runs and records have
nothing in them that a value could be read from (:mod:`weft.views.hidden`).  So no page hides anything by itself, and
one that is written tomorrow cannot forget to.  The twin keeps what it has computed apart from the source.

A run whose log was truncated cannot be folded again without its values; those who may not see them see its record.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from datetime import datetime

from msgspec.structs import replace
from starlette.requests import Request

from weft.core.run.run import Run
from weft.errors import (
    InvalidOption,
    InvalidPolicy,
    InvalidSignal,
    RunClosed,
    RunNotFound,
    RunOwned,
    StoreUnavailable,
    WeftError,
)
from weft.fleet.client import AsyncClient
from weft.ports.deadlines import Endangered
from weft.ports.store import RunRecord, RunStatus
from weft.runner.runner import AsyncRunner
from weft.runner.schedules.rows import ScheduleStatus
from weft.views.hidden import HIDDEN, hidden_record, hidden_run
from weft.web.slow_answers import SlowAnswers
from weft.web.source import READ_WHOLE, Kept, Reader, Source

QUOTES_NOTHING = (InvalidOption, InvalidPolicy, InvalidSignal, RunClosed, RunNotFound, RunOwned, StoreUnavailable)
"""Errors whose messages name runs, components and what the sender has typed, and no value of a run."""


def may_see(request: Request) -> bool:
    """Return whether the sender of *request* may see values."""
    return bool(request.state.identity.may(request.app.state.values))


def source_of(request: Request) -> Source:
    """Return the source from which the answer to *request* may be made."""
    source: Source = request.app.state.source
    hidden: Source = request.app.state.hidden
    return source if may_see(request) else hidden


def seen_text(request: Request, error: WeftError) -> str:
    """Return why an action was refused, if the sender may see it: a message may quote a value of the run."""
    return str(error) if may_see(request) or isinstance(error, QUOTES_NOTHING) else f"{type(error).__name__}: {HIDDEN}"


class HiddenReader:
    """Asks what another reader knows, and hides values in the answers."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def find(self, id: str) -> RunRecord:
        """Return the record of a run."""
        return hidden_record(await self._reader.find(id))

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
        found = await self._reader.runs(
            status=status, workflow=workflow, failed=failed, since=since, limit=limit, after=after
        )
        return [hidden_record(each) for each in found]

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
        found = await self._reader.waiting_runs(workflow=workflow, since=since, until=until, limit=limit, after=after)
        return [hidden_record(each) for each in found]

    async def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        return await self._reader.count(status=status, workflow=workflow, failed=failed, since=since)

    async def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status."""
        return await self._reader.tally()

    async def count_versions(self, workflow: str) -> dict[str, int]:
        """Return how many runs a workflow has, by version."""
        return await self._reader.count_versions(workflow)

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> dict[tuple[int, RunStatus], int]:
        """Return how many runs were created when."""
        return await self._reader.histogram(since=since, width=width, workflow=workflow)

    async def endangered(self, *, limit: int = 100) -> list[Endangered]:
        """Return the runs whose deadline is in danger."""
        return await self._reader.endangered(limit=limit)

    async def schedules(self) -> list[ScheduleStatus]:
        """Return the schedules, without the messages of errors."""
        return [replace(each, problem=each.problem and HIDDEN) for each in await self._reader.schedules()]

    async def next_firings(self, name: str, count: int = 5) -> list[datetime]:
        """Return the next times of a schedule."""
        return await self._reader.next_firings(name, count)


class HiddenSource(Source):
    """The twin of a source, from which no value can be read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._runner, self._is_own = source._runner, source._is_own  # noqa: SLF001
        self.commands, self._modules = source.commands, source._modules  # noqa: SLF001
        self.answers, self.lines = SlowAnswers(), OrderedDict()
        self._kept, self._reading = OrderedDict(), {}

    async def runner(self) -> AsyncRunner:
        """Return the runner of the source, for actions."""
        return await self._source.runner()

    async def reader(self) -> Reader:
        """Return what reads records, without values."""
        return HiddenReader(await self._source.reader())

    async def fleet(self) -> AsyncClient | None:
        """Return the client of the source."""
        return await self._source.fleet()

    def seen(self, record: RunRecord) -> RunRecord:
        """Return a record without values."""
        return hidden_record(record)

    async def close(self) -> None:
        """Leave the runner to the source."""

    async def _read(self, record: RunRecord, key: Kept) -> tuple[RunRecord, Run]:
        """Read a run as it was after an event, and hide its values."""
        id, _, head, _ = key
        _, run = await self._source.run(id, head)
        is_short = record.head <= READ_WHOLE
        hidden = hidden_run(run) if is_short else await asyncio.to_thread(hidden_run, run)
        return record, self._keep(key, record, hidden)
