"""
LangGraph: nodes that read and write channels, in supersteps.

Graphs are compiled once, without a checkpointer, store or cache; `invoke` is
measured.  Nodes of one superstep run on its thread pool, as they do for users.
"""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from benchmarks.harness import Work


class _Chain(TypedDict):
    x: int


class _Leaves(TypedDict):
    x: int
    total: Annotated[int, operator.add]


class _Map(TypedDict):
    items: list[int]
    total: Annotated[int, operator.add]


class _Element(TypedDict):
    item: int


def chain(size: int) -> Work:
    """Nodes in a row, each adding one."""
    graph: StateGraph[Any] = StateGraph(_Chain)
    names = [f"step_{i}" for i in range(size)]
    for name in names:
        graph.add_node(name, _add_one)
    for parent, child in pairwise([START, *names, END]):
        graph.add_edge(parent, child)
    compiled = graph.compile()
    return Work(
        lambda: compiled.invoke({"x": 0}, {"recursion_limit": size + 1})["x"],
        expected=size,
        units=size,
    )


def leaves(size: int) -> Work:
    """One root and its leaves, whose values are added up."""
    graph: StateGraph[Any] = StateGraph(_Leaves)
    graph.add_node("root", _add_one)
    graph.add_edge(START, "root")
    for i in range(size):
        graph.add_node(f"leaf_{i}", _leaf)
        graph.add_edge("root", f"leaf_{i}")
    compiled = graph.compile()
    return Work(lambda: compiled.invoke({"x": 0, "total": 0})["total"], expected=2 * size, units=size)


def map_reduce(size: int) -> Work:
    """The sum of the squares of a list; the channel adds."""
    graph: StateGraph[Any] = StateGraph(_Map)
    graph.add_node("square", _square)
    graph.add_conditional_edges(START, _fan_out, ["square"])
    graph.add_edge("square", END)
    compiled = graph.compile()
    items = list(range(size))
    return Work(
        lambda: compiled.invoke({"items": items, "total": 0})["total"],
        expected=sum(i * i for i in items),
        units=size,
    )


def _add_one(state: _Chain) -> dict[str, int]:
    return {"x": state["x"] + 1}


def _leaf(state: _Leaves) -> dict[str, int]:
    return {"total": state["x"] + 1}


def _square(state: _Element) -> dict[str, int]:
    return {"total": state["item"] * state["item"]}


def _fan_out(state: _Map) -> list[Send]:
    return [Send("square", {"item": item}) for item in state["items"]]
