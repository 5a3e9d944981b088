"""The strategies draw every kind of component often enough, and nothing that Weft refuses."""

from __future__ import annotations

from collections import Counter
from functools import cache

import description
from building import build
from description import And, Code, Condition, Expression, Gate, Graph, Map, Not, Or, Part, Reduce, Rule
from evaluator import evaluate
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from strategies import graphs, inputs, kinds

KINDS = {
    *("step", "async step", "condition", "rule", "join", "map", "reduce", "accumulator"),
    *("reader", "failing", "several inlets"),
}
LEAST = 0.05
"""The least share of every kind among all parts."""
RAREST = 0.02
"""The least share of every variant among all graphs."""

drawn_alike = settings(max_examples=300, derandomize=True, database=None, phases=[Phase.generate])
"""The same few hundred examples at every run."""


@cache
def drawn() -> list[Graph]:
    """Return some graphs, always the same."""
    found: list[Graph] = []

    @drawn_alike
    @given(graphs())
    def draw(graph: Graph) -> None:
        found.append(graph)

    draw()
    return found


def test_every_kind_has_its_share_of_the_parts() -> None:
    counts: Counter[str] = Counter()
    sizes: list[int] = []

    for graph in drawn():
        sizes.append(len(graph.parts))
        for part in graph.parts:
            counts.update(kinds(part))

    shares = {kind: counts[kind] / sum(sizes) for kind in KINDS}
    shown = "\n".join(f"{kind:16}{share:6.1%}" for kind, share in sorted(shares.items(), key=lambda s: -s[1]))
    told = f"{sum(sizes)} parts in {len(sizes)} graphs\n{shown}"
    print(told)  # noqa: T201 - with -s
    assert min(shares.values()) >= LEAST, told


def test_every_variant_has_its_share_of_the_graphs() -> None:
    counts: Counter[str] = Counter()
    for graph in drawn():
        counts.update({variant for part in graph.parts for variant in variants(graph, part)})

    shares = {variant: counts[variant] / len(drawn()) for variant in VARIANTS}
    shown = "\n".join(f"{variant:30}{share:6.1%}" for variant, share in sorted(shares.items(), key=lambda s: -s[1]))
    print(shown)  # noqa: T201 - with -s
    assert min(shares.values()) >= RAREST, shown


VARIANTS = {
    *("takes each", "takes nothing", "takes any", "takes spread", "bound", "async"),
    *("wait all", "wait any", "wait all_done", "wait n", "two arguments"),
    *("&", "|", "~", "condition shared", "condition inline", "condition composed, by name", "condition as a gate"),
    *("map in a map", "condition in a map", "join in a map", "accumulator in a map"),
    *("reduce of a map", "reduce of a collection", "reduce of two maps", "reduce in a map", "reduce that stops"),
    *("state_of", "latest", "all_values", "step_ran", "fact_count", "context", "reads across maps", "reads downstream"),
}


def variants(graph: Graph, part: Part) -> set[str]:
    """Return what is special about *part*."""
    found: set[str] = set()
    for code in part.codes.values():
        found |= {f"takes {code.takes}"} | {read.how for read in code.reads}
        found |= {word for word, holds in {"bound": code.bound, "async": code.is_async}.items() if holds}
    for inlet in part.inlets:
        if len(inlet.parents) > 1:
            found.add(f"wait {'n' if isinstance(inlet.wait, int) else inlet.wait}")
    found |= {word for word, holds in traits(graph, part).items() if holds}
    return found


def traits(graph: Graph, part: Part) -> dict[str, bool]:
    """Return which traits *part* has, of those that take more than a look at one field."""
    reads = [read for reader, read in graph.reads if reader is part]
    signs = set(signs_in(part.when)) if isinstance(part, Gate | Rule) else set()
    parents = [graph.by_name.get(parent) for inlet in part.inlets for parent in inlet.parents]
    maps = {parent.region for parent in parents if parent is not None}
    inside = part.region is not None
    return {
        "two arguments": any(len(inlet.parents) == 2 and inlet.wait == "all" for inlet in part.inlets),
        "&": And in signs,
        "|": Or in signs,
        "~": Not in signs,
        "condition shared": sum(part.name in other.asks for other in graph.parts) > 1,
        "condition inline": isinstance(part, Rule) and isinstance(part.when, Code),
        "condition composed, by name": isinstance(part, Rule) and part.when in graph.by_name and is_gate(graph, part),
        "condition as a gate": isinstance(part, Condition) and bool(graph.children[part.name]),
        "map in a map": isinstance(part, Map) and inside,
        "condition in a map": isinstance(part, Condition) and inside,
        "join in a map": inside and any(len(inlet.parents) > 1 for inlet in part.inlets),
        "accumulator in a map": inside and "accumulator" in kinds(part),
        "reduce of a map": graph.closes(part),
        "reduce of a collection": isinstance(part, Reduce) and not graph.closes(part) and not inside,
        "reduce of two maps": graph.closes(part) and len(maps) > 1,
        "reduce in a map": isinstance(part, Reduce) and inside,
        "reduce that stops": isinstance(part, Reduce) and part.stops,
        "reads across maps": any(graph.by_name[read.target].region != part.region for read in reads),
        "reads downstream": any(not graph.waits(part.name, read.target) for read in reads),
    }


def is_gate(graph: Graph, rule: Rule) -> bool:
    return isinstance(graph.by_name[str(rule.when)], Gate)


def signs_in(expression: Expression | Code | None) -> list[type]:
    """Return the signs of *expression*, as types."""
    match expression:
        case Not(of):
            return [Not, *signs_in(of)]
        case And(left, right) | Or(left, right):
            return [type(expression), *signs_in(left), *signs_in(right)]
        case _:
            return []


@given(graphs())
def test_every_graph_is_a_workflow_with_the_same_parts(graph: Graph) -> None:
    workflow = build(graph)

    assert set(workflow.components) == {part.name for part in graph.parts}
    assert set(workflow.leaves) == set(graph.leaves)


@given(graphs())
def test_a_graph_can_be_rebuilt_from_what_a_failure_prints(graph: Graph) -> None:
    printed = repr(graph)

    again = eval(printed, vars(description))  # noqa: S307 - our own repr

    assert again == graph
    assert build(again).hash == build(graph).hash


def test_most_of_what_is_drawn_can_be_compared() -> None:
    """A value that depends on the order of events is left out of comparisons, so it must stay the exception."""
    counts: Counter[str] = Counter()

    @drawn_alike
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        graph = data.draw(graphs())
        expected = evaluate(graph, data.draw(inputs(graph)))
        makers = [part.name for part in graph.parts if part.makes_facts]
        counts["parts"] += len(makers)
        counts["in doubt"] += sum(name in expected.untold.values for name in makers)
        counts["silent"] += sum(not expected.values[name] for name in makers)

    draw()

    assert counts["in doubt"] < 0.15 * counts["parts"], counts
    assert counts["silent"] < 0.5 * counts["parts"], counts
