"""Runs that are started in a transaction of the caller: there when it commits, and never if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from test_worker import with_worker

from weft import AsyncClient, Client
from weft.errors import InvalidOption, RunExists
from weft.fleet import FleetWorker

Open = Callable[[str], AbstractAsyncContextManager[Any]]
OpenBlocking = Callable[[str], AbstractContextManager[Any]]


def engine_of(dsn: str, driver: str) -> Any:
    """Return an engine of SQLAlchemy for *dsn*."""
    parts = urlsplit(dsn)
    arguments = {"host": parse_qs(parts.query)["host"][0]} if "host=" in parts.query else {}
    where = f"postgresql+{driver}://{parts.netloc.rstrip('@').rstrip(':')}@{parts.path}".replace("@@", "@")
    make = create_async_engine if driver == "asyncpg" or driver.endswith("_async") else sqlalchemy.create_engine
    return make(where, connect_args=arguments)


@asynccontextmanager
async def of_asyncpg(dsn: str) -> AsyncIterator[Any]:
    db = await asyncpg.connect(dsn)
    try:
        async with db.transaction():
            yield db
    finally:
        await db.close()


@asynccontextmanager
async def of_psycopg(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as db:
        yield db


@asynccontextmanager
async def of_sqlalchemy(dsn: str) -> AsyncIterator[Any]:
    engine = engine_of(dsn, "asyncpg")
    try:
        async with engine.begin() as db:
            yield db
    finally:
        await engine.dispose()


@asynccontextmanager
async def of_a_session(dsn: str) -> AsyncIterator[Any]:
    engine = engine_of(dsn, "asyncpg")
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@asynccontextmanager
async def of_sqlalchemy_over_psycopg(dsn: str) -> AsyncIterator[Any]:
    engine = engine_of(dsn, "psycopg_async")
    try:
        async with engine.begin() as db:
            yield db
    finally:
        await engine.dispose()


AWAITED = [of_asyncpg, of_psycopg, of_sqlalchemy, of_a_session, of_sqlalchemy_over_psycopg]


@pytest.mark.parametrize("transaction", AWAITED)
def test_a_run_is_there_when_the_transaction_has_committed(dsn: str, transaction: Open) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        async with transaction(dsn) as db:
            handle = await client.start("chain", 1, id="a", within=db)
            assert await client.count() == 0

        assert await handle.result(timeout=30) == 1
        async with transaction(dsn) as db:
            assert (await client.start("chain", 1, id="a", within=db)).id == "a"
            with pytest.raises(RunExists, match="another input"):
                await client.start("chain", 2, id="a", within=db)
        assert await client.count() == 1

    with_worker(dsn, act)


@pytest.mark.parametrize("transaction", AWAITED)
def test_a_run_never_was_if_the_transaction_is_rolled_back(dsn: str, transaction: Open) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the end of the transaction is meant
                async with transaction(dsn) as db:
                    await client.start("chain", 1, id="a", within=db)
                    with pytest.raises(RunExists, match="same transaction"):
                        await client.start("chain", 1, id="a", within=db)
                    raise ZeroDivisionError

            assert await client.count() == 0
            assert await client.queue_depth() == 0

    asyncio.run(main())


@contextmanager
def of_blocking_psycopg(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn) as db:
        yield db


@contextmanager
def of_blocking_sqlalchemy(dsn: str) -> Iterator[Any]:
    engine = engine_of(dsn, "psycopg")
    try:
        with engine.begin() as db:
            yield db
    finally:
        engine.dispose()


@contextmanager
def of_a_blocking_session(dsn: str) -> Iterator[Any]:
    engine = engine_of(dsn, "psycopg")
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@pytest.mark.parametrize("transaction", [of_blocking_psycopg, of_blocking_sqlalchemy, of_a_blocking_session])
def test_a_blocking_client_joins_the_transaction_of_its_thread(dsn: str, transaction: OpenBlocking) -> None:
    with Client(dsn) as client:
        with transaction(dsn) as db:
            client.start("chain", 1, id="a", within=db)
            assert client.count() == 0
        assert client.status("a") == "running"

        with pytest.raises(ZeroDivisionError), transaction(dsn) as db:  # noqa: PT012 - its end is meant
            client.start("chain", 1, id="b", within=db)
            raise ZeroDivisionError
        assert client.count() == 1


def test_a_connection_that_cannot_be_used_is_refused(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            db = await asyncpg.connect(dsn)
            with pytest.raises(InvalidOption, match="begin a transaction"):
                await client.start("chain", 1, within=db)
            await db.close()
            with pytest.raises(InvalidOption, match="asyncpg or psycopg"):
                await client.start("chain", 1, within=object())
            with psycopg.connect(dsn, autocommit=True) as blocking, pytest.raises(InvalidOption, match=r"weft\.Client"):
                await client.start("chain", 1, within=blocking)
            assert await client.count() == 0

    asyncio.run(main())
    with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as db:
        with pytest.raises(InvalidOption, match="begin a transaction"):
            client.start("chain", 1, within=db)
        with db.transaction():
            client.start("chain", 1, within=db)
        assert client.count() == 1
