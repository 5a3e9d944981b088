"""Runs started inside a transaction of the caller, where a fleet has several databases."""

from __future__ import annotations

import asyncio

import asyncpg
import fleet_flows as flows
import psycopg
import pytest
from shard_databases import Databases

from weft import Client
from weft.errors import InvalidOption, RunExists

ALL = (0, 1, 2)


def test_a_run_that_is_given_no_id_is_in_the_database_of_the_transaction(shards: Databases) -> None:
    async def main() -> None:
        async with shards.client(*ALL) as client:
            started: dict[int, str] = {}
            for number in ALL:
                db = await asyncpg.connect(shards.dsns[number])
                async with db.transaction():
                    handle = await client.start(flows.chain, number, within=db)
                    started[number] = handle.id
                    assert await client.count() == number
                await db.close()
                assert await handle.status() == "running"
            for number in ALL:
                assert await shards.ids(number) == {started[number]}

            db = await asyncpg.connect(shards.dsns[0])
            with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the end of the transaction is meant
                async with db.transaction():
                    await client.start(flows.chain, 9, within=db)
                    raise ZeroDivisionError
            await db.close()
            assert await client.count() == 3

    asyncio.run(main())


def test_a_run_with_an_id_is_started_where_it_belongs_and_refused_elsewhere(shards: Databases) -> None:
    async def main() -> None:
        async with shards.client(*ALL) as client:
            first = await client.start(flows.chain, 1, id="acme/1")
            (home,) = [number for number in ALL if first.id in await shards.ids(number)]
            for number in ALL:
                db = await asyncpg.connect(shards.dsns[number])
                async with db.transaction():
                    if number == home:
                        assert (await client.start(flows.chain, 2, id="acme/2", within=db)).id == "acme/2"
                        assert (await client.start(flows.chain, 1, id="acme/1", within=db)).id == "acme/1"
                        with pytest.raises(RunExists):
                            await client.start(flows.chain, 7, id="acme/1", within=db)
                    else:
                        with pytest.raises(InvalidOption, match="belongs to the database that its id names"):
                            await client.start(flows.chain, 3, id="acme/3", within=db)
                await db.close()
            assert await client.count() == 2

    asyncio.run(main())


def test_a_run_that_an_older_database_has_is_not_started_again(shards: Databases) -> None:
    async def main() -> None:
        async with shards.client(0, 1) as old:
            ids = [(await old.start(flows.chain, number, id=f"r{number}")).id for number in range(12)]
        async with shards.client(*ALL) as client:
            db = await asyncpg.connect(shards.dsns[2])
            moved = 0
            for number, run in enumerate(ids):
                async with db.transaction():
                    try:
                        handle = await client.start(flows.chain, number, id=run, within=db)
                    except InvalidOption:  # its home is one of the other two
                        continue
                    moved += 1
                    assert handle.id == run
            await db.close()
            assert moved
            assert await client.count() == 12
            assert await shards.ids(2) == set()

    asyncio.run(main())


def test_a_connection_to_another_database_is_refused(shards: Databases) -> None:
    async def main() -> None:
        async with shards.alone(2):
            pass
        async with shards.client(0, 1) as client:
            db = await asyncpg.connect(shards.dsns[2])
            async with db.transaction():
                with pytest.raises(InvalidOption, match="not told of"):
                    await client.start(flows.chain, 1, within=db)
            await db.close()

    asyncio.run(main())


def test_a_blocking_client_starts_within_a_transaction_too(shards: Databases) -> None:
    with Client(shards.dsns, schema=shards.schema) as client:
        for number in ALL:
            with psycopg.connect(shards.dsns[number]) as db:
                handle = client.start(flows.chain, number, within=db, unique=None)
            assert handle.id in asyncio.run(shards.ids(number))
        assert client.count() == 3
