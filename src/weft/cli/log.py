"""``weft log``: prints everything that has happened in one run, in order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from weft.cli import stored
from weft.cli.options import RunId
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption
from weft.core import events as ev
from weft.core.workflow import Workflow
from weft.ports.store import FINISHED
from weft.views.event_text import details
from weft.views.text import stamp

_COLUMNS = ("SEQ", "TIME", "EVENT", "COMPONENT", "")
_PAUSE = 0.2
"""Seconds between two reads of a run that is followed."""


def log(
    run: RunId,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, with complete values.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new events until the run has finished.")
    ] = False,
) -> None:
    """Print the log of a run, without changing it."""
    screen = Screen()
    with reading(screen, store, is_endless=follow) as view:
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
    return str(event.seq), when, type(event).__name__, getattr(event, "component", ""), details(event)


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
