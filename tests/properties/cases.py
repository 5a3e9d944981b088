"""
The cases that the laws are tried on: a graph, the inputs it is given, and how a run of it is looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from building import build
from description import Graph
from driving import multiset
from hypothesis import settings
from hypothesis import strategies as st
from strategies import graphs, inputs

from weft import Run

TURNS = st.integers(0, 15)
"""Number of outcomes after which something happens to a run."""


def budget(share: float) -> settings:
    """Return settings for a *share* of the examples of the profile: some laws cost more than others."""
    return settings(max_examples=max(1, round(settings.default.max_examples * share)))


class Case(msgspec.Struct, frozen=True):
    """A graph and what it is given."""

    graph: Graph
    values: list[Any]

    @property
    def value(self) -> Any:
        """The first input."""
        return self.values[0]

    def plan(self, calls: Counter[str] | None = None) -> Run:
        """Return a run that has the first input and has done nothing."""
        return build(self.graph, calls).plan(self.value, context=self.context, id="law")

    @property
    def context(self) -> dict[str, int]:
        """The context of every run of the graph."""
        return dict(self.graph.context)


@st.composite
def cases(draw: st.DrawFn, *, count: int = 1, **options: Any) -> Case:
    """Return cases of up to *count* inputs, of graphs with these *options*."""
    graph = draw(graphs(**options))
    return Case(graph, draw(st.lists(inputs(graph), min_size=min(count, 2), max_size=count)))


def rebuilt(run: Run, events: int | None = None) -> Run:
    """Return *run* as the fold of its log, or of the first *events* of it."""
    return Run.from_log(run.log()[:events], context=run.context)


def made_of(run: Run, ordinal: int, name: str) -> Counter[str]:
    """Return what *name* has made of the input number *ordinal*, by lineage."""
    return multiset([fact.value for fact in run.facts(name) if run.lineage(fact)[0].index == ordinal])
