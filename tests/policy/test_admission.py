"""Limits count a time that is never set, deadlines the time of day."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weft import Policy
from weft.errors import CircuitOpen, DeadlineExceeded
from weft.local.counters import LocalCounters
from weft.policy import CircuitBreaker, RateLimit
from weft.policy.admission import Admission
from weft.policy.instructions import AwaitTurn, Conditions

RATE = Policy(rate_limit=RateLimit("api", 1, per=20.0))
BREAKER = Policy(circuit_breaker=CircuitBreaker("api", failure_threshold=1, reset_timeout=30.0))


class Clocks:
    """The time of day, and one that only passes."""

    def __init__(self) -> None:
        self.time_of_day, self.passed, self.counters = 1_700_000_000.0, 0.0, LocalCounters()

    def admission(self, policy: Policy, deadline: float | None = None) -> Admission:
        """Return the limits of *policy* for one attempt."""
        given = Conditions(lambda: self.time_of_day, self.counters, lambda: 0.5, monotonic=lambda: self.passed)
        return Admission("work", policy, given, deadline)

    def waits(self, policy: Policy, deadline: float | None = None) -> Iterator[object]:
        """Yield what an attempt waits for; in the end, why it may not start, or None if it starts."""
        admission = self.admission(policy, deadline)
        refused = yield from admission.enter()
        yield refused
        if refused is None:
            assert admission.begin()


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.mark.parametrize("by", [-3_600.0, 100.0])
def test_a_rate_is_what_it_was_when_the_clock_is_set(clocks: Clocks, by: float) -> None:
    assert list(clocks.waits(RATE)) == [None]

    clocks.time_of_day += by
    second = clocks.waits(RATE)
    waits = next(second)

    assert isinstance(waits, AwaitTurn)
    assert waits.wait() == 20.0
    clocks.passed += 20.0
    assert list(second) == [None]


@pytest.mark.parametrize("by", [-3_600.0, 100.0])
def test_a_breaker_opens_for_as_long_as_it_says_when_the_clock_is_set(clocks: Clocks, by: float) -> None:
    failed = clocks.admission(BREAKER)
    assert list(failed.enter()) == []
    failed.leave(ok=False)

    clocks.time_of_day += by
    clocks.passed += 29.0
    assert isinstance(next(iter(clocks.waits(BREAKER))), CircuitOpen)
    clocks.passed += 1.0

    assert list(clocks.waits(BREAKER)) == [None]


def test_a_deadline_is_a_time_of_day(clocks: Clocks) -> None:
    assert list(clocks.waits(RATE)) == [None]

    assert isinstance(next(iter(clocks.waits(RATE, clocks.time_of_day + 19.0))), DeadlineExceeded)
    assert isinstance(next(iter(clocks.waits(RATE, clocks.time_of_day + 21.0))), AwaitTurn)
