"""
LangGraph with its SQLite checkpointer: a checkpoint after every superstep.

``durability="sync"`` stores a superstep before the next one starts, as ``every_cycle`` does.
Many at once are a ``batch``, which runs them on a thread pool; the saver lets one of them
write at a time.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

HOW = "SQLite (WAL), threads, durability=sync, FULL"

_threads = itertools.count()


class _State(TypedDict):
    x: int


@contextmanager
def opened(folder: Path) -> Iterator[Callable[[int, int], None]]:
    """Give what runs *count* graphs of *steps* nodes to their results."""
    with closing(sqlite3.connect(folder / "langgraph.db", check_same_thread=False)) as db:
        saver = SqliteSaver(db)
        saver.setup()
        graphs: dict[int, Any] = {}

        def run_many(count: int, steps: int) -> None:
            graph = graphs.setdefault(steps, _chain(steps, saver))
            configs = [{"configurable": {"thread_id": str(next(_threads))}} for _ in range(count)]
            results = graph.batch([{"x": i} for i in range(count)], configs, durability="sync")
            assert [result["x"] for result in results] == [i + steps for i in range(count)]

        yield run_many


def _chain(steps: int, saver: SqliteSaver) -> Any:
    graph: StateGraph[Any] = StateGraph(_State)
    names = [f"step_{i}" for i in range(steps)]
    for name in names:
        graph.add_node(name, _add_one)
    for parent, child in pairwise([START, *names, END]):
        graph.add_edge(parent, child)
    return graph.compile(checkpointer=saver)


def _add_one(state: _State) -> dict[str, int]:
    return {"x": state["x"] + 1}
