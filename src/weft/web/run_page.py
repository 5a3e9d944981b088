"""
The page of one run: what needs attention, its graph, where its time went, and everything about the chosen component.

The address holds the whole state of the page: ``?at=`` the event as of which the run is shown, ``&select=`` the chosen
component, ``&list=`` what the lowest part lists.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from weft.core import events as ev
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress, duration
from weft.core.run.run import Run
from weft.ports.store import FINISHED, RunRecord
from weft.views import (
    REASONS,
    Attention,
    Row,
    Undriven,
    Waterfall,
    attention,
    page_graph,
    scale_of,
    value_tree,
    waterfall,
)
from weft.views.elements import Elements, elements
from weft.views.event_text import Sentence, Show, sentence_in_time, state_after
from weft.views.hidden import HIDDEN, as_it_is, hidden_event, hidden_line, hidden_progress, hide
from weft.views.text import shown
from weft.views.times import time_of
from weft.web.inspector import inspected
from weft.web.live import state_of_run
from weft.web.rendering import data, number_of, page
from weft.web.runs_page import as_data
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of
from weft.web.slow_answers import looked_at
from weft.web.source import Source

EVENTS: Final = 200
"""How many lines of events a page lists."""
PATIENCE: float | None = 0.5
"""Seconds that a page waits for a run before it says that the run is being read."""
LETTER: Final = 1.6
"""The widest letter of a label of the scale, in percent of its width."""
READ: Final = 20_000
"""How many events are looked at for that: many alike are one line."""
ALIKE: Final = 4
"""This many events of one component in a row are one line."""


class BarShape(msgspec.Struct, frozen=True):
    """A bar as the page draws it: places between 0 and 100."""

    reason: str
    state: str
    x: float
    width: float
    is_last: bool
    title: str


class Happening(msgspec.Struct, frozen=True):
    """One event as the page lists it, or several that say the same of one component."""

    seq: int
    last: int
    at: float | None
    """When it happened; it is known to 10 ms."""
    after: float
    """The seconds since the start of the run."""
    component: str
    state: str
    told: Sentence


class Read(NamedTuple):
    """A run, and what the page shows of it as a whole."""

    record: RunRecord
    run: Run
    is_past: bool
    """Whether it is shown as it was at an earlier event."""
    left: Undriven | None
    """That no process drives it, if it has work left."""
    views: Views


async def _read(source: Source, id: str, at: int | None) -> Read:
    record, run = await source.run(id, at)
    return await _looked_at(source, record, run, is_past=len(run.memory.log) < record.head)


async def _looked_at(source: Source, record: RunRecord, run: Run, *, is_past: bool) -> Read:
    left = None if is_past else await source.undriven(record)
    look = partial(_views, record, run, None if is_past else time.time(), left)
    views = await source.view(record, run, ("views", left is None), look)
    waits = None if is_past else await source.queued(record)
    if waits is not None:
        views = views._replace(lines=[waits, *views.lines])
    return Read(record, run, is_past, left, views)


async def run_page(request: Request) -> Response:
    """Show the run whose id is in the address."""
    source = source_of(request)
    query = request.query_params
    id = request.path_params["id"]
    reading = asyncio.ensure_future(_read(source, id, number_of(query.get("at"))))
    if query.get("format") != "json" and not (await asyncio.wait({reading}, timeout=PATIENCE))[0]:
        reading.add_done_callback(looked_at)  # it goes on, and the page asks again
        record, known = await (await source.reader()).find(id), source.known(id)
        if known is None or query.get("at") or len(known.memory.log) == record.head:
            may_see = may_see_values(request)
            reason = record.reason if may_see or not record.reason else HIDDEN
            return page(request, "reading.html", record=record, reason=reason, title=record_line(record))
        read = await _looked_at(source, record, known, is_past=False)  # it grows faster than it is read
        is_behind = True
    else:
        read, is_behind = await reading, False
    record, run, is_past, left, views = read
    lines, falls, progress = views.lines, views.waterfall, views.progress
    may_see = may_see_values(request)
    if not may_see:
        lines = [hidden_line(line) for line in lines]
        progress = {name: hidden_progress(each) for name, each in progress.items()}
    selected = _selected(query.get("select"), lines, progress)
    events = run.memory.log
    asked_last = number_of(query.get("to"))
    last = len(events) if asked_last is None else min(asked_last, len(events))
    of = query.get("of")
    happened = [each for each in events[:last] if of is None or getattr(each, "component", None) == of]
    begin = listed_from(happened, is_grouped=of is None)
    chosen, found = None, None
    tab, element = query.get("tab", "value"), number_of(query.get("element"))
    if selected is not None:
        look = partial(inspected, run, selected, progress[selected], may_see=may_see, element=element)
        chosen = await source.view(record, run, ("chosen", selected, element, may_see), look)
        tab = tab if tab in dict(chosen.tabs) else "value"
        if chosen.elements:
            found = await _elements(source, record, run, selected, query, may_see=may_see)
    listed = happenings(happened, falls.start, may_see=may_see, is_grouped=of is None)
    if query.get("format") == "json":
        return data(
            {
                "run": as_data(record, may_see=may_see),
                "event": len(events),
                "attention": lines,
                "undriven": left,
                "command": proposed(source, record, left),
                "waterfall": falls,
                "components": progress,
                "results": run.results() if may_see else None,
                "children": run.children,
                "selected": chosen,
                "elements": found,
                "events": [_told(each) for each in listed],
                "earlier": happened[begin].seq - 1 if begin else None,
            }
        )
    draw = partial(page_graph, run, selected=selected, may_see=may_see)
    graph = await source.view(record, run, ("graph", selected, may_see), draw)
    return page(
        request,
        "run.html",
        record=record,
        title=record_line(record),
        is_past=is_past,
        left=left,
        command=None if is_past else proposed(source, record, left),
        seen=state_of_run(record) if not is_behind else "",
        is_live=record.status not in FINISHED and not is_past,
        head=record.head,
        at=len(events),
        lines=lines,
        graph=Markup(graph),  # noqa: S704 - names and titles are escaped by the drawing
        components=len(run.memory.workflow.components),
        waterfall=falls,
        reasons=REASONS,
        bars={row.component: bars(row, falls) for row in falls.rows},
        folds=[(round(50 * (fold.left + fold.right), 3), fold.end - fold.start) for fold in scale_of(falls).folded],
        axis=axis(falls),
        progress=progress,
        selected=selected,
        chosen=chosen,
        tab=tab,
        elements=found,
        search=query.get("search", ""),
        state=query.get("state", ""),
        totals={row.component: row.passed for row in falls.rows},
        spent=falls.passed,
        marks=views.marks,
        listed=query.get("list", "events"),
        of=of,
        happened=listed,
        earlier=happened[begin].seq - 1 if begin else None,
        passed=max(0.0, (next(filter(None, map(time_of, reversed(events[-EVENTS:]))), falls.start)) - falls.start),
        results={name: value_tree(value) for name, value in run.results().items()} if may_see else {},
        children=run.children,
        can_retry=source.can_retry(record) and bool(record.failures or record.dead_letters),
        signals=sorted(run.memory.awaited_signals),
        may_see=may_see,
        started_by=getattr(events[0], "by", None),
    )


def _told(line: Happening) -> dict[str, Any]:
    """Return a line of events as data."""
    names = {"event": line.seq, "to": line.last, "at": line.at, "component": line.component, "state": line.state}
    return {**names, "text": "".join(line.told[:3])}


def proposed(source: Source, record: RunRecord, left: Undriven | None) -> str | None:
    """Return the command that a person types where the code is, if this run needs one."""
    if left is not None:
        return left.command
    if record.status == "parked":
        return source.commands.resume([record.id], source.modules(record))
    if record.status == "failed" and not source.can_retry(record):
        return source.commands.retry([record.id], source.modules(record))
    return None


async def _elements(
    source: Source, record: RunRecord, run: Run, name: str, query: QueryParams, *, may_see: bool
) -> Elements:
    """Return the elements of a map that the address searches for."""
    text = partial(shown, longest=100) if may_see else hide
    see = as_it_is if may_see else hidden_event
    search, state = query.get("search", ""), query.get("state", "")
    start = number_of(query.get("start")) or 0
    look = partial(elements, run, name, text=text, see=see, search=search, state=state, start=start)
    return await source.view(record, run, ("elements", name, search, state, start, may_see), look)


class Views(NamedTuple):
    """The parts of the page for which the whole log is read."""

    lines: list[Attention]
    waterfall: Waterfall
    progress: dict[str, Progress]
    marks: list[tuple[float, str]]


def _views(record: RunRecord, run: Run, now: float | None, left: Undriven | None) -> Views:
    falls = waterfall(run, now=now)
    return Views(
        attention(run, record, now=falls.end if now is None else now, left=left),
        falls,
        progress_of(run.memory),
        marks(run),
    )


class Tick(NamedTuple):
    """A label on the scale of a waterfall: the time since the start, or how long a folded stretch is."""

    place: float
    text: str
    is_fold: bool = False

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where it is written: a fold has it in its middle, the end of the scale before it."""
        width = LETTER * len(self.text)
        left = self.place - (width / 2 if self.is_fold else width if self.place > 90 else 0.0)
        return left, left + width


