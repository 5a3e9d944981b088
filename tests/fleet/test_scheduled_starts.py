"""Runs that are started for a later time, and what they are sent before it."""

from __future__ import annotations

import time

import fleet_flows as flows
from test_worker import until, with_worker

from weft import AsyncClient, events
from weft.fleet import FleetWorker
from weft.stores import PostgresStore

DAY = 86_400.0


def test_a_message_for_a_run_that_begins_tomorrow_does_not_begin_it_today(dsn: str) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        later = await client.start(flows.approval, 1, scheduled_at=time.time() + DAY)
        await client.signal(later.id, "go", "yes")
        await (await client.start(flows.chain, 1)).result(timeout=30)
        assert worker._runner is not None
        store = worker._runner._queue_store
        assert isinstance(store, PostgresStore)
        before = store.presence.renewals

        async def has_looked() -> bool:
            return store.presence.renewals > before + 2

        await until(has_looked)
        assert not [event for event in await client.log(later.id) if isinstance(event, events.ReactionOccurred)]

    with_worker(dsn, act, lease=2.0)


def test_a_run_that_begins_tomorrow_can_be_cancelled_today_and_has_done_nothing(dsn: str) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        later = await client.start(flows.chain, 1, scheduled_at=time.time() + DAY)

        await client.cancel(later.id)

        async def is_cancelled() -> bool:
            return (await client.find(later.id)).status == "cancelled"

        await until(is_cancelled)
        assert not [event for event in await client.log(later.id) if isinstance(event, events.ReactionOccurred)]

    with_worker(dsn, act, lease=2.0)
