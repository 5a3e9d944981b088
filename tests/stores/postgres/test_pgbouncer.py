"""A store behind a real PgBouncer in transaction mode; what the tests' own pooler shows, it has to show too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pgbouncer import PgBouncer, keeps_prepared_statements, needed, pgbouncer
from servers import asked

from weft import Workflow, current, each, step, transaction
from weft.errors import InvalidStoreOption
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore
from weft.stores.postgres.checkup import Checkup
from weft.testing.contracts.cases import bodies, first, more, write
from weft.testing.contracts.inbox_store import message

pytestmark = needed
SESSIONS = 3
KEEPS = pytest.param(
    True,
    id="statements are kept",
    marks=pytest.mark.skipif(not keeps_prepared_statements(), reason="PgBouncer keeps statements from 1.21 on"),
)


@pytest.fixture(params=[pytest.param(False, id="no statement is kept"), KEEPS])
def is_prepared(request: pytest.FixtureRequest) -> bool:
    """Whether the pooler keeps prepared statements."""
    return bool(request.param)


@pytest.fixture
def pooler(dsn: str, is_prepared: bool) -> Iterator[PgBouncer]:
    with pgbouncer(dsn, sessions=SESSIONS, prepared=200 if is_prepared else 0) as found:
        yield found


@step
def add(x: int) -> int:
    return x + 1


@step
def double(x: int) -> int:
    return x * 2


small = Workflow("small", add >> double)


def test_a_store_works_and_hears_over_a_connection_beside_it(
    dsn: str, schema: str, pooler: PgBouncer, is_prepared: bool
) -> None:
    async def main() -> None:
        heard = asyncio.Event()
        options: dict[str, Any] = {"schema": schema, "prepared": is_prepared, "listen_dsn": dsn, "lease": 3600}
        async with PostgresStore(pooler.address, **options) as store:
            await store.listen(heard.set)
            await write(store, *(first(f"r{i}") for i in range(20)))
            for position in range(1, 6):
                await write(store, *(more(f"r{i}", position, b"%d" % position) for i in range(20)))
            async with PostgresStore(dsn, schema=schema) as other:
                await other.post([message("r3", b"it")])
            async with asyncio.timeout(60):
                await heard.wait()

            assert [each.body for each in await store.messages()] == [b"it"]
            assert bodies(await store.load("r7")) == [b"1", b"1", b"2", b"3", b"4", b"5"]
            await store.delete("r9")
            assert await store.count() == 19

    asyncio.run(main())


def test_messages_are_found_without_a_direct_address(
    dsn: str, schema: str, pooler: PgBouncer, is_prepared: bool
) -> None:
    async def main() -> None:
        heard = asyncio.Event()
        async with PostgresStore(pooler.address, schema=schema, prepared=is_prepared, lease=0.9) as store:
            await store.listen(heard.set)
            await write(store, first("r"))
            async with PostgresStore(dsn, schema=schema) as other:
                await other.post([message("r", b"it")])
            async with asyncio.timeout(60):
                await heard.wait()

    asyncio.run(main())


def test_many_runners_share_few_sessions(dsn: str, schema: str, pooler: PgBouncer, is_prepared: bool) -> None:
    async def results(number: int) -> list[int]:
        store = PostgresStore(pooler.address, schema=schema, prepared=is_prepared)
        async with AsyncRunner(store) as runner:
            handles = [await runner.start(small, i, id=f"{number}-{i}") for i in range(20)]
            return [await each.result(60) for each in handles]

    async def main() -> None:
        async with PostgresStore(dsn, schema=schema):  # creates the tables
            pass
        found = await asyncio.gather(*(results(number) for number in range(8)))
        assert found == [[(i + 1) * 2 for i in range(20)]] * 8

    asyncio.run(main())


def test_several_create_the_schema_at_once(dsn: str, schema: str, pooler: PgBouncer, is_prepared: bool) -> None:
    async def one() -> int:
        async with PostgresStore(pooler.address, schema=schema, prepared=is_prepared) as store:
            return await store.count()

    async def main() -> None:
        assert await asyncio.gather(*(one() for _ in range(6))) == [0] * 6

    asyncio.run(main())


def test_rows_and_events_are_one_commit(dsn: str, schema: str, pooler: PgBouncer, is_prepared: bool) -> None:
    name = f'"{schema} app".added'
    asked(dsn, lambda db: db.execute(f'create schema "{schema} app"; create table {name} (x bigint primary key)'))
    insert = f"insert into {name} values ($1)"  # noqa: S608 - a name of this test

    @step(max_retries=2, base_delay=0.0)
    def add_row(x: int, tx: Any = transaction()) -> int:
        tx.execute(insert, x)
        if x % 3 == 0 and current().attempt == 1:
            raise ValueError("not yet")
        return x

    @step
    async def add_more(x: int, tx: Any = transaction()) -> int:
        async with tx.transaction():
            await tx.execute(insert, x + 1000)
        return x

    async def main() -> None:
        store = PostgresStore(pooler.address, schema=schema, prepared=is_prepared, transactions=2)
        async with AsyncRunner(store) as runner:
            plain = await runner.start(Workflow("plain", each(add_row)), list(range(30)))
            coroutine = await runner.start(Workflow("coroutine", each(add_more)), list(range(30)))
            assert (await plain.wait(60)).status == (await coroutine.wait(60)).status == "completed"

    asyncio.run(main())
    rows = asked(dsn, lambda db: db.fetch(f"select x from {name} order by x"))  # noqa: S608 - a name of this test
    assert [row["x"] for row in rows] == [*range(30), *range(1000, 1030)]


def test_a_store_that_was_not_told_says_what_to_do(dsn: str, schema: str) -> None:
    async def main(address: str) -> None:
        stores = [PostgresStore(address, schema=schema) for _ in range(3)]
        for store in stores:
            await store.open()
        try:
            for i in range(20):
                await asyncio.gather(*(store.append([first(f"{n}-{i}")]) for n, store in enumerate(stores)))
                await asyncio.gather(*(store.list() for store in stores))
        finally:
            for store in stores:
                await store.close()

    with pgbouncer(dsn, sessions=SESSIONS) as pooler, pytest.raises(InvalidStoreOption, match="prepared=False"):
        asyncio.run(main(pooler.address))


def test_an_address_can_say_that_statements_are_not_prepared(dsn: str, schema: str) -> None:
    async def results(address: str, number: int) -> list[int]:
        async with AsyncRunner(PostgresStore(address, schema=schema)) as runner:
            handles = [await runner.start(small, i, id=f"{number}-{i}") for i in range(10)]
            return [await each.result(60) for each in handles]

    async def main(address: str) -> None:
        assert (
            await asyncio.gather(*(results(address, number) for number in range(4)))
            == [[(i + 1) * 2 for i in range(10)]] * 4
        )
        found = [each async for each in Checkup(address, schema=schema).findings()]
        assert "LISTEN" in {each.where for each in found}  # it is what doctor says of a pooler
        assert not [each for each in found if each.is_damage]

    with pgbouncer(dsn, sessions=SESSIONS) as pooler:
        asyncio.run(main(f"{pooler.address}&prepared=false"))
