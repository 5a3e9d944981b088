"""The list of runs: filters that are parts of the address, counts, and pages of fifty."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from weft.errors import CorruptLog, RunNotFound
from weft.log.outcome import decode_outcome
from weft.ports.store import RunRecord, RunStatus
from weft.runner.runner import AsyncRunner
from weft.views import Attention, Cell, attention, histogram_bars, strip
from weft.web.live import state_of_runs
from weft.web.rendering import in_path, link, page
from weft.web.source import Budget, Source

PAGE: Final = 50
STATUSES: Final[tuple[RunStatus, ...]] = (
    *("failed", "parked", "waiting", "running", "idle", "cancelled", "completed"),
)
"""In the order in which they need attention."""


class Span(NamedTuple):
    """A stretch of time that ends now, cut into periods of *width* seconds."""

    label: str
    seconds: float
    width: float
    each: str

    @property
    def periods(self) -> int:
        """How many periods it has."""
        return round(self.seconds / self.width)


DAY: Final = Span("last 24 h", 86_400.0, 900.0, "15 min")
ALL: Final = Span("all", 30 * 86_400.0, 8 * 3_600.0, "8 h, last 30 days")
SPANS: Final = {
    "1h": Span("last hour", 3_600.0, 60.0, "minute"),
    "24h": DAY,
    "7d": Span("last 7 d", 604_800.0, 7_200.0, "2 h"),
    "all": ALL,
}


class Line(msgspec.Struct, frozen=True):
    """One run in the list."""

    record: RunRecord
    why: Attention | None = None
    result: Any = None
    strip: tuple[Cell, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        end = self.record.finished_at or (self.record.updated_at if self.record.status == "idle" else time.time())
        return max(0.0, end - self.record.created_at)


async def runs_page(request: Request) -> Response:
    """Show the runs that the query of the address asks for."""
    source: Source = request.app.state.source
    runner = await source.runner()
    query = request.query_params
    if found := query.get("q", "").strip():
        try:
            await runner.find(found)
        except RunNotFound:
            pass
        else:
            return RedirectResponse(link(request, f"/runs/{in_path(found)}"), 303)
    seen = await state_of_runs(runner)
    workflow = query.get("workflow") or None
    now = time.time()
    span = SPANS.get(query.get("span", ""), DAY)
    since = None if span is ALL else now - span.seconds
    wanted: list[RunStatus] = [status for status in STATUSES if status in query.getlist("status")]
    counts = await _counts(source, workflow, span, since)
    if span is DAY and not query.get("span") and not any(counts.values()):  # then an older store is not shown as empty
        span, since = ALL, None
        counts = await _counts(source, workflow, span, since)
    begin = now - span.seconds
    histogram = partial(runner.histogram, since=begin, width=span.width, workflow=workflow)
    bars = histogram_bars(await source.answers.get(("histogram", span, workflow), histogram), periods=span.periods)
    order = query.get("sort", "attention")
    wants = {"workflow": workflow, "since": since}
    records, following = await (
        _by_attention(runner, wanted or STATUSES, query.get("after"), wants)
        if order == "attention"
        else _by_age(runner, wanted, query.get("after"), wants)
    )
    may_see = request.state.identity.may(request.app.state.values)
    budget = Budget()
    lines = [await _line(source, record, budget, may_see=may_see) for record in records]
    return page(
        request,
        "runs.html",
        seen=seen,
        lines=lines,
        counts=counts,
        total=sum(counts.values()),
        wanted=wanted,
        span=span,
        spans=SPANS,
        bars=bars,
        begin=begin,
        is_empty=not any(counts.values()) and not wanted and workflow is None and span is ALL,
        workflow=workflow,
        missing=found,
        following=following,
        order=order,
        may=request.state.identity.may("operate"),
        data={
            "counts": counts,
            "after": following,
            "runs": [{**as_data(line.record), "why": line.why, "components": line.strip} for line in lines],
        },
    )


async def _counts(source: Source, workflow: str | None, span: Span, since: float | None) -> dict[RunStatus, int]:
    """Return how many runs there are in each status; of very many, as it was up to a minute ago."""
    if since is not None:
        runner = await source.runner()

        async def count() -> dict[RunStatus, int]:
            return {status: await runner.count(status=status, workflow=workflow, since=since) for status in STATUSES}

        return await source.answers.get(("counts", span, workflow), count)
    found = await source.tally()
    return {
        status: sum(number for (name, of), number in found.items() if of == status and workflow in (None, name))
        for status in STATUSES
    }


async def _by_age(
    runner: AsyncRunner, wanted: Sequence[RunStatus], after: str | None, wants: dict[str, Any]
) -> tuple[list[RunRecord], str | None]:
    """Return a page of runs, newest first, and where the next one begins."""
    last = await _record(runner, after)
    records = await runner.runs(status=wanted or None, after=last, limit=PAGE + 1, **wants)
    return records[:PAGE], records[PAGE - 1].id if len(records) > PAGE else None


async def _by_attention(
    runner: AsyncRunner, wanted: Sequence[RunStatus], after: str | None, wants: dict[str, Any]
) -> tuple[list[RunRecord], str | None]:
    """As :func:`_by_age`, of one status after the other: what needs attention comes first."""
    begun, _, id = (after or "").partition(":")
    last = await _record(runner, id)
    ordered = list(wanted)
    first = [*map(str, ordered)].index(begun) if begun in ordered else 0
    found: list[RunRecord] = []
    for status in ordered[first:]:
        room = PAGE + 1 - len(found)
        page_after = last if status == begun else None
        found += await runner.runs(status=status, after=page_after, limit=room, **wants)
        if len(found) > PAGE:
            return found[:PAGE], f"{found[PAGE - 1].status}:{found[PAGE - 1].id}"
    return found, None


async def _record(runner: AsyncRunner, id: str | None) -> RunRecord | None:
    """Return the record of a run that a page ended with, if it is still there."""
    if not id:
        return None
    try:
        return await runner.find(id)
    except RunNotFound:
        return None


async def _line(source: Source, record: RunRecord, budget: Budget, *, may_see: bool) -> Line:
    """Return what the list shows of a run; one that is too long, or cannot be read, is shown by its record."""
    if not budget.allows(record):
        stored = decode_outcome(record.outcome) if record.status == "completed" and may_see else None
        return Line(record, _from_record(record), None if stored is None else stored.results or None)
    try:
        _, run = await source.run(record.id)
    except (CorruptLog, RunNotFound) as error:
        return Line(record, Attention("failed", "cannot be read", error=str(error)))
    why = next(iter(attention(run, record, now=time.time())), None)
    results = run.results() if why is None and may_see else {}
    return Line(record, why, next(iter(results.values())) if len(results) == 1 else results or None, strip(run))


def _from_record(record: RunRecord) -> Attention | None:
    """Return what the record alone says about a run that needs attention."""
    if record.status == "parked":
        return Attention("parked", "parked", error=record.reason, action="resume")
    stored = decode_outcome(record.outcome) if record.status == "failed" else None
    if stored is not None and stored.failures:
        last = stored.failures[-1]
        return Attention("failed", "failed", last.component, f"{last.error.type}: {last.error.message}")
    return None


def as_data(record: RunRecord) -> dict[str, Any]:
    """Return *record* as data, without what only Weft can read."""
    told = {name: getattr(record, name) for name in record.__struct_fields__}
    for name in ("outcome", "chain", "died_in"):
        del told[name]
    return told
