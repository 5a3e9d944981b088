"""A policy: what it may say, and how policies combine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weft import Policy
from weft.errors import InvalidPolicy
from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.policy import check_in_memory


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": -1},
        {"max_retries": 1.5},
        {"max_retries": True},
        {"backoff": "sometimes"},
        {"base_delay": -1},
        {"max_delay": float("nan")},
        {"timeout": 0},
        {"timeout": "1"},
        {"deadline": -1},
        {"on_failure": "shrug"},
        {"on_failure": "fallback"},
        {"on_failure": "compensate"},
        {"compensation": print},
        {"fallback": 5},
        {"retryable": (5,)},
        {"non_retryable": ValueError},
        {"circuit_breaker": "api"},
        {"rate_limit": 5},
        {"concurrency_limit": 5},
        {"execution_mode": "later"},
        {"priority": "high"},
        {"delay": -1},
        {"scheduled_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the missing time zone is the point
        {"queue_timeout": 0},
        {"heartbeat": 0},
        {"executor": 5},
        {"log_level": "loud"},
        {"metadata": 5},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_when_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy, match=next(iter(wrong))):
        Policy(**wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CircuitBreaker("", failure_threshold=1),
        lambda: CircuitBreaker("api", failure_threshold=0),
        lambda: CircuitBreaker("api", reset_timeout=0),
        lambda: CircuitBreaker("api", on_open="sing"),  # type: ignore[arg-type]
        lambda: RateLimit("mail", limit=0),
        lambda: RateLimit("mail", limit=1, per=-1),
        lambda: ConcurrencyLimit("db", 0),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_when_it_is_written(make: Any) -> None:
    with pytest.raises(InvalidPolicy):
        make()


def test_merging_takes_over_what_the_other_sets() -> None:
    merged = Policy(max_retries=3, timeout=10.0).merge(Policy(timeout=1.0, on_failure="skip"))

    assert (merged.max_retries, merged.timeout, merged.on_failure) == (3, 1.0, "skip")


def test_presets_can_be_changed() -> None:
    assert Policy.llm(timeout=5.0).timeout == 5.0
    assert Policy.io().max_retries == 2
    assert Policy.fast_fail().max_retries == 0


def test_a_policy_of_retries_costs_nothing_until_something_fails() -> None:
    assert Policy(max_retries=3, backoff="jitter", fallback=print).is_reactive
    assert not Policy(timeout=1.0).is_reactive
    assert not Policy(scheduled_at=datetime(2026, 1, 1, tzinfo=UTC)).is_reactive


@pytest.mark.parametrize(
    "policy",
    [
        Policy(heartbeat=1.0),
        Policy(queue_timeout=1.0),
        Policy(checkpoint_after=True),
        Policy(executor="process"),
        Policy(telemetry_prefix="x"),
        Policy(log_level="info"),
        Policy(execution_mode="external"),
    ],
)
def test_what_only_a_runner_can_keep_is_refused_in_memory(policy: Policy) -> None:
    with pytest.raises(InvalidPolicy, match=r"'fetch'.*in memory"):
        check_in_memory("fetch", policy)
