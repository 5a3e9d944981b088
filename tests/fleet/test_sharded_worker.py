"""A worker on several databases: runs, children, messages and schedules, each exactly once wherever they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import fleet_flows as flows
import limit_flows
import pytest
import shard_flows
from processes import workers
from shard_databases import Databases
from test_worker import until

from weft import AsyncClient
from weft.errors import InvalidOption, RunClosed, RunFailed
from weft.fleet import FleetWorker, ShardedWorker
from weft.fleet.placement import Generations
from weft.ports.store import RunStatus

ALL = (0, 1, 2)
WORKFLOWS = [
    *(flows.chain, flows.approval, shard_flows.one_more, shard_flows.patient),
    *(shard_flows.family, shard_flows.threaded, shard_flows.left),
    *(shard_flows.booking, shard_flows.agency),
]


def with_worker(
    shards: Databases, act: Callable[[AsyncClient, ShardedWorker], Awaitable[None]], **options: Any
) -> None:
    """Do something with a client of all databases while a worker serves all of them."""

    async def main() -> None:
        worker = ShardedWorker(shards.dsns, WORKFLOWS, schema=shards.schema, **options)
        async with asyncio.timeout(240), shards.client(*ALL) as client:
            working = asyncio.create_task(worker.run())
            try:
                await act(client, worker)
            finally:
                worker.stop()
                await working

    asyncio.run(main())


def test_limits_that_each_database_has_for_itself_are_named(
    shards: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(count: int) -> None:
        workflows = [flows.chain, limit_flows.few, limit_flows.slow]
        worker = ShardedWorker(shards.dsns[:count], workflows, schema=shards.schema)
        worker.stop()
        await worker.run()

    asyncio.run(main(1))
    assert not caplog.records
    asyncio.run(main(3))
    (said,) = (each.message for each in caplog.records)
    assert said.startswith("each of the 3 databases has its own limits")
    assert said.endswith("3 times what 'door', 'pace' say")


def test_runs_children_and_messages_are_where_their_ids_say(shards: Databases) -> None:
    async def act(client: AsyncClient, worker: ShardedWorker) -> None:
        many = await client.start_many(flows.chain, range(40), ids=[f"order-{i}" for i in range(40)])
        families = await client.start_many(shard_flows.family, range(8), ids=[f"family-{i}" for i in range(8)])
        threaded = await client.start(shard_flows.threaded, 3, id="threaded")
        waiting = [await client.start(flows.approval, 1, id=f"approval-{i}") for i in range(6)]
        for handle in waiting:
            await handle.signal("go", handle.id, key="one")
            with suppress(RunClosed):  # it was quicker
                await handle.signal("go", "another", key="one")

        assert await many.gather(timeout=120) == [(x + 1) * 2 - 3 for x in range(40)]
        assert await families.gather(timeout=120) == [[x + 1, x * 10 + 1] for x in range(8)]
        assert await threaded.result(timeout=120) == 4
        assert [await handle.result(timeout=120) for handle in waiting] == [handle.id for handle in waiting]
        assert await client.count(workflow="one more") == 17
        assert await client.tally() == {
            ("chain", "completed"): 40,
            ("family", "completed"): 8,
            ("threaded", "completed"): 1,
            ("approval", "completed"): 6,
            ("one more", "completed"): 17,
        }
        await until(lambda: _is_empty(client))
        assert len(await client.workers()) == 3
        assert worker.status()["ready"]
        assert [each["store"] for each in worker.status()["shards"]] == [w.store_name for w in worker.workers.values()]
        known = Generations().grown((await shards.shard(0)).shards)
        for number in ALL:
            here = (await shards.shard(number)).id
            assert {known.homes(run)[0] for run in await shards.ids(number)} == {here}

    with_worker(shards, act, concurrency=16)


async def _is_empty(client: AsyncClient) -> bool:
    return await client.queue_depth() == 0


def test_cancelling_a_parent_cancels_its_children_in_other_databases(shards: Databases) -> None:
    names = [f"parent-{i}" for i in range(6)]

    async def act(client: AsyncClient, _: ShardedWorker) -> None:
        for name in names:
            await client.start(shard_flows.left, name, id=name)
        await until(lambda: _count(client, "patient", "waiting", 6))
        for name in names:
            await client.cancel(name)

        await until(lambda: _count(client, "patient", "cancelled", 6))
        await until(lambda: _count(client, "left", "cancelled", 6))

    with_worker(shards, act)


def test_a_parent_is_cancelled_after_its_children_in_other_databases_are_undone(shards: Databases) -> None:
    names = [f"agency-{i}" for i in range(6)]

    async def act(client: AsyncClient, _: ShardedWorker) -> None:
        for name in names:
            await client.start(shard_flows.agency, name, id=name)
        await until(lambda: _count(client, "booking", "running", 6))
        for name in names:
            await client.wait_until(f"booking of {name}", lambda run: run.values("trip.book") == ["seat"])
            await client.cancel(name, "closed")
        await until(lambda: _await_children(client, names))
        shard_flows.may_undo.set()

        await until(lambda: _count(client, "agency", "cancelled", 6))
        assert await _count(client, "booking", "cancelled", 6)
        assert sorted(shard_flows.undoing) == names

    with_worker(shards, act)


async def _await_children(client: AsyncClient, runs: list[str]) -> bool:
    found = [await client.find(run) for run in runs]
    return all(each.status == "running" and "it waits for its children" in each.reason for each in found)


async def _count(client: AsyncClient, workflow: str, status: RunStatus, wanted: int) -> bool:
    return await client.count(workflow=workflow, status=status) == wanted


def test_a_schedule_is_fired_once_by_the_database_that_has_it(shards: Databases) -> None:
    names = [f"once-{i}" for i in range(6)]

    async def act(client: AsyncClient, _: ShardedWorker) -> None:
        for name in names:
            await client.schedule(name, "chain", at=time.time() - 1, input=1)
        await until(lambda: _count(client, "chain", "completed", 6))

        fired = {record.id.partition("@")[0]: record for record in await client.runs()}
        assert sorted(fired) == names
        for record in fired.values():
            assert (await client.find(record.id)).id == record.id
            assert await client.result(record.id) == 1

    with_worker(shards, act)


def test_a_worker_that_knows_one_database_of_several_refuses_children_of_unknown_places(shards: Databases) -> None:
    async def main() -> None:
        await shards.agree(*ALL)
        worker = FleetWorker(shards.dsns[0], WORKFLOWS, schema=shards.schema)
        async with asyncio.timeout(240), shards.client(*ALL) as client:
            known = Generations().grown((await shards.shard(0)).shards)
            here = (await shards.shard(0)).id
            name = next(f"family-{i}" for i in range(100) if known.homes(f"family-{i}") == (here,))
            working = asyncio.create_task(worker.run())
            try:
                handle = await client.start(shard_flows.family, 1, id=name)
                with pytest.raises(RunFailed, match="2 of the 3 databases of this fleet were not named"):
                    await handle.result(timeout=120)
            finally:
                worker.stop()
                await working
            assert await client.count() == 1

    asyncio.run(main())


def test_a_process_serves_several_databases_and_goes_on_while_one_is_down(shards: Databases, tmp_path: Path) -> None:
    asyncio.run(shards.agree(*ALL))
    nowhere = "postgresql://weft:secret@127.0.0.1:1/none"
    with workers(shards.dsns[0], tmp_path) as made:
        options = ["--dsn", shards.dsns[1], "--dsn", shards.dsns[2], "--dsn", nowhere, "--schema", shards.schema]
        process = made.start(*options, "--processes", "2", lease=10.0, pause=0.0)

        async def act(client: AsyncClient) -> list[Any]:
            handles = await client.start_many(flows.chain, range(30))
            found = await handles.gather(timeout=110)
            process.terminate()
            await asyncio.to_thread(process.wait, 60)
            return found

        assert shards.on(ALL, act) == [(x + 1) * 2 - 3 for x in range(30)]
        errors = (tmp_path / "errors").read_text(encoding="utf-8")
        assert "postgresql://weft@127.0.0.1:1/none" in errors
        assert "secret" not in errors
        assert len(made.noted("end")) == 30


def test_each_database_has_its_direct_way(shards: Databases) -> None:
    with pytest.raises(InvalidOption, match="3 databases and 1 direct addresses"):
        ShardedWorker(shards.dsns, WORKFLOWS, listen_dsns=shards.dsns[:1])
