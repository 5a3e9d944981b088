"""A transaction whose owner stands still does not keep the next owner of its run waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from postgres_stores import inside
from servers import asked

from weft.stores import PostgresStore

ADD = "insert into {0} values (1) on conflict (k) do update set k = excluded.k"


@pytest.fixture
def table(dsn: str, schema: str) -> str:
    name = f'"{schema} rows"'
    asked(dsn, lambda db: db.execute(f"create table {name} (k integer primary key)"))
    return name


async def begun(store: PostgresStore, run: str, epoch: int, table: str) -> Any:
    """Begin a transaction that locks a row."""
    transaction = await store.begin()
    await transaction.belong_to(run, epoch)
    await transaction.connection.execute(ADD.format(table))
    return transaction


def test_the_next_owner_ends_the_transaction_of_the_one_before(dsn: str, schema: str, table: str) -> None:
    async def act(store: PostgresStore) -> None:
        frozen = await begun(store, "r", 2, table)
        async with PostgresStore(dsn, schema=schema) as other, asyncio.timeout(60):
            mine = await begun(other, "r", 3, table)
            while not frozen.is_lost:  # noqa: ASYNC110 - the server tells when it has
                await asyncio.sleep(0.01)
            assert not mine.is_lost
            mine.abandon()
        frozen.abandon()

    inside(PostgresStore(dsn, schema=schema), act)


@pytest.mark.parametrize(
    ("run", "epoch"),
    [
        pytest.param("r", 2, id="the same owner"),
        pytest.param("r", 1, id="an earlier owner"),
        pytest.param("s", 9, id="another run"),
    ],
)
def test_no_other_transaction_is_ended(dsn: str, schema: str, table: str, run: str, epoch: int) -> None:
    async def act(store: PostgresStore) -> None:
        held = await begun(store, "r", 2, table)
        other = await store.begin()
        await other.belong_to(run, epoch)
        assert await held.connection.fetchval("select 1") == 1
        other.abandon()
        held.abandon()

    inside(PostgresStore(dsn, schema=schema), act)


def test_the_name_of_a_connection_lasts_as_long_as_its_transaction(dsn: str, schema: str, table: str) -> None:
    async def act(store: PostgresStore) -> None:
        held = await begun(store, "r", 2, table)
        name = await held.connection.fetchval("show application_name")
        assert name.startswith("weft.")
        assert name.endswith(".2")
        await held.connection.execute("rollback")
        assert await held.connection.fetchval("show application_name") != name
        held.abandon()

    inside(PostgresStore(dsn, schema=schema), act)
