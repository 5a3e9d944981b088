"""A claim reads the runs and steps that its process can run, however many others wait in front of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from postgres_stores import ask, die

from weft.ports.queue import Placement
from weft.ports.store import RunRecord
from weft.ports.tasks import Task
from weft.stores import PostgresStore
from weft.stores.postgres.statements import part
from weft.testing.contracts.cases import first, more, write
from weft.testing.contracts.inbox_store import message

KNOWN = [("orders", "v2"), ("orders", "v3"), ("bills", "v1")]
STRANDED = 10_000
MOST_BLOCKS = 500
"""Of tables and indexes; one that reads all that is stranded reads tens of thousands."""

_RUNS = """
    with made as (
        insert into weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow, version,
                               status, reason, chain, outcome)
        select 0, 1, i, i, 0, 0, 'old ' || i, 'orders', 'v1', $1, '', '', '' from generate_series(1, $2::integer) i
        returning key, workflow, version
    )
    insert into weft_queue (run, owner, scheduled_at, wake, program, turn, fair_key)
    select r.key, $3::bigint, 1, 0, {program}, $4::bigint, case when $4::bigint is not null then 'key' end from made r
"""
_STEPS = """
    insert into weft_tasks (run, runnable, attempt, epoch, queue, priority, workflow, version, program, owner, body)
    select r.run, r.runnable, 1, 1, 'wide', 9, r.workflow, r.version, {program}, 1, ''
    from (
        select 'r' as run, 'old ' || i as runnable, 'orders' as workflow, 'v1' as version
        from generate_series(1, $1::integer) i
    ) r
