"""
Schedules as rows of a store, and back; and how they are shown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from weft.core import events as ev
from weft.core.functions.references import MISSING
from weft.core.workflow import Workflow
from weft.errors import CorruptStore
from weft.log.messages import decode_message, encode_message
from weft.ports.schedules import StoredSchedule
from weft.runner.schedules.decision import Changed, Overlap, Schedule, ScheduleState, look_at
from weft.runner.schedules.timing import Cron, Every, Once, Timing, shown


class Kept(msgspec.Struct, frozen=True):
    """The body of a row."""

    schedule: Schedule
    state: ScheduleState


class ScheduleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as ``schedules()`` shows it."""

    name: str
    workflow: str
    timing: str
    """Its rule, in words."""
    overlap: Overlap
    is_paused: bool
    next_at: datetime | None
    """When it is looked at next; None if nothing is left to do."""
    last_at: datetime | None
    """The nominal time of its last firing."""
    last_run: str
    fired: int
    skipped: int
    """How many firings were dropped because the run before had not finished."""
    pending: int
    """How many firings wait for the end of the run before."""
    backfills: int
    """How many spans are still to be fired."""
    problem: str
    """Why it could not fire, if it could not."""
    changed: Changed | None = None
    """The last pause, unpause or backfill, with the caller and the time."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


def kept(row: StoredSchedule) -> Kept:
    """
    Return the schedule in *row*, and how far it has come.

    Raises:
        CorruptStore: it cannot be read.
    """
    try:
        return _decode(row.body)
    except msgspec.MsgspecError as error:
        raise CorruptStore(f"the schedule {row.name!r}", str(error)) from error


def stored(schedule: Schedule, state: ScheduleState, now: float, revision: int) -> StoredSchedule:
    """Return the row of a schedule, in place of the one with this *revision*."""
    at = look_at(schedule, state, now)
    return with_look_at(schedule, state, at, revision)


def with_look_at(schedule: Schedule, state: ScheduleState, at: float, revision: int) -> StoredSchedule:
    """Return the row of a schedule that is looked at at a time."""
    body = _encode(Kept(schedule, state))
    return StoredSchedule(name=schedule.name, workflow=schedule.workflow, look_at=at, body=body, revision=revision)


def encoded_input(value: Any) -> bytes | None:
    """
    Return the input of a schedule as bytes; None if it has none.

    Raises:
        UnencodableValue: it cannot be stored.
    """
    return None if value is MISSING else encode_message(ev.InputReceived(0, value, 0))


def input_of(schedule: Schedule, at: float, workflow: Workflow[Any, Any]) -> Any:
    """
    Return the input of the run for the nominal time *at*.

    Raises:
        CorruptLog: it cannot be read here.
    """
    if schedule.input is None:
        return datetime.fromtimestamp(at, UTC)
    event = decode_message(schedule.input, workflow)
    assert isinstance(event, ev.InputReceived)  # noqa: S101 - encoded_input() writes nothing else
    return event.value


def status_of(row: StoredSchedule) -> ScheduleStatus:
    """Return a schedule as users see it."""
    found = kept(row)
    schedule, state = found.schedule, found.state
    return ScheduleStatus(
        name=schedule.name,
        workflow=schedule.workflow,
        timing=in_words(schedule.timing),
        overlap=schedule.overlap,
        is_paused=state.is_paused,
        next_at=None if row.look_at == float("inf") else datetime.fromtimestamp(row.look_at, UTC),
        last_at=None if state.last_at is None else datetime.fromtimestamp(state.last_at, UTC),
        last_run=state.last_run,
        fired=state.fired,
        skipped=state.skipped,
        pending=len(state.pending),
        backfills=len(state.backfills),
        problem=state.problem,
        changed=state.changed,
    )


def in_words(rule: Timing) -> str:
    """
    Return a rule in words.

    >>> in_words(Cron("0 3 * * *", "Europe/Berlin")), in_words(Every(90)), in_words(Once(0))
    ('cron 0 3 * * * Europe/Berlin', 'every 90 s', 'once 1970-01-01T00:00:00Z')
    """
    match rule:
        case Cron(expression, zone):
            return f"cron {expression} {zone}"
        case Every(seconds):
            return f"every {seconds:g} s"
        case Once(at):
            return f"once {shown(at)}"
