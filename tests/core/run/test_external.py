"""External steps in memory: a token ends them, once."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Policy, Run, Workflow, accumulator, current, each, reduce, step
from weft.core import events as ev
from weft.core.run.external import parse_token, token_text
from weft.errors import (
    ExternalFailure,
    InvalidArgument,
    InvalidPolicy,
    InvalidToken,
    NoToken,
    StepTimeout,
    TokenExpired,
)
from weft.policy import RetryWith, Value
from weft.testing import VirtualClock

EXTERNAL = Policy(execution_mode="external")


class Desk:
    """Keeps the tokens that a step hands out."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def ask(self, x: Any) -> str:
        self.tokens.append(current().token)
        return "what it returns is dropped"

    def workflow(self, policy: Policy = EXTERNAL) -> Workflow:
        flow = step(self.ask, name="ask") >> step(lambda value: [value], name="wrap")
        return Workflow("desk", flow, policies=[("ask", policy)])


def kinds(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.log()[2:]]


def test_the_run_waits_until_the_step_is_completed() -> None:
    desk = Desk()
    run = desk.workflow().run(1)

    assert (run.status, run.waiting_for) == ("waiting", ["ask"])
    assert run.tokens == {desk.tokens[0]: "ask"}
    run.complete(desk.tokens[0], 5, by="Ada").react_until_satisfied()

    assert run.results() == {"wrap": [5]}
    assert run.tokens == {}
    assert kinds(run) == [
        *("RunnableDispatched", "TokenIssued", "CompletionAwaited", "CompletionReceived", "ReactionOccurred")
    ]
    assert run.fact("ask").value == 5
    assert Run.from_log(run.log()) == run


def test_a_restored_run_knows_its_tokens() -> None:
    desk = Desk()
    run = Run.from_log(desk.workflow().run(1).log())

    assert (run.status, run.tokens) == ("waiting", {desk.tokens[0]: "ask"})
    assert run.complete(desk.tokens[0], 5).react_until_satisfied().results() == {"wrap": [5]}
    assert len(desk.tokens) == 1, "the function was not called again"


def test_a_token_works_once_and_says_why_it_works_no_more() -> None:
    desk = Desk()
    run = desk.workflow().run(1)
    run.complete(desk.tokens[0], 5, by="Ada")
    length = len(run.log())

    with pytest.raises(TokenExpired, match="'ask' was completed with it, by Ada"):
        run.complete(desk.tokens[0], 6)
    with pytest.raises(TokenExpired):
        run.fail(desk.tokens[0], "no")
    assert len(run.log()) == length


@pytest.mark.parametrize("text", ["", "x", "a.b", ".", "!!.secret", 5, "bm8tcnVu.secret"])
def test_what_is_not_a_token_of_the_run_is_refused(text: Any) -> None:
    run = Desk().workflow().run(1)

    with pytest.raises(InvalidToken):
        run.complete(text, 1)


def test_a_token_that_the_run_has_not_issued_is_refused() -> None:
    run = Desk().workflow().run(1)

    with pytest.raises(InvalidToken, match="has not issued"):
        run.complete(token_text(run.id, "guessed"), 1)


@pytest.mark.parametrize("run_id", ["r", "order-17", "a.b/c?d", "é", "x" * 300])
def test_a_token_can_be_read_whatever_the_id_of_its_run(run_id: str) -> None:
    assert parse_token(token_text(run_id, "s3-cr_et")) == (run_id, "s3-cr_et")


def test_tokens_differ_from_step_to_step() -> None:
    desk = Desk()
    flow = each(step(desk.ask, name="ask")) >> reduce(lambda so_far, x: so_far + x, init=0, name="sum")
    run = Workflow("w", flow, policies=[("ask", EXTERNAL)]).run([1, 2, 3])

    assert len(set(desk.tokens)) == 3
    for value, token in enumerate(desk.tokens):
        run.complete(token, value)
    assert run.react_until_satisfied().results() == {"sum": 3}


def test_a_failure_from_outside_is_retried_as_the_policy_says_with_another_token() -> None:
    desk = Desk()
    run = desk.workflow(EXTERNAL.merge(Policy(max_retries=1))).run(1)

    run.fail(desk.tokens[0], ValueError("no"), by="Bob").react_until_satisfied()
    assert (run.status, len(desk.tokens)) == ("waiting", 2)
    with pytest.raises(TokenExpired, match=r"has failed \(ValueError\), by Bob"):
        run.complete(desk.tokens[0], 1)
    run.fail(desk.tokens[1], "still no").react_until_satisfied()

    (failure,) = run.failures.values()
    assert failure.attempts == 2
    assert isinstance(failure.__cause__, ExternalFailure)
    assert Run.from_log(run.log()) == run


def test_a_class_that_is_not_worth_a_retry_is_not_retried() -> None:
    desk = Desk()
    run = desk.workflow(EXTERNAL.merge(Policy(max_retries=3, non_retryable=(ValueError,)))).run(1)

    run.fail(desk.tokens[0], ValueError("no")).react_until_satisfied()

    assert len(desk.tokens) == 1
    assert list(run.failures) == ["ask"]


