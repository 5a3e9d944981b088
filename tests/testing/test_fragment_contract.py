"""The contract of fragments holds for what Weft has, and finds what does not keep it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from weft import Flow, Fragment, Saga, Workflow, each, join, reduce, repeat, sleep, state_machine, step
from weft.testing import FragmentContract


def double(x: int) -> int:
    """Twice as much."""
    return x * 2


class Clamped(Fragment):
    """A fragment as a user would write one."""

    def __init__(self, name: str, low: int, high: int) -> None:
        self.clamp = step(lambda x: min(max(x, low), high), name=f"{name}.clamp")
        self.work = step(double, name=f"{name}.work")

    def flow(self) -> Flow:
        return self.clamp >> self.work


class TestAFragmentOfAUser(FragmentContract):
    @pytest.fixture
    def fragment(self) -> Fragment:
        return Clamped("percent", 0, 100)

    @pytest.fixture
    def value(self) -> Any:
        return 70

    def test_it_is_composed_like_a_component(self, fragment: Fragment) -> None:
        assert Workflow("w", step(double) >> fragment >> step(str, name="text")).run(70).output == "200"


def _trip() -> Saga:
    trip = Saga("trip")
    trip.transaction(lambda request, results: request, name="book", compensate=None)
    return trip


FRAGMENTS: dict[str, Fragment] = {
    "step": step(double),
    "part": state_machine("level", init=0, reducer=lambda s, x: s + x, reactors={"high": double}).part("high")
    >> step(str, name="text"),
    "saga": _trip(),
    "loop": repeat(step(double) >> step(abs), until=lambda x: x > 9, at_most=9, name="grow"),
    "graph loop": repeat(
        join(step(double), step(abs)) >> step(lambda a, b: a + b, name="add"),
        until=lambda x: x > 9,
        at_most=9,
        name="grow",
    ),
    "each": step(range) >> each(step(double)) >> reduce(lambda acc, x: acc + x, init=0, name="total"),
    "sleep": step(double) >> sleep(lambda x: 0 * x) >> step(abs) >> sleep(until=0.0),
    "workflow": Workflow("inner", step(double) >> step(abs)),
}


class TestEveryKindOfFragment(FragmentContract):
    @pytest.fixture(params=FRAGMENTS)
    def fragment(self, request: pytest.FixtureRequest) -> Fragment:
        return FRAGMENTS[request.param]

    @pytest.fixture
    def value(self) -> Any:
        return 3


def test_a_fragment_that_is_another_one_every_time_is_found() -> None:
    number = itertools.count()

    class Changing(Fragment):
        def flow(self) -> Flow:
            return step(double, name=f"double_{next(number)}").flow()

    with pytest.raises(AssertionError):
        FragmentContract().test_every_use_is_the_same(Changing())
