"""
Hypothesis strategies: arbitrary workflows, inputs for them, and arbitrary schedules.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10)
    ... @given(graphs())
    ... def every_graph_is_a_workflow(graph):
    ...     build(graph)
    >>> every_graph_is_a_workflow()

A graph is drawn part by part, parents first, so it never has a cycle.  There are two types of wires, numbers
and lists of numbers; what takes a list apart is fed by a list, save for a few that must fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from building import build
from description import INPUT, Accumulator, Condition, Gate, Graph, Map, Part, Reduce, Rule, Step
from drafting import LARGEST, MOVES, Choices, Draft
from hypothesis import strategies as st

__all__ = ["Schedule", "build", "compose", "graphs", "inputs", "kinds", "schedules"]

T = TypeVar("T")

NUMBERS = st.integers(0, LARGEST)


class Schedule(msgspec.Struct, frozen=True):
    """
    In which order outcomes come back: at every turn the next of *picks*, used in a circle, chooses one.

    An *eager* schedule executes everything as soon as it is offered and holds the outcomes back; the other
    kind executes what it picks, when it picks it.
    """

    picks: tuple[int, ...] = (0,)
    eager: bool = True

    def pick(self, turn: int, among: Sequence[T]) -> T:
        """Return the one of *among* whose turn it is."""
        return among[self.picks[turn % len(self.picks)] % len(among)]


def schedules() -> st.SearchStrategy[Schedule]:
    """Return schedules."""
    picks = st.lists(st.integers(0, 11), min_size=1, max_size=12).map(tuple)
    return st.builds(Schedule, picks, st.booleans())


def inputs(graph: Graph) -> st.SearchStrategy[Any]:
    """Return inputs for *graph*."""
    return NUMBERS if graph.takes == "scalar" else st.lists(NUMBERS, max_size=3)


class Drawn:
    """Hypothesis decides."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        """Return a number from *low* to *high*."""
        return self._draw(st.integers(low, high))

    def any_of(self, choices: Sequence[T]) -> T:
        """Return one of *choices*."""
        return self._draw(st.sampled_from(choices))


@st.composite
def graphs(draw: st.DrawFn, **options: Any) -> Graph:
    """Return graphs with the *options* of :func:`compose`."""
    return compose(Drawn(draw), **options)


def compose(
    choices: Choices,
    *,
    size: int = 12,
    stateful: bool = True,
    readers: bool = True,
    races: bool = True,
    failures: bool = True,
) -> Graph:
    """
    Return a graph of about *size* parts at most.

    Args:
        choices: who decides.
        stateful: with accumulators.
        readers: with parameters that read other components; those that read the context are always there.
        races: with joins that wait for some of their parents.
        failures: with functions that fail on some values.
    """
    draft = Draft(choices, readers=readers, races=races, failures=failures)
    moves = [move for move, weight in MOVES.items() if stateful or move != "accumulator" for _ in range(weight)]
    while not draft.parts or (len(draft.parts) < size and choices.number(0, 15)):  # 0 ends: it shrinks to less
        getattr(draft, f"add_{choices.any_of(moves)}")()
    draft.read_downstream()
    keep = {part.name: choices.number(0, 31) > 0 for part in draft.parts}
    return Graph(_without(draft.parts, keep), draft.takes, draft.context())


def _without(parts: Sequence[Part], keep: Mapping[str, bool]) -> tuple[Part, ...]:
    """
    Return *parts* without those that are not to be kept and that nothing needs.

    This is what makes examples small: Hypothesis finds out which parts do not matter, one by one.
    """
    left = list(parts)
    for part in reversed(parts):
        around = Graph(tuple(left)).around
        group = [other for other in left if other is part or part.name in around(other.region)]
        rest = [other for other in left if other not in group]
        if rest and not any(keep[other.name] for other in group) and _is_whole(rest):
            left = rest
    return tuple(left)


def _is_whole(parts: Sequence[Part]) -> bool:
    """Whether *parts* have everything that they name, and every map something that takes its elements."""
    names = {part.name for part in parts} | {INPUT, None}
    named = {part.region for part in parts}
    named |= {parent for part in parts for inlet in part.inlets for parent in inlet.parents}
    named |= {name for part in parts for name in part.asks}
    named |= {read.target for _, read in Graph(tuple(parts)).reads}
    fed = {inlet.parents for part in parts for inlet in part.inlets}
    return named <= names and all((part.name,) in fed for part in parts if isinstance(part, Map))


# -- what was drawn ------------------------------------------------------------------------------

Feature = Literal[
    "step",
    "async step",
    "condition",
    "rule",
    "join",
    "map",
    "reduce",
    "accumulator",
    "reader",
    "failing",
    "several inlets",
]


def kinds(part: Part) -> set[Feature]:
    """Return the kinds that *part* counts as: what it is, and how it is fed and executed."""
    codes = part.codes.values()
    own: dict[type[Part], Feature] = {
        Step: "step",
        Condition: "condition",
        Gate: "condition",
        Rule: "rule",
        Map: "map",
        Reduce: "reduce",
        Accumulator: "accumulator",
    }
    traits: dict[Feature, bool] = {
        "async step": isinstance(part, Step) and part.code.is_async,
        "join": any(len(inlet.parents) > 1 for inlet in part.inlets),
        "reader": any(code.reads for code in codes),
        "failing": any(code.fails for code in codes),
        "several inlets": len(part.inlets) > 1,
    }
    return {own[type(part)], *(trait for trait, holds in traits.items() if holds)}
