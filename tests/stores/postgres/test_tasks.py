"""Steps that any worker may run, as rows: what an owner that lost its run leaves, outdated claims, and the sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from postgres_stores import ask, die

from weft.errors import OwnershipLost
from weft.ports.tasks import ClaimedTask, Task
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first, more, write

KNOWN = [("orders", "v1")]


def task(run: str = "r", runnable: str = "it", *, epoch: int = 1) -> Task:
    """Return a step of a run."""
    return Task(run, runnable, 1, epoch, "wide", 0, "orders", "v1", b"body")


async def claimed(store: PostgresStore) -> list[ClaimedTask]:
    """Claim what there is."""
    return list(await store.claim_tasks(10, queues=["wide"], workflows=KNOWN, deaths=3))


async def left(store: PostgresStore) -> list[str]:
    """Return the runs of the rows that are there."""
    return [row["run"] for row in await ask(store, "select run from weft_tasks order by run")]


def with_two(dsn: str, schema: str, act: Callable[[PostgresStore, PostgresStore], Awaitable[Any]]) -> None:
    """Do something with two stores on the same data."""

    async def main() -> None:
        one, two = (PostgresStore(dsn, schema=schema) for _ in range(2))
        async with asyncio.timeout(60), one, two:
            await act(one, two)

    asyncio.run(main())


async def moved(old: PostgresStore, new: PostgresStore) -> None:
    """Create a run that *old* has in the first epoch, and *new* in the second."""
    await write(old, first("r"))
    await old.release(["r"])
    assert (await new.acquire("r")).epoch == 2


def test_an_owner_that_has_lost_its_run_offers_none_of_its_steps(dsn: str, schema: str) -> None:
    async def act(old: PostgresStore, new: PostgresStore) -> None:
        await moved(old, new)
        await write(old, first("s"))

        accepted = await old.send_tasks([task(epoch=1), task("s")], {})

        assert [each.run for each in accepted] == ["s"]
        assert await left(new) == ["s"]

    with_two(dsn, schema, act)


def test_an_owner_that_has_lost_its_run_takes_no_step_from_the_next_one(dsn: str, schema: str) -> None:
    async def act(old: PostgresStore, new: PostgresStore) -> None:
        await write(old, first("r"))
        await old.send_tasks([task(epoch=1)], {})
        await old.release(["r"])
        await new.acquire("r")
        (adopted,) = await new.send_tasks([task(epoch=2)], {})

        assert list(await old.send_tasks([task(epoch=1)], {})) == []
        await old.drop_tasks([adopted.key])

        (claim,) = await claimed(new)
        assert claim.key == adopted.key

    with_two(dsn, schema, act)


def test_an_outcome_is_over_with_the_append_of_the_owner_and_not_with_a_refused_one(dsn: str, schema: str) -> None:
    async def act(old: PostgresStore, new: PostgresStore) -> None:
        await moved(old, new)
        await new.send_tasks([task(epoch=2)], {})
        (claim,) = await claimed(new)
        await new.finish_tasks([(claim.key, claim.fence, b"done")])
        receipts = ((claim.key, claim.fence),)

        (refused,) = await old.append([more("r", 1, epoch=1, tasks=receipts)])
        (news,) = await new.take_outcomes([claim.key])
        await write(new, more("r", 1, epoch=2, tasks=receipts))

        assert isinstance(refused, OwnershipLost)
        assert (news.state, news.outcome) == ("done", b"done")
        assert await left(new) == []

    with_two(dsn, schema, act)


def test_what_a_worker_says_of_a_claim_that_is_over_is_ignored(dsn: str, schema: str) -> None:
    async def act(owner: PostgresStore, second: PostgresStore) -> None:
        await write(owner, first("r"))
        (sent,) = await owner.send_tasks([task()], {})
        async with PostgresStore(dsn, schema=schema) as dead:
            (old,) = await claimed(dead)
            await die(dead)
        (new,) = await claimed(second)

        await second.finish_tasks([(old.key, old.fence, b"old")])
        await second.put_back_tasks([(old.key, old.fence)])
        (before,) = await owner.take_outcomes([sent.key])
        await second.finish_tasks([(new.key, new.fence, b"new")])
        (after,) = await owner.take_outcomes([sent.key])

        assert (before.state, before.fence, before.outcome) == ("claimed", new.fence, None)
        assert (after.state, after.outcome) == ("done", b"new")

    with_two(dsn, schema, act)


def test_a_report_is_that_of_the_claim_and_the_next_one_begins_without(dsn: str, schema: str) -> None:
    async def act(owner: PostgresStore, second: PostgresStore) -> None:
        await write(owner, first("r"))
        (sent,) = await owner.send_tasks([task()], {})
        async with PostgresStore(dsn, schema=schema) as dead:
            (old,) = await claimed(dead)
            await dead.report_tasks([(old.key, old.fence, b"half")])
            (news,) = await owner.take_outcomes([sent.key])
            assert (news.state, news.outcome, news.report) == ("claimed", None, b"half")
            await die(dead)
        (new,) = await claimed(second)
        (news,) = await owner.take_outcomes([sent.key])
        assert news.report is None

        await second.report_tasks([(old.key, old.fence, b"late"), (new.key, new.fence, b"third")])
        (adopted,) = await owner.send_tasks([task(epoch=2)], {})
        (news,) = await owner.take_outcomes([sent.key])
        assert (adopted.key, news.report) == (sent.key, b"third")

        await second.finish_tasks([(new.key, new.fence, b"done")])
        (news,) = await owner.take_outcomes([sent.key])
        assert (news.state, news.outcome, news.report) == ("done", b"done", None)

    with_two(dsn, schema, act)


def test_what_is_missing_is_said_however_many_steps_run(dsn: str, schema: str) -> None:
    async def act(owner: PostgresStore, other: PostgresStore) -> None:
        await write(owner, first("r"))
        sent = await owner.send_tasks([task(runnable=f"n{i}") for i in range(5)], {})
        keys = [each.key for each in sent]
        assert len(await claimed(other)) == 5
        await owner.drop_tasks(keys[4:])

        found = await owner.take_outcomes(keys, limit=2)

        assert [each.key for each in found if each.state is None] == keys[4:]
        assert sorted(each.key for each in found if each.state == "claimed") == sorted(keys[:4])

    with_two(dsn, schema, act)


def test_the_sweep_removes_what_no_run_waits_for_and_nothing_else(dsn: str, schema: str) -> None:
    async def act(owner: PostgresStore, other: PostgresStore) -> None:
        await write(owner, *(first(run) for run in ("finished", "read", "waits")))
        sent = await owner.send_tasks([task(run) for run in ("finished", "read", "waits")], {("waits", b"h"): b"v"})
        async with PostgresStore(dsn, schema=schema) as dead:
            await write(dead, first("orphan"))
            await dead.send_tasks([task("orphan")], {("orphan", b"h"): b"v"})
            await die(dead)
        (read,) = [each.key for each in sent if each.run == "read"]
        claim = next(each for each in await claimed(other) if each.key == read)
        await other.finish_tasks([(claim.key, claim.fence, b"done")])
        await write(owner, more("finished", 1, status="cancelled"))

        assert await other.sweep_tasks(3600.0) == 1
        assert await left(owner) == ["orphan", "read", "waits"]
        assert await other.sweep_tasks(0.0) == 2
        assert await left(owner) == ["waits"]
        assert await other.sweep_tasks(0.0) == 0
        assert list(await owner.task_values([("waits", b"h"), ("orphan", b"h")])) == [("waits", b"h")]

    with_two(dsn, schema, act)


def test_offering_no_steps_changes_nothing(dsn: str, schema: str) -> None:
    async def act(old: PostgresStore, new: PostgresStore) -> None:
        assert list(await old.send_tasks([], {})) == []
        assert await left(new) == []

    with_two(dsn, schema, act)
