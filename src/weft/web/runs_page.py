"""The list of runs: filters that are parts of the address, counts, a histogram or a scatter, and pages of fifty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from weft.errors import RunNotFound
from weft.log.outcome import decode_outcome
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.views import Attention, Cell, PeriodBar, Scatter, Undriven, attention, histogram_bars, scatter, strip
from weft.views.hidden import HIDDEN, hidden_line
from weft.views.text import error_text
from weft.web import cursor
from weft.web.live import state_of_runs
from weft.web.rendering import in_path, link, number_of, page
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of
from weft.web.source import UNREADABLE, Budget, Reader, Source
from weft.web.spans import DEFAULT, NAMED, Span, named_span, span_of

PAGE: Final = 50
STATUSES: Final[tuple[RunStatus, ...]] = (
    *("failed", "parked", "waiting", "running", "idle", "cancelled", "completed"),
)
"""In the order in which they need attention."""


PLOTTED: Final = 500
"""How many runs are points of a scatter."""
COUNTED_WITHIN: Final = 0.4
"""Longest wait of a page for the count of the runs, in seconds; then it is shown without, and asks again."""
READ_LATER: Final = 4
"""How many long runs of a page are read at once besides, for their components; the page does not wait for that."""
PATIENCE: Final = 0.25
"""Longest wait for them, in seconds; enough if they are read already, or nearly."""
READ_LATER_EVENTS: Final = 100_000
"""A run with more events is not read for a list at all."""
LATER_AT_ONCE: Final = 200_000
"""How many events the long runs of a page may have together; those beyond that are shown by their records."""


class Line(msgspec.Struct, frozen=True):
    """One run in the list."""

    record: RunRecord
    why: Attention | None = None
    result: Any = None
    strip: tuple[Cell, ...] = ()
    left: Undriven | None = None
    """That no process drives it, if it has work left."""

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        end = self.record.finished_at or (self.record.updated_at if self.record.status == "idle" else time.time())
        return max(0.0, end - self.record.created_at)


async def runs_page(request: Request) -> Response:
    """Show the runs that the query of the address asks for."""
    source = source_of(request)
    runner = await source.reader()
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
    span = span_of(query, now=now)
    wanted: list[RunStatus] = [status for status in STATUSES if status in query.getlist("status")]
    order = query.get("sort", "attention")
    may_see = may_see_values(request)
    patience = None if query.get("format") == "json" else COUNTED_WITHIN
    is_scatter = query.get("view") == "scatter"
    found_page = partial(_page, source, wanted, order=order, after=query.get("after"), workflow=workflow)
    records, following = await found_page(span)
    is_default = not query.get("span") and span.name == DEFAULT
    if is_default and not records and not any((await _counts(source, workflow, span, None) or {}).values()):
        span = named_span("all", now=now)  # else an older store looks empty
        records, following = await found_page(span)
    lines, is_whole = await _lines(source, records, may_see=may_see)
    counts, bars, workflows = await asyncio.gather(
        _counts(source, workflow, span, patience),
        _nothing() if is_scatter else _bars(source, workflow, span, patience),
        _workflows(source, patience),
    )
    wants = {"workflow": workflow, "since": span.since}
    first = number_of(query.get("from")) or 0
    total = None if counts is None else sum(counts[status] for status in wanted or STATUSES)
    last = first + len(lines)
    return page(
        request,
        "runs.html",
        seen=seen,
        lines=lines,
        is_whole=is_whole and None not in (counts, bars),
        counts=counts or dict.fromkeys(STATUSES),
        total=None if counts is None else sum(counts.values()),
        place=(first, last if total is None else min(last, max(total, first)), total),
        wanted=wanted,
        span=span,
        spans={name: label for name, (label, *_) in NAMED.items()},
        bars=bars,
        scatter=await _scatter(runner, wanted, wants, span) if is_scatter else None,
        plotted=PLOTTED,
        is_empty=not (records or wanted or workflow or query.get("after")) and span.name == "all",
        workflow=workflow,
        workflows=workflows,
        missing=found,
        following=following,
        following_from=first + len(lines),
        order=order,
        may=request.state.identity.may("operate"),
        data={
            "counts": counts,
            "since": span.since,
            "until": span.until,
            "after": following,
            "runs": [
                {
                    **as_data(line.record, may_see=may_see),
                    "why": line.why,
                    "undriven": line.left,
                    "components": line.strip,
                }
                for line in lines
            ],
        },
    )


async def _page(
    source: Source, wanted: Sequence[RunStatus], span: Span, *, order: str, after: str | None, workflow: str | None
) -> tuple[list[RunRecord], str | None]:
    """Return a page of runs in this order, and where the next one begins."""
    runner, wants = await source.reader(), {"workflow": workflow, "since": span.since}
    if order == "attention":
        return await _by_attention(runner, wanted or STATUSES, after, wants, span)
    return await _by_age(runner, wanted, after, wants, _before(span.until))


async def _workflows(source: Source, patience: float | None) -> list[str]:
    return sorted({name for name, _ in await source.tally_within(patience) or ()})


def _before(until: float | None) -> RunRecord | None:
    """Return where a page begins that has only runs that were created before *until*."""
    return None if until is None else RunRecord(id="", workflow="", created_at=until, updated_at=until)


async def _nothing() -> list[PeriodBar]:
    return []


async def _bars(source: Source, workflow: str | None, span: Span, patience: float | None) -> list[PeriodBar] | None:
    runner = await source.reader()
    histogram = partial(runner.histogram, since=span.begin, width=span.width, workflow=workflow)
    found = await source.answers.within(patience, ("histogram", *span.key, workflow), histogram)
    return None if found is None else histogram_bars(found, periods=span.periods)


async def _scatter(runner: Reader, wanted: Sequence[RunStatus], wants: dict[str, Any], span: Span) -> Scatter:
    """Return the newest runs as points."""
    records = await runner.runs(status=wanted or None, after=_before(span.until), limit=PLOTTED, **wants)
    begin = min((record.created_at for record in records), default=0.0) if span.name == "all" else span.begin
    points = ((record.id, record.status, record.created_at, Line(record).seconds) for record in records)
    return scatter(points, begin=begin, end=span.end)


async def _counts(
    source: Source, workflow: str | None, span: Span, patience: float | None
) -> dict[RunStatus, int] | None:
    """Return how many runs there are in each status; of very many, as it was up to a minute ago, or None at first."""
    if span.since is not None:
        runner = await source.reader()

        async def count() -> dict[RunStatus, int]:
            found: dict[RunStatus, int] = {}
            for status in STATUSES:
                found[status] = await runner.count(status=status, workflow=workflow, since=span.since)
                if found[status] and span.until is not None:
                    found[status] -= await runner.count(status=status, workflow=workflow, since=span.until)
            return found

        return await source.answers.within(patience, ("counts", *span.key, workflow), count)
    tally = await source.tally_within(patience)
    if tally is None:
        return None
    return {
        status: sum(number for (name, of), number in tally.items() if of == status and workflow in (None, name))
        for status in STATUSES
    }


async def _by_age(
    runner: Reader,
    wanted: Sequence[RunStatus],
    after: str | None,
    wants: dict[str, Any],
    before: RunRecord | None,
) -> tuple[list[RunRecord], str | None]:
    """Return a page of runs, newest first, and where the next one begins."""
    records = await runner.runs(status=wanted or None, after=cursor.read(after) or before, limit=PAGE + 1, **wants)
    return _cut(records)


async def _by_attention(
    runner: Reader, wanted: Sequence[RunStatus], after: str | None, wants: dict[str, Any], span: Span
) -> tuple[list[RunRecord], str | None]:
    """
    Like :func:`_by_age`, one status after the other: runs that need attention come first.

    Those that wait are ordered by when they are woken.
    """
    last = cursor.read(after)
    begun = last.status if last is not None and last.status in wanted else None
    found: list[RunRecord] = []
    for status in wanted[0 if begun is None else wanted.index(begun) :]:
        room, place = PAGE + 1 - len(found), last if status == begun else None
        if status == "waiting":
            found += await runner.waiting_runs(until=span.until, after=place, limit=room, **wants)
        else:
            found += await runner.runs(status=status, after=place or _before(span.until), limit=room, **wants)
        if len(found) > PAGE:
            break
    return _cut(found)


def _cut(records: list[RunRecord]) -> tuple[list[RunRecord], str | None]:
    """Return one page of *records*, and where the next one begins if there is one."""
    return records[:PAGE], cursor.written(records[PAGE - 1]) if len(records) > PAGE else None


async def _lines(source: Source, records: Sequence[RunRecord], *, may_see: bool) -> tuple[list[Line], bool]:
    """Return the lines of a page, and whether every long run among them that may be has been read."""
    budget, lines, events = Budget(), list[Line](), 0
    later: dict[int, asyncio.Future[Line]] = {}
    is_whole = True
    for record in records:
        if budget.allows(record):
            lines.append(await _line(source, record, may_see=may_see))
            continue
        lines.append(_from_record_alone(record, may_see=may_see))
        events += record.head
        if record.head > READ_LATER_EVENTS or events > LATER_AT_ONCE:
            continue
        question = (record.id, record.head, record.status, may_see)
        known: Line | asyncio.Future[Line] | None = source.lines.get(question)
        if known is None and len(later) < READ_LATER:
            known = source.answers.soon(("line", record.id, may_see), partial(_keep, source, record, may_see=may_see))
        if isinstance(known, Line):
            lines[-1] = msgspec.structs.replace(known, record=record)
        elif known is None:
            is_whole = False
        else:
            later[len(lines) - 1] = known
    if later:
        await asyncio.wait(later.values(), timeout=PATIENCE)
    for place, known in later.items():
        if known.done() and known.exception() is None:
            lines[place] = known.result()
    lefts = [await source.undriven(line.record) for line in lines]
    whys = [line.why or await source.queued(line.record) for line in lines]
    lines = [
        msgspec.structs.replace(line, left=left, why=why) for line, left, why in zip(lines, lefts, whys, strict=True)
    ]
    return lines, is_whole and all(known.done() for known in later.values())


async def _keep(source: Source, record: RunRecord, *, may_see: bool) -> Line:
    """Like :func:`_line`, but keeps the line of a finished run."""
    line = await _line(source, record, may_see=may_see)
    if record.status in FINISHED:
        source.keep_line((record.id, record.head, record.status, may_see), line)
    return line


async def _line(source: Source, record: RunRecord, *, may_see: bool) -> Line:
    """Return what the list shows of a run; one that cannot be read is shown by its record."""
    try:
        _, run = await source.run(record.id)
    except UNREADABLE as error:
        return Line(record, Attention("failed", "cannot be read", error=str(error)))
    why = next(iter(attention(run, record, now=time.time())), None)
    if why is not None and not may_see:
        why = hidden_line(why)
    results = run.results() if why is None and may_see else {}
    return Line(record, why, next(iter(results.values())) if len(results) == 1 else results or None, strip(run))


def _from_record_alone(record: RunRecord, *, may_see: bool) -> Line:
    """Return what the list shows of a run that is too long to be read for it."""
    stored = decode_outcome(record.outcome) if record.status == "completed" and may_see else None
    why = _from_record(record)
    if why is not None and not may_see:
        why = hidden_line(why)
    return Line(record, why, None if stored is None else stored.results or None)


def _from_record(record: RunRecord) -> Attention | None:
    """Return what the record alone says about a run that needs attention."""
    if record.status == "parked":
        return Attention("parked", "parked", error=record.reason, action="resume")
    if record.status == "running" and record.reason:  # it was cancelled, and is being undone
        return Attention("running", record.reason)
    stored = decode_outcome(record.outcome) if record.status == "failed" else None
    if stored is not None and stored.failures:
        first = stored.failures[0]
        return Attention("failed", "failed", first.component, error_text(first.error))
    return None


def as_data(record: RunRecord, *, may_see: bool = True) -> dict[str, Any]:
    """Return *record* as data, without what only Weft can read, and of what quotes a value only what may be seen."""
    told = {name: getattr(record, name) for name in record.__struct_fields__}
    if record.reason and not may_see and record.status != "cancelled":
        told["reason"] = HIDDEN
    for name in ("outcome", "chain", "died_in"):
        del told[name]
    return told