def test_a_fallback_completes_the_step() -> None:
    desk = Desk()
    policy = EXTERNAL.merge(Policy(fallback=lambda runnable, error: Value(str(error))))
    run = desk.workflow(policy).run(1)

    run.fail(desk.tokens[0], "no").react_until_satisfied()

    assert run.results() == {"wrap": ["no"]}
    assert run.tokens == {}


def test_a_fallback_may_call_another_function() -> None:
    desk = Desk()
    policy = EXTERNAL.merge(Policy(fallback=lambda runnable, error: runnable.using(lambda x: x + 1)))
    run = desk.workflow(policy).run(1)

    run.fail(desk.tokens[0], "no").react_until_satisfied()

    assert run.results() == {"wrap": [2]}


def test_a_fallback_cannot_ask_for_the_step_again() -> None:
    desk = Desk()
    run = desk.workflow(EXTERNAL.merge(Policy(fallback=lambda runnable, error: RetryWith()))).run(1)

    run.fail(desk.tokens[0], "no").react_until_satisfied()

    (failure,) = run.failures.values()
    assert "is external" in str(failure.__cause__)


def test_a_failing_function_ends_its_attempt() -> None:
    def broken(x: int) -> None:
        raise ValueError(current().token)

    run = Workflow("w", step(broken, name="ask"), policies=[("ask", EXTERNAL)]).run(1)

    (failure,) = run.failures.values()
    with pytest.raises(TokenExpired):
        run.complete(str(failure.__cause__), 1)


def test_a_step_that_is_not_completed_in_time_fails() -> None:
    desk, clock = Desk(), VirtualClock()
    run = desk.workflow(EXTERNAL.merge(Policy(timeout=60.0))).plan(1).under(clock=clock).react_until_satisfied()
    awaited = next(event for event in run.log() if isinstance(event, ev.CompletionAwaited))
    assert awaited.due is not None

    run.fire_timers(awaited.due - 1)
    assert run.status == "waiting"
    run.fire_timers(awaited.due).react_until_satisfied()

    (failure,) = run.failures.values()
    assert isinstance(failure.__cause__, StepTimeout)
    with pytest.raises(TokenExpired, match="StepTimeout"):
        run.complete(desk.tokens[0], 1)


def test_an_answer_may_come_before_the_function_returns() -> None:
    runs: list[Run] = []

    def ask(x: int) -> None:
        runs[0].complete(current().token, x + 1)

    run = Workflow("w", step(ask, name="ask") >> step(str, name="text"), policies=[("ask", EXTERNAL)]).plan(1)
    runs.append(run)

    assert run.react_until_satisfied().results() == {"text": "2"}


def test_a_failure_may_come_before_the_function_returns() -> None:
    runs: list[Run] = []

    def ask(x: int) -> None:
        runs[0].fail(current().token, "no")

    run = Workflow("w", step(ask, name="ask"), policies=[("ask", EXTERNAL)]).plan(1)
    runs.append(run)

    assert list(run.react_until_satisfied().failures) == ["ask"]


def test_the_loop_of_coroutines_knows_external_steps() -> None:
    tokens: list[str] = []

    async def ask(x: int) -> None:
        tokens.append(current().token)

    run = Workflow("w", step(ask, name="ask"), policies=[("ask", EXTERNAL.merge(Policy(max_retries=1)))]).run(1)
    run.fail(tokens[0], "no").react_until_satisfied()
    run.complete(tokens[1], 7)

    assert run.results() == {"ask": 7}


def test_only_steps_are_completed_from_outside() -> None:
    add = accumulator(lambda so_far, x: so_far + x, init=0, name="add")

    with pytest.raises(InvalidPolicy, match="only a step"):
        Workflow("w", add, policies=[("add", EXTERNAL)]).run(1)


def test_a_step_that_is_not_external_has_no_token() -> None:
    run = Workflow("w", step(lambda x: current().token, name="ask")).run(1)

    (failure,) = run.failures.values()
    assert isinstance(failure.__cause__, NoToken)


def test_an_error_from_outside_is_an_exception_or_text() -> None:
    desk = Desk()
    run = desk.workflow().run(1)

    with pytest.raises(InvalidArgument, match="an exception, or text"):
        run.fail(desk.tokens[0], 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_dead_letter_that_is_retried_gets_another_token() -> None:
    desk = Desk()
    run = desk.workflow(EXTERNAL.merge(Policy(on_failure="dead_letter"))).run(1)
    run.fail(desk.tokens[0], "no").react_until_satisfied()

    run.retry().react_until_satisfied()
    run.complete(desk.tokens[1], 5).react_until_satisfied()

    assert run.results() == {"wrap": [5]}
    assert Run.from_log(run.log()) == run


def test_runs_that_were_completed_apart_merge() -> None:
    desk = Desk()
    run = desk.workflow().run(1)
    other = Run.from_log(run.log())
    other.complete(desk.tokens[0], 5)

    run.merge(other)

    assert run.react_until_satisfied().results() == {"wrap": [5]}
