"""Pages of runs: without those that are damaged, and without reading all others to find a few."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from postgres_stores import ask

from weft import AsyncClient, Workflow, step
from weft.fleet import FleetWorker
from weft.ports.store import RunRecord
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first, write


def run(dsn: str, schema: str, act: Callable[[PostgresStore], Awaitable[Any]]) -> None:
    """Do something with an open store."""

    async def main() -> None:
        async with asyncio.timeout(120), PostgresStore(dsn, schema=schema) as store:
            await act(store)

    asyncio.run(main())


async def damage(store: PostgresStore, *runs: str) -> None:
    """Write a status that there is not into the rows of *runs*."""
    await ask(store, "update weft_runs set status = 'nonsense' where id = any($1)", list(runs))


def test_pages_are_full_without_the_runs_that_are_damaged(
    dsn: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, *(first(f"r{number}", at=float(number)) for number in range(9)))
        await store.release([f"r{number}" for number in range(9)])
        await damage(store, "r8", "r7", "r6", "r5", "r2")

        pages: list[list[str]] = []
        last: RunRecord | None = None
        with caplog.at_level(logging.ERROR, logger="weft.stores"):
            while page := await store.list(after=last, limit=2):
                pages.append([each.id for each in page])
                last = page[-1]

        assert pages == [["r4", "r3"], ["r1", "r0"]]
        assert "'r8'" in caplog.text

    run(dsn, schema, act)


@step
def double(x: int) -> int:
    return 2 * x


def test_a_job_goes_on_behind_a_damaged_run(dsn: str, schema: str) -> None:
    flow = Workflow("double", double)

    async def main() -> None:
        async with asyncio.timeout(90), AsyncClient(dsn, schema=schema) as client:
            ids = (await client.start_many(flow, range(5), queue="none")).ids
            await damage(PostgresStore(dsn, schema=schema), ids[2])
            worker = FleetWorker(dsn, [flow], schema=schema, queues=["none else"])
            work = asyncio.ensure_future(worker.run())
            try:
                job = await client.bulk("cancel", workflow="double")
                ended = await client.wait_job(job.id, timeout=60)
            finally:
                worker.stop()
                await work

            assert ended.state == "completed"
            assert ended.sent == 4
            assert {each.id for each in await client.runs()} == {*ids} - {ids[2]}

    asyncio.run(main())


_MANY = """
    insert into weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow, version, status,
                           reason, chain, outcome)
    select 0, 1, i / 3, i, i % 2, 0, 'r' || i, 'w' || i % 2, 'v',
           case when i % 5000 = 7 then 'failed' when i % 5000 = 8 then 'parked' else 'completed' end, '', '', ''
    from generate_series(1, 20000) i
"""


def test_runs_of_a_rare_status_are_found_without_reading_the_others(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await ask(store, _MANY)
        await ask(store, "analyze weft_runs")
        statement = store._statements["page_by_status"]
        db = await asyncpg.connect(dsn)
        for statuses in (["failed"], ["parked", "failed"]):
            values = statuses, None, None, None, None, None, 100
            plan = json.loads(await db.fetchval(f"explain (analyze, buffers, format json) {statement}", *values))[0]
            read = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
            assert plan["Plan"]["Actual Rows"] == 4 * len(statuses)
            assert read < 150  # all of the runs are in some hundreds
        await db.close()

    run(dsn, schema, act)


def test_a_page_of_some_statuses_is_that_part_of_all_runs(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await ask(store, _MANY.replace("5000", "10").replace("20000", "200"))
        every = await store.list(limit=1000)
        assert len(every) == 200
        for statuses, workflow, failed, since, after in itertools.product(
            (["failed"], ["completed"], ["parked", "failed"], ["completed", "failed", "completed"], ["idle"]),
            (None, "w1"),
            (None, True, False),
            (None, 20.0),
            (None, every[30]),
        ):
            expected = [
                each.id
                for each in every
                if each.status in statuses
                and workflow in {None, each.workflow}
                and failed in {None, each.failures > 0}
                and (since is None or each.created_at >= since)
                and (after is None or (each.created_at, each.id) < (after.created_at, after.id))
            ]

            found = await store.list(
                statuses=statuses, workflow=workflow, failed=failed, since=since, after=after, limit=7
            )

            assert [each.id for each in found] == expected[:7]

    run(dsn, schema, act)
