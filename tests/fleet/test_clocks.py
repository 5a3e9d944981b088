"""Machines whose clocks are wrong by hours: the time is that of the database."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from servers import asked
from test_worker import until, with_worker

from weft import AsyncClient
from weft.fleet import FleetWorker
from weft.stores.postgres.server_clock import ServerClock


@pytest.fixture(params=[6, -6], ids=["fast", "slow"])
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this machine is six hours fast, or slow."""
    real, hours = time.time, request.param
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)


@pytest.mark.usefixtures("wrong")
def test_a_worker_with_a_wrong_clock_wakes_runs_in_time_and_says_so(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        handle = await client.start("nap", 4, id="nap")
        scheduled = await client.start("chain", 1, scheduled_at=client._store.clock.time() + 1.0)

        assert await handle.result(timeout=30) == 2
        assert await scheduled.result(timeout=30) == 1
        record, now = await client.find("nap"), await asyncio.to_thread(asked, dsn, _now)
        for at in (record.created_at, record.updated_at, record.finished_at or 0.0):
            assert abs(at - now) < 3600

        async def has_said() -> bool:
            return abs(worker.status()["clock_ahead"]) > 3600

        await until(has_said)

    with caplog.at_level(logging.WARNING, "weft.fleet"):
        with_worker(dsn, act, lease=1.0)
    assert len([each for each in caplog.messages if "the clock of this machine" in each]) == 1


@pytest.mark.usefixtures("wrong")
def test_deadlines_of_a_client_with_a_wrong_clock_hold(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        handle = await client.start("chain", 1, deadline=600.0)
        assert await handle.result(timeout=30) == 1

    with_worker(dsn, act, lease=1.0)


async def _now(db: object) -> float:
    found: float = await db.fetchval("select extract(epoch from clock_timestamp())::float8")  # type: ignore[attr-defined]
    return found


def test_the_clock_of_the_database_stays_as_it_is_known_while_that_is_possible() -> None:
    clock = ServerClock(lambda: 5_000.0)
    assert (clock.time(), clock.ahead) == (5_000.0, 0.0)

    clock.heard(sent=10.0, told=1_000.0, received=12.0)
    first = clock._offset
    clock.heard(sent=20.0, told=1_009.2, received=20.4)  # a moment off, and possible
    assert clock._offset == first == 989.0
    clock.heard(sent=30.0, told=2_000.0, received=30.2)  # the database was given another time
    assert clock._offset == pytest.approx(1_969.9)
    assert clock.ahead != 0.0
