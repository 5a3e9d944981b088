"""Order, reachability and cycles of plain graphs, checked against their definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.graph.topology import find_cycle, reachable, topological

Graph = dict[int, list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any small graph, cycles and repeated edges included."""
    size = draw(st.integers(0, 7))
    nodes = st.integers(0, size - 1)
    return {node: draw(st.lists(nodes, max_size=4)) for node in range(size)}


def closure(graph: Graph) -> set[tuple[int, int]]:
    """Every pair of nodes with a way from the first to the second, by brute force."""
    pairs = {(node, child) for node, children in graph.items() for child in children}
    while True:
        longer = pairs | {(a, d) for a, b in pairs for c, d in pairs if b == c}
        if longer == pairs:
            return pairs
        pairs = longer


@given(graphs())
def test_an_order_has_parents_before_children_and_there_is_none_only_for_a_cycle(graph: Graph) -> None:
    order = topological(graph)

    if order is None:
        assert any(a == b for a, b in closure(graph))
    else:
        assert sorted(order) == sorted(graph)
        assert all(order.index(a) < order.index(b) for a, b in closure(graph))


@given(graphs())
def test_what_can_be_reached_is_what_there_is_a_way_to(graph: Graph) -> None:
    ways = closure(graph)

    assert all(reachable(node, graph) == {b for a, b in ways if a == node} for node in graph)


@given(graphs())
def test_a_cycle_that_is_found_is_one(graph: Graph) -> None:
    if topological(graph) is not None:
        with pytest.raises(ValueError, match="no cycle"):
            find_cycle(graph)
        return

    cycle = find_cycle(graph)

    assert len(set(cycle)) == len(cycle) > 0
    assert all(after in graph[before] for before, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_where_the_order_is_free_it_is_the_one_given() -> None:
    assert topological({"c": [], "a": [], "b": []}) == ["c", "a", "b"]


def test_a_long_chain_needs_no_recursion() -> None:
    chain = {n: [n + 1] for n in range(50_000)} | {50_000: []}

    assert topological(chain) == list(range(50_001))
    assert len(reachable(0, chain)) == 50_000
    assert len(find_cycle(chain | {50_000: [0]})) == 50_001
