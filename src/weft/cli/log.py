"""``weft log``: prints everything that has happened in one run, in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from weft.cli import stored
from weft.cli.looking import looking
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption
from weft.core import events as ev
from weft.core.workflow import Workflow
from weft.log import UnknownEvent
from weft.log.module_names import kind_of
from weft.ports.store import FINISHED
from weft.views.text import count, shown, stamp, took

_COLUMNS = ("SEQ", "TIME", "EVENT", "COMPONENT", "")
_PAUSE = 0.2
"""Seconds between two reads of a run that is followed."""


def log(
    run: Annotated[str, typer.Argument(metavar="ID", help="The id of a run.", show_default=False)],
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, with complete values.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new events until the run has finished.")
    ] = False,
) -> None:
    """Print the log of a run, without changing it."""
    screen = Screen()
    with looking(screen, store, is_endless=follow) as view:
        if follow:
            _follow(screen, view.reader(run), as_json=as_json)
            return
        found = view.read(run)
        if as_json:
            _print_json(screen, found)
        else:
            screen.table(_COLUMNS, [_row(found, event) for event in found.events])


def _follow(screen: Screen, reader: stored.RunReader, *, as_json: bool) -> None:
    """Print the events so far, and then new ones, until the run has finished or Ctrl-C is pressed."""
    widths = [0] * len(_COLUMNS)
    headings: list[Sequence[str]] = [_COLUMNS]
    try:
        while True:
            found = reader.more()
            if as_json:
                _print_json(screen, found)
            else:
                screen.columns([*headings, *(_row(found, event) for event in found.events)], widths)
                headings.clear()
            screen.flush()
            if found.record.status in FINISHED:
                return
            time.sleep(_PAUSE)
    except KeyboardInterrupt:  # the way to end it
        return


def _print_json(screen: Screen, found: stored.Stored) -> None:
    for event in found.events:
        screen.json(event_data(event, found.time_of(event)))


def _row(found: stored.Stored, event: Any) -> tuple[str, ...]:
    at = found.time_of(event)
    when = "" if at is None else stamp(at)
    return str(event.seq), when, type(event).__name__, getattr(event, "component", ""), told(event)


def event_data(event: Any, at: float | None = None) -> dict[str, Any]:
    """Return an event as its fields; *at* is when it happened, if the event itself does not say so."""
    if at is None:
        at = next((time for _, time in stored.times_of([event])), None)
    fields: dict[str, Any] = {
        "seq": event.seq,
        "event": type(event).__name__,
        "time": None if at is None else stamp(at),
    }
    for name in event.__struct_fields__:
        if name != "seq":
            fields[name] = _field(getattr(event, name))
    return fields


def _field(value: Any) -> Any:
    match value:
        case Workflow():
            return {"name": value.name, "version": value.version, "components": list(value.components)}
        case ev.ErrorDetail():
            return {name: getattr(value, name) for name in value.__struct_fields__}
        case ev.Timing():
            return {name: getattr(value, name) for name in value.__struct_fields__}
        case bytes():
            return value.hex()
        case _:
            return value


def told(event: Any) -> str:
    """Return the details of *event* other than its name and its component."""
    tell = _TOLD.get(kind_of(event))
    return "" if tell is None else tell(event)


def _defined(event: Any) -> str:
    workflow: Workflow = event.workflow
    return f"{workflow.name}: {count(len(workflow.components), 'component')}"


def _received(event: ev.InputReceived) -> str:
    key = "" if event.key is None else f", key {event.key}"
    return f"input {event.ordinal} = {shown(event.value)}{key}{', the last one' * event.last}{_by(event)}"


def _signalled(event: ev.SignalReceived) -> str:
    key = "" if event.key is None else f", key {event.key}"
    return f"{event.name} = {shown(event.value)}{key}{_by(event)}"


def _by(event: Any) -> str:
    return "" if event.by is None else f", by {event.by}"


def _reacted(event: ev.ReactionOccurred) -> str:
    return f"= {shown(event.value)}{_how(event)}"


def _fanned_out(event: ev.FannedOut) -> str:
    return f"{count(len(event.value), 'element')}: {shown(event.value)}{_how(event)}"


def _evaluated(event: ev.ConditionEvaluated) -> str:
    return f"{'holds' if event.holds else 'does not hold'}{_how(event)}"


def _turned(event: ev.StateChanged) -> str:
    emitted = f", emitted {shown(event.emitted)}" if event.emitted else ""
    key = "" if event.key is None else f"of {shown(event.key)} "
    return f"state {key}= {shown(event.state)}{emitted}{', complete' if event.done else ''}{_how(event)}"


def _how(event: ev.ReactionOccurred | ev.FannedOut | ev.ConditionEvaluated | ev.StateChanged) -> str:
    attempt = f"attempt {event.attempt}" if event.attempt > 1 else ""
    spent = took(event.duration_ns) if event.duration_ns else ""
    how = ", ".join(filter(None, (attempt, spent)))
    return f" ({how})" if how else ""


def _retrying(event: ev.AttemptFailed) -> str:
    when = f", again at {stamp(event.retry_at)}" if event.retry_at else ""
    return f"attempt {event.attempt}: {error(event.error)}{when}"


def _failed(event: ev.RunnableFailed) -> str:
    then = "" if event.on_failure == "halt" else f", then {event.on_failure}"
    return f"{error(event.error)} after {count(event.attempts, 'attempt')}{then}"


def _edited(event: ev.RunForked) -> str:
    return f", with {shown(event.values)} at {', '.join(map(str, event.edited))}" if event.edited else ""


def _taken_over(event: ev.RunTakenOver) -> str:
    if not event.deaths:
        return "a person resumed it after it was parked"
    return "its owner died" if event.deaths == 1 else f"its owners died {event.deaths} times without progress"


def error(detail: ev.ErrorDetail) -> str:
    """Return an exception on one line."""
    first = detail.message.splitlines()[0] if detail.message else ""
    return f"{detail.type}: {first}" if first else detail.type


_TOLD: dict[type, Callable[[Any], str]] = {
    ev.WorkflowDefined: _defined,
    ev.ComponentAdded: lambda event: f"{', '.join(event.components)}; now {_defined(event)}",
    ev.ComponentRemoved: _defined,
    ev.InputReceived: _received,
    ev.SignalReceived: _signalled,
    ev.SignalRefused: lambda event: f"{event.name}: {event.reason}{_by(event)}",
    ev.ReactionOccurred: _reacted,
    ev.FannedOut: _fanned_out,
    ev.StateChanged: _turned,
    ev.SignalTaken: lambda event: f"= {shown(event.value)} (signal {event.signal})",
    ev.TimerStarted: lambda event: f"until {stamp(event.due)}",
    ev.TimerFired: lambda event: f"= {shown(event.value)}",
    ev.TokenIssued: lambda _: "",
    ev.CompletionAwaited: lambda event: "from outside" + ("" if event.due is None else f", until {stamp(event.due)}"),
    ev.CompletionReceived: lambda event: f"= {shown(event.value)}{_by(event)}",
    ev.FailureReceived: lambda event: f"{error(event.error)}, attempt {event.attempt}{_by(event)}",
    ev.RunnableCancelled: lambda event: f"{event.reason}{_by(event)}",
    ev.ConditionEvaluated: _evaluated,
    ev.RunnableDispatched: lambda event: f"attempt {event.attempt}",
    ev.RunnableDelayed: lambda event: f"from {stamp(event.at)}",
    ev.AttemptFailed: _retrying,
    ev.RunnableFailed: _failed,
    ev.RunnableSkipped: lambda event: event.reason,
    ev.RunnableRetried: lambda event: "" if event.values is None else f"with {shown(event.values)}",
    ev.PolicyChanged: lambda event: count(len(event.rules), "rule"),
    ev.ChildStarted: lambda event: f"{event.child}{'' if event.with_parent else ', on its own'}",
    ev.Notified: lambda _: "",
    ev.RunTakenOver: _taken_over,
    ev.RunRetried: lambda event: f"{count(len(event.failed), 'failure')}{_by(event)}",
    ev.RunForked: lambda event: f"from {event.origin} at event {event.head}{_edited(event)}{_by(event)}",
    ev.RunUpgraded: lambda event: f"to {_defined(event)}{_by(event)}",
    ev.CodeChanged: lambda event: ", ".join(event.components),
    ev.RunImported: lambda event: f"it was {event.origin}{_by(event)}",
    ev.RunFinished: lambda event: f"no more input{_by(event)}",
    ev.ContinuedAsNew: lambda event: f"as {event.run}{_by(event)}",
    ev.ContinuedFrom: lambda event: event.run,
    ev.StateCarried: lambda event: f"{shown(event.value)}",
    ev.RunCancelled: lambda event: f"{event.reason}{_by(event)}",
    UnknownEvent: lambda event: f"{event.tag!r}, written by a newer Weft",
}
"""A new event without a line here fails test_every_event_has_words."""
