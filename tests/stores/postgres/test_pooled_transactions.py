"""Transactional steps behind a transaction pooler: sessions change hands, but not in a transaction."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import pytest
from pooler import Pooler
from servers import asked
from test_pooler import behind

from weft import Workflow, current, each, step, transaction
from weft.errors import RunFailed
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore

pytestmark = pytest.mark.skipif("WEFT_TEST_DSN" in os.environ, reason="the pooler knows sockets and no passwords")


class Table(NamedTuple):
    """The statements for a table of the application."""

    insert: str
    count: str
    list: str


@pytest.fixture
def added(dsn: str, schema: str) -> Table:
    """A table of this test, which refuses a second row of a number."""
    name = f'"{schema} app".added'
    asked(dsn, lambda db: db.execute(f'create schema "{schema} app"; create table {name} (x bigint primary key)'))
    statements = ("insert into {} values ($1)", "select count(*) from {} where x = $1", "select x from {} order by x")
    return Table(*(each.format(name) for each in statements))


def numbers(dsn: str, table: Table) -> list[int]:
    return [row["x"] for row in asked(dsn, lambda db: db.fetch(table.list))]


def test_rows_and_events_are_one_commit_while_sessions_are_shared(dsn: str, schema: str, added: Table) -> None:
    @step
    def add(x: int, tx: Any = transaction()) -> int:
        tx.execute(added.insert, x)
        return int(tx.fetchval(added.count, x))  # what it has written, it sees

    @step
    async def add_more(x: int, tx: Any = transaction()) -> int:
        async with tx.transaction():
            await tx.execute(added.insert, x + 1000)
        return x

    async def act(pooler: Pooler, address: str) -> None:
        store = PostgresStore(address, schema=schema, prepared=False, transactions=2)
        async with AsyncRunner(store) as runner:
            plain = await runner.start(Workflow("plain", each(add)), list(range(30)))
            coroutine = await runner.start(Workflow("coroutine", each(add_more)), list(range(30)))
            assert (await plain.wait(60)).status == (await coroutine.wait(60)).status == "completed"
        assert pooler.transactions > 60

    behind(dsn, act)
    assert numbers(dsn, added) == [*range(30), *range(1000, 1030)]


def test_an_attempt_that_fails_leaves_nothing_to_the_next_one_of_its_session(
    dsn: str, schema: str, added: Table
) -> None:
    @step(max_retries=2, base_delay=0.0)
    async def flaky(x: int, tx: Any = transaction()) -> int:
        await tx.execute(added.insert, x)
        if current().attempt < 3:
            raise ValueError("not yet")
        return x

    @step
    async def twice(x: int, tx: Any = transaction()) -> int:
        await tx.execute(added.insert, 1)
        return x

    async def act(_: Pooler, address: str) -> None:
        store = PostgresStore(address, schema=schema, prepared=False, transactions=1)
        async with AsyncRunner(store) as runner:
            assert await (await runner.start(Workflow("flaky", flaky), 1)).result(60) == 1
            with pytest.raises(RunFailed, match="UniqueViolation"):
                await (await runner.start(Workflow("twice", twice), 1)).result(60)
            assert await (await runner.start(Workflow("flaky", flaky), 2)).result(60) == 2

    behind(dsn, act)
    assert numbers(dsn, added) == [1, 2]
