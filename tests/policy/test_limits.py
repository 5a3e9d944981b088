"""Decisions over shared counters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.limits import (
    BreakerState,
    RateState,
    breaker_asked,
    breaker_settled,
    breaker_spared,
    place_asked,
    place_left,
    rate_left,
    rate_moved,
    rate_taken,
    rate_wait,
)

BREAKER = CircuitBreaker("api", failure_threshold=2, reset_timeout=10.0)


def opened(at: float = 0.0) -> BreakerState:
    state = breaker_settled(BREAKER, None, ok=False, now=at)
    return breaker_settled(BREAKER, state, ok=False, now=at)


def test_failures_in_a_row_open_the_breaker_and_a_success_between_them_does_not() -> None:
    state = breaker_settled(BREAKER, None, ok=False, now=0)
    state = breaker_settled(BREAKER, state, ok=True, now=1)
    state = breaker_settled(BREAKER, state, ok=False, now=2)

    assert not state.is_open
    assert opened().is_open


def test_an_open_breaker_lets_one_probe_through_after_its_time() -> None:
    state, early = breaker_asked(BREAKER, opened(), now=9.9)
    state, probe = breaker_asked(BREAKER, state, now=10.0)
    state, second = breaker_asked(BREAKER, state, now=10.0)

    assert (early, probe, second) == ("refuse", "probe", "refuse")


def test_a_probe_decides() -> None:
    probing, _ = breaker_asked(BREAKER, opened(), now=10.0)

    assert not breaker_settled(BREAKER, probing, ok=True, now=11.0, probed=True).is_open
    again = breaker_settled(BREAKER, probing, ok=False, now=11.0, probed=True)
    assert breaker_asked(BREAKER, again, now=20.0)[1] == "refuse"


@pytest.mark.parametrize("ok", [True, False])
def test_an_open_breaker_ignores_what_comes_back_from_calls_made_before_it_opened(ok: bool) -> None:
    probing, _ = breaker_asked(BREAKER, opened(), now=10.0)

    assert breaker_settled(BREAKER, opened(), ok=ok, now=5.0) == opened()
    assert breaker_settled(BREAKER, probing, ok=ok, now=11.0) == probing


def test_a_probe_that_was_forgotten_and_is_dropped_leaves_the_place_of_another() -> None:
    probing, _ = breaker_asked(BREAKER, opened(), now=10.0)
    other, verdict = breaker_asked(BREAKER, probing, now=20.0)
    assert verdict == "probe"

    dropped = breaker_spared(BREAKER, other, asked=10.0, now=21.0)

    assert breaker_asked(BREAKER, dropped, now=21.0)[1] == "refuse"


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.tuples(st.floats(0, 15), st.sampled_from(["ask", "ok", "fail", "drop"])), max_size=40),
)
def test_never_more_probes_are_in_flight_than_the_breaker_allows(
    threshold: int, probes: int, moves: list[tuple[float, str]]
) -> None:
    breaker = CircuitBreaker("api", failure_threshold=threshold, reset_timeout=10.0, probes=probes)
    state: BreakerState | None = None
    now, under_way = 0.0, list[tuple[str, float]]()
    for gap, move in moves:
        now += gap
        if move == "ask":
            state, verdict = breaker_asked(breaker, state, now=now)
            if verdict != "refuse":
                under_way.append((verdict, now))
        elif under_way:
            verdict, asked = under_way.pop(0)
            if move != "drop":
                state = breaker_settled(breaker, state, ok=move == "ok", now=now, probed=verdict == "probe")
            elif verdict == "probe":
                state = breaker_spared(breaker, state, asked=asked, now=now)

        opened_at = None if state is None else state.opened_at
        recent = [at for verdict, at in under_way if verdict == "probe" and now - at < 10.0]
        assert opened_at is None or len([at for at in recent if at >= opened_at]) <= probes


def test_a_place_of_a_rate_is_not_taken_by_a_runnable_that_cannot_wait_for_it() -> None:
    rate = RateLimit("mail", limit=1, per=10.0)
    state, _ = rate_taken(rate, None, now=0.0)

    after, wait = rate_taken(rate, state, now=0.0, within=5.0)

    assert (after, wait) == (state, None)


def test_a_probe_that_was_never_made_or_never_heard_of_again_leaves_its_place() -> None:
    probing, _ = breaker_asked(BREAKER, opened(), now=10.0)
    spared = breaker_spared(BREAKER, probing, asked=10.0, now=10.0)

    assert breaker_asked(BREAKER, spared, now=10.0)[1] == "probe"
    assert breaker_asked(BREAKER, probing, now=20.0)[1] == "probe"


@given(st.integers(1, 5), st.floats(0.1, 10), st.integers(1, 4), st.lists(st.floats(0, 3), min_size=1, max_size=30))
def test_no_more_start_in_any_window_than_the_rate_allows(
    limit: int, per: float, burst: int, gaps: list[float]
) -> None:
    rate = RateLimit("r", limit, per, burst)
    state, now, starts = None, 0.0, []

    for gap in gaps:
        now += gap
        state, turn = rate_taken(rate, state, now=now)
        assert turn is not None
        starts.append(now + rate_wait(rate, turn, now=now))

    for i, start in enumerate(starts):
        assert sum(1 for other in starts[i:] if other < start + per * 0.999) <= limit + burst - 1


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(
        st.tuples(st.floats(0, 0.5), st.sampled_from(["take", "take", "drop", "move"]), st.integers(0, 9)), max_size=60
    ),
)
def test_no_more_start_than_the_rate_allows_whatever_is_given_back_and_exchanged(
    limit: int, burst: int, moves: list[tuple[float, str, int]]
) -> None:
    rate = RateLimit("r", limit, 1.0, burst)
    state: RateState | None = None
    now, waiting, starts = 0.0, list[float](), list[float]()

    for gap, move, which in [*moves, (1_000.0, "", 0)]:
        now += gap
        begun = [turn for turn in waiting if turn - (burst - 1) / limit <= now]
        starts += [turn - (burst - 1) / limit for turn in begun]
        waiting = [turn for turn in waiting if turn not in begun]
        if move == "take":
            state, turn = rate_taken(rate, state, now=now)
            assert turn is not None
            if rate_wait(rate, turn, now=now):
                waiting.append(turn)
            else:
                starts.append(now)
        elif move == "drop" and waiting:
            state, _ = rate_left(rate, state, waiting.pop(which % len(waiting)), now=now)
        elif move == "move" and waiting:
            before = waiting.pop(which % len(waiting))
            state, turn = rate_moved(rate, state, before, now=now)
            assert turn <= before
            if rate_wait(rate, turn, now=now):
                waiting.append(turn)
            else:
                starts.append(now)

    starts.sort()
    for i, start in enumerate(starts):
        assert sum(1 for other in starts[i:] if other < start + 0.999) <= limit + burst - 1


@given(st.integers(1, 30), st.randoms())
def test_turns_that_are_all_given_back_leave_nothing_behind(count: int, dice: Any) -> None:
    rate = RateLimit("r", limit=1, per=10.0)
    state, _ = rate_taken(rate, None, now=0.0)
    before, turns = state, list[float]()
    for _ in range(count):
        state, turn = rate_taken(rate, state, now=0.0)
        assert turn is not None
        turns.append(turn)
    dice.shuffle(turns)

    for turn in turns:
        state, _ = rate_left(rate, state, turn, now=1.0)

    assert state == before


def test_a_turn_whose_time_is_past_cannot_be_caught_up() -> None:
    rate = RateLimit("r", limit=1, per=10.0)
    state, first = rate_taken(rate, None, now=0.0)
    state, second = rate_taken(rate, state, now=0.0)
    assert first is not None

    after, is_free = rate_left(rate, state, first, now=5.0)

    assert (after, is_free, second) == (state, False, 10.0)


@given(st.integers(1, 4), st.lists(st.booleans(), max_size=40))
def test_places_are_never_more_than_the_limit(most: int, moves: list[bool]) -> None:
    limit, state, held = ConcurrencyLimit("db", most), None, 0

    for enters in moves:
        if enters:
            state, got = place_asked(limit, state)
            held += got
        elif held:
            state, held = place_left(state), held - 1
        assert held <= most
