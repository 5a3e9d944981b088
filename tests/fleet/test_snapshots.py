"""A run that went cold is brought back from its snapshot and the tail of its log, by any worker."""

from __future__ import annotations

import asyncio

import pytest
from fleet_flows import TURNS
from test_worker import until

from weft import AsyncClient, registry
from weft.fleet import FleetWorker
from weft.ports.store import LoadedRun
from weft.stores import PostgresStore


def test_a_worker_reads_the_snapshot_and_the_tail_of_a_long_run(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = PostgresStore.load_since

    async def load_since(self: PostgresStore, run: str, position: int) -> LoadedRun:
        loaded = await whole(self, run, position)
        read.append(sum(each.count for each in loaded.segments))
        return loaded

    async def main() -> None:
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            worker = FleetWorker(dsn, registry.workflows(), snapshot_every=500)
            working = asyncio.create_task(worker.run())
            await client.start("long", 0, id="a")

            async def waits() -> bool:
                return (await client.find("a")).status == "waiting"

            await until(waits)
            worker.stop()
            await working
            assert (await client.find("a")).head > 2 * TURNS

            monkeypatch.setattr(PostgresStore, "load_since", load_since)
            worker = FleetWorker(dsn, registry.workflows(), snapshot_every=500)
            working = asyncio.create_task(worker.run())
            await client.signal("a", "go", "on")

            assert await client.result("a", timeout=30) == "on"
            worker.stop()
            await working

    asyncio.run(main())

    assert len(read) >= 1
    assert read[0] <= 600
