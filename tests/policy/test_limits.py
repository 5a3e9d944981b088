"""Decisions over shared counters."""

from __future__ import annotations

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


def test_a_burst_is_the_whole_limit_unless_it_is_said() -> None:
    assert RateLimit("api", 10, per=1).burst == 10
    assert RateLimit("api", 10, burst=1).burst == 1


def test_ten_may_start_at_once_and_ten_a_second_after_that() -> None:
    rate, state, starts = RateLimit("api", 10, per=1), None, list[float]()

    for tick in range(300):
        now = tick / 100
        is_taken = True
        while is_taken:
            state, is_taken = rate_taken(rate, state, now=now)
            starts += [now] if is_taken else []

    assert [sum(1 for start in starts if second <= start < second + 1) for second in range(3)] == [19, 10, 10]
    assert starts[:10] == [0.0] * 10


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
    state: RateState | None = None
    now, starts = 0.0, list[float]()

    for gap in gaps:
        now += gap
        state, is_taken = rate_taken(rate, state, now=now)
        if not is_taken:
            now += rate_wait(rate, state, now=now)
            state, is_taken = rate_taken(rate, state, now=now)
        assert is_taken
        starts.append(now)

    for i, start in enumerate(starts):
        assert sum(1 for other in starts[i:] if other < start + per * 0.999) <= limit + burst - 1


def test_a_turn_that_is_not_free_is_not_taken() -> None:
    rate = RateLimit("mail", limit=1, per=10.0)
    state, _ = rate_taken(rate, None, now=0.0)

    assert rate_taken(rate, state, now=5.0) == (state, False)
    assert rate_wait(rate, state, now=5.0) == 5.0


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
