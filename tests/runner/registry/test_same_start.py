"""Whether a start is the same as the one before: the workflow's name, and an equal input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from weft import Run, Workflow, step
from weft.core.functions.references import MISSING
from weft.runner.options import StartRequest
from weft.runner.registry.same_start import difference

flow = Workflow("flow", step(lambda x: x, name="same"))
changed = Workflow("flow", step(lambda x: x, name="same") >> step(lambda x: x, name="more"))
other = Workflow("other", step(lambda x: x, name="same"))


@dataclass
class Order:
    """A value of an application."""

    total: float


class Odd:
    """A value that has no content hash, and knows its equals."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, another: object) -> bool:
        return isinstance(another, Odd) and another.number == self.number

    __hash__ = None  # type: ignore[assignment]


def started(value: Any = MISSING, *, last: bool = True) -> Run:
    """Return a run as a start has left it."""
    run = Run(flow)
    return run if value is MISSING else run.plan(value, last=last)


@pytest.mark.parametrize("value", [1, None, "x", [1, {"a": 2.5}], {"a": 1, "b": 2}, Order(5.0), Odd(3)])
def test_a_start_with_an_equal_input_is_the_same(value: Any) -> None:
    equal = {"b": 2, "a": 1} if value == {"a": 1, "b": 2} else value

    assert difference(started(value), flow, StartRequest(equal, is_last=True)) == ""


def test_a_start_with_a_changed_definition_of_the_same_name_is_the_same() -> None:
    assert difference(started(1), changed, StartRequest(1, is_last=True)) == ""


@pytest.mark.parametrize(
    ("run", "workflow", "value", "last", "said"),
    [
        (started(1), other, 1, True, "as a run of 'flow', not of 'other'"),
        (started(1), flow, 2, True, "with another input"),
        (started(1), flow, True, True, "with another input"),
        (started(Order(1.0)), flow, Order(2.0), True, "with another input"),
        (started(Odd(1)), flow, Odd(2), True, "with another input"),
        (started(1), flow, MISSING, True, "and was started with an input"),
        (started(), flow, 1, True, "and was started without an input"),
        (started(1), flow, 1, False, "and finishes with its input"),
        (started(1, last=False), flow, 1, True, "and stays open"),
    ],
)
def test_another_start_is_told_apart(run: Run, workflow: Workflow, value: Any, last: bool, said: str) -> None:
    assert difference(run, workflow, StartRequest(value, is_last=last)) == said


def test_opening_an_open_run_again_is_the_same_whatever_it_has_been_sent() -> None:
    assert difference(started(), flow, StartRequest(MISSING, is_last=True)) == ""
    assert difference(started(1, last=False), flow, StartRequest(MISSING, is_last=True)) == ""


def test_the_first_input_is_the_one_that_counts() -> None:
    run = started(1, last=False).plan(2)

    assert difference(run, flow, StartRequest(1, is_last=False)) == ""
    assert difference(run, flow, StartRequest(2, is_last=False)) == "with another input"
