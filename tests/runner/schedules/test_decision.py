"""The decision of a schedule, at any sequence of looks."""

from __future__ import annotations

from itertools import accumulate
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from weft.runner.schedules.decision import (
    MOST_PENDING,
    Overlap,
    Schedule,
    ScheduleState,
    decide,
    look_at,
)
from weft.runner.schedules.timing import Cron, Every, Once, between, delay, firing_id

START = 1_790_000_000.0
timings = st.sampled_from(
    [Every(60), Every(7.5), Cron("*/5 * * * *"), Cron("30 2 * * *", "Europe/Berlin"), Once(START + 500)]
)
overlaps = st.sampled_from(get_args(Overlap))
steps = st.one_of(st.floats(0, 30), st.floats(0, 4000), st.floats(-4000, 0), st.floats(0, 1e6))


def of(**given: object) -> Schedule:
    return Schedule(**{"name": "s", "workflow": "w", "timing": Every(60), **given})  # type: ignore[arg-type]


def started(state: ScheduleState) -> ScheduleState:
    """The runs that were decided have been started."""
    return replace(state, starting=())


@given(timings, overlaps, st.floats(0, 100), st.integers(0, 5), st.lists(st.tuples(steps, st.booleans()), max_size=40))
@settings(deadline=None)
def test_no_nominal_time_is_started_twice_whatever_the_clock_does(
    timing: Every | Cron | Once, overlap: Overlap, jitter: float, catch_up: int, looks: list[tuple[float, bool]]
) -> None:
    schedule = of(timing=timing, overlap=overlap, jitter=jitter, catch_up=catch_up)
    state, seen = ScheduleState(cursor=START), list[float]()
    for now, (_, is_free) in zip(accumulate((step for step, _ in looks), initial=START), looks, strict=False):
        decision = decide(schedule, state, now, is_free=is_free)
        assert decision.state.cursor >= state.cursor
        assert len(decision.state.pending) <= MOST_PENDING
        assert all(at + delay("s", at, jitter) <= now for at in decision.starts)
        if overlap != "allow":
            assert len(decision.starts) <= (1 if is_free else 0)
        if decision.starts:
            assert decision.state.last_run == firing_id("s", decision.starts[-1])
        seen += decision.starts
        state = started(decision.state)

    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)


@given(timings, st.floats(0, 50), st.lists(st.floats(0.1, 30), max_size=60))
@settings(deadline=None)
def test_a_fleet_that_looks_often_enough_fires_every_time(
    timing: Every | Cron | Once, jitter: float, waits: list[float]
) -> None:
    schedule, state, seen = (
        of(timing=timing, overlap="allow", jitter=jitter),
        ScheduleState(cursor=START),
        list[float](),
    )
    now = START
    for now in accumulate(waits, initial=START):
        decision = decide(schedule, state, now, is_free=False)
        seen += decision.starts
        state = started(decision.state)
        assert look_at(schedule, state, now) > now or len(decision.starts) == 100

    expected = between(timing, START, now)
    assert seen == expected[: len(seen)]
    assert all(at + jitter > now - 30 for at in expected[len(seen) :])


@given(timings, st.integers(0, 10), st.floats(0, 1e6))
@settings(deadline=None)
def test_after_an_outage_the_last_of_the_missed_are_fired(
    timing: Every | Cron | Once, catch_up: int, outage: float
) -> None:
    now = START + outage
    schedule = of(timing=timing, overlap="allow", catch_up=catch_up)
    missed, on_time = between(timing, START, now - 60), between(timing, max(START, now - 60), now)

    decision = decide(schedule, ScheduleState(cursor=START), now, is_free=True)

    assert list(decision.starts) == (missed[-catch_up:] if catch_up else []) + on_time
    assert (decision.missed is not None) == (len(missed) > catch_up)


def test_a_firing_that_overlaps_is_skipped_and_counted() -> None:
    schedule, state = of(), ScheduleState(cursor=START, last_run="s@before")

    decision = decide(schedule, state, START + 60, is_free=False)

    assert decision.starts == ()
    assert decision.state.skipped == 1
    assert decision.state.pending == ()


@pytest.mark.parametrize("overlap", ["queue", "cancel", "allow"])
def test_a_firing_that_is_pending_when_the_clock_is_set_back_starts_when_its_time_has_come_again(
    overlap: Overlap,
) -> None:
    schedule, at = of(overlap=overlap), START + 120
    state = ScheduleState(cursor=at, pending=(at,), last_run="s@before", cancelled="s@before")

    early = decide(schedule, state, at - 100, is_free=True)

    assert (early.starts, early.state) == ((), state)
    assert look_at(schedule, state, at - 100) == at
    assert decide(schedule, state, at, is_free=True).starts == (at,)


def test_a_queued_firing_starts_when_the_run_before_has_finished() -> None:
    schedule = of(overlap="queue")
    first = decide(schedule, ScheduleState(cursor=START, last_run="s@before"), START + 125, is_free=False)
    assert len(first.state.pending) == 2
    assert first.starts == ()
    assert look_at(schedule, first.state, START + 125) == START + 127

    second = decide(schedule, first.state, START + 127, is_free=True)

    assert second.starts == first.state.pending[:1]
    assert second.state.pending == first.state.pending[1:]


def test_the_run_before_is_cancelled_once_and_the_newest_firing_follows_it() -> None:
    schedule = of(overlap="cancel")
    first = decide(schedule, ScheduleState(cursor=START, last_run="s@before"), START + 60, is_free=False)
    assert first.cancels == "s@before"
    assert len(first.state.pending) == 1

    second = decide(schedule, first.state, START + 125, is_free=False)
    assert second.cancels == ""
    assert len(second.state.pending) == 1
    assert second.state.skipped >= 1

    third = decide(schedule, second.state, START + 126, is_free=True)
    assert third.starts == second.state.pending


def test_a_paused_schedule_starts_nothing_but_a_backfill() -> None:
    state = ScheduleState(cursor=START, is_paused=True, pending=(START - 60,), backfills=((START - 300, START - 120),))
    for overlap in get_args(Overlap):
        schedule = of(overlap=overlap)
        decision = decide(schedule, replace(state, pending=()), START + 3600, is_free=True)
        assert decision.starts
        assert all(at <= START - 120 for at in decision.starts)
        assert decide(schedule, replace(state, backfills=()), START + 3600, is_free=True).starts == ()
        assert look_at(schedule, replace(state, backfills=()), START) == float("inf")


def test_a_backfill_goes_on_where_it_was() -> None:
    schedule, span = of(overlap="allow", timing=Every(1)), (START - 250, START - 0.5)
    state, seen = ScheduleState(cursor=START, is_paused=True, backfills=(span,)), list[float]()
    while state.backfills:
        decision = decide(schedule, state, START, is_free=False)
        assert len(decision.starts) <= 100
        seen += decision.starts
        state = started(decision.state)

    assert seen == between(Every(1), *span)


def test_what_was_decided_is_started_before_anything_else_is() -> None:
    state = ScheduleState(cursor=START, starting=(START,), last_run=firing_id("s", START))

    decision = decide(of(), state, START + 1000, is_free=True)

    assert decision.starts == (START,)
    assert decision.state == state
    assert look_at(of(), state, START) == START + 5
