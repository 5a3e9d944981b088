"""
DBOS on SQLite or PostgreSQL: a workflow function whose steps are recorded as they return.

The database is what DBOS opens by itself for an address.  Workflows are started with ``start_workflow``, which runs
them on its thread pool, and their results awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dbos import DBOS


@DBOS.step()
def add_one(x: int) -> int:
    return x + 1


@DBOS.workflow()
def chain(x: int, steps: int) -> int:
    for _ in range(steps):
        x = add_one(x)
    return x


@contextmanager
def opened(where: str) -> Iterator[Callable[[int, int], None]]:
    """Give what runs *count* workflows of *steps* steps to their results, in a folder or on a server."""
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": where if "://" in where else f"sqlite:///{Path(where) / 'dbos.sqlite'}",
            "log_level": "ERROR",
            "run_admin_server": False,
            "enable_otlp": False,
        }
    )
    DBOS.launch()

    def run_many(count: int, steps: int) -> None:
        handles = [DBOS.start_workflow(chain, i, steps) for i in range(count)]
        assert [handle.get_result() for handle in handles] == [i + steps for i in range(count)]

    try:
        yield run_many
    finally:
        DBOS.destroy()