def axis(falls: Waterfall) -> list[Tick]:
    """Return labels for the scale of *falls*: the longest folded stretches, and times where there is room between."""
    scale = scale_of(falls)
    folds = sorted(scale.folded, key=lambda each: each.start - each.end)
    wanted = [Tick(50 * (each.left + each.right), duration(each.end - each.start), is_fold=True) for each in folds]
    linear = [piece for piece in scale.pieces if not piece.is_folded]
    times = [(100 * piece.left, piece.start) for piece in linear]
    times += [(50 * (piece.left + piece.right), (piece.start + piece.end) / 2) for piece in linear]
    times = [(0.0, falls.start), (100.0, falls.end), *times]
    wanted += [Tick(place, "0" if at - falls.start < 0.0005 else duration(at - falls.start)) for place, at in times]
    kept: list[Tick] = []
    for tick in wanted:
        says_more = tick.is_fold or all(tick.text != other.text for other in kept if not other.is_fold)
        left, right = tick.reach
        if says_more and all(right + LETTER < other.reach[0] or left > other.reach[1] + LETTER for other in kept):
            kept.append(tick._replace(place=round(tick.place, 2)))
    return sorted(kept)


def _selected(asked: str | None, lines: list[Attention], progress: dict[str, Progress]) -> str | None:
    """Return the component to show: the one that was asked for, or else the one that needs attention most."""
    if asked in progress:
        return asked
    named = next((line.component for line in lines if line.component in progress), None)
    return named if named is not None else next(iter(progress), None)


