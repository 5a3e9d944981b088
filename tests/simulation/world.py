"""
The simulated world: arbitrary workflows and inputs, and what independent evaluators expect of them.

Some are graphs of primitive components, some are networks of compound ones, and some are both: a network behind a
part of a graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from building import build
from cases import made_of
from description import Accumulator, Graph, Map
from drafting import LARGEST
from driving import outline, outline_of, owner
from evaluator import Expected, evaluate
from msgspec.structs import replace
from network import Network, Verdict, draw_network
from strategies import compose

from weft import Run, Workflow
from weft.testing import Trial

T = TypeVar("T")


class Thrown:
    """A die decides."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def number(self, low: int, high: int) -> int:
        """Return a number from *low* to *high*."""
        return self._dice.randint(low, high)

    def any_of(self, choices: Sequence[T]) -> T:
        """Return one of *choices*."""
        return self._dice.choice(choices)


def draw(dice: Random) -> Trial:
    """Return an arbitrary workflow, and up to three inputs for it."""
    kind = dice.random()
    if kind < 0.45:
        return draw_compounds(dice)
    graph, inputs = draw_graph(dice)
    judge = Judge(graph, inputs)
    trial = Trial(build(graph), inputs, judge, dict(graph.context))
    fertile = judge.fertile()
    return behind(dice, trial, judge, dice.choice(fertile)) if fertile and kind < 0.65 else trial


def draw_graph(dice: Random) -> tuple[Graph, tuple[Any, ...]]:
    """Return a graph of primitive components, and inputs for it."""
    count = dice.choice((1, 1, 2, 3))
    graph = compose(Thrown(dice), size=dice.choice((3, 6, 12)), readers=count == 1)
    numbers = (lambda: dice.randint(0, LARGEST)) if graph.takes == "scalar" else (lambda: _list(dice))
    return graph, tuple(numbers() for _ in range(count))


def draw_compounds(dice: Random) -> Trial:
    """Return a network of compound components."""
    network = draw_network(dice)
    inputs = tuple(dice.randint(0, 1_000) for _ in range(dice.choice((1, 1, 2, 4))))
    workflow = wired(Workflow("drawn"), network, None)
    verdict = Verdict(network, list(inputs))
    return network.told_to(Trial(workflow, inputs, verdict), verdict)


def behind(dice: Random, trial: Trial, judge: Judge, source: str) -> Trial:
    """Return *trial* with a network behind the part *source* of its graph."""
    network = draw_network(dice)
    given = [value for alone in judge.expected for value in alone.values[source]]
    verdict = Verdict(network, given)
    judge.is_alone = False

    def check(run: Run) -> Iterator[str]:
        yield from judge(run)
        yield from verdict(run)

    workflow = wired(trial.workflow, network, source)
    return network.told_to(replace(trial, workflow=workflow, check=check), verdict)


def wired(workflow: Workflow, network: Network, source: str | None) -> Workflow:
    """Return *workflow* with *network* behind its component *source*, or at the input."""
    for place, fragment in network.fragments():
        workflow = workflow.add(fragment, to=place or source)
    return workflow


def _list(dice: Random) -> list[int]:
    return [dice.randint(0, LARGEST) for _ in range(dice.randint(0, 3))]


class Judge:
    """Says what is wrong with a run of *graph*, and perhaps of something behind it, that was given *inputs*."""

    def __init__(self, graph: Graph, inputs: tuple[Any, ...]) -> None:
        self.graph, self.inputs = graph, inputs
        self.is_alone = True

    def __repr__(self) -> str:
        return f"{self.inputs} given to {self.graph!r}"

    @cached_property
    def expected(self) -> list[Expected]:
        """The expected results of each input by itself."""
        return [evaluate(self.graph, value) for value in self.inputs]

    def fertile(self) -> list[str]:
        """Return the parts of which it is certain what they make, whatever else happens."""
        stateful = self.below({part.name for part in self.graph.parts if isinstance(part, Accumulator)})
        doubted = {name for alone in self.expected for name in alone.untold.values} | stateful
        parts = [part for part in self.graph.parts if part.makes_facts and part.region is None]
        return [part.name for part in parts if part.name not in doubted and not isinstance(part, Map)]

    def __call__(self, run: Run) -> Iterator[str]:
        expected = self.expected
        wrong = list(self.alone(run, expected[0]) if len(expected) == 1 else self.together(run, expected))
        yield from wrong
        if wrong:
            yield f"it was {self!r}"

    def alone(self, run: Run, expected: Expected) -> Iterator[str]:
        """Compare everything that can be compared."""
        found, wanted = outline(run, self.graph, expected.untold), outline_of(expected)
        found.failed = {name for name in found.failed if owner(name) in self.graph.by_name}
        for name in found.__struct_fields__ if self.is_alone else ("values", "states", "failed"):
            if getattr(found, name) != getattr(wanted, name):
                yield f"{name} should be {getattr(wanted, name)} and are {getattr(found, name)}"

    def together(self, run: Run, expected: list[Expected]) -> Iterator[str]:
        """Compare input by input what state cannot have changed, and the states in the end."""
        accumulators = [part for part in self.graph.parts if isinstance(part, Accumulator)]
        stateful = self.below({part.name for part in accumulators})
        for ordinal, alone in enumerate(expected, start=1):
            for name, values in outline_of(alone).values.items():
                made = made_of(run, ordinal, name)
                if name not in stateful and made != values:
                    yield f"{name} should make {values} of input {ordinal} and made {made}"
        doubted = {name for alone in expected for name in alone.untold.calls} | stateful
        failed = {name for alone in expected for name in alone.failed if owner(name) not in doubted}
        found = {name for name in run.failures if owner(name) in self.graph.by_name and owner(name) not in doubted}
        if found != failed:
            yield f"{failed} should fail, and {found} did"
        for part in accumulators:
            if self.is_settled(part, accumulators, expected):
                folded = [value for alone in expected for value in alone.folded[part.name]]
                if run.state_of(part.name) != (state := self.state_after(part, folded)):
                    yield f"the state of {part.name} should be {state} and is {run.state_of(part.name)}"

    def below(self, names: set[str]) -> set[str]:
        """Return *names*, what they feed, the conditions that those ask, what these feed, and so on."""
        while True:
            more = {name for part in names for name in self.graph.downstream[part]}
            more |= {name for part in more for name in self.graph.by_name[part].asks}
            if more == names:
                return names
            names = more

    def is_settled(self, part: Accumulator, others: list[Accumulator], expected: list[Expected]) -> bool:
        """Whether the state of *part* does not depend on the order of events."""
        fed = any(part.name in self.graph.downstream[other.name] for other in others if other is not part)
        return part.commutes and not fed and not any(part.name in alone.untold.states for alone in expected)

    def state_after(self, part: Accumulator, folded: list[Any]) -> int:
        """Return the state of *part* after all of *folded*; what it fails on leaves it as it was."""
        seen = tuple(self.graph.given(part.name, read.target) for read in part.code.reads)
        state = part.init
        for value in folded:
            with suppress(ValueError):
                state = part.fold((state, value), seen, part.code.k)
        return state
