"""The decisions about a failure, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Policy
from weft.errors import DeadlineExceeded
from weft.policy.decision import (
    Compensate,
    DeadLetter,
    Fallback,
    Halt,
    Retry,
    Skip,
    TooLate,
    decide,
    first_wait,
    has_queued_too_long,
    is_silent,
)


@pytest.mark.parametrize(
    ("policy", "attempt", "error", "decision"),
    [
        (Policy(), 1, OSError(), Halt()),
        (Policy(max_retries=2), 1, OSError(), Retry(0.0)),
        (Policy(max_retries=2), 2, OSError(), Retry(0.0)),
        (Policy(max_retries=2), 3, OSError(), Halt()),
        (Policy(max_retries=2, retryable=(ValueError,)), 1, OSError(), Halt()),
        (Policy(max_retries=2, retryable=lambda error: "now" in str(error)), 1, OSError("not now"), Retry(0.0)),
        (Policy(max_retries=2, non_retryable=(OSError,)), 1, FileNotFoundError(), Halt()),
        (Policy(max_retries=2), 1, DeadlineExceeded("x"), Halt()),
        (Policy(fallback=print), 1, OSError(), Fallback()),
        (Policy(on_failure="skip"), 1, OSError(), Skip()),
        (Policy(on_failure="dead_letter"), 1, OSError(), DeadLetter()),
        (Policy(on_failure="compensate", compensation=print), 1, OSError(), Compensate()),
    ],
)
def test_the_decision_follows_from_policy_attempt_and_error(
    policy: Policy, attempt: int, error: Exception, decision: Any
) -> None:
    assert decide(policy, attempt=attempt, error=error) == decision


def test_a_retry_that_would_start_after_the_deadline_is_not_made() -> None:
    policy = Policy(max_retries=9, backoff="linear", base_delay=2.0)

    assert decide(policy, attempt=1, error=OSError(), remaining=2.5) == Retry(2.0)
    assert decide(policy, attempt=1, error=OSError(), remaining=2.0) == TooLate(2.0)


def test_the_first_attempt_waits_for_its_delay_and_its_time() -> None:
    assert first_wait(Policy(), now=5.0) == 0.0
    assert first_wait(Policy(delay=3.0), now=5.0) == 3.0
    assert first_wait(Policy(delay=3.0), now=5.0, since=4.0) == 2.0
    assert first_wait(Policy(delay=3.0), now=9.0, since=4.0) == 0.0
    assert first_wait(Policy(delay=3.0), now=5.0, since=900.0) == 3.0  # a clock was set back


def test_silence_and_queueing_are_measured_against_the_policy() -> None:
    assert is_silent(Policy(heartbeat=1.0), last_sign=0.0, now=1.5)
    assert not is_silent(Policy(), last_sign=0.0, now=99.0)
    assert has_queued_too_long(Policy(queue_timeout=1.0), ready_since=0.0, now=1.5)
    assert not has_queued_too_long(Policy(), ready_since=0.0, now=99.0)
