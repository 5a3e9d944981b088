"""
Parts of a run that cannot be compared, because they depend on the order of events, and everything that depends on them.

The evaluator finds the sources: a race that one of several won, an accumulator that folds several values.  From
there doubt spreads along the edges, to those that read it and to those that ask a condition that reads it.
"""

from __future__ import annotations

import msgspec
from description import Accumulator, Graph, Part, Read


class Doubt(msgspec.Struct, frozen=True):
    """The parts that cannot be compared."""

    values: frozenset[str]
    """The parts whose values are in doubt."""
    states: frozenset[str]
    """The accumulators whose final state is."""
    calls: frozenset[str]
    """The parts that may be called on other values, or fail, or not."""


def doubt(graph: Graph, sources: set[str], several: set[str], finishes: set[str]) -> Doubt:
    """
    Return what is in doubt.

    Args:
        sources: the parts that get one thing or another.
        several: the accumulators that fold more than one value.
        finishes: the parts that take the winner of a race, were it one among equals.
    """
    values: set[str] = set()
    states: set[str] = set()
    calls: set[str] = set()
    misled: set[str] = set()
    """Parts whose functions read something in doubt, and those that ask such a condition."""
    for part in graph.parts:
        reads = [read for reader, read in graph.reads if reader is part]
        if any(_tells(graph, part, read, values, states) for read in reads) or misled.intersection(part.asks):
            misled.add(part.name)
        parents = {parent for inlet in part.inlets for parent in inlet.parents}
        mixes = part.name in several and isinstance(part, Accumulator) and not part.commutes
        if part.name in misled | sources or parents & values or mixes:
            calls.add(part.name)
        if part.name in several | calls:
            values.add(part.name)
        if isinstance(part, Accumulator) and part.name in calls:
            states.add(part.name)
    for part in reversed(graph.parts):  # a condition is asked once per fact, and which fact is open
        if part.name in calls | finishes:
            calls.update(part.asks)
    return Doubt(frozenset(values), frozenset(states), frozenset(calls))


def _tells(graph: Graph, part: Part, read: Read, values: set[str], states: set[str]) -> bool:
    """Whether *read* of *part* shows what is in doubt; counts and the final state of an accumulator do not."""
    target = graph.by_name[read.target]
    if target.name not in values or not graph.waits(part.name, target.name):
        return False
    if not isinstance(target, Accumulator) or target.name in states or read.how == "all_values":
        return True
    return read.how not in ("fact_count", "step_ran") and graph.common(part.name, target.name) is not None
