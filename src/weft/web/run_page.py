"""
The page of one run: what needs attention, its graph, where its time went, and everything about the chosen component.

The address holds the whole state of the page: ``?at=`` the event as of which the run is shown, ``&select=`` the chosen
component, ``&list=`` what the lowest part lists.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from weft.core import events as ev
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress, duration
from weft.core.run.run import Run
from weft.ports.store import FINISHED, RunRecord
from weft.views import REASONS, Attention, Row, Waterfall, attention, page_graph, scale_of, value_tree, waterfall
from weft.views.event_text import Show, sentence, state_after
from weft.views.text import shown
from weft.web.inspector import inspected
from weft.web.live import state_of_run
from weft.web.rendering import data, page
from weft.web.runs_page import as_data
from weft.web.source import Source

EVENTS: Final = 200
"""How many events a page lists."""
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
    at: float
    component: str
    state: str
    text: str


async def run_page(request: Request) -> Response:
    """Show the run whose id stands in the address."""
    source: Source = request.app.state.source
    query = request.query_params
    id = request.path_params["id"]
    at = int(query["at"]) if query.get("at", "").isdigit() else None
    record, run = await source.run(id, at)
    now = time.time()
    is_past = len(run.memory.log) < record.head
    views = await source.view(record, run, "views", partial(_views, record, run, None if is_past else now))
    lines, falls, progress = views.lines, views.waterfall, views.progress
    selected = _selected(query.get("select"), lines, progress)
    may_see = request.state.identity.may(request.app.state.values)
    events = run.memory.log
    last = min(int(query["to"]), len(events)) if query.get("to", "").isdigit() else len(events)
    of = query.get("of")
    happened = [each for each in events[:last] if of is None or getattr(each, "component", None) == of]
    if query.get("format") == "json":
        return data(
            {
                "run": as_data(record),
                "event": len(events),
                "attention": lines,
                "waterfall": falls,
                "components": progress,
                "results": run.results() if may_see else None,
                "children": run.children,
            }
        )
    graph = await source.view(record, run, ("graph", selected), partial(page_graph, run, selected=selected))
    chosen = None
    if selected is not None:
        look = partial(inspected, run, selected, progress[selected], may_see=may_see)
        chosen = await source.view(record, run, ("chosen", selected, may_see), look)
    return page(
        request,
        "run.html",
        record=record,
        title=record_line(record),
        is_past=is_past,
        seen=state_of_run(record),
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
        marks=views.marks,
        listed=query.get("list", "events"),
        of=of,
        happened=happenings(happened, falls.start, may_see=may_see, is_grouped=of is None),
        earlier=happened[-EVENTS].seq - 1 if len(happened) > EVENTS else None,
        results={name: value_tree(value) for name, value in run.results().items()} if may_see else {},
        children=run.children,
        can_retry=source.can_retry(record) and bool(record.failures or record.dead_letters),
        signals=sorted(run.memory.awaited_signals),
        may_see=may_see,
        started_by=getattr(events[0], "by", None),
    )


class Views(NamedTuple):
    """The parts of the page for which the whole log is read."""

    lines: list[Attention]
    waterfall: Waterfall
    progress: dict[str, Progress]
    marks: list[tuple[float, str]]


def _views(record: RunRecord, run: Run, now: float | None) -> Views:
    return Views(
        attention(run, record, now=time.time() if now is None else now),
        waterfall(run, now=now),
        progress_of(run.memory),
        marks(run),
    )


def axis(falls: Waterfall) -> list[tuple[float, str]]:
    """Return a few places on the scale of *falls*, with the time since the start: the ends of its linear pieces."""
    pieces = [piece for piece in scale_of(falls).pieces if not piece.is_folded]
    marks = [(100 * piece.left, piece.start - falls.start) for piece in pieces]
    marks += [(50 * (piece.left + piece.right), (piece.start + piece.end) / 2 - falls.start) for piece in pieces]
    marks.append((100.0, falls.end - falls.start))
    kept: list[tuple[float, str]] = []
    for place, seconds in sorted(marks):
        if not kept or place - kept[-1][0] >= 9:  # else the labels overlap
            kept.append((round(place, 2), "0" if seconds < 0.0005 else duration(seconds)))
    return kept


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
    """Return where on the slider events stand that one looks for: failures and waits; at most a hundred."""
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


# -- events --------------------------------------------------------------------------------------


def happenings(events: list[Any], start: float, *, may_see: bool, is_grouped: bool) -> list[Happening]:
    """Return the last of *events* as the page lists them, newest first; many alike of one component are one line."""
    groups: list[list[Any]] = []
    for event in events[-EVENTS:]:
        is_alike = bool(groups) and _kind(event) == _kind(groups[-1][0])
        if is_grouped and is_alike and isinstance(event, ev.ReactionOccurred | ev.ConditionEvaluated):
            groups[-1].append(event)
        else:
            groups.append([event])
    return [
        line
        for group in reversed(groups)
        for line in (
            [_told(group, start, may_see=may_see)]
            if len(group) >= ALIKE
            else [_told([event], start, may_see=may_see) for event in reversed(group)]
        )
    ]


def _kind(event: Any) -> tuple[str, str | None]:
    return type(event).__name__, getattr(event, "component", None)


def _told(group: list[Any], start: float, *, may_see: bool) -> Happening:
    first, last = group[0], group[-1]
    timing, at = getattr(first, "timing", None), getattr(first, "at", None)
    when = timing.at if timing is not None else at
    show: Show = shown if may_see else (lambda _: "hidden")
    text = sentence(first, show) if len(group) == 1 else f"{len(group):,} times"
    after = max(0.0, when - start) if when else -1.0
    return Happening(first.seq, last.seq, after, getattr(first, "component", ""), state_after(first), text)


def record_line(record: RunRecord) -> str:
    """Return the workflow of a run with its version."""
    return f"{record.workflow}@{record.version[:6]}" if record.version else record.workflow
