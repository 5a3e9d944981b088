"""Functions of policies are asked once for each failure, after the retries, and as the log says."""

from __future__ import annotations

from typing import Any, Literal

from weft.core.events import ErrorDetail, ReactionOccurred, RunnableFailed
from weft.testing.simulation.policy_calls import Kind, Question, misled, repeated

ERROR = ErrorDetail("ValueError", (), "no")


def asked(kind: Kind, *, attempts: int = 1, durable: int = 2) -> Question:
    """Return a question that was answered."""
    return Question("r", kind, "s(2,)", "no", attempts, durable, "completed")


def failed(on_failure: Literal["halt", "compensate"]) -> RunnableFailed:
    """Return how something ended."""
    return RunnableFailed(3, "s", (2,), ERROR, on_failure=on_failure)


def told(questions: list[Question], last: Any, retries: int = 0) -> list[str]:
    """Return what is wrong."""
    return list(misled(questions, last, retries=retries))


def test_asking_again_needs_another_attempt() -> None:
    first, again, later = asked("fallback"), asked("fallback"), asked("fallback", attempts=2)

    assert list(repeated([first], later)) == []
    assert list(repeated([first], asked("compensation"))) == []
    assert list(repeated([first], again)) == [
        "r: the fallback of s(2,) was called again, and nothing was attempted since"
    ]


def test_a_fallback_that_is_asked_before_the_retries_are_spent_is_seen() -> None:
    made = ReactionOccurred(3, "s", (2,), "spare")

    assert told([asked("fallback", attempts=3)], made, retries=2) == []
    assert told([asked("fallback", attempts=2)], made, retries=2) == [
        "the fallback of s(2,) was called after 2 attempts, with 2 retries"
    ]


def test_a_question_that_comes_when_the_outcome_is_durable_is_seen() -> None:
    assert told([asked("fallback", durable=3)], ReactionOccurred(3, "s", (2,), "spare")) == [
        "the fallback of s(2,) was called when the outcome was durable"
    ]


def test_a_compensation_is_where_the_log_says_and_nowhere_else() -> None:
    assert told([asked("compensation")], failed("compensate")) == []
    assert told([], failed("halt")) == []
    assert told([asked("compensation")], failed("halt")) == ["s(2,) was compensated, and the log does not say so"]
    assert told([], failed("compensate")) == ["s(2,) says that it was compensated for 'no', and was for []"]
