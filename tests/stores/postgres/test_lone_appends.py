"""A lone append, which its caller sends: what becomes of it when the caller, or the connection, goes away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from postgres_stores import holding, inside, is_waiting, until

from weft import Workflow, step
from weft.errors import ConcurrentAppend, StoreUnavailable
from weft.ports.store import Append
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore
from weft.testing.contracts.cases import again, bodies, first, more, write

LOCKED = "select from weft_runs where id = 'r' for update"


def lone(run: str, expected: int, body: bytes = b"2", **given: Any) -> Append:
    """Return an append that says that it has nothing but events."""
    return more(run, expected, body, only_events=True, **given)


async def in_flight(store: PostgresStore, append: Append) -> asyncio.Task[Any]:
    """Return a caller whose append waits in the server for a row that is locked."""
    caller = asyncio.ensure_future(store.append([append]))
    await until(lambda: is_waiting(store))
    return caller


def test_it_is_sent_in_the_task_of_its_caller(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        tasks = asyncio.all_tasks()
        async with holding(store, LOCKED):
            caller = await in_flight(store, lone("r", 1))

            assert asyncio.all_tasks() - tasks == {caller}
        assert list(await caller) == [None]

    inside(PostgresStore(dsn, schema=schema), act)


def test_its_caller_may_go_away(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        async with holding(store, LOCKED):
            caller = await in_flight(store, lone("r", 1, b"left"))
            caller.cancel()
            await asyncio.wait([caller])
        assert caller.cancelled()

        await write(store, again(lone("r", 1, b"left")))  # as the journal does, which cannot know

        assert bodies(await store.load("r")) == [b"1", b"left"]
        await write(store, lone("r", 2, b"next"))
        assert bodies(await store.load("r")) == [b"1", b"left", b"next"]

    inside(PostgresStore(dsn, schema=schema), act)


def test_it_is_in_doubt_when_its_connection_is_lost(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        async with holding(store, LOCKED):
            caller = await in_flight(store, lone("r", 1, b"it"))
            assert store._opened is not None
            store._opened.appends._db.terminate()
            with pytest.raises(StoreUnavailable):
                await caller

        await write(store, again(lone("r", 1, b"it")))

        assert bodies(await store.load("r")) == [b"1", b"it"]

    inside(PostgresStore(dsn, schema=schema), act)


def test_one_that_was_written_before_is_not_written_again_and_another_one_is_refused(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        await write(store, lone("r", 1, b"it"))

        await write(store, again(lone("r", 1, b"it")))
        (refused,) = await store.append([again(lone("r", 1, b"another"))])

        assert isinstance(refused, ConcurrentAppend)
        assert bodies(await store.load("r")) == [b"1", b"it"]

    inside(PostgresStore(dsn, schema=schema), act)


def test_it_is_not_sent_without_a_certain_lease(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        assert store._opened is not None
        store._opened.lease._sure_until = 0.0

        with pytest.raises(StoreUnavailable, match="its lease of 3600 s was not renewed in time"):
            await store.append([lone("r", 1)])

        assert bodies(await store.load("r")) == [b"1"]

    inside(PostgresStore(dsn, schema=schema, lease=3600.0), act)


def test_a_run_goes_on_when_the_journal_is_cancelled_in_the_middle_of_a_commit(dsn: str, schema: str) -> None:
    """The run waits, with its second step, until its row is locked: the append of that step is what is cancelled."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(x: int) -> int:
        begun.set()
        await go_on.wait()
        return x + 1

    flow = Workflow("three", add_one >> step(wait) >> add_one.named("third"))

    async def act(store: PostgresStore) -> None:
        async with AsyncRunner(store, executor="inline") as runner:
            handle = await runner.start(flow, 0, id="r")
            await begun.wait()
            async with holding(store, LOCKED):
                go_on.set()
                await until(lambda: is_waiting(store))
                (journal,) = (task for task in asyncio.all_tasks() if task.get_name() == "weft-journal")
                journal.cancel()
                await asyncio.wait([journal])
            assert await handle.result() == 3
            log = await handle.log()
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        assert len(bodies(await store.load("r"))) == 4

    inside(PostgresStore(dsn, schema=schema), act)


@step
def add_one(x: int) -> int:
    return x + 1
