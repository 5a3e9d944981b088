"""Hooks around a component, or a part, of a workflow that is there already."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Saga, Workflow, each, step, workflow
from weft.errors import InvalidComponent, UnknownComponent

double = step(lambda x: x * 2, name="double")
inc = step(lambda x: x + 1, name="inc")
plain = Workflow("plain", double >> inc)


def stay() -> Saga:
    """Return a saga of one transaction."""
    made = Saga("stay")
    made.transaction(lambda request, results: f"reserved {request}", name="reserve", compensate=None)
    return made


def test_hooks_run_around_a_component_of_an_existing_workflow() -> None:
    told: list[Any] = []

    hooked = plain.with_hooks(
        "inc", before=lambda call: told.append((call.component, call.inputs)), after=lambda _, value: told.append(value)
    )

    assert hooked.run(4).output == 9
    assert told == [("inc", (8,)), 9]
    assert plain.run(4).output == 9
    assert len(told) == 2


def test_hooks_change_neither_identity_nor_shape() -> None:
    hooked = plain.with_hooks(double, before=lambda _: None).with_policies([])

    assert (hooked.hash, hooked.version, hooked.edges()) == (plain.hash, plain.version, plain.edges())


def test_several_hooks_run_in_order_behind_those_that_are_there() -> None:
    told: list[int] = []
    first = Workflow("w", double.before(lambda _: told.append(1)))

    hooked = first.with_hooks("double", before=[lambda _: told.append(2), lambda _: told.append(3)])
    hooked = hooked.with_hooks("double", before=lambda _: told.append(4))

    assert hooked.run(1).output == 2
    assert told == [1, 2, 3, 4]


def test_a_component_of_a_nested_workflow_and_of_an_each_has_hooks() -> None:
    told: list[Any] = []
    outer = Workflow("outer", each(plain))

    hooked = outer.with_hooks("plain.double", after=lambda _, value: told.append(value))

    assert hooked.run([1, 2]).results() == {"plain.inc": [3, 5]}
    assert told == [2, 4]


@pytest.mark.parametrize("taken", [False, True])
def test_a_part_has_hooks(taken: bool) -> None:
    told: list[Any] = []
    travel = Workflow("travel", stay())
    if taken:
        travel = travel.add(inc.named("text"), to="stay.reserve").remove("text")

    hooked = travel.with_hooks("stay.reserve", before=lambda call: told.append(call.inputs[0]))

    assert hooked.run("Rome").results("stay.reserve") == {"stay.reserve": "reserved Rome"}
    assert told == ["Rome"]


def test_a_traced_workflow_stays_one() -> None:
    @workflow
    def sums(x: int, y: int) -> Any:
        return step(lambda a, b: a + b, name="add")(x, y)

    told: list[Any] = []
    hooked = sums.with_hooks("add", after=lambda _, value: told.append(value))

    assert hooked(2, 3) == 5
    assert told == [5]
    assert list(hooked.inputs) == ["x", "y"]


def test_what_is_not_there_cannot_be_hooked() -> None:
    with pytest.raises(UnknownComponent, match="no component 'triple'"):
        plain.with_hooks("triple", before=lambda _: None)
    with pytest.raises(UnknownComponent, match=r"no component 'stay\.fly'"):
        Workflow("w", stay()).with_hooks("stay.fly", before=lambda _: None)
    with pytest.raises(InvalidComponent, match="has to take the call"):
        plain.with_hooks("inc", before=lambda: None)
