"""Stores that are opened for one thing that a test does, and closed."""

from __future__ import annotations

import asyncio
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
