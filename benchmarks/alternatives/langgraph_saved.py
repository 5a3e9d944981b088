"""
LangGraph with its SQLite or PostgreSQL checkpointer: a checkpoint after every superstep.

``durability="sync"`` stores a superstep before the next one starts, as ``every_cycle`` does.
Many at once are a ``batch``, which runs them on a thread pool.  The saver of SQLite lets one of them write at a time;
that of PostgreSQL has a pool of connections, as its documentation advises.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

CONNECTIONS = 10

_threads = itertools.count()


class _State(TypedDict):
    x: int


@contextmanager
def opened(where: str) -> Iterator[Callable[[int, int], None]]:
    """Give what runs *count* graphs of *steps* nodes to their results, in a folder or on a server."""
    with _postgres(where) if "://" in where else _sqlite(Path(where)) as saver:
        saver.setup()
        graphs: dict[int, Any] = {}

        def run_many(count: int, steps: int) -> None:
            if steps not in graphs:
                graphs[steps] = _chain(steps, saver)
            configs = [
                {"configurable": {"thread_id": str(next(_threads))}, "recursion_limit": steps + 1} for _ in range(count)
            ]
            results = graphs[steps].batch([{"x": i} for i in range(count)], configs, durability="sync")
            assert [result["x"] for result in results] == [i + steps for i in range(count)]

        yield run_many


@contextmanager
def _sqlite(folder: Path) -> Iterator[Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(folder / "langgraph.db", check_same_thread=False)) as db:
        yield SqliteSaver(db)


@contextmanager
def _postgres(dsn: str) -> Iterator[Any]:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(dsn, kwargs=options, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        yield PostgresSaver(pool)


def _chain(steps: int, saver: Any) -> Any:
    graph: StateGraph[Any] = StateGraph(_State)
    names = [f"step_{i}" for i in range(steps)]
    for name in names:
        graph.add_node(name, _add_one)
    for parent, child in pairwise([START, *names, END]):
        graph.add_edge(parent, child)
    return graph.compile(checkpointer=saver)


def _add_one(state: _State) -> dict[str, int]:
    return {"x": state["x"] + 1}
