"""
The page of one run: what needs attention, its graph, where its time went, and everything about the chosen component.

The address holds the whole state of the page: ``?at=`` the event as of which the run is shown, ``&select=`` the chosen
component, ``&list=`` what the lowest part lists.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from weft.core import events as ev
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress, duration
from weft.core.lineage.fact import Fact
from weft.core.run.run import Run
from weft.ports.store import FINISHED, RunRecord
from weft.typing import Address
from weft.views import REASONS, Attention, Row, Waterfall, attention, page_graph, scale_of, value_tree, waterfall
from weft.views.attention import is_cancelled
from weft.views.text import shown
from weft.web.rendering import data, page
from weft.web.runs_page import as_data

EVENTS: Final = 200
"""How many events a page lists."""
ELEMENTS: Final = 60
"""How many activations of one component a page lists."""
CAUSES: Final = 12
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


class Step(msgspec.Struct, frozen=True):
    """One activation of the chosen component."""

    seq: int
    index: int | None
    state: str
    seconds: float
    attempts: int
    value: str
    error: str = ""


async def run_page(request: Request) -> Response:
    """Show the run whose id stands in the address."""
    source, query = request.app.state.source, request.query_params
    id = request.path_params["id"]
    at = int(query["at"]) if query.get("at", "").isdigit() else None
    record, run = await source.run(id, at)
    now = time.time()
    is_past = len(run.memory.log) < record.head
    lines = attention(run, record, now=now)
    falls = waterfall(run, now=None if is_past else now)
    progress = progress_of(run.memory)
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
    return page(
        request,
        "run.html",
        record=record,
        title=record_line(record),
        is_past=is_past,
        is_live=record.status not in FINISHED and not is_past,
        head=record.head,
        at=len(events),
        lines=lines,
        graph=Markup(page_graph(run, selected=selected)),  # noqa: S704 - names and titles are escaped by the drawing
        components=len(run.memory.workflow.components),
        waterfall=falls,
        reasons=REASONS,
        bars={row.component: bars(row, falls) for row in falls.rows},
        folds=[(round(50 * (fold.left + fold.right), 3), fold.end - fold.start) for fold in scale_of(falls).folded],
        axis=axis(falls),
        progress=progress,
        selected=selected,
        chosen=None if selected is None else inspected(run, selected, progress[selected], may_see=may_see),
        marks=marks(run),
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


# -- the inspector -------------------------------------------------------------------------------


class Chosen(msgspec.Struct, frozen=True):
    """Everything about the chosen component."""

    name: str
    kind: str
    progress: Progress
    value: Any
    """The tree of its latest value; None if there is none, or it is hidden."""
    has_value: bool
    attempts: tuple[Step, ...]
    traceback: str
    causes: tuple[tuple[str, str], ...]
    """Components and what they gave, nearest first."""
    effects: tuple[tuple[str, str], ...]
    policy: str
    function: str
    waits_for: str | None
    schema: Any = None


def inspected(run: Run, name: str, progress: Progress, *, may_see: bool) -> Chosen:
    """Return what the inspector shows of the component *name*."""
    memory = run.memory
    component, node = memory.workflow.components.get(name), memory.plan.nodes.get(name)
    endings = [event for event in memory.log if isinstance(event, ev.ENDINGS) and event.component == name]
    failed = [event for event in memory.log if isinstance(event, ev.AttemptFailed) and event.component == name]
    failure = next((event for event in reversed(endings) if isinstance(event, ev.RunnableFailed)), None)
    last = next(reversed(endings), None) or next(reversed(failed), None)
    facts = _facts(run, name)
    wait = getattr(node, "wait", None)
    shown_steps = [*_worst(endings), *failed[-ELEMENTS:]]
    return Chosen(
        name,
        component.kind if component is not None else "part",
        progress,
        value_tree(facts[-1].value) if facts and may_see else None,
        bool(facts),
        tuple(_step(event, may_see=may_see) for event in sorted(shown_steps, key=lambda each: each.seq)),
        failure.error.traceback if failure is not None else "",
        tuple(_causes(facts[-1], may_see=may_see)) if facts else tuple(_expected(run, name, last, may_see=may_see)),
        tuple(_effects(run, name)),
        _policy(run, name),
        _function(node),
        wait.signal if wait is not None else None,
        wait.schema if wait is not None else None,
    )


def _facts(run: Run, name: str) -> list[Fact]:
    addresses = run.memory.lineage.index().get(name, [])
    return [run.memory.lineage.fact(address) for address in addresses[-1:]]


def _worst(endings: list[Any]) -> list[Any]:
    """Return the activations to list: all of a few; of many those that failed, and those that took longest."""
    if len(endings) <= ELEMENTS:
        return endings
    failed = [event for event in endings if isinstance(event, ev.RunnableFailed)][:ELEMENTS]
    rest = sorted((e for e in endings if e not in failed), key=lambda each: -getattr(each, "duration_ns", 0))
    return [*failed, *rest[: ELEMENTS - len(failed)]]


def _step(event: Any, *, may_see: bool) -> Step:
    address: Address = event.inputs[0] if event.inputs else 0
    index = None if isinstance(address, int) else address[1]
    error = getattr(event, "error", None)
    attempts = getattr(event, "attempts", 0) or getattr(event, "attempt", 0) or 1
    value = shown(event.value, longest=80) if may_see and hasattr(event, "value") else ""
    text = "" if error is None else f"{error.type}: {error.message}" if error.message else error.type
    return Step(event.seq, index, _state(event), getattr(event, "duration_ns", 0) / 1e9, attempts, value, text)


def _state(event: Any) -> str:
    match event:
        case ev.RunCancelled() | ev.RunnableCancelled():
            return "cancelled"
        case ev.RunnableFailed() if is_cancelled(event):
            return "cancelled"
        case ev.RunnableFailed() | ev.AttemptFailed() | ev.SignalRefused() | ev.FailureReceived():
            return "failed"
        case ev.RunnableSkipped() | ev.ConditionEvaluated(holds=False):
            return "gated"
        case ev.TimerStarted() | ev.RunnableDelayed() | ev.CompletionAwaited():
            return "waiting"
        case ev.RunnableDispatched() | ev.TokenIssued():
            return "running"
        case _:
            return "done"


def _causes(fact: Fact, *, may_see: bool) -> Iterable[tuple[str, str]]:
    """Yield the facts that *fact* came from, nearest first, each component once."""
    seen: set[str] = set()
    stack = list(fact.parents)
    while stack and len(seen) < CAUSES:
        one = stack.pop(0)
        name = one.producer or (f"signal {one.signal}" if one.signal else "INPUT")
        if name not in seen:
            seen.add(name)
            yield name, shown(one.value, longest=60) if may_see else "hidden"
        stack.extend(one.parents[:CAUSES])


def _expected(run: Run, name: str, last: Any, *, may_see: bool) -> Iterable[tuple[str, str]]:
    """Yield what one that has produced nothing was called with, or else the components that feed it."""
    if last is not None:
        for address in last.inputs[:CAUSES]:
            fact = run.memory.lineage.fact(address)
            yield fact.producer or "INPUT", shown(fact.value, longest=60) if may_see else "hidden"
        return
    for inlet in run.memory.workflow.wiring.fed_by(name):
        for parent in inlet.parents:
            yield parent, ""


def _effects(run: Run, name: str) -> Iterable[tuple[str, str]]:
    """Yield the components that *name* feeds, and how they stand."""
    progress = progress_of(run.memory)
    for other in run.memory.workflow.components:
        if any(name in inlet.parents for inlet in run.memory.workflow.wiring.fed_by(other)):
            yield other, progress[other].summary or "not reached"


def _policy(run: Run, name: str) -> str:
    try:
        return str(run.workflow.explain_policy(name))
    except Exception as error:  # noqa: BLE001 - a policy of code that is not here cannot be explained, which is said
        return f"cannot be explained here: {error}"


def _function(node: Any) -> str:
    function = getattr(getattr(node, "component", None), "function", None)
    code = getattr(function, "function", function)
    module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", None)
    return f"{module}.{name}" if module and name else ""


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
    text = _words(first, may_see=may_see) if len(group) == 1 else f"{len(group):,} times"
    after = max(0.0, when - start) if when else -1.0
    return Happening(first.seq, last.seq, after, getattr(first, "component", ""), _state(first), text)


def _words(event: Any, *, may_see: bool) -> str:
    def value(held: Any) -> str:
        return shown(held) if may_see else "hidden"

    by = f" · by {event.by}" if getattr(event, "by", None) else ""
    match event:
        case ev.WorkflowDefined():
            return f"started {event.workflow.name}{by}"
        case ev.InputReceived():
            return f"input {event.ordinal} = {value(event.value)}{by}"
        case ev.SignalReceived():
            return f"signal {event.name} = {value(event.value)}{by}"
        case ev.SignalRefused():
            return f"signal {event.name} refused: {event.reason}{by}"
        case ev.FannedOut():
            return f"{len(event.value):,} elements"
        case ev.ConditionEvaluated():
            return "holds" if event.holds else "does not hold"
        case ev.StateChanged():
            return f"state = {value(event.state)}"
        case ev.ReactionOccurred() | ev.SignalTaken() | ev.TimerFired():
            return f"= {value(event.value)}"
        case ev.CompletionReceived():
            return f"completed from outside = {value(event.value)}{by}"
        case ev.FailureReceived():
            return f"attempt {event.attempt} failed outside: {event.error.type}: {event.error.message}{by}"
        case ev.CompletionAwaited():
            return "waits for a completion from outside" + (
                "" if event.due is None else f", for {duration(event.due - event.at)} at most"
            )
        case ev.TokenIssued():
            return "has a token with which it can be completed"
        case ev.RunnableCancelled():
            return f"cancelled: {event.reason}{by}" if event.reason else f"cancelled{by}"
        case ev.AttemptFailed():
            return f"attempt {event.attempt} failed: {event.error.type}: {event.error.message}"
        case ev.RunnableFailed():
            return f"failed: {event.error.type}: {event.error.message}"
        case ev.RunnableSkipped():
            return f"skipped: {event.reason}{by}"
        case ev.RunnableDispatched():
            return f"attempt {event.attempt} started"
        case ev.TimerStarted():
            return "began to wait"
        case ev.RunCancelled():
            return f"cancelled: {event.reason}{by}"
        case ev.RunFinished():
            return f"told to finish{by}"
        case _:
            return f"{_spaced(type(event).__name__)}{by}"


def _spaced(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def record_line(record: RunRecord) -> str:
    """Return the workflow of a run with its version."""
    return f"{record.workflow}@{record.version[:6]}" if record.version else record.workflow
