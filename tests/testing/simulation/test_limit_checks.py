"""Limits, seen from outside: each gauge says when one was not kept, and is silent when it was."""

from __future__ import annotations

from weft import Policy
from weft.policy import DEFAULT, CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.testing import Scenario
from weft.testing.simulation.limit_checks import LimitChecks


def limits(*policies: Policy, but: tuple[str, ...] = ()) -> LimitChecks:
    """Return gauges for a scenario with these *policies* for everything, the second one after a change."""
    rules = [((DEFAULT, policy),) for policy in policies]
    made = LimitChecks(Scenario(rules=rules[0], others=rules[-1], max_concurrency=1), but=but)
    made.begin_life(0.0)
    return made


def test_more_at_once_than_there_are_places_is_seen() -> None:
    limit = limits(Policy(concurrency_limit=ConcurrencyLimit("places", 1)))

    assert limit.begins("r", "a", 0.0) == []
    assert limit.begins("r", "b", 0.0) == ["2 are in flight where 1 may be"]
    limit.ends("a", "completed", 1.0)
    limit.ends("b", "completed", 1.0)
    assert limit.begins("r", "b", 1.0) == []


def test_a_new_process_has_all_places() -> None:
    limit = limits(Policy(concurrency_limit=ConcurrencyLimit("places", 1)))
    limit.begins("r", "a", 0.0)

    limit.begin_life(5.0)

    assert limit.begins("r", "a", 5.0) == []


def test_starts_that_come_too_early_for_their_number_are_seen() -> None:
    limit = limits(Policy(rate_limit=RateLimit("rate", limit=2, per=1.0, burst=2)))

    assert limit.begins("r", "a", 0.0) + limit.begins("r", "a", 0.0) + limit.begins("r", "a", 0.5) == []
    assert limit.begins("r", "a", 0.9)[0].startswith("4 have started in 0.900 seconds")


def test_a_call_of_what_keeps_failing_is_seen() -> None:
    limit = limits(Policy(circuit_breaker=CircuitBreaker("breaker", failure_threshold=2, reset_timeout=5_000.0)))
    for moment in (0.0, 1.0):
        limit.ends("a", "failed", moment)

    assert limit.begins("r", "a", 2.0) == []  # it may have been let through before
    assert limit.begins("r", "a", 3.0) == ["2 have started in the 2.000 seconds since the breaker opened"]
    assert limit.begins("other", "a", 3.0) == []
    assert limit.begins("r", "a", 5_001.0) == []


def test_a_breaker_of_which_only_itself_knows_the_count_is_left_alone() -> None:
    limit = limits(Policy(circuit_breaker=CircuitBreaker("breaker", failure_threshold=1, reset_timeout=5_000.0)))
    limit.ends("a", "cancelled", 0.0)
    limit.ends("a", "failed", 1.0)

    assert limit.begins("r", "a", 2.0) + limit.begins("r", "a", 2.0) == []


def test_only_what_all_policies_limit_is_counted() -> None:
    limit = limits(Policy(concurrency_limit=ConcurrencyLimit("places", 1)), Policy())

    assert limit.begins("r", "a", 0.0) + limit.begins("r", "a", 0.0) == []


def test_what_may_have_a_policy_of_its_own_is_not_counted() -> None:
    limit = limits(Policy(concurrency_limit=ConcurrencyLimit("places", 1)), but=("a",))

    assert limit.begins("r", "a", 0.0) + limit.begins("r", "b", 0.0) == []
