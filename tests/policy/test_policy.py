"""A policy: what it may say, and how policies combine."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from weft import Policy, Workflow, step
from weft.errors import InvalidPolicy
from weft.log import decode, encode
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
    ],
)
def test_what_only_a_runner_can_keep_is_refused_in_memory(policy: Policy) -> None:
    with pytest.raises(InvalidPolicy, match=r"'fetch'.*in memory"):
        check_in_memory("fetch", policy)


@pytest.mark.parametrize("name", [name for name in Policy.__struct_fields__ if name != "on_failure"])
def test_merging_sets_every_field_back_to_its_default(name: str) -> None:
    default = Policy.DEFAULTS[name]
    other = {"timeout": 5.0} if name != "timeout" else {"max_retries": 2}

    back = Policy(**other).merge(Policy(**{name: default}))

    assert back == Policy(**other)
    assert back.given == tuple(field for field in Policy.__struct_fields__ if field in (*other, name))


@pytest.mark.parametrize("other", [{"max_retries": 0}, None, 5])
def test_a_policy_is_merged_with_a_policy(other: Any) -> None:
    with pytest.raises(InvalidPolicy, match=r"merge\(\) takes a policy, got .*; use Policy\(...\)"):
        Policy().merge(other)


def test_a_merged_policy_has_what_the_other_one_sets_and_keeps_the_rest() -> None:
    patient = Policy(max_retries=3, backoff="linear", timeout=5.0)

    assert patient.merge(Policy(max_retries=0, timeout=None)) == Policy(backoff="linear")
    assert patient.merge(Policy()) == patient
    assert Policy.io().merge(Policy(max_retries=0)).max_retries == 0


def test_that_a_default_was_set_survives_being_stored() -> None:
    run = Workflow("w", step(lambda x: x, name="f")).plan(1)
    run.set_policies([("f", Policy(max_retries=0))])

    [(_, back)] = decode(encode(run.log()))[-1].rules

    assert Policy(max_retries=3).merge(back).max_retries == 0


def test_policies_that_say_the_same_are_equal_whether_a_default_was_written_or_not() -> None:
    assert Policy(max_retries=0) == Policy()
    assert hash(Policy(max_retries=0)) == hash(Policy())
    assert copy.copy(Policy(timeout=1.0)).merge(Policy(max_retries=1)) == Policy(timeout=1.0, max_retries=1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Policy(max_retry=3), r"^Policy\(max_retry=...\): .*did you mean max_retries=\? .*, timeout, "),
        (lambda: Policy.llm(max_retry=3), "did you mean max_retries"),
        (lambda: step(time_out=3), r"^step\(time_out=...\): .*did you mean timeout=\?"),
        (lambda: Policy(zzz=3), r"there is no such field; a policy has max_retries, "),
        (lambda: cast("Any", Policy)(3), r"^Policy\(3\): its fields are given by name"),
    ],
)
def test_a_field_that_a_policy_does_not_have_is_refused_with_the_one_that_may_be_meant(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(InvalidPolicy, match=said):
        make()


def _pickled(policy: Policy) -> Policy:
    return cast("Policy", pickle.loads(pickle.dumps(policy)))  # noqa: S301 - its own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
def test_a_copy_of_a_policy_sets_what_the_original_sets(copied: Callable[[Policy], Policy]) -> None:
    policy = copied(Policy(timeout=5.0, priority=0))

    assert policy.given == ("timeout", "priority")
    assert Policy(max_retries=3, priority=2).merge(policy) == Policy(max_retries=3, timeout=5.0)
