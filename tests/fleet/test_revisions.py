"""A client forks, upgrades and deletes runs that workers drive."""

from __future__ import annotations

import asyncio
import time

import fleet_flows as flows
import pytest
import second_flows
from shard_databases import Databases
from test_worker import until, with_worker

from weft import AsyncClient, Client, Policy
from weft.errors import InvalidArgument, InvalidPolicy, RunClosed, RunExists, RunNotFound, RunOwned
from weft.fleet import FleetWorker


def test_a_fork_is_driven_by_a_worker_and_runs_only_what_the_edit_changes(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        first = await client.start("chain", 1, id="a")
        assert await first.result(timeout=30) == 1

        seen = await client.fork("a", at="middle", value=50, preview=True)
        forked = await client.fork("a", "b", at="middle", value=50, by="ada")

        assert await forked.result(timeout=30) == 47
        assert forked.id == "b"
        done = [event.component for event in await client.log("b") if type(event).__name__ == "ReactionOccurred"]
        assert done.count("begin") == 1
        assert dict(seen.runs) == {"end": 1}
        assert await first.result(timeout=30) == 1
        with pytest.raises(RunExists):
            await client.fork("a", "b")
        with pytest.raises(InvalidArgument):
            await client.fork("a", at=12345)
        with pytest.raises(RunNotFound):
            await client.fork("nothing")
        with pytest.raises(InvalidPolicy):
            await client.fork("a", at="middle", policies=[("middle", Policy(executor="async"))])

    with_worker(dsn, act)


def test_a_fork_goes_to_a_queue(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await (await client.start("chain", 1, id="a")).result(timeout=30)
        await client.fork("a", "b", at="middle", queue="elsewhere")
        (there,) = [each for each in await client.queues() if each.queue == "elsewhere"]
        assert there.waiting == 1

    with_worker(dsn, act)


def test_a_stranded_run_is_upgraded_and_goes_on_in_the_new_version(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(90), AsyncClient(dsn) as client:
            handle = await client.start(flows.chain, 1, id="a")
            worker = FleetWorker(dsn, [second_flows.chain])
            working = asyncio.create_task(worker.run())

            seen = await client.upgrade("a", second_flows.chain, preview=True)
            assert (await client.find("a")).version == flows.chain.version
            upgraded = await client.upgrade("a", second_flows.chain, by="ada")

            assert seen is not None
            assert await upgraded.result(timeout=60) == await handle.result() == 1
            record = await client.find("a")
            assert record.version == second_flows.chain.version
            assert any(getattr(event, "component", "") == "check" for event in await client.log("a"))
            with pytest.raises(RunClosed):
                await client.upgrade("a", flows.chain)
            worker.stop()
            await working

    asyncio.run(main())


def test_an_upgrade_starts_no_step_in_the_process_of_the_client(dsn: str) -> None:
    async def main() -> None:
        flows.entries.clear()
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            await client.start(flows.gated, 1, id="a")
            await client.upgrade("a", flows.gated)
            record = await client.find("a")
            assert (record.status, record.owner) == ("running", None)
            assert await client.queue_depth() == 1
        assert flows.entries == []

    asyncio.run(main())


def test_a_run_that_a_worker_has_is_neither_upgraded_nor_deleted(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.fleet.decisions.LINGER", 3600.0)

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await client.start("approval", 1, id="a")

        async def waits() -> bool:
            return (await client.find("a")).status == "waiting"

        await until(waits)
        with pytest.raises(RunOwned):
            await client.upgrade("a", flows.approval)
        with pytest.raises(RunOwned):
            await client.delete("a")
        await client.signal("a", "go", "yes")
        assert await client.result("a", timeout=30) == "yes"

        await client.delete("a")
        with pytest.raises(RunNotFound):
            await client.find("a")

    with_worker(dsn, act)


def test_finished_runs_are_purged(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await (await client.start_many("chain", range(5))).gather(timeout=30)
        await client.start("approval", 1, id="stays")

        assert await client.purge(before=0.0) == 0
        assert await client.purge(before=time.time() + 3600, limit=2) == 2
        assert await client.purge(before=time.time() + 3600) == 3
        assert await client.count() == 1

    with_worker(dsn, act)


def test_a_blocking_client_does_so_too(dsn: str) -> None:
    with Client(dsn) as client:
        client.start("chain", 1, id="a")
        assert client.fork("a", "b").id == "b"
        assert client.upgrade("b", second_flows.chain).id == "b"
        assert client.find("b").version == second_flows.chain.version
        client.delete("b")
        assert client.purge(before=time.time() + 3600) == 0
        assert client.count() == 1


def test_all_of_it_works_on_several_databases(shards: Databases) -> None:
    async def main() -> None:
        async with shards.client(0, 1, 2) as client:
            for number in range(6):
                await client.start(flows.chain, number, id=f"r{number}")
                await client.fork(f"r{number}", f"f{number}")
                await client.upgrade(f"r{number}", second_flows.chain)
                assert (await client.find(f"r{number}")).version == second_flows.chain.version
                await client.delete(f"r{number}")
            assert await client.count() == 6

    asyncio.run(main())
