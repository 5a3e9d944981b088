"""``weft show``: shows the state of one run."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import msgspec
import typer

from weft.cli import stored
from weft.cli.glyphs import glyph, style
from weft.cli.live import answers, view_for
from weft.cli.log import event_data
from weft.cli.ls import as_data
from weft.cli.options import RunId
from weft.cli.reading import reading
from weft.cli.report import outcome_data, report
from weft.cli.screen import Screen
from weft.cli.source import Source
from weft.cli.store_option import StoreOption, located
from weft.cli.undriven_runs import undriven_run
from weft.cli.waterfall import waterfall_lines
from weft.core import events as ev
from weft.core.plan.node import Kind
from weft.core.run.run import Run
from weft.errors import RunNotFound
from weft.ports.store import DUE, FINISHED, RunRecord
from weft.views import Undriven, attention, importing
from weft.views.code import modules_of
from weft.views.event_text import error_line
from weft.views.text import ago, count, shown, stamp, took, word

_PAUSE = 0.2
"""Seconds between two reads of a run that is followed, at least."""
_SHOWN_INPUTS = 20
_SHOWN_FAILURES = 20
_SHOWN_TRACEBACK = 8  # lines, the last ones


def show(
    run: RunId,
    store: StoreOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show its components live, until the run has finished.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON, with complete values; with --follow, one object for each event.")
    ] = False,
) -> None:
    """Show one run: components, times, inputs, results, failures."""
    screen = Screen()
    with reading(screen, store, is_endless=follow) as view:
        if follow:
            _follow(screen, view.reader(run), located(store).option, as_json=as_json)
            return
        found = view.read(run)
        here = found.run()
        option = located(store).option
        left = undriven_run(view, here, option)
        children = {child: _state(view, child, component) for child, component in here.children.items()}
        if as_json:
            screen.json(_data(found, here) | _left(left), indent=2)
            return
        _head(screen, found, here)
        _attention(screen, found, here, left, option)
        _components(screen, here)
        _waterfall(screen, here)
        _inputs(screen, here)
        _values(screen, "results", here.results())
        _lines(screen, "children", children)
        _failures(screen, "failures", list((here.memory.failures or {}).values()))
        _failures(screen, "dead letters", here.dead_letters)
        _handled_failures(screen, here)


def _follow(screen: Screen, reader: stored.RunReader, option: str, *, as_json: bool) -> None:
    """Show the run as it grows, until it has finished or Ctrl-C is pressed."""

    def print_event(event: Any) -> None:
        screen.json(event_data(event))

    shown_view = view_for(screen, print_event if as_json else None, option=option, is_answer=True)
    so_far: stored.Stored | None = None
    run: Run | None = None
    try:
        with shown_view.screen:
            while True:
                began = time.perf_counter()
                found = reader.more()
                if found.events or run is None:
                    so_far = found.after(so_far)
                    run = so_far.run()
                shown_view.show(run, found.record.status, time.time())
                screen.flush()
                if found.record.status in FINISHED:
                    break
                time.sleep(max(_PAUSE, 9 * (time.perf_counter() - began)))
    except KeyboardInterrupt:  # the way to end it
        return
    if as_json:
        screen.json(outcome_data(run))
    else:
        report(screen, run)


def _left(left: Undriven | None) -> dict[str, Any]:
    return {"is_interrupted": left is not None, "undriven": None if left is None else msgspec.structs.asdict(left)}


def _attention(screen: Screen, found: stored.Stored, run: Run, left: Undriven | None, option: str) -> None:
    """Print what a person should know first, and the commands that help; *option* names the store in them."""
    lines = attention(run, found.record, now=time.time(), left=left)
    if lines:
        screen.line()
    for line in lines:
        text = " ".join(filter(None, (line.component, line.text)))
        why = f": {line.error}" if line.error else ""
        more = f", {line.detail}" if line.detail else ""
        screen.line(f"{glyph(line.state)} {text}{why}{more}", style=style(line.state))
    for command in _commands(run, {line.action for line in lines}, left, option):
        screen.line(f"  {command}", style="dim")


def _commands(run: Run, actions: set[str], left: Undriven | None, option: str) -> list[str]:
    """Return the commands for *actions*, each with its purpose."""
    commands = answers(run, option) if "answer" in actions else []
    code = f"{word(run.id)}{importing(modules_of(run.workflow))}{option}"
    if "retry" in actions:
        commands.append(f"to run it again: weft retry {code}")
    if left is not None:
        commands.append(f"to go on: {left.command}")
    elif "resume" in actions:
        commands.append(f"to go on: weft resume {code}")
    return commands


def _waterfall(screen: Screen, run: Run) -> None:
    lines = waterfall_lines(run, now=time.time(), width=screen.width)
    if lines:
        screen.line()
        screen.line("where the time went", style="bold")
    for line in lines:
        screen.text(line)


def _head(screen: Screen, found: stored.Stored, run: Run) -> None:
    record, now = found.record, time.time()
    owner = f"held by {found.owner}" if found.owner else "no owner" if record.status in DUE else ""
    truncated = {"truncated": truncation(record)} if record.first > 1 else {}
    lines = {
        "run": record.id,
        "workflow": f"{record.workflow}, version {record.version[:12]}" if record.version else record.workflow,
        "status": ", ".join(filter(None, (record.status, record.reason, owner))),
        "events": f"{record.head:,}",
        **truncated,
        "created": f"{stamp(record.created_at)} ({ago(now - record.created_at)})",
        "updated": f"{stamp(record.updated_at)} ({ago(now - record.updated_at)})",
    }
    if record.finished_at is not None:
        lines["finished"] = f"{stamp(record.finished_at)} ({ago(now - record.finished_at)})"
    if run.workflow.unresolved:
        lines["code"] = "not imported here, and not needed to look; weft resume needs it"
    for title, text in lines.items():
        screen.line(f"{title:11}{text}" if record.first > 1 else f"{title:10}{text}")


def truncation(record: RunRecord) -> str:
    """Return what is gone of a run whose log was truncated."""
    return f"the events before {record.first:,} were removed; what is counted and listed here is what is still known"


def _state(view: Source, child: str, component: str) -> str:
    """Return the state of a child run."""
    try:
        status = view.find(child).status
    except RunNotFound:  # noted, and never created; or deleted since
        return f"not stored, started by {component}"
    return f"{status}, started by {component}"


def _data(found: stored.Stored, run: Run) -> dict[str, Any]:
    """Return all of it, for JSON."""
    inputs = [event for event in found.events if isinstance(event, ev.InputReceived)]
    return {
        **as_data(found.record, found.owner),
        "unresolved": list(run.workflow.unresolved),
        "components": [
            {
                "name": name,
                "kind": _kind(run, name),
                "states": dict(tally.states),
                "attempts": tally.attempts,
                "seconds": tally.spent_ns / 1e9,
            }
            for name, tally in tallies(run).items()
        ],
        "inputs": [{"ordinal": event.ordinal, "key": event.key, "value": event.value} for event in inputs],
        "results": run.results(),
        "children": run.children,
        "failures": [failure_data(event) for event in (run.memory.failures or {}).values()],
        "dead_letters": [failure_data(event) for event in run.dead_letters],
        "handled_failures": [failure_data(event) for event in _handled(run)],
    }


def failure_data(event: ev.RunnableFailed) -> dict[str, Any]:
    """Return a failure, for JSON."""
    detail = event.error
    return {
        "component": event.component,
        "event": event.seq,
        "attempts": event.attempts,
        "error": {name: getattr(detail, name) for name in detail.__struct_fields__},
    }


# -- components ----------------------------------------------------------------------------------


class Tally(msgspec.Struct):
    """The states, attempts and time of one component."""

    states: Counter[str] = msgspec.field(default_factory=Counter[str])
    attempts: int = 0
    spent_ns: int = 0

    @property
    def told(self) -> str:
        """The states, with how many activations are in each."""
        counts = (f"{state} ×{number}" for state, number in self.states.items())
        return ", ".join(counts) or "not reached"


def tallies(run: Run) -> dict[str, Tally]:
    """Return the tally of every component that runs."""
    memory = run.memory
    found = {name: Tally() for name, node in memory.plan.nodes.items() if node.kind <= Kind.FAN}
    for event in memory.lineage.standing():
        if isinstance(event, ev.ENDINGS):
            tally = found.setdefault(event.component, Tally())
            tally.states[_ending(event)] += 1
            if isinstance(event, ev.SignalTaken | ev.TimerFired):
                continue  # it waited, and ran nothing
            tally.attempts += (
                event.attempts if isinstance(event, ev.RunnableFailed | ev.RunnableSkipped) else event.attempt
            )
            tally.spent_ns += 0 if isinstance(event, ev.RunnableSkipped) else event.duration_ns
    for key in memory.open_all():
        tally = found.setdefault(key[0], Tally())
        failed, dispatched = (memory.attempts or {}).get(key), (memory.dispatched or {}).get(key, 0)
        last = 0 if failed is None else failed.last
        waits = "ready" if failed is None else "to be retried" if failed.failed else "delayed"
        tally.states["in flight" if dispatched > last else waits] += 1
        tally.attempts += max(last, dispatched)
    for (name, _), waiting in (memory.waiting or {}).items():
        wait = waiting.activation.node.wait
        state = "sleeping" if wait is None or wait.signal is None else f"waiting for {wait.signal!r}"
        state = "waiting for its completion" if waiting.attempt else state
        found.setdefault(name, Tally()).states[state] += 1
    for name, _ in memory.blocked or ():
        found.setdefault(name, Tally()).states["waiting"] += 1
    return found


def _ending(event: Any) -> str:
    match event:
        case ev.RunnableFailed():
            return "failed"
        case ev.RunnableSkipped():
            return "skipped"
        case ev.ConditionEvaluated():
            return "held" if event.holds else "did not hold"
        case _:
            return "done"


def _kind(run: Run, name: str) -> str:
    component = run.workflow.components.get(name)
    return component.kind if component is not None else "part" if name in run.memory.plan.nodes else "removed"


def _components(screen: Screen, run: Run) -> None:
    rows: list[tuple[str, ...]] = []
    for name, tally in tallies(run).items():
        attempts = str(tally.attempts) if tally.attempts else ""
        rows.append((name, _kind(run, name), tally.told, attempts, took(tally.spent_ns) if tally.spent_ns else ""))
    screen.line()
    screen.table(("COMPONENT", "KIND", "STATE", "ATTEMPTS", "TIME"), rows)


# -- values --------------------------------------------------------------------------------------


def _inputs(screen: Screen, run: Run) -> None:
    inputs = [event for event in run.log() if isinstance(event, ev.InputReceived)]
    left_out = len(inputs) - _SHOWN_INPUTS
    _values(screen, "inputs", {str(event.ordinal): event.value for event in inputs[-_SHOWN_INPUTS:]})
    if left_out > 0:
        screen.line(f"  and {count(left_out, 'earlier one')}: weft log lists all")


def _values(screen: Screen, title: str, values: dict[str, Any]) -> None:
    _lines(screen, title, {name: shown(value) for name, value in values.items()})


def _lines(screen: Screen, title: str, lines: dict[str, str]) -> None:
    if lines:
        screen.line()
        screen.line(title, style="bold")
        width = max(map(len, lines))
        for name, text in lines.items():
            screen.line(f"  {name:{width}}  {text}")


def failures_of(run: Run) -> list[ev.RunnableFailed]:
    """Return the failures that the log of *run* still has, handled ones included, in order."""
    return [event for event in run.log() if isinstance(event, ev.RunnableFailed)]


def _handled(run: Run) -> list[ev.RunnableFailed]:
    """Return the failures that the workflow has handled."""
    open_ = {event.seq for event in (*(run.memory.failures or {}).values(), *run.dead_letters)}
    return [event for event in failures_of(run) if event.seq not in open_]


def _handled_failures(screen: Screen, run: Run) -> None:
    """Print a line for each failure that the workflow has handled."""
    failures = _handled(run)
    if failures:
        screen.line()
        screen.line("failures that were handled", style="bold")
    for event in failures[-_SHOWN_FAILURES:]:
        print_failure(screen, event, margin="  ", most=0)
    if failures:
        _note_left_out(screen, failures)
        example = f"weft explain {word(run.id)} {word(failures[-1].component)}"
        screen.line(f"  with the traceback: {example}")


def _failures(screen: Screen, title: str, failures: list[ev.RunnableFailed]) -> None:
    if failures:
        screen.line()
        screen.line(title, style="bold")
    for event in failures[-_SHOWN_FAILURES:]:
        print_failure(screen, event, margin="  ", most=_SHOWN_TRACEBACK)
    _note_left_out(screen, failures)


def print_failure(screen: Screen, event: ev.RunnableFailed, *, margin: str, most: int | None) -> None:
    """Print a failure, with at most the last *most* lines of its traceback."""
    told = f"event {event.seq}, {count(event.attempts, 'attempt')}"
    screen.line(f"{margin}{event.component}  {error_line(event.error)} ({told})")
    lines = event.error.traceback.rstrip().splitlines()
    if most is not None and len(lines) > most:
        lines = ["...", *lines[-most:]] if most else []
    for line in lines:
        screen.line(f"{margin}    {line}")


def _note_left_out(screen: Screen, failures: list[ev.RunnableFailed]) -> None:
    left_out = len(failures) - _SHOWN_FAILURES
    if left_out > 0:
        screen.line(f"  and {count(left_out, 'earlier one')}: weft log lists all")
