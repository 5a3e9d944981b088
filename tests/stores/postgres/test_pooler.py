"""A store behind a transaction pooler, where nothing of a session lasts."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pooler import Pooler, pooled

from weft import Workflow, step
from weft.errors import InvalidStoreOption
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore
from weft.testing.contracts.cases import bodies, first, more, write
from weft.testing.contracts.inbox_store import message

pytestmark = pytest.mark.skipif("WEFT_TEST_DSN" in os.environ, reason="the pooler knows sockets and no passwords")


def behind(dsn: str, act: Callable[[Pooler, str], Awaitable[None]]) -> None:
    """Do something with a pooler in front of the server."""
    (socket,) = parse_qs(urlsplit(dsn).query)["host"]

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with pooled(Path(socket), Path(folder)) as (pooler, address):
                await act(pooler, address)

    asyncio.run(main())


def test_a_store_works_behind_a_pooler_and_hears_over_a_connection_beside_it(dsn: str, schema: str) -> None:
    async def act(pooler: Pooler, address: str) -> None:
        heard = asyncio.Event()
        async with PostgresStore(address, schema=schema, prepared=False, listen_dsn=dsn, lease=3600) as store:
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
            assert await store.purge(before=9.0) == 0
            await store.delete("r9")
            assert await store.count() == 19
        assert pooler.transactions > 10

    behind(dsn, act)


def test_messages_are_found_behind_a_pooler_that_loses_notifications(dsn: str, schema: str) -> None:
    async def act(_: Pooler, address: str) -> None:
        heard = asyncio.Event()
        async with PostgresStore(address, schema=schema, prepared=False, lease=0.9) as store:
            await store.listen(heard.set)
            await write(store, first("r"))
            async with PostgresStore(dsn, schema=schema) as other:
                await other.post([message("r", b"it")])
            async with asyncio.timeout(60):
                await heard.wait()

    behind(dsn, act)


def test_a_store_that_was_not_told_of_the_pooler_says_what_to_do(dsn: str, schema: str) -> None:
    async def act(_: Pooler, address: str) -> None:
        async with PostgresStore(address, schema=schema) as store:
            for i in range(20):
                await store.append([first(f"r{i}")])
                await store.list()

    with pytest.raises(InvalidStoreOption, match="prepared=False"):
        behind(dsn, act)


@step
def add(x: int) -> int:
    return x + 1


@step
def double(x: int) -> int:
    return x * 2


def test_a_runner_works_behind_a_pooler(dsn: str, schema: str) -> None:
    async def act(_: Pooler, address: str) -> None:
        store = PostgresStore(address, schema=schema, prepared=False)
        async with AsyncRunner(store) as runner:
            handles = [await runner.start(Workflow("small", add >> double), i) for i in range(20)]
            assert [await each.result(60) for each in handles] == [(i + 1) * 2 for i in range(20)]

    behind(dsn, act)
