"""Owners that are faster than each other: of several, one gets a run, and the others an error."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from postgres_stores import ask, until

from weft.errors import OwnershipLost, RunNotFound, RunOwned
from weft.ports.store import RunRecord
from weft.stores import PostgresStore
from weft.stores.postgres import commands
from weft.testing.contracts.cases import bodies, first, more, take_free, write


@asynccontextmanager
async def acquiring(store: PostgresStore, run: str) -> AsyncIterator[asyncpg.Connection]:
    """Let *store* acquire *run*, and commit that at the end."""
    opened = store._opened
    assert opened is not None
    db = await asyncpg.connect(store._dsn)
    async with db.transaction():
        taken = await commands.acquire_many(db, store._statements, [run], await opened.lease.key(), opened.process)
        assert isinstance(taken[run], RunRecord)
        yield db
    await db.close()


async def blocked(store: PostgresStore, by: asyncpg.Connection) -> None:
    """Wait until a statement waits for the transaction of *by*."""
    sql = "select 1 from pg_locks where not granted and $1 = any(pg_blocking_pids(pid))"
    await until(lambda: ask(store, sql, by.get_server_pid()))


@asynccontextmanager
async def two_stores(dsn: str, schema: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    async with PostgresStore(dsn, schema=schema) as one, PostgresStore(dsn, schema=schema) as two:
        yield one, two


@pytest.mark.parametrize("status", ["running", "completed"])  # with a row in the queue, and without
def test_an_owner_that_comes_a_moment_later_is_refused(dsn: str, schema: str, status: str) -> None:
    async def main() -> None:
        async with two_stores(dsn, schema) as (one, two):
            await write(one, first("r", status=status, release=True))
            async with acquiring(one, "r") as db:
                late = asyncio.ensure_future(two.acquire("r"))
                await blocked(one, db)

            with pytest.raises(RunOwned):
                await late
            record = await one.find("r")
            assert record.epoch == 2
            await write(one, more("r", 1, epoch=2))

    asyncio.run(main())


@pytest.mark.parametrize("status", ["running", "completed"])
def test_a_run_that_is_acquired_a_moment_earlier_is_not_deleted(dsn: str, schema: str, status: str) -> None:
    async def main() -> None:
        async with two_stores(dsn, schema) as (one, two):
            await write(one, first("r", status=status, release=True))
            async with acquiring(one, "r") as db:
                late = asyncio.ensure_future(two.delete("r"))
                await blocked(one, db)

            with pytest.raises(RunOwned):
                await late
            await write(one, more("r", 1, epoch=2))

    asyncio.run(main())


def test_an_append_that_waits_for_an_acquisition_is_refused(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with two_stores(dsn, schema) as (one, two):
            await write(two, first("r"), first("s"))
            await two.release(["r"])
            async with acquiring(one, "r") as db:
                late = asyncio.ensure_future(two.append([more("r", 1, b"late"), more("s", 1, b"fine")]))
                await blocked(one, db)

            refused, fine = await late
            assert isinstance(refused, OwnershipLost)
            assert fine is None
            assert bodies(await one.load("r")) == [b"1"]

    asyncio.run(main())


def test_a_run_that_is_deleted_while_it_is_acquired_is_not_found(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with two_stores(dsn, schema) as (one, two):
            await write(one, first("r", status="completed", release=True))
            db = await asyncpg.connect(dsn)
            deleting = db.transaction()
            await deleting.start()
            assert two._opened is not None
            await commands.delete(db, one._statements, "r", None, two._opened.process)
            late = asyncio.ensure_future(two.acquire("r"))
            await blocked(one, db)
            await deleting.commit()
            await db.close()

            with pytest.raises(RunNotFound):
                await late
            assert await ask(one, "select run from weft_queue") == []

    asyncio.run(main())


def test_many_owners_that_take_what_is_free_take_each_run_once(dsn: str, schema: str) -> None:
    async def main() -> None:
        stores = [PostgresStore(dsn, schema=schema) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        await write(stores[0], *(first(f"r{i}", release=True) for i in range(60)))

        taken = await asyncio.gather(*(take_free(store, limit=1000) for store in stores for _ in range(2)))

        found = Counter(each.id for some in taken for each in some)
        owned = await stores[0].list(limit=1000)
        assert len(found) == 60
        assert {each.owner for each in owned} != {None}
        by_owner = [
            len(await ask(stores[0], "select 1 from weft_queue where owner = $1", key(each))) for each in stores
        ]
        assert sum(by_owner) == 60
        for store in stores:
            await store.close()

    asyncio.run(main())


def key(store: PostgresStore) -> int | None:
    assert store._opened is not None
    return store._opened.lease.known


def test_owners_that_take_runs_from_each_other_never_write_one_position_twice(dsn: str, schema: str) -> None:
    async def main() -> None:
        stores = [PostgresStore(dsn, schema=schema) for _ in range(3)]
        await asyncio.gather(*(store.open() for store in stores))
        await write(stores[0], *(first(f"r{i}", release=True) for i in range(4)))
        written: list[tuple[str, bytes]] = []

        async def drive(number: int, store: PostgresStore) -> None:
            for turn in range(12):
                run = f"r{(number + turn) % 4}"
                try:
                    record = await store.acquire(run)
                except RunOwned:
                    continue
                for position in range(record.head, record.head + 3):
                    body = b"%d %d %d" % (number, turn, position)
                    (refused,) = await store.append([more(run, position, body, epoch=record.epoch)])
                    assert refused is None  # none other takes what has a living owner
                    written.append((run, body))
                await store.release([run])

        await asyncio.gather(*(drive(number, store) for number, store in enumerate(stores)))

        for i in range(4):
            stored = bodies(await stores[0].load(f"r{i}"))[1:]
            assert stored == [body for run, body in written if run == f"r{i}"]
        for store in stores:
            await store.close()

    asyncio.run(main())
