"""Messages and what happens at the same moment: nothing falls between a sender and an owner that leaves."""

from __future__ import annotations

import asyncio

import asyncpg
from postgres_stores import ask, inside, until

from weft.stores import PostgresStore
from weft.stores.postgres import inbox
from weft.testing.contracts.cases import first, more, write
from weft.testing.contracts.inbox_store import message


async def waiting(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Wait until a statement waits for the transaction of *db*."""
    sql = "select 1 from pg_locks where not granted and $1 = any(pg_blocking_pids(pid))"
    await until(lambda: ask(store, sql, db.get_server_pid()))


def test_a_message_that_comes_while_its_run_finishes_keeps_the_run_in_the_queue(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        db = await asyncpg.connect(dsn)
        sending = db.transaction()
        await sending.start()
        await inbox.post(db, store._statements, [message("r", b"late")], None)
        finishing = asyncio.ensure_future(store.append([more("r", 1, status="completed", release=True)]))
        await waiting(store, db)

        await sending.commit()

        assert list(await finishing) == [None]
        ((owner, wake, is_due),) = await ask(store, "select owner, wake, scheduled_at < 1e12 from weft_queue")
        assert (owner, wake, is_due) == (None, 1, True)
        assert (await store.find("r")).status == "completed"
        await db.close()

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_message_that_comes_while_its_run_is_released_keeps_the_run_in_the_queue(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r", status="completed"))
        db = await asyncpg.connect(dsn)
        sending = db.transaction()
        await sending.start()
        await inbox.post(db, store._statements, [message("r", b"late")], None)
        releasing = asyncio.ensure_future(store.release(["r"]))
        await waiting(store, db)

        await sending.commit()
        await releasing

        assert [tuple(row) for row in await ask(store, "select owner, wake from weft_queue")] == [(None, 1)]
        await db.close()

    inside(PostgresStore(dsn, schema=schema), act)


def test_the_messages_of_a_run_become_visible_in_the_order_of_their_numbers(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"), first("s"))
        db = await asyncpg.connect(dsn)
        sending = db.transaction()
        await sending.start()
        ((one,), _) = await inbox.post(db, store._statements, [message("r", b"1")], None)
        second = asyncio.ensure_future(store.post([message("r", b"2")]))
        await waiting(store, db)
        async with PostgresStore(dsn, schema=schema) as other:
            await other.post([message("s", b"3")])  # another run need not wait
            assert [each.body for each in await other.messages("rs")] == [b"3"]
        await sending.commit()
        (two,) = await second

        assert isinstance(one, int)
        assert isinstance(two, int)
        assert one < two
        assert [each.body for each in await store.messages(["r"])] == [b"1", b"2"]
        await db.close()

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_finished_run_leaves_the_queue_and_a_message_brings_it_back(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r", status="completed", release=True), first("s"))
        await write(store, more("s", 1, status="failed", release=True))
        assert await ask(store, "select run from weft_queue") == []

        await store.post([message("s", b"retry"), message("s", b"and again")])

        assert [tuple(row) for row in await ask(store, "select owner, wake from weft_queue")] == [(None, 2)]
        record = await store.acquire("s")
        assert record.died_in is None
        assert [each.body for each in await store.messages()] == [b"retry", b"and again"]
        numbers = tuple(each.number for each in await store.messages())
        await write(store, more("s", 2, epoch=2, taken=numbers, status="completed", release=True))
        assert await ask(store, "select run from weft_queue") == []
        assert await ask(store, "select run from weft_inbox") == []

    inside(PostgresStore(dsn, schema=schema), act)


def test_the_queue_says_when_a_run_is_due(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("running", at=7.0, release=True), first("sleeping", status="waiting", wake_at=50.0))
        await write(store, first("signalled", status="waiting"), first("idle", status="idle", release=True))
        await store.release(["sleeping", "signalled"])
        sql = "select r.id, q.scheduled_at from weft_queue q join weft_runs r on r.key = q.run"

        assert dict(await ask(store, sql)) == {
            "running": 7.0,
            "sleeping": 50.0,
            "signalled": float("inf"),
            "idle": float("inf"),
        }
        await store.post([message("signalled", b"yes")])
        assert dict(await ask(store, sql))["signalled"] < 1e12

    inside(PostgresStore(dsn, schema=schema), act)


def test_messages_are_found_without_notifications(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        heard = asyncio.Event()
        await store.listen(heard.set)  # to a server that is not there
        await write(store, first("r"))
        async with PostgresStore(dsn, schema=schema) as other:
            await other.post([message("r", b"1")])

        async with asyncio.timeout(60):
            await heard.wait()

    nowhere = "postgresql://nobody@/none?host=/nonexistent"
    inside(PostgresStore(dsn, schema=schema, listen_dsn=nowhere, lease=0.9), act)


def test_a_listener_connects_again_and_looks_for_what_it_has_missed(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        heard = asyncio.Event()
        await store.listen(heard.set)
        await write(store, first("r"))
        listener = store._usable().hints._listener
        assert listener is not None
        pid = listener._db.get_server_pid()

        await ask(store, "select pg_terminate_backend($1)", pid)
        async with asyncio.timeout(60):
            await heard.wait()  # connected again
            heard.clear()
            async with PostgresStore(dsn, schema=schema) as other:
                await other.post([message("r", b"1")])
            await heard.wait()

    inside(PostgresStore(dsn, schema=schema, lease=3600), act)
