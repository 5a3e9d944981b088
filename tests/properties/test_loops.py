"""Loops beside joins, maps and readers, driven in all orders and cut off anywhere, against a loop in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
from cases import TURNS, budget
from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Workflow, condition, each, join, latest, reduce, repeat, step
from weft.core.compose.flow import Flow
from weft.errors import LoopExhausted


class Loop(msgspec.Struct, frozen=True):
    """A loop that adds *by*, in *steps* steps a turn, until it has reached *goal*; it fails on *bad*."""

    by: int
    steps: int
    goal: int
    at_most: int
    gives_last: bool
    bad: int
    shape: str = "chain"
    """How a turn goes on after its steps, without another value: by itself, or through a graph."""

    def component(self) -> Any:
        """The loop as a component."""

        def add(x: int) -> int:
            if x == self.bad:
                raise ValueError(x)
            return x + self.by

        chain: Any = step(add, name="add0")
        for number in range(1, self.steps):
            chain = chain >> step(add, name=f"add{number}")
        return repeat(
            SHAPES[self.shape](chain),
            until=lambda x: x >= self.goal,
            at_most=self.at_most,
            otherwise="last" if self.gives_last else "fail",
            name="loop",
        )

    def plainly(self, x: int) -> int | None:
        """Return what comes of *x*; None if that is a failure."""
        for _ in range(self.at_most):
            for _ in range(self.steps):
                if x == self.bad:
                    return None
                x += self.by
            if x >= self.goal:
                return x
        return x if self.gives_last else None


left, right = step(lambda x: x, name="left"), step(lambda x: x, name="right")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
is_small = condition(lambda x: x < 5, name="is_small")
last = reduce(lambda _, x: x, init=0, name="last")


def two_ways(chain: Any) -> Any:
    """Only one of the ways into the last step is taken."""
    same = step(lambda x: x, name="same")
    return Workflow("loop", chain >> is_even >> left >> same, chain >> ~is_even >> right >> same)


def at_once(chain: Any) -> Any:
    """The beginning of a turn reaches one step by several ways."""
    fed = chain.flow().entries[0].child if isinstance(chain, Flow) else chain
    return Workflow("loop", is_even >> fed, ~is_even >> fed, is_small >> fed, chain)


SHAPES: dict[str, Callable[[Any], Any]] = {
    "chain": lambda chain: chain,
    "join": lambda chain: chain >> [left, right] >> step(lambda x, _: x, name="one"),
    "either": lambda chain: chain >> join(is_even >> left, ~is_even >> right, wait="any"),
    "ways": two_ways,
    "at once": at_once,
    "map": lambda chain: chain >> step(lambda x: [0, x], name="list") >> each(left) >> last,
    "loop": lambda chain: chain >> repeat([left, right] >> both, until=lambda _: True, at_most=2, name="inner"),
}
both = step(lambda x, _: x, name="both")

loops = st.builds(
    Loop,
    by=st.integers(1, 3),
    steps=st.integers(1, 3),
    goal=st.integers(0, 12),
    at_most=st.integers(1, 4),
    gives_last=st.booleans(),
    bad=st.integers(-1, 8),
    shape=st.sampled_from(sorted(SHAPES)),
)


def advance(run: Run, order: random.Random, turns: int | None = None) -> Run:
    """Run one runnable after another, in a random order."""
    while (turns is None or turns > 0) and (runnables := run.prepare()):
        run.apply(order.choice(runnables).execute())
        turns = None if turns is None else turns - 1
    return run


collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
other = step(lambda x: x, name="other")


@budget(2)
@given(loops, st.lists(st.integers(0, 6), max_size=4), st.randoms(use_true_random=False), TURNS)
def test_a_loop_for_each_element_gives_what_a_loop_in_python_gives(
    loop: Loop, values: list[int], order: random.Random, turns: int
) -> None:
    expected = [loop.plainly(value) for value in values]
    run = Workflow("w", each(loop.component()) >> collect).plan(values)

    begun = advance(run, order, turns)
    whole = advance(Run.from_log(begun.log()), order)

    assert whole.results().get("collect") == (None if None in expected else expected)
    assert Run.from_log(whole.log()) == whole
    assert whole.status == "idle"
    assert not whole.memory.blocked


@budget(2)
@given(loops, st.integers(0, 6), st.randoms(use_true_random=False), TURNS)
def test_a_component_that_waits_for_a_loop_hears_how_it_ended(
    loop: Loop, value: int, order: random.Random, turns: int
) -> None:
    expected = loop.plainly(value)
    tell = step(lambda x, y: (x if x or x == 0 else None, y), name="tell")
    reads = step(lambda x, seen=latest("loop", default="none"): seen, name="reads")
    flow = Workflow("w", join(loop.component(), other, wait="all_done") >> tell, reads)

    begun = advance(flow.plan(value), order, turns)
    whole = advance(Run.from_log(begun.log()), order)

    assert whole.value("tell") == (expected, value)
    assert whole.value("reads") == ("none" if expected is None else expected)
    assert whole.failed == (expected is None)


@budget(1)
@given(loops, st.integers(0, 6), st.randoms(use_true_random=False))
def test_a_failure_of_a_loop_goes_to_its_route(loop: Loop, value: int, order: random.Random) -> None:
    handled = step(lambda failure: failure.type, name="handled")
    flow = Workflow("w", loop.component().on_error(ValueError, LoopExhausted, then=handled) >> other)

    run = advance(flow.plan(value), order)

    expected = loop.plainly(value)
    assert not run.failed
    assert list(run.results()) == (["handled"] if expected is None else ["other"])
