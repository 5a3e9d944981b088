"""Runs that continue others: no message falls between the two."""

from __future__ import annotations

import asyncio

import asyncpg
from postgres_stores import ask, inside, until

from weft.errors import RunNotFound
from weft.ports.queue import Placement
from weft.stores import PostgresStore
from weft.stores.postgres import inbox
from weft.testing.contracts.cases import first, more, write
from weft.testing.contracts.inbox_store import message
from weft.testing.contracts.queue_store import new


async def waiting(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Wait until a statement waits for the transaction of *db*."""
    sql = "select 1 from pg_locks where not granted and $1 = any(pg_blocking_pids(pid))"
    await until(lambda: ask(store, sql, db.get_server_pid()))


def test_a_sender_that_comes_while_its_run_is_continued_reaches_the_new_one(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("old"))
        opened = store._opened
        assert opened is not None
        db = await asyncpg.connect(dsn)
        continuing = db.transaction()
        await continuing.start()
        batch = [more("old", 1, status="completed", release=True, group="g"), first("new", continues="old", group="g")]
        assert await opened.appender.append(db, batch, opened.lease.known) == [None, None]
        sending = asyncio.ensure_future(store.post([message("old", b"late")]))
        await waiting(store, db)

        await continuing.commit()

        (number,) = await sending
        assert [(each.number, each.body) for each in await store.messages(["new"])] == [(number, b"late")]
        assert [tuple(row) for row in await ask(store, "select wake from weft_queue")] == [(1,)]
        await db.close()

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_run_that_is_continued_waits_for_a_sender_and_passes_its_message_on(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("old"))
        db = await asyncpg.connect(dsn)
        sending = db.transaction()
        await sending.start()
        await inbox.post(db, store._statements, [message("old", b"early")], None)
        end = more("old", 1, status="completed", release=True, group="g")
        continuing = asyncio.ensure_future(store.append([end, first("new", continues="old", group="g")]))
        await waiting(store, db)

        await sending.commit()

        assert list(await continuing) == [None, None]
        assert [each.body for each in await store.messages(["new"])] == [b"early"]
        runs = await ask(store, "select r.id, q.wake from weft_queue q join weft_runs r on r.key = q.run")
        assert [tuple(row) for row in runs] == [("new", 1)]
        await db.close()

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_message_for_the_first_of_many_runs_reaches_the_last(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("0"))
        for i in range(20):
            end = more(str(i), 1, status="completed", release=True)
            await write(store, end, first(str(i + 1), continues=str(i)))

        await store.post([message("3", b"a"), message("20", b"b"), message("0", b"c")])
        assert [each.body for each in await store.messages(["20"])] == [b"a", b"b", b"c"]

        await store.delete("20")
        (refused,) = await store.post([message("0", b"d")])
        assert isinstance(refused, RunNotFound)

    inside(PostgresStore(dsn, schema=schema), act)


def test_the_run_that_continues_another_is_in_the_same_queue(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await store.enqueue([new("old")], Placement("reports", 7))
        (record,) = await store.claim(1, queues=["reports"], workflows=[("orders", "v1")])

        end = more("old", 1, epoch=record.epoch, status="completed", release=True)
        await write(store, end, first("new", continues="old"))

        found = await ask(store, "select queue, priority from weft_queue")
        assert [tuple(row) for row in found] == [("reports", 7)]

    inside(PostgresStore(dsn, schema=schema), act)