"""


def run(dsn: str, schema: str, act: Callable[[PostgresStore], Awaitable[Any]]) -> None:
    """Do something with an open store."""

    async def main() -> None:
        async with asyncio.timeout(120), PostgresStore(dsn, schema=schema) as store:
            await act(store)

    asyncio.run(main())


async def fill(store: PostgresStore, sql: str, *values: Any) -> None:
    """Write many rows at once."""
    await ask(store, sql.replace("{program}", part("program")), *values)
    await ask(store, "analyze weft_runs, weft_queue, weft_tasks")


async def claimed(store: PostgresStore, limit: int = 100) -> list[RunRecord]:
    """Claim runs of what this worker knows."""
    return list(await store.claim(limit, queues=["default"], workflows=KNOWN))


async def blocks(store: PostgresStore, text: str, *values: Any) -> int:
    """Return how many blocks a statement reads; what it does is rolled back."""
    db = await asyncpg.connect(store._dsn)
    try:
        transaction = db.transaction()
        await transaction.start()
        plan = json.loads(await db.fetchval(f"explain (analyze, buffers, format json) {text}", *values))[0]["Plan"]
        await transaction.rollback()
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    finally:
        await db.close()


async def assert_cheap(store: PostgresStore, limit: int = 10) -> None:
    """See that a claim does not read what it cannot take."""
    assert store._opened is not None
    workflows, versions = [name for name, _ in KNOWN], [version for _, version in KNOWN]
    owner = await store._opened.lease.key()
    for text in (store._statements["claim"], store._statements.kept("claim")):
        assert await blocks(store, text, limit, ["default"], workflows, versions, owner, "x", 99) < MOST_BLOCKS


def test_a_claim_does_not_read_the_due_runs_of_a_version_that_it_does_not_know(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await fill(store, _RUNS, "running", STRANDED, None, None)
        await store.enqueue([first(each, release=True, version="v2") for each in "ab"], Placement())

        await assert_cheap(store)
        assert [each.id for each in await claimed(store)] == ["a", "b"]
        await assert_cheap(store)  # with nothing that it could take

    run(dsn, schema, act)


def test_a_claim_does_not_read_the_turns_of_a_version_that_it_does_not_know(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await fill(store, _RUNS, "running", STRANDED, None, 1)
        await store.enqueue([first("a", release=True, version="v2")], Placement(key="key"))

        await assert_cheap(store)
        assert [each.id for each in await claimed(store)] == ["a"]

    run(dsn, schema, act)


def test_a_claim_does_not_read_what_a_dead_worker_of_another_version_has_left(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        async with PostgresStore(dsn, schema=schema) as dead:
            assert dead._opened is not None
            runs = _RUNS.replace("'v1'", "'v1.' || i % 100")
            await fill(store, runs, "running", STRANDED, await dead._opened.lease.key(), None)
            await store.enqueue([first("a", release=True, version="v2")], Placement())
            assert [each.id for each in await dead.claim(1, queues=["default"], workflows=KNOWN)] == ["a"]
            await die(dead)

        await assert_cheap(store)
        assert [each.id for each in await claimed(store)] == ["a"]

    run(dsn, schema, act)


def test_a_claim_of_steps_does_not_read_those_of_a_version_that_it_does_not_know(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        await fill(store, _STEPS, STRANDED)
        mine = [Task("r", f"new {number}", 1, 1, "wide", 0, "orders", "v2", b"") for number in range(3)]
        await store.send_tasks(mine, {})
        assert store._opened is not None
        owner, empty = await store._opened.lease.key(), ([], [], [])

        read = await blocks(
            store, store._statements["claim_tasks"], 2, ["wide", "other"], ["orders"], ["v2"], owner, 3, *empty
        )
        found = await store.claim_tasks(5, queues=["wide", "other"], workflows=KNOWN, deaths=3)

        assert read < MOST_BLOCKS
        assert [each.version for each in found] == ["v2"] * 3

    run(dsn, schema, act)


def test_a_claim_of_steps_does_not_read_all_that_wait(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        await fill(store, _STEPS, STRANDED)
        assert store._opened is not None
        owner, empty = await store._opened.lease.key(), ([], [], [])

        assert (
            await blocks(
                store, store._statements["claim_tasks"], 2, ["other", "wide"], ["orders"], ["v1"], owner, 3, *empty
            )
            < MOST_BLOCKS
        )

    run(dsn, schema, act)


def test_runs_of_several_versions_are_claimed_in_the_order_of_their_times(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        versions = ["v2", "v3", "v2", "v2", "v3", "v2", "v3", ""]
        for number, version in enumerate(versions):
            await store.enqueue(
                [first(f"r{number}", release=True, version=version)], Placement(scheduled_at=float(number + 1))
            )

        assert [each.id for each in await claimed(store, 3)] == ["r0", "r1", "r2"]
        assert [each.id for each in await claimed(store, 4)] == ["r3", "r4", "r5", "r6"]
        assert [each.id for each in await claimed(store, 4)] == ["r7"]

    run(dsn, schema, act)


def test_a_claim_locks_few_runs_more_than_it_takes(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        for workflow, version in KNOWN:
            runs = [
                first(f"{workflow} {version} {n}", release=True, workflow=workflow, version=version) for n in range(50)
            ]
            await store.enqueue(runs, Placement())
        db = await asyncpg.connect(store._dsn)
        async with db.transaction():
            assert store._opened is not None
            known = [name for name, _ in KNOWN], [version for _, version in KNOWN]
            owner = await store._opened.lease.key()
            await db.fetch(store._statements["claim"], 30, ["default"], *known, owner, "x", 99)

            free = await ask(store, "select from weft_queue where owner is null for update skip locked")

            assert 150 - 2 * 30 - len(KNOWN) <= len(free) <= 150 - 30
        await db.close()

    run(dsn, schema, act)


def test_two_that_claim_at_once_both_find_runs_of_another_version(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await store.enqueue(
            [first(f"old {n}", release=True, version="v2") for n in range(10)], Placement(scheduled_at=1.0)
        )
        await store.enqueue(
            [first(f"new {n}", release=True, version="v3") for n in range(90)], Placement(scheduled_at=2.0)
        )
        db = await asyncpg.connect(store._dsn)
        async with db.transaction():
            assert store._opened is not None
            known = [name for name, _ in KNOWN], [version for _, version in KNOWN]
            owner = await store._opened.lease.key()
            await db.fetch(store._statements["claim"], 10, ["default"], *known, owner, "x", 99)

            assert len(await claimed(store, 10)) >= 5
        await db.close()

    run(dsn, schema, act)


def test_a_run_that_an_older_process_has_enqueued_is_claimed_by_one_that_knows_it(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await store.enqueue(
            [first("a", release=True, version="v1"), first("b", release=True, version="v2")], Placement()
        )
        await ask(store, "update weft_queue set program = 0")

        assert [each.id for each in await claimed(store)] == ["b"]

    run(dsn, schema, act)


def test_a_run_that_was_upgraded_is_claimed_by_those_that_know_its_new_version(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("a", version="v1"))
        await write(store, more("a", 1, version="v2"))
        await store.release(["a"])

        assert [each.id for each in await claimed(store)] == ["a"]

    run(dsn, schema, act)


async def is_due(store: PostgresStore) -> bool:
    """Return whether the only run in the queue is due."""
    ((scheduled_at,),) = await ask(store, "select scheduled_at from weft_queue")
    return bool(scheduled_at < float("inf"))


def test_a_parked_run_is_not_due_for_a_message_that_it_does_not_take(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("a", version="v2"))
        await store.post([message("a", b"before")])
        await write(store, more("a", 1, status="parked", release=True))
        assert not await is_due(store)
        await store.post([message("a", b"after")])
        assert not await is_due(store)

        await store.post([message("a", b"no"), message("a", b"yes", kind="cancel")])

        assert await is_due(store)
        (record,) = await claimed(store)
        await store.release(["a"])
        assert await is_due(store)  # nothing has taken the message
        assert record.status == "parked"

    run(dsn, schema, act)


def test_a_run_that_is_parked_while_it_has_a_message_that_it_takes_is_due(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("a", version="v2"))
        await store.post([message("a", b"yes", kind="cancel")])
        await write(store, more("a", 1, status="parked", release=True))

        assert [each.id for each in await claimed(store)] == ["a"]

    run(dsn, schema, act)


def test_a_run_that_goes_on_after_it_was_parked_is_due_for_any_message(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("a", version="v2"))
        await write(store, more("a", 1, status="parked"))
        await write(store, more("a", 2, status="waiting", release=True))
        assert await claimed(store) == []

        await store.post([message("a", b"it")])

        assert [each.id for each in await claimed(store)] == ["a"]

    run(dsn, schema, act)


def test_a_deferred_run_is_due_at_once_if_a_message_came_since_it_was_claimed(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        for each in "ab":
            await store.enqueue([first(each, release=True, version="v2")], Placement())
        await store.post([message("a", b"before"), message("b", b"before")])
        assert len(await claimed(store)) == 2
        await store.post([message("b", b"since")])

        await store.defer(["a", "b"], 1000.0)

        assert [each.id for each in await claimed(store)] == ["b"]

    run(dsn, schema, act)


def test_a_run_that_was_acquired_has_no_turn_when_it_comes_back(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await store.enqueue([first("a", release=True, version="v2")], Placement(key="key"))
        record = await store.acquire("a")
        await write(store, more("a", 1, epoch=record.epoch, status="waiting", wake_at=9e9, release=True))

        assert await claimed(store) == []

    run(dsn, schema, act)


def test_a_worker_hears_of_a_run_that_was_released_while_a_message_came(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("a", version="v2"))
        await store.post([message("a", b"it")])
        async with PostgresStore(dsn, schema=schema) as another:
            rung = asyncio.Event()
            end = await another.watch_queue(rung.set)
            rung.clear()
            await write(store, more("a", 1, status="completed", release=True))
            await asyncio.wait_for(rung.wait(), 30)
            end()

    run(dsn, schema, act)


def test_a_step_whose_worker_is_not_known_any_more_has_not_killed_it(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        await store.send_tasks([Task("r", "it", 1, 1, "wide", 0, "orders", "v2", b"")], {})
        async with PostgresStore(dsn, schema=schema) as dead:
            assert len(await dead.claim_tasks(1, queues=["wide"], workflows=KNOWN, deaths=3)) == 1
            assert dead._opened is not None
            key = dead._opened.lease.known
            await die(dead)
        await ask(store, "delete from weft_workers where key = $1", key)

        assert len(await store.claim_tasks(1, queues=["wide"], workflows=KNOWN, deaths=1)) == 1

    run(dsn, schema, act)
