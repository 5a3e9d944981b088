"""Runs are compared by what they hold, also if that does not compare well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from weft import Run, Workflow, step
from weft.core.events import InputReceived
from weft.core.fold.event_equality import same_values
from weft.errors import InvalidEvent


class Array(list[int]):
    """Answers elementwise, as arrays do."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return [one == another for one, another in zip(self, other, strict=True)]  # type: ignore[call-overload]


class Answers:
    """The answer of an array that compares element by element: it is neither true nor false."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


@dataclass(eq=False)
class Vague:
    """Answers with what has no truth."""

    number: int

    def __eq__(self, other: object) -> Any:
        return Answers()

    __hash__ = None  # type: ignore[assignment]


class Touchy:
    """Raises when it is compared, and has no content that anybody could look at."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError("do not compare me")


keep = step(lambda x: x, name="keep")
after = step(lambda _: 1, name="after")
workflow = Workflow("w", keep >> after)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Array([1, 2]), Array([1, 2]), True),
        (Array([1, 2]), Array([1, 3]), False),
        (Array([1, 2]), Array([1]), False),
        ([Array([1])], [Array([1])], True),
        (Vague(1), Vague(1), True),
        (Vague(1), Vague(2), False),
        (Touchy(), Touchy(), False),
        ((same := Touchy()), same, True),
        ({"a": same}, {"a": same}, True),
        (1, 1.0, True),
    ],
)
def test_values_are_the_same_by_identity_by_their_own_word_or_by_content(one: Any, other: Any, same: bool) -> None:
    assert same_values(one, other) is same


@pytest.mark.parametrize("value", [Array([0, 2]), Vague(1), Touchy()])
def test_a_run_equals_its_fold_whatever_its_values_think_of_it(value: Any) -> None:
    run = workflow.run(value)

    assert Run.from_log(run.log()) == run


@pytest.mark.parametrize(
    ("value", "twin", "other"), [(Array([1]), Array([1]), Array([2])), (Vague(1), Vague(1), Vague(2))]
)
def test_runs_of_values_without_a_plain_equality_are_compared_by_content(value: Any, twin: Any, other: Any) -> None:
    run = workflow.plan(value, id="r")

    assert rebuilt_with(run, twin) == run
    assert rebuilt_with(run, other) != run


def rebuilt_with(run: Run, value: Any) -> Run:
    """Return *run* as if it had been read from a store: with an input that is another object."""
    return Run.from_log([replace(e, value=value) if isinstance(e, InputReceived) else e for e in run.log()])


@pytest.mark.parametrize("value", [Array([1]), Vague(1), Touchy()])
def test_advances_of_a_run_merge_whatever_its_values_think_of_equality(value: Any) -> None:
    base = workflow.plan(value)
    one, other = Run.from_log(base.log()).react(), Run.from_log(base.log()).react_until_satisfied()

    one.merge(other)

    assert one.status == "idle"
    assert one.values("after") == [1]
    assert len(one.values("keep")) == 1


def test_an_input_that_was_read_twice_is_one_input_by_its_content() -> None:
    one = workflow.plan(Array([1]), id="r")
    other = rebuilt_with(one, Array([1])).react_until_satisfied()

    one.merge(other)

    assert one.status == "idle"
    assert one.memory.received == 1


def test_inputs_that_cannot_be_told_apart_are_not_merged() -> None:
    one = workflow.plan(Touchy(), id="r")
    other = rebuilt_with(one, Touchy())
    log = one.log()

    with pytest.raises(InvalidEvent, match="impossible to tell whether it is the same") as caught:
        one.merge(other)

    assert "key=" in str(caught.value)
    assert [id(event) for event in one.log()] == [id(event) for event in log]


def test_inputs_with_a_key_are_told_apart_by_it() -> None:
    one = workflow.plan(id="r").plan(Touchy(), key="k")
    other = rebuilt_with(one, Touchy()).react_until_satisfied()

    one.merge(other).react_until_satisfied()

    assert one.memory.received == 1
    assert one.values("after") == [1]
