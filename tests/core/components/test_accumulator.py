"""Accumulators: a state that no update is lost from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft import Run, Workflow, accumulator, condition, context, each, join, step
from weft.errors import DefinitionError, InvalidJoin, UnknownComponent, WrongArity

total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")


def test_an_accumulator_folds_every_input_in_order() -> None:
    """E45: the initial state does not count as produced."""
    run = Workflow("w", total).plan()
    before = run.state_of("total")

    for value in (1, 2, 3):
        run.run(value)

    assert before == 0
    assert run.values("total") == [1, 3, 6]
    assert run.state_of("total") == 6


def test_equal_inputs_both_count() -> None:
    """E45."""
    run = Workflow("w", total).run(1)

    run.run(1)

    assert run.state_of("total") == 2


def test_inputs_planned_together_both_count() -> None:
    """E46."""
    run = Workflow("w", total).plan(1).plan(10)

    run.react_until_satisfied()

    assert run.state_of(total) == 11


def test_inputs_in_flight_all_count(finish: Callable[[Run], Run]) -> None:
    """E46: tests/local/test_concurrent.py has the same at once."""
    run = Workflow("w", step(lambda x: x, name="root") >> total).plan()
    for value in range(1, 6):
        run.plan(value)

    finish(run)

    assert run.state_of("total") == 15
    assert len(run.values("total")) == 5


def test_only_one_fold_is_offered_at_a_time() -> None:
    """E46: a second one would not know of the first."""
    run = Workflow("w", total).plan(1).plan(10)

    [runnable] = run.prepare()

    assert runnable.args == (0, 1)
    assert run.apply(runnable.execute()).prepare()[0].args == (1, 10)


def test_several_facts_of_one_input_all_count(finish: Callable[[Run], Run]) -> None:
    parents = [step(lambda x, k=k: x * k, name=f"times_{k}") for k in (1, 10, 100)]
    run = Workflow("w", *(parent >> total for parent in parents)).plan(1).plan(2)

    finish(run)

    assert run.state_of("total") == 333


def test_every_element_of_a_collection_counts(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(total)).plan([1, 2, 3]).plan([4]))

    assert run.state_of("total") == 10
    assert len(run.values("total")) == 4


def test_a_state_is_a_fact_that_flows_on() -> None:
    run = Workflow("w", total >> step(lambda s: ("any", s), name="show")).run(5)

    run.run(7)

    assert run.values("show") == [("any", 5), ("any", 12)]


def test_a_fold_that_fails_leaves_the_state_as_it_was() -> None:
    run = Workflow("w", total).run(1)

    run.run("text")
    run.run(2)

    assert run.values("total") == [1, 3]
    assert isinstance(run.failures["total"].__cause__, TypeError)
    assert run.status == "idle"


def test_a_failing_fold_lets_the_next_one_in_line_go() -> None:
    run = Workflow("w", total).plan("text").plan(2).plan(3)

    run.react_until_satisfied()

    assert run.values("total") == [2, 5]


def test_what_is_gated_off_leaves_the_state_as_it_was() -> None:
    positive = condition(lambda x: x > 0, name="positive")
    run = Workflow("w", positive >> total).run(5)

    run.run(-1)

    assert run.values("total") == [5]


def test_a_state_that_is_made_is_made_for_each_run() -> None:
    def append(items: list[int], x: int) -> list[int]:
        return [*items, x]

    workflow = Workflow("w", accumulator(append, init=list))

    assert workflow.run(1).output == [1]
    assert workflow.run(2).output == [2]


def test_an_initial_state_that_cannot_be_made_is_a_recorded_failure() -> None:
    run = Workflow("w", accumulator(lambda s, x: s + x, init=lambda: 1 / 0, name="bad")).run(1)

    assert isinstance(run.failures["bad"].__cause__, ZeroDivisionError)
    assert run.status == "idle"


def test_none_is_a_state_like_any_other() -> None:
    seen = accumulator(lambda state, x: None if state is None else x, init=1, name="seen")
    run = Workflow("w", accumulator(lambda state, _: state, init=None, name="none"), seen).run(1)

    assert run.state_of("none") is None
    assert run.state_of("seen") == 1


def test_an_async_fold_is_awaited() -> None:
    @accumulator(init=0)
    async def add(so_far: int, x: int) -> int:
        return so_far + x

    run = Workflow("w", add).plan(1).plan(2)
    run.react_until_satisfied()

    assert run.values("add") == [1, 3]


def test_a_fold_reads_the_context() -> None:
    weight = context("weight")
    weighted = accumulator(lambda s, x, w=weight: s + x * w, init=0, name="weighted")

    assert Workflow("w", weighted).run(2, context={"weight": 10}).output == 20


def test_a_decorated_accumulator_is_still_the_plain_function() -> None:
    @accumulator(init=0)
    def add(so_far: int, x: int) -> int:
        return so_far + x

    assert add(1, 2) == 3


def test_runs_of_one_workflow_share_no_state() -> None:
    workflow = Workflow("w", total)
    first, second = workflow.run(1), workflow.run(10)

    first.run(1)

    assert (first.state_of("total"), second.state_of("total")) == (2, 10)


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("function", [lambda x: x, lambda state, x, y: state])
def test_a_fold_must_take_the_state_and_a_value(function: Callable[..., object]) -> None:
    with pytest.raises(WrongArity, match=r"'bad' must take \(state, value\): the state first"):
        Workflow("w", accumulator(function, init=0, name="bad"))


def test_an_accumulator_takes_no_join() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(InvalidJoin, match=r"'total' is an? accumulator and takes no join"):
        Workflow("w", join(a, b) >> total)


def test_only_a_stateful_component_has_a_state() -> None:
    run = Workflow("w", step(lambda x: x, name="a")).run(1)

    with pytest.raises(DefinitionError, match=r"'a' keeps no state; ask for value\('a'\)"):
        run.state_of("a")


def test_the_state_of_nothing_is_an_error() -> None:
    with pytest.raises(UnknownComponent, match="no component 'sum'"):
        Workflow("w", total).run(1).state_of("sum")
