"""Claims beside transactions that do not end, and of what many dead owners have left."""

from __future__ import annotations

import asyncio

import asyncpg
from postgres_stores import ask, die

from weft.ports.queue import Placement
from weft.stores import PostgresStore
from weft.testing.contracts.cases import more, write
from weft.testing.contracts.queue_store import KNOWN, claimed, new


def test_a_claim_that_does_not_commit_holds_up_no_other(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), PostgresStore(dsn, schema=schema) as store:
            await store.enqueue([new(f"r{i}") for i in range(6)], Placement())
            db = await asyncpg.connect(dsn)
            await db.execute(f"set search_path to {store._statements.schema}")
            async with db.transaction():
                held = await db.fetch("select run from weft_queue order by run limit 3 for update")

                assert await claimed(store) == ["r3", "r4", "r5"]  # at once, and none of those that are held
            await db.close()
            assert len(held) == 3
            assert await claimed(store) == ["r0", "r1", "r2"]

    asyncio.run(main())


def test_what_dead_owners_have_left_is_claimed_in_batches_and_nothing_else_is_touched(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), PostgresStore(dsn, schema=schema) as store:
            await store.enqueue([new(f"r{i:02}") for i in range(30)], Placement())
            async with PostgresStore(dsn, schema=schema) as living, PostgresStore(dsn, schema=schema) as dead:
                kept = await claimed(living, 4)
                taken = await dead.claim(26, queues=["default"], workflows=KNOWN)
                finished = taken[0]
                await write(dead, more(finished.id, 1, epoch=finished.epoch, status="completed", release=True))
                await die(dead)

                batches = [await claimed(store, 10) for _ in range(4)]

                assert [len(batch) for batch in batches] == [10, 10, 5, 0]
                assert {run for batch in batches for run in batch} == {each.id for each in taken} - {finished.id}
                assert (await store.find(finished.id)).status == "completed"
                owners = await ask(store, "select distinct owner from weft_queue")
                assert len(owners) == 2  # the one that has claimed, and the one that lives
                await write(living, *(more(run, 1, epoch=2) for run in kept))

    asyncio.run(main())
