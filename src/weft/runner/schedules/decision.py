"""
The decision of a schedule: which firings start now, given its state, the time, and whether its last run has finished.

    due, and the last run has finished, or overlap="allow" ──► starting ──started──► (a run)
    due, and it has not:   skip ──► dropped and counted
                           queue ──► pending ──the last run has finished──► starting
                           cancel ──► pending, and the last run is cancelled
    missed ──► the last `catch_up` of them are due, the others are dropped

A firing that is pending when the clock is set back starts when its time has come again.

Pure: the same row and time give the same decision.  :mod:`weft.runner.schedules.loop` acts on it (ADR 46).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from weft.runner.schedules.timing import Timing, after, between, delay, firing_id, firings, latest

Overlap: TypeAlias = Literal["skip", "queue", "allow", "cancel"]

AT_ONCE: Final = 100
"""How many firings one look starts at most."""
MOST_PENDING: Final = 1_000
"""How many firings wait for the end of the run before, at most; later ones are dropped."""
RETRY: Final = 5.0
"""Seconds until another process starts the runs that were decided on, in case they were not started."""
RECHECK: Final = 2.0
"""Seconds between two looks at whether the last run has finished, while firings wait for that."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a user has declared it."""

    name: str
    workflow: str
    timing: Timing
    jitter: float = 0.0
    catch_up: int = 1
    tolerance: float = 60.0
    overlap: Overlap = "skip"
    input: bytes | None = None
    """Its input, as a message; None: each run gets its nominal time."""
    queue: str = "default"
    priority: int = 0


class Changed(msgspec.Struct, frozen=True):
    """The last change of a schedule by a person or a program."""

    what: str
    """``"paused"``, ``"unpaused"`` or ``"backfilled"``."""
    at: float
    by: str = ""


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a schedule has come."""

    cursor: float
    """All firings up to this nominal time are decided."""
    starting: tuple[float, ...] = ()
    pending: tuple[float, ...] = ()
    backfills: tuple[tuple[float, float], ...] = ()
    """Spans, each after a time up to another."""
    last_run: str = ""
    last_at: float | None = None
    cancelled: str = ""
    """The run that was told to end for the next one."""
    is_paused: bool = False
    fired: int = 0
    skipped: int = 0
    """How many firings were dropped because the last run had not finished."""
    problem: str = ""
    """Why it could not fire, if it could not."""
    changed: Changed | None = None


class Decision(msgspec.Struct, frozen=True):
    """The actions of one look, and the state after it."""

    state: ScheduleState
    starts: tuple[float, ...] = ()
    cancels: str = ""
    """The run to cancel."""
    missed: tuple[float, float] | None = None
    """A span in which firings were dropped since they were too late."""


def decide(schedule: Schedule, state: ScheduleState, now: float, *, is_free: bool) -> Decision:
    """
    Return what has to be done about the schedule at the time *now*.

    Args:
        is_free: whether the last run has finished, or there is none.
    """
    if state.starting:
        return Decision(state, state.starting)
    due, cursor, missed = ([], state.cursor, None) if state.is_paused else _due(schedule, state, now)
    waiting = [*state.pending, *due]
    starts: list[float] = []
    dropped, cancels = 0, ""
    if state.is_paused:
        pass
    elif schedule.overlap == "allow":
        starts = [at for at in waiting[:AT_ONCE] if _begins(schedule, at) <= now]
        waiting = waiting[len(starts) :]
    else:
        if schedule.overlap != "queue" and waiting:
            dropped, waiting = len(waiting) - 1, waiting[-1:]
        if is_free and waiting:
            if _begins(schedule, waiting[0]) <= now:  # else the clock was set back
                starts, waiting = waiting[:1], waiting[1:]
        elif schedule.overlap == "skip":
            dropped, waiting = dropped + len(waiting), []
        elif schedule.overlap == "cancel" and waiting and state.cancelled != state.last_run:
            cancels = state.last_run
    dropped, waiting = dropped + len(waiting[MOST_PENDING:]), waiting[:MOST_PENDING]
    backfills = state.backfills
    if backfills and len(starts) < AT_ONCE and (schedule.overlap == "allow" or (is_free and not (starts or waiting))):
        room = AT_ONCE - len(starts) if schedule.overlap == "allow" else 1
        found, backfills = _backfilled(schedule.timing, backfills, room)
        starts += found
    changed = replace(
        state,
        cursor=cursor,
        starting=tuple(starts),
        pending=tuple(waiting),
        backfills=backfills,
        last_run=firing_id(schedule.name, starts[-1]) if starts else state.last_run,
        last_at=starts[-1] if starts else state.last_at,
        cancelled=cancels or state.cancelled,
        fired=state.fired + len(starts),
        skipped=state.skipped + dropped,
        problem="",
    )
    return Decision(changed, tuple(starts), cancels, missed)


def look_at(schedule: Schedule, state: ScheduleState, now: float) -> float:
    """Return when the schedule has to be looked at next; infinite if nothing is left to do."""
    if state.starting:
        return now + RETRY
    is_allowed = schedule.overlap == "allow"
    times: list[float] = []
    if state.backfills:
        times.append(now if is_allowed else now + RECHECK)
    if not state.is_paused:
        if state.pending:
            times.append(max(now if is_allowed else now + RECHECK, _begins(schedule, state.pending[0])))
        following = after(schedule.timing, state.cursor)
        if following is not None:
            times.append(_begins(schedule, following))
    return min(times, default=float("inf"))


def next_firings(schedule: Schedule, state: ScheduleState, count: int) -> list[float]:
    """Return the next nominal times, as if the schedule were not paused."""
    found = firings(schedule.timing, state.cursor)
    return [at for at, _ in zip(found, range(count), strict=False)]


def _due(schedule: Schedule, state: ScheduleState, now: float) -> tuple[list[float], float, tuple[float, float] | None]:
    """Return the firings that are due, the new cursor, and the span in which some were dropped."""
    rule, cursor, missed = schedule.timing, state.cursor, None
    bound = now - schedule.tolerance - schedule.jitter
    due: list[float] = []
    if cursor < bound and (first := after(rule, cursor)) is not None and first <= bound:
        due = latest(rule, cursor, bound, schedule.catch_up)
        if not due or first < due[0]:
            missed = (first, due[0] if due else bound)
        cursor = bound
    for at in between(rule, cursor, now, AT_ONCE):
        if _begins(schedule, at) > now:
            break
        due.append(at)
        cursor = at
    return due, cursor, missed


def _begins(schedule: Schedule, at: float) -> float:
    """Return when the firing at the nominal time *at* may start."""
    return at + delay(schedule.name, at, schedule.jitter)


def _backfilled(
    rule: Timing, spans: tuple[tuple[float, float], ...], room: int
) -> tuple[list[float], tuple[tuple[float, float], ...]]:
    """Return the next firings of *spans*, *room* at most, and what is left of the spans."""
    start, end = spans[0]
    found = between(rule, start, end, room)
    is_done = len(found) < room or found[-1] >= end
    return found, spans[1:] if is_done else ((found[-1], end), *spans[1:])
