"""The order in which statements lock rows (ADR 40), whatever order their caller names: none waits in a circle."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from postgres_stores import ask, holding, is_waiting, until
from servers import asked

from weft.ports.store import Append
from weft.ports.tasks import Task
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first, more, write
from weft.testing.contracts.inbox_store import message

RUNS = [f"r{i:02}" for i in range(40)]
MIXED = random.Random(5).sample(RUNS, len(RUNS))  # noqa: S311 - not a secret
"""An order in which the first and the last of all are in the middle."""

Act = Callable[[PostgresStore], Awaitable[Any]]


def changed(run: str, expected: int, **given: Any) -> Append:
    """Return an append that writes the row of *run* in the queue."""
    return more(run, expected, status="waiting", wake_at=5.0, **given)


async def assert_in_order(store: PostgresStore, act: Act, table: str, order: str) -> None:
    """See that *act*, which waits for the first row of *table*, has locked none of the others."""
    others = f"select from {table} offset 1"
    async with holding(store, f"select from {table} order by {order} limit 1 for update"):
        work = asyncio.ensure_future(act(store))
        await until(lambda: is_waiting(store))

        rest = await ask(store, f"select from {table} order by {order} for update skip locked")

        assert len(rest) == len(await ask(store, others))
        assert not work.done()
    await work


IN_QUEUE: dict[str, Act] = {
    "append": lambda store: write(store, *(changed(run, 1) for run in MIXED)),
    "append that ends runs": lambda store: write(
        store, *(more(run, 1, status="completed", release=True) for run in MIXED)
    ),
    "append in groups": lambda store: write(store, *(changed(run, 1, group="all") for run in MIXED)),
    "release": lambda store: store.release(MIXED),
    "defer": lambda store: store.defer(MIXED, 30.0),
    "post": lambda store: store.post([message(run, b"it") for run in MIXED]),
}


@pytest.mark.parametrize("name", IN_QUEUE)
def test_rows_of_the_queue_are_locked_in_the_order_of_their_keys(dsn: str, schema: str, name: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            await write(store, *(first(run) for run in RUNS))
            # A row that was written again is behind the others in its table.
            await store.post([message(run, b"before") for run in reversed(RUNS)])

            await assert_in_order(store, IN_QUEUE[name], "weft_queue", "run")

    asyncio.run(main())


def task(runnable: str) -> Task:
    """Return a step of a run."""
    return Task("r", runnable, 1, 1, "wide", 0, "orders", "v1", b"body")


def claim_to(store: PostgresStore, keys: dict[str, int]) -> dict[str, Act]:
    """Return what can be done with all claimed steps, of which *keys* has the keys by runnable."""
    ended = [(keys[runnable], 1, b"done") for runnable in MIXED]
    claims = [(key, fence) for key, fence, _ in ended]
    return {
        "finish_tasks": lambda _: store.finish_tasks(ended),
        "claim_tasks": lambda _: store.claim_tasks(
            1, queues=["wide"], workflows=[("orders", "v1")], deaths=3, outcomes=ended
        ),
        "put_back_tasks": lambda _: store.put_back_tasks(claims),
        "check_tasks": lambda _: store.check_tasks([]),
        "drop_tasks": lambda _: store.drop_tasks([key for key, _ in claims]),
        "append": lambda _: write(store, more("r", 1, tasks=tuple(claims))),
        "send_tasks": lambda _: store.send_tasks([task(runnable) for runnable in MIXED], {}),
        "delete": lambda _: store.delete("r"),
    }


@pytest.mark.parametrize("name", claim_to(None, dict.fromkeys(RUNS, 0)))  # type: ignore[arg-type]
def test_steps_of_other_workers_are_locked_in_the_order_of_their_runs(dsn: str, schema: str, name: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            await write(store, first("r"))
            for runnable in MIXED:  # so that the order of their keys is another one
                await store.send_tasks([task(runnable)], {})
            await store.claim_tasks(len(RUNS), queues=["wide"], workflows=[("orders", "v1")], deaths=3)
            found = await ask(store, "select key, runnable from weft_tasks")

            act = claim_to(store, {runnable: key for key, runnable in found})[name]
            await assert_in_order(store, act, "weft_tasks", 'run collate "C", runnable collate "C"')

    asyncio.run(main())


def test_a_sweep_leaves_steps_alone_that_others_have_locked(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            await write(store, first("r"))
            await store.send_tasks([task(runnable) for runnable in RUNS], {("r", b"h"): b"value"})
            await write(store, more("r", 1, status="completed"))
            async with holding(store, "select from weft_tasks where runnable = 'r00' for update"):
                assert await store.sweep_tasks(0.0) == len(RUNS) - 1
            assert await store.sweep_tasks(0.0) == 1

    asyncio.run(main())


async def many_at_once(dsn: str) -> None:
    """Append to runs, post to them, release them and get them back, all at once, for a hundred times each."""
    async with PostgresStore(dsn) as owner, PostgresStore(dsn) as client, PostgresStore(dsn) as another:
        await write(owner, *(first(run) for run in RUNS))
        heads = dict.fromkeys(RUNS, 1)

        async def append() -> None:
            drawn = random.Random(1)  # noqa: S311 - not a secret
            for turn in range(100):
                runs = drawn.sample(RUNS, 30)
                await write(owner, *(changed(run, heads[run], group="all" if turn % 10 == 9 else "") for run in runs))
                heads.update({run: heads[run] + 1 for run in runs})

        async def post(store: PostgresStore, seed: int) -> None:
            drawn = random.Random(seed)  # noqa: S311 - not a secret
            for _ in range(100):
                await store.post([message(run, b"it") for run in drawn.sample(RUNS, 30)])

        await asyncio.gather(append(), post(client, 2), post(another, 3))


def test_posts_and_appends_of_the_same_runs_do_not_deadlock(server_dsn: str) -> None:
    name = f"weft_{uuid.uuid4().hex}"
    asked(server_dsn, lambda db: db.execute(f"create database {name} encoding 'UTF8' template template0"))
    try:
        asyncio.run(many_at_once(server_dsn.replace("/postgres?", f"/{name}?")))

        # Each connection has told its counts when it was closed.
        sql = "select deadlocks from pg_stat_database where datname = $1"
        assert asked(server_dsn, lambda db: db.fetchval(sql, name)) == 0
    finally:
        asked(server_dsn, lambda db: db.execute(f"drop database {name} with (force)"))
