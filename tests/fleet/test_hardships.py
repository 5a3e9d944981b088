"""A fleet in trouble: connections that are cut, rows that are damaged, nothing that is heard; costs of one at rest."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest
from cutting_proxy import CuttingProxy
from servers import asked
from test_moving import is_in, working
from test_worker import until, with_worker

from weft import AsyncClient, events
from weft.fleet import FleetWorker
from weft.stores import PostgresStore

RUNS = int(os.environ.get("WEFT_FAULT_RUNS", "20"))


async def check_all(client: AsyncClient, ids: list[str]) -> None:
    """See that every run is at its end, and every step completed once in its log."""
    for number, run in enumerate(ids):
        assert await client.result(run, timeout=60) == (number + 1) * 2 - 3
        done = [event.component for event in await client.log(run) if isinstance(event, events.ReactionOccurred)]
        assert done == ["begin", "middle", "end"]

    async def is_empty() -> bool:
        return await client.queue_depth() == 0

    await until(is_empty)


@pytest.mark.parametrize(("cut", "mute"), [(True, False), (False, True)], ids=["in a statement", "before an answer"])
def test_connections_that_are_cut_lose_and_repeat_nothing(dsn: str, cut: bool, mute: bool) -> None:
    async def main() -> None:
        proxy = CuttingProxy(dsn, cut=cut, mute=mute)
        async with asyncio.timeout(120), AsyncClient(dsn) as client, proxy.open() as through:
            async with working(through, lease=2.0, concurrency=8):
                ids = (await client.start_many("chain", range(RUNS))).ids
                await check_all(client, ids)
                proxy.is_calm = True
            assert proxy.cuts > 0

    asyncio.run(main())


def test_a_client_whose_answers_are_lost_starts_each_run_once(dsn: str) -> None:
    async def main() -> None:
        proxy = CuttingProxy(dsn, mute=True)
        async with asyncio.timeout(120), AsyncClient(dsn) as direct, proxy.open() as through:
            proxy.is_calm = True
            async with AsyncClient(through) as client:
                proxy.is_calm = False
                for i in range(10):
                    await client.start("chain", i, id=f"r{i}")
                proxy.is_calm = True
            assert proxy.cuts > 0
            assert await direct.count() == 10
            assert await direct.queue_depth() == 10

    asyncio.run(main())


@pytest.mark.parametrize(
    "damage",
    [
        "update weft_events set body = 'x' where run = (select key from weft_runs where id = 'bad')",
        "update weft_runs set status = 'nonsense' where id = 'bad'",
        "update weft_runs set head = 7 where id = 'bad'",
        "delete from weft_events where run = (select key from weft_runs where id = 'bad')",
    ],
    ids=["events", "status", "head", "no events"],
)
def test_a_damaged_run_stops_no_other(dsn: str, damage: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(90), AsyncClient(dsn) as client:
            await client.start("chain", 0, id="bad", priority=9)
            ids = (await client.start_many("chain", range(RUNS))).ids
            await client._store._ask(_executed, damage)
            async with working(dsn):
                for number, run in enumerate(ids):
                    assert await client.result(run, timeout=60) == (number + 1) * 2 - 3

    asyncio.run(main())


async def _executed(db: Any, _: object, sql: str) -> None:
    await db.execute(sql)


def test_a_worker_that_hears_nothing_finds_runs_and_messages_by_looking(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        assert await (await client.start("chain", 1)).result(timeout=60) == 1
        waiting = await client.start("approval", 1)
        await client.signal(waiting.id, "go", "yes")
        assert await waiting.result(timeout=60) == "yes"

    with_worker(dsn, act, lease=2.0, listen_dsn="postgresql://nobody@127.0.0.1:1/nowhere")


@pytest.mark.parametrize("hours", [6, -6])
def test_a_clock_that_is_wrong_by_hours_changes_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        async with working(dsn, lease=2.0):
            await check_all(client, (await client.start_many("chain", range(RUNS))).ids)

    with_worker(dsn, act, lease=2.0)


def test_a_worker_uses_at_most_four_connections(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            async with AsyncClient(dsn) as client:
                await client.start_many("chain", range(50))
            async with working(dsn) as worker:
                await is_in(worker, "working")

                async def is_done() -> bool:
                    sql = "select count(*) = 0 from weft_queue"
                    return bool(await asyncio.to_thread(asked, dsn, lambda db: db.fetchval(sql)))

                await until(is_done)
                sql = """
                    select count(*) from pg_stat_activity
                    where datname = current_database() and pid <> pg_backend_pid()
                """
                assert await asyncio.to_thread(asked, dsn, lambda db: db.fetchval(sql)) <= 4

    asyncio.run(main())


def test_an_idle_worker_makes_at_most_one_statement_in_a_second(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), working(dsn) as worker:
            await is_in(worker, "working")
            runner = worker._runner
            assert runner is not None
            store = runner._queue_store
            assert isinstance(store, PostgresStore)
            assert store._opened is not None
            said: list[str] = []
            renewals = store.presence.renewals

            async def renewed(count: int) -> None:
                async def found() -> bool:
                    return store.presence.renewals >= renewals + count

                await until(found)

            await renewed(1)
            for each in (store._opened.appends, store._opened.others):
                if each._db is not None:
                    each._db.add_query_logger(lambda query: said.append(query.query))
            begun = time.monotonic()
            await renewed(4)
            passed = time.monotonic() - begun

            assert len(said) + 4 <= passed + 1  # more time passes on a busy machine, and not more statements

    asyncio.run(main())
