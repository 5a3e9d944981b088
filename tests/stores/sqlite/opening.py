"""Stores that are opened for one thing that a test does, and closed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first


def inside(store: SQLiteStore, act: Callable[[SQLiteStore], Awaitable[Any]]) -> Any:
    """Do something to an open store."""

    async def main() -> Any:
        async with store:
            return await act(store)

    return asyncio.run(main())


async def nothing(_: SQLiteStore) -> None:
    """Only open and close."""


def filled(path: Path, runs: int = 50) -> None:
    """Make a store with something in it."""
    inside(SQLiteStore(path), lambda store: store.append([first(f"r{i}", b"x" * 500) for i in range(runs)]))


async def trace(store: SQLiteStore, callback: Callable[[str], object]) -> None:
    """Have *callback* told of the statements of the writer, which has nothing left to tidy up from before."""
    assert store._opened is not None
    writer = store._opened.writer

    def begin(db: sqlite3.Connection) -> None:
        writer._clean(db)  # else it does so as soon as there is nothing else to do
        db.set_trace_callback(callback)

    await writer.call(begin)
