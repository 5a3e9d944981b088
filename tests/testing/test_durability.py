"""A workflow under one fault after the other: what was executed again, and where a run came to something else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from weft import Policy, Workflow, accumulator, current, each, reduce, sleep, step, wait_for
from weft.errors import DurabilityBroken, InvalidOption
from weft.policy import DEFAULT
from weft.testing import check_durability

total = reduce(lambda acc, x: acc + x, init=0, name="total")
fan = Workflow(
    "fan", step(lambda n: list(range(n)), name="split") >> each(step(lambda x: 2 * x, name="double")) >> total
)


def test_a_workflow_that_is_durable_comes_to_the_same_after_every_fault() -> None:
    report = check_durability(fan, [4])

    assert report.is_durable
    assert report.cases > 20
    assert {case.kind for case in (each.case for each in report.repeated)} <= {"kill before", "kill during"}
    assert {each.component for each in report.repeated} >= {"split", "double", "total"}


def test_steps_that_are_executed_again_are_named_with_the_fault() -> None:
    charges: Counter[str] = Counter()

    def charge(x: int) -> int:
        charges[current().idempotency_key] += 1
        return x

    report = check_durability(Workflow("shop", step(charge) >> step(lambda x: x, name="ship")), [1])

    assert report.is_durable
    assert len(charges) == 1  # whatever happens, it has the same key
    again = [str(each.case) for each in report.repeated if each.component == "charge"]
    assert "kill before 2 (event 3, ReactionOccurred of 'charge')" in again
    assert "'charge' was executed again after: " in str(report)


def counting() -> Workflow:
    """Return a workflow whose result depends on how often its step was executed."""
    calls = Counter[str]()

    def count(x: int) -> int:
        calls[current().run_id + str(x)] += 1
        return calls[current().run_id + str(x)]

    return Workflow("counts", step(lambda x: x, name="first") >> step(count) >> step(lambda x: -x, name="then"))


def test_a_result_that_depends_on_how_often_a_step_was_executed_is_found() -> None:
    with pytest.raises(DurabilityBroken) as raised:
        check_durability(counting(), [1])

    report: Any = raised.value.report
    assert not report.is_durable
    subjects = {each.subject for each in report.differences}
    assert subjects == {"what 'count' made", "what 'then' made"}
    assert "repeat it: check_durability(..., only=" in str(raised.value)


def test_what_is_ignored_is_not_compared_nor_is_what_follows_from_it() -> None:
    assert check_durability(counting(), [1], ignore=["count"]).is_durable
    assert not check_durability(counting(), [1], ignore=["then"], raises=False).is_durable
    with pytest.raises(InvalidOption, match="no such components"):
        check_durability(counting(), [1], ignore=["nonsense"])


def test_values_are_compared_as_the_caller_says() -> None:
    assert check_durability(counting(), [1], compare=lambda name, a, b: type(a) is type(b)).is_durable


def test_one_fault_can_be_repeated_alone() -> None:
    report = check_durability(fan, [4], only="kill during 2")

    assert report.cases == 1
    with pytest.raises(InvalidOption, match="no such fault"):
        check_durability(fan, [4], only="kill during 2000")


def test_of_too_many_faults_some_are_drawn_and_the_same_ones_for_the_same_seed() -> None:
    first, second = (check_durability(fan, [4], max_cases=7, seed=3) for _ in range(2))

    assert first == second
    assert (first.cases, first.left_out > 0) == (7, True)
    assert "left out" in str(first)


def test_results_that_depend_on_the_order_of_completions_are_found() -> None:
    @accumulator(init=())
    def seen(so_far: Any, x: int) -> Any:
        return (*so_far, x)

    racing = Workflow("race", each(step(lambda x: x, name="each_one") >> seen.named("seen")))

    report = check_durability(racing, [[1, 2, 3]], raises=False)

    assert {each.case.kind for each in report.differences if each.subject == "the state of 'seen'"} == {"order"}


def test_sleeps_and_signals_survive_kills_and_clocks_that_are_set() -> None:
    flow = step(lambda x: x, name="ask") >> wait_for("go", timeout=3600) >> sleep(days=2, name="nap") >> step(str)

    report = check_durability(Workflow("waits", flow), [1], signals=[("go", 5)])

    assert report.is_durable
    assert any(name.startswith("clock") for name in names(Workflow("waits", flow)))


def names(workflow: Workflow) -> list[str]:
    """Return the names of all faults of *workflow* that can be repeated."""
    from weft.testing import durability

    world = durability._World(workflow, (1,), (("go", 5),), {}, {}, (), threads=False)
    return [case.name for case in durability._cases(world.run(durability.Case("plain"), 0))]


def test_retries_failures_and_several_inputs_are_compared_too() -> None:
    @accumulator(init=0)
    def summed(so_far: int, x: int) -> int:
        return so_far + x

    def picky(x: int) -> int:
        if x == 2:
            raise ValueError(x)
        return x

    workflow = Workflow("several", step(picky) >> summed).with_policies([(DEFAULT, Policy(max_retries=1))])

    report = check_durability(workflow, [1, 2, 3], raises=False)

    found = {(each.case.kind, each.subject) for each in report.differences}
    assert found == {("order", "what 'summed' made")}  # its state is the same in the end, and what it passes on is not


def test_a_check_without_an_input_is_refused() -> None:
    with pytest.raises(InvalidOption, match="give it an input"):
        check_durability(fan, [])


ASK = step(lambda _: None, name="ask")
ANSWERED = Workflow(
    "answered", ASK >> step(lambda x: x, name="last"), policies=[("ask", Policy(execution_mode="external"))]
)


def test_external_steps_are_completed_after_every_fault() -> None:
    report = check_durability(ANSWERED, [1], completions={"ask": "yes"})

    assert report.is_durable
    assert {repeated.component for repeated in report.repeated} == {"ask", "last"}


def test_external_steps_that_fail_come_to_the_same_after_every_fault() -> None:
    rules = [("ask", Policy(execution_mode="external", max_retries=1, fallback=lambda _, __: "no"))]

    report = check_durability(ANSWERED.with_policies(rules), [1], completions={"ask": ValueError("closed")})

    assert report.is_durable


@pytest.mark.parametrize(
    ("workflow", "given", "says"),
    [
        (Workflow("w", wait_for("go")), {}, r"waits for 'go': pass signals=\[\(name, value\)\]"),
        (Workflow("w", wait_for("go")), {"signals": [("went", 1)]}, "UnknownSignal: .*'went'"),
        (Workflow("w", wait_for("go", schema=int)), {"signals": [("go", "x")]}, "InvalidSignal"),
        (ANSWERED, {}, r"waits for 'ask': pass .*completions=\{name: value\}"),
        (ANSWERED, {"completions": {"asks": 1}}, r"completions=\['asks'\]: the workflow has no such"),
    ],
)
def test_a_run_that_does_not_end_without_a_fault_is_refused_since_nothing_would_be_shown(
    workflow: Workflow, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidOption, match=says):
        check_durability(workflow, [1], **given)
