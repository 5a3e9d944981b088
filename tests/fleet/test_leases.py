"""Leases in a whole fleet: a step that outlasts them, and a worker without room."""

from __future__ import annotations

from pathlib import Path

import fleet_flows as flows
from processes import workers
from test_faults import stop
from test_worker import until, with_worker

from weft import AsyncClient, Client
from weft.fleet import FleetWorker
from weft.stores import PostgresStore

LEASE = 1.0


def test_a_step_that_takes_longer_than_three_leases_is_executed_once(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        both = [fleet.start(lease=LEASE, pause=3.5 * LEASE) for _ in range(2)]
        ids = client.start_many(flows.chain, range(6)).ids

        assert [client.result(run, timeout=60) for run in ids] == [(x + 1) * 2 - 3 for x in range(6)]

        assert sorted(run for _, run, _ in fleet.noted("middle")) == sorted(ids)
        stop(*both)


def test_a_worker_without_room_takes_nothing_until_there_is_some(dsn: str) -> None:
    flows.gate.clear()
    flows.entered.clear()

    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        first = await client.start(flows.gated, 1)

        async def has_begun() -> bool:
            return flows.entered.is_set()

        await until(has_begun)
        second = await client.start(flows.gated, 2)
        assert worker._runner is not None
        store = worker._runner._queue_store
        assert isinstance(store, PostgresStore)
        before = store.presence.renewals

        async def has_looked() -> bool:
            return store.presence.renewals > before + 2

        await until(has_looked)
        assert (await client.find(second.id)).owner is None
        flows.gate.set()
        assert await first.result(timeout=30) == 3
        assert await second.result(timeout=30) == 4

    with_worker(dsn, act, concurrency=1, lease=2.0)
