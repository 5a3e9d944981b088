"""The names of components in a workflow."""

from __future__ import annotations

import pytest
from arithmetic import add_one, double, root

from weft import (
    Workflow,
    accumulator,
    condition,
    each,
    reduce,
    rule,
    step,
)
from weft.errors import (
    DuplicateName,
)


def test_one_name_with_different_code_is_refused() -> None:
    other = step(lambda x: x + 2, name="add_one")

    with pytest.raises(DuplicateName, match=r"called 'add_one' .*give one of them another name"):
        Workflow("w", add_one >> other)


def test_one_name_for_two_kinds_is_refused() -> None:
    other = condition(lambda x: x + 1, name="add_one")

    with pytest.raises(DuplicateName, match="a step and a condition"):
        Workflow("w", root >> add_one, root >> other >> double)


def test_one_name_with_another_constant_is_refused() -> None:
    times = step(lambda x, k: x * k, name="times")

    with pytest.raises(DuplicateName, match="'times'"):
        Workflow("w", times.bind(k=2), times.bind(k=3))


def test_one_name_with_the_same_code_is_one_component() -> None:
    again = step(lambda x: x + 1, name="add_one")

    workflow = Workflow("w", root >> add_one, add_one >> double, root >> again)

    assert workflow.hash == Workflow("w", root >> add_one >> double).hash


def test_unnamed_components_are_numbered_by_kind() -> None:
    workflow = Workflow(
        "w",
        step(lambda x: x + 1) >> step(lambda x: x + 2),
        condition(lambda x: x > 1) >> step(lambda x: x + 3),
        each(step(lambda x: x + 4)) >> reduce(lambda acc, x: acc + x, init=0),
        rule(then=lambda x: x),
        accumulator(lambda s, x: s + x, init=0),
    )

    assert set(workflow.components) == {
        *("step_1", "step_2", "step_3", "step_4"),
        *("condition_1", "map_1", "reduce_1", "rule_1", "accumulator_1"),
    }


def test_a_number_that_is_taken_is_left_out() -> None:
    taken = step(lambda x: x + 1, name="step_1")

    workflow = Workflow("w", taken).add(step(lambda x: x + 2)).add(step(lambda x: x + 3))

    assert list(workflow.components) == ["step_1", "step_2", "step_3"]
