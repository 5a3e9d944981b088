"""Stores that are opened for one thing that a test does, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from weft.stores import PostgresStore


def inside(store: PostgresStore, act: Callable[[PostgresStore], Awaitable[Any]]) -> Any:
    """Do something to an open store."""

    async def main() -> Any:
        async with store:
            return await act(store)

    return asyncio.run(main())


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again and again, until the answer is true."""
    async with asyncio.timeout(60):
        while not (answer := await found()):  # noqa: ASYNC110 - another process decides when
            await asyncio.sleep(0.01)
        return answer


async def nothing(_: PostgresStore) -> None:
    """Only open and close."""


async def ask(store: PostgresStore, sql: str, *values: Any) -> Any:
    """Return the rows of a statement on another connection; ``weft_`` tables are those of *store*."""
    db = await asyncpg.connect(store._dsn)
    try:
        return await db.fetch(sql.replace("weft_", f"{store._statements.schema}.weft_"), *values)
    finally:
        await db.close()


async def die(store: PostgresStore, *, expired: bool = True) -> None:
    """Leave *store* as the death of its process does, and let the time of its lease pass."""
    opened = store._opened
    assert opened is not None
    store._abandon()
    await asyncio.to_thread(opened.lease.join, 60)
    if expired:
        await expire(store, opened.lease.known)


async def expire(store: PostgresStore, owner: int | None) -> None:
    """Let the time of a lease pass, for the database."""
    await ask(store, "update weft_workers set expires_at = clock_timestamp() where key = $1", owner)


@asynccontextmanager
async def holding(store: PostgresStore, sql: str) -> AsyncIterator[None]:
    """Hold the rows that *sql* locks."""
    db = await asyncpg.connect(store._dsn)
    try:
        async with db.transaction():
            await db.fetch(sql.replace("weft_", f"{store._statements.schema}.weft_"))
            yield
    finally:
        await db.close()


async def is_waiting(store: PostgresStore) -> Any:
    """Return whether a statement on the tables of *store* waits for a row."""
    sql = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%'"
    return await ask(store, sql, store.schema)