def bars(row: Row, falls: Waterfall) -> list[BarShape]:
    """Return the bars of *row* as they are drawn."""
    scale = scale_of(falls)
    shapes: list[BarShape] = []
    for bar in row.bars:
        left, right = 100 * scale.place(bar.start), 100 * scale.place(bar.end)
        title = f"{bar.reason.replace('_', ' ')}, {duration(bar.end - bar.start)}"
        if bar.many > 1:
            title += f", {bar.many:,} at once or one after the other"
        elif bar.reason == "running" and (bar.attempt > 1 or not bar.is_last):
            title += f", attempt {bar.attempt}"
        shapes.append(
            BarShape(bar.reason, bar.state, round(left, 3), round(max(right - left, 0.25), 3), bar.is_last, title)
        )
    return shapes


def marks(run: Run) -> list[tuple[float, str]]:
    """Return the places on the slider of the events that matter: failures and waits; at most a hundred."""
    log = run.memory.log
    found: dict[float, str] = {}
    for event in log:
        state = (
            "failed"
            if isinstance(event, ev.RunnableFailed | ev.AttemptFailed | ev.FailureReceived)
            else "waiting"
            if isinstance(event, ev.TimerStarted | ev.SignalTaken | ev.CompletionAwaited)
            else None
        )
        if state is not None:
            found[round(100 * (event.seq - 1) / max(1, len(log) - 1), 1)] = state
    return list(found.items())[:100]


_ALIKE = ev.ReactionOccurred | ev.ConditionEvaluated
"""Events of which many of one component are one line."""


# -- events --------------------------------------------------------------------------------------


def happenings(events: list[Any], start: float, *, may_see: bool, is_grouped: bool) -> list[Happening]:
    """Return the last of *events* as the page lists them, newest first; many alike of one component are one line."""
    groups: list[list[Any]] = []
    times: dict[int, float] = {}
    begin = listed_from(events, is_grouped=is_grouped)
    latest = next(filter(None, map(time_of, reversed(events[max(0, begin - EVENTS) : begin]))), None)
    for event in events[begin:]:
        latest = time_of(event) or latest  # an event without a time happened within 10 ms of the one before with one
        if latest is not None:
            times[event.seq] = latest
        if is_grouped and groups and isinstance(event, _ALIKE) and _kind(event) == _kind(groups[-1][0]):
            groups[-1].append(event)
        else:
            groups.append([event])
    return [
        _happening(line, times.get(line[0].seq), start, may_see=may_see)
        for group in reversed(groups)
        for line in ([group] if len(group) >= ALIKE else [[event] for event in reversed(group)])
    ]


def listed_from(events: list[Any], *, is_grouped: bool) -> int:
    """Return the place of the first of *events* that a page lists: it has so many lines that end with the last one."""
    lines, alike, kind = 0, 0, None
    first = max(0, len(events) - READ)
    for place in range(len(events) - 1, first - 1, -1):
        event = events[place]
        mine = _kind(event) if is_grouped and isinstance(event, _ALIKE) else None
        if mine is None or mine != kind:
            if lines == EVENTS:
                return place + 1
            lines, alike, kind = lines + 1, 1, mine
            continue
        alike += 1
        if alike < ALIKE:
            if lines == EVENTS:
                return place + 1
            lines += 1
        elif alike == ALIKE:  # from now on they are one line
            lines -= ALIKE - 2
    return first


def _kind(event: Any) -> tuple[str, str | None]:
    return type(event).__name__, getattr(event, "component", None)


def _happening(group: list[Any], at: float | None, start: float, *, may_see: bool) -> Happening:
    first, last = group[0] if may_see else hidden_event(group[0]), group[-1]
    show: Show = shown if may_see else hide
    told = sentence_in_time(first, show) if len(group) == 1 else Sentence(f"{len(group):,} times")
    after = 0.0 if at is None else max(0.0, at - start)
    return Happening(first.seq, last.seq, at, after, getattr(first, "component", ""), state_after(first), told)


def record_line(record: RunRecord) -> str:
    """Return the workflow of a run with its version."""
    return f"{record.workflow}@{record.version[:6]}" if record.version else record.workflow
