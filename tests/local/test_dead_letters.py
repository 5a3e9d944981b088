"""Failures that are kept: listed, tried again with another policy or input, or given up."""

from __future__ import annotations

import pytest

from weft import Run, Workflow, accumulator, condition, current, each, join, reduce, rule, state_of, step
from weft.errors import InvalidPolicy, NoSuchLetter, StepFailed, WrongArity
from weft.policy import DEFAULT, Policy

KEPT = [(DEFAULT, Policy(on_failure="dead_letter"))]
is_up = False


@pytest.fixture(autouse=True)
def _down() -> None:
    global is_up  # noqa: PLW0603
    is_up = False


@step
def charge(amount: int) -> int:
    if amount < 0:
        raise ValueError("negative")
    if not is_up:
        raise ConnectionError("down")
    return amount * 2


after = step(lambda x: x + 1, name="after")
payment = Workflow("payment", charge >> after).with_policies(KEPT)


def come_up() -> None:
    global is_up  # noqa: PLW0603
    is_up = True


def test_a_dead_letter_is_listed_and_counts_as_a_failure() -> None:
    run = payment.run(5)

    [letter] = run.dead_letters
    assert (letter.component, letter.error.type, letter.attempts) == ("charge", "ConnectionError", 1)
    assert isinstance(run.failures["charge"], StepFailed)


def test_a_letter_that_is_tried_again_goes_on_as_if_it_had_never_failed() -> None:
    run = payment.run(5)
    come_up()

    run.retry().react_until_satisfied()

    assert run.results() == {"after": 11}
    assert not run.failed
    assert run.dead_letters == []


def test_a_letter_keeps_its_idempotency_key() -> None:
    keys: list[str] = []

    def flaky(x: int) -> int:
        keys.append(current().idempotency_key)
        if len(keys) == 1:
            raise OSError("once")
        return x

    run = Workflow("w", step(flaky)).with_policies(KEPT).run(1)
    run.retry("flaky").react_until_satisfied()

    assert keys[0] == keys[1]


def test_a_letter_that_fails_again_is_a_letter_again() -> None:
    run = payment.run(5)

    run.retry(run.dead_letters[0]).react_until_satisfied()

    assert len(run.dead_letters) == 1
    assert run.failed


def test_a_letter_can_be_tried_with_another_policy() -> None:
    run = payment.run(5)

    run.retry("charge", policy=Policy(max_retries=2, on_failure="dead_letter")).react_until_satisfied()

    assert run.dead_letters[0].attempts == 3


def test_a_letter_can_be_tried_with_another_input() -> None:
    come_up()
    run = payment.run(-5)

    run.retry("charge", input=7).react_until_satisfied()

    assert run.results() == {"after": 15}
    assert [fact.value for fact in run.lineage(run.fact("after"))] == [-5, 7, 14, 15]


