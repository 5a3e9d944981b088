"""Claims whose answers are lost: the runs that they have taken are not, and one that comes late takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from postgres_stores import ask, until

from weft.errors import StoreUnavailable
from weft.ports.queue import Placement
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first

KNOWN = [("orders", "")]


async def claimed(store: PostgresStore) -> list[str]:
    """Return the ids of the runs that one claim gets."""
    return [each.id for each in await store.claim(10, queues=["default"], workflows=KNOWN)]


async def prepare(store: PostgresStore) -> None:
    """Let the statement be prepared that a claim is after one that has found nothing."""
    for _ in range(2):
        assert await claimed(store) == []


@asynccontextmanager
async def locked(store: PostgresStore, table: str) -> AsyncIterator[asyncpg.Connection]:
    """Let every statement that uses *table* wait."""
    db = await asyncpg.connect(store._dsn)
    try:
        async with db.transaction():
            await db.execute(f"lock table {store._statements.schema}.{table} in access exclusive mode")
            yield db
    finally:
        await db.close()


async def waiting(store: PostgresStore, db: asyncpg.Connection, count: int) -> None:
    """Wait until so many statements wait for *db*, or for one that waits for it."""
    sql = """
        select 1 from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%' || $2 || '%' having count(*) = $1
    """
    await until(lambda: ask(store, sql, count, store.schema))


async def lose_an_answer(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Claim, and lose the connection while the statement waits for *db*: the server goes on with it."""
    work = asyncio.ensure_future(claimed(store))
    await waiting(store, db, 1)
    assert store._opened is not None
    store._opened.others._db.terminate()
    with pytest.raises(StoreUnavailable):
        await work


def test_the_runs_of_a_claim_that_was_not_answered_come_with_the_next_one(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store, PostgresStore(dsn, schema=schema) as another:
            await prepare(store)
            await store.enqueue([first(run, release=True) for run in "ab"], Placement())
            async with locked(store, "weft_queue") as db:
                await lose_an_answer(store, db)
            await until(lambda: ask(store, "select 1 from weft_queue where owner is not null"))

            assert await claimed(another) == []
            assert await claimed(store) == ["a", "b"]
            assert await claimed(store) == []
            assert [(await store.find(run)).epoch for run in "ab"] == [2, 2]

    asyncio.run(main())


def test_a_claim_that_comes_late_takes_nothing(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            await prepare(store)
            await store.enqueue([first(run, release=True) for run in "ab"], Placement())
            async with locked(store, "weft_queue") as db:
                await lose_an_answer(store, db)
                work = asyncio.ensure_future(claimed(store))
                await waiting(store, db, 2)

            assert await work == ["a", "b"]
            await waiting(store, db, 0)
            assert [(await store.find(run)).epoch for run in "ab"] == [2, 2]

    asyncio.run(main())


def test_a_run_that_was_acquired_since_does_not_come_with_a_claim(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            await prepare(store)
            await store.enqueue([first(run, release=True) for run in "ab"], Placement())
            async with locked(store, "weft_queue") as db:
                await lose_an_answer(store, db)
            await until(lambda: ask(store, "select 1 from weft_queue where owner is not null"))
            assert (await store.acquire("a")).epoch == 3

            assert await claimed(store) == ["b"]

    asyncio.run(main())


def test_the_plan_of_a_claim_that_finds_little_is_kept(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            named = {store._statements["claim"]: "planned", store._statements.kept("claim"): "kept"}
            said: list[str] = []
            await claimed(store)
            assert store._opened is not None
            db = store._opened.others._db
            db.add_query_logger(lambda query: said.append(named[query.query]) if query.query in named else None)

            for _ in range(6):
                assert await claimed(store) == []
            assert said == ["kept"] * 6

            async def plans(name: str) -> int:
                sql = "select generic_plans from pg_prepared_statements where statement = $1"
                return int(await db.fetchval(sql, store._statements.kept(name)))

            assert await plans("claim") == 1  # the server decides after five executions
            await store.enqueue([first(f"r{i}", release=True) for i in range(12)], Placement())
            said.clear()
            assert [len(await claimed(store)) for _ in range(4)] == [10, 2, 0, 0]
            assert said == ["kept", "planned", "kept", "kept"]

            for _ in range(6):
                assert (await store.load("r1")).record.head == 1
            assert await plans("load") == 1

    asyncio.run(main())