def test_a_join_is_tried_with_as_many_values_as_it_takes() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: 0, name="b")
    divide = step(lambda x, y: x // y, name="divide")
    run = Workflow("w", [a, b] >> divide).with_policies(KEPT).run(8)

    with pytest.raises(WrongArity, match="2 values"):
        run.retry("divide", input=(1, 2, 3))
    run.retry("divide", input=(8, 2)).react_until_satisfied()

    assert run.value("divide") == 4


def test_a_reduce_waits_for_an_element_that_is_kept() -> None:
    total = reduce(lambda so_far, x: so_far + x, init=0, name="total")
    run = Workflow("w", each(charge) >> total).with_policies(KEPT).run([1, 2, 3])
    assert run.values("total") == []
    come_up()

    run.retry().react_until_satisfied()

    assert run.value("total") == 12


def test_a_letter_that_is_given_up_ends_like_what_was_skipped() -> None:
    total = reduce(lambda so_far, x: so_far + x, init=0, name="total")
    come_up()
    run = Workflow("w", each(charge) >> total).with_policies(KEPT).run([1, -2, 3])

    run.discard().react_until_satisfied()

    assert run.value("total") == 8
    assert run.skipped == ["charge"]
    assert not run.failed


def test_a_join_for_all_done_waits_for_a_letter_until_it_is_given_up() -> None:
    merge = step(lambda a, b: (bool(a), b), name="merge")
    run = Workflow("w", join(charge, after, wait="all_done") >> merge, after).with_policies(KEPT).run(1)
    assert run.values("merge") == []

    run.discard("charge").react_until_satisfied()

    assert run.value("merge") == (False, 2)


def test_a_stateful_component_goes_on_while_one_of_its_inputs_is_kept() -> None:
    def add(so_far: int, x: int) -> int:
        if x == 2 and not is_up:
            raise OSError("once")
        return so_far + x

    run = Workflow("w", accumulator(add, init=0)).with_policies(KEPT).run(1)
    run.run(2)
    run.run(3)
    assert run.state_of("add") == 4
    come_up()

    run.retry().react_until_satisfied()

    assert run.state_of("add") == 6


def test_a_condition_that_is_kept_answers_all_that_asked() -> None:
    asked: list[int] = []

    def ready(x: int) -> bool:
        asked.append(x)
        if not is_up:
            raise OSError("down")
        return True

    gate = condition(ready, name="ready")
    rules = [rule(when=gate, then=lambda x, n=n: x + n, name=f"r{n}") for n in (1, 2)]
    run = Workflow("w", *rules).with_policies(KEPT).run(1)
    come_up()

    run.retry().react_until_satisfied()

    assert run.results() == {"r1": 2, "r2": 3}
    assert asked == [1, 1]


def test_a_condition_that_is_tried_with_another_input_hands_that_on() -> None:
    def positive(x: int) -> bool:
        return x > 0

    first, second = condition(positive, name="first"), condition(lambda x: True, name="second")
    take = step(lambda x: x, name="take")
    workflow = Workflow("w", first >> take, second >> take).with_policies([("first", Policy(on_failure="dead_letter"))])
    run = workflow.run("no number")

    run.retry("first", input=5).react_until_satisfied()

    assert run.values("take") == ["no number", 5]
    assert Run.from_log(run.log()) == run


def test_letters_survive_a_restore() -> None:
    run = payment.run(5)
    come_up()

    restored = Run.from_log(run.log())
    restored.retry().react_until_satisfied()

    assert restored.results() == {"after": 11}
    assert Run.from_log(restored.log()) == restored


def test_a_restored_retry_runs_under_its_policy() -> None:
    run = payment.run(5).retry(policy=Policy(max_retries=2, on_failure="dead_letter"))

    restored = Run.from_log(run.log()).react_until_satisfied()

    assert restored.dead_letters[0].attempts == 3


def test_letters_stay_when_the_workflow_grows() -> None:
    run = payment.run(5)
    come_up()

    run.add(step(lambda x: -x, name="negative"), to="charge").retry().react_until_satisfied()

    assert run.results() == {"after": 11, "negative": -10}


def test_a_letter_that_is_not_there_is_said_so() -> None:
    run = payment.run(5)

    with pytest.raises(NoSuchLetter, match="letters of charge"):
        run.retry("after")
    with pytest.raises(NoSuchLetter, match="this run has none"):
        Workflow("w", after).run(1).discard("after")


def test_a_failure_with_a_route_is_handled_and_not_kept() -> None:
    handle = step(lambda failure: failure.type, name="handle")
    workflow = payment.add(charge.on_error(ConnectionError, then=handle))

    run = workflow.run(5)

    assert run.value("handle") == "ConnectionError"
    assert run.dead_letters == []


def test_giving_up_a_letter_of_a_stateful_component_leaves_what_is_at_work_there_alone() -> None:
    def add(total: int, x: int) -> int:
        if x == 1:
            raise ValueError("no")
        return total + x

    total = accumulator(add, init=0, name="total")
    run = Workflow("w", total).run(1, policies=[("total", Policy(on_failure="dead_letter"))])
    run.plan(2).plan(3)
    [second] = run.prepare()

    run.discard()

    assert [runnable.inputs for runnable in run.prepare()] == [second.inputs]
    assert run.react_until_satisfied().value("total") == 5
    assert Run.from_log(run.log()) == run


def test_giving_up_the_letter_of_an_idle_stateful_component_lets_its_readers_go_on() -> None:
    def add(total: int, x: int) -> int:
        if x == 2:
            raise ValueError("no")
        return total + x

    total = accumulator(add, init=0, name="total")
    reader = step(lambda x, t=state_of("total"): (x, t), name="reader")
    run = Workflow("w", total, reader).run(1, policies=[("total", Policy(on_failure="dead_letter"))])
    run.run(2)

    run.discard().react_until_satisfied()

    assert run.values("reader") == [(1, 1), (2, 1)]


@pytest.mark.parametrize("wrong", [5, "ab", (1,), (1, 2, 3)])
def test_values_that_do_not_fit_change_nothing(wrong: object) -> None:
    pair = [step(lambda x: x, name="a"), step(lambda x: x, name="b")] >> step(lambda a, b: 1 / 0, name="pair")
    run = Workflow("w", pair).run(1, policies=[("pair", Policy(on_failure="dead_letter"))])
    log = run.log()

    with pytest.raises(WrongArity, match="2 values"):
        run.retry(input=wrong)

    assert run.log() == log


def test_a_letter_is_not_tried_with_a_policy_that_cannot_be_kept() -> None:
    run = Workflow("w", step(lambda x: 1 / 0, name="s")).run(1, policies=[("s", Policy(on_failure="dead_letter"))])

    with pytest.raises(InvalidPolicy, match="heartbeat"):
        run.retry(policy=Policy(heartbeat=1.0))

    assert len(run.dead_letters) == 1


def test_the_policy_of_a_retry_is_forgotten_with_it_and_no_preview_speaks_of_it() -> None:
    kept = Policy(on_failure="dead_letter")
    run = Workflow("w", step(lambda x: 1 / 0, name="s")).run(1, policies=[("s", kept)])
    run.retry(policy=kept)

    assert run.preview([("s", Policy(max_retries=9))]) == []
    assert run.react_until_satisfied().memory.retried == {}
    assert [effect.component for effect in run.preview([("s", Policy(max_retries=9))])] == ["s"]
