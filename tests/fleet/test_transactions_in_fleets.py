"""Transactional steps in workers of a fleet, on one database and on several: rows and logs agree, also after kills."""

from __future__ import annotations

import asyncio
from pathlib import Path

import fault_flows
import pytest
from processes import workers
from servers import asked
from shard_databases import Databases
from test_worker import until

from weft import AsyncClient, Client, events
from weft.fleet import ShardedWorker

PROGRAM = Path(fault_flows.__file__)
RUNS = 24


def check_logs(client: Client, ids: list[str]) -> None:
    """See that each run has the completion of each of its steps once."""
    for number, run in enumerate(ids):
        assert client.result(run, timeout=60) == (number + 1) * 2 - 3
        done = [event.component for event in client.log(run) if isinstance(event, events.ReactionOccurred)]
        assert done == ["begin", "book", "end"]


def test_workers_that_are_killed_in_a_transaction_write_each_row_once(dsn: str, tmp_path: Path) -> None:
    asked(dsn, lambda db: db.execute(fault_flows.TABLE))
    with Client(dsn) as client, workers(dsn, tmp_path, PROGRAM) as fleet:
        ids = client.start_many(fault_flows.booked, range(RUNS)).ids
        for kills in (1, 2):
            worker = fleet.start(pause=0.3)
            while len(fleet.noted("book")) < 3 * kills:
                assert worker.poll() is None
            worker.kill()
        fleet.start(pause=0.0)

        check_logs(client, ids)

        assert len(fleet.noted("book")) > RUNS  # those that died had begun some
        found = asked(dsn, lambda db: db.fetch("select run, key from booked"))
        assert sorted(row["run"] for row in found) == sorted(ids)
        assert len({row["key"] for row in found}) == RUNS


def test_rows_are_written_where_their_run_lives(
    shards: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))
    for dsn in shards.dsns:
        asked(dsn, lambda db: db.execute(f"drop table if exists booked; {fault_flows.TABLE}"))

    async def main() -> None:
        worker = ShardedWorker(shards.dsns, [fault_flows.booked], schema=shards.schema)
        async with asyncio.timeout(120), shards.client(0, 1, 2) as client:
            working = asyncio.create_task(worker.run())
            try:
                started = await client.start_many(fault_flows.booked, range(RUNS))
                assert await started.gather(timeout=100) == [(x + 1) * 2 - 3 for x in range(RUNS)]
                await until(lambda: _is_empty(client))
            finally:
                worker.stop()
                await working
        for number, dsn in enumerate(shards.dsns):
            found = await asyncio.to_thread(asked, dsn, lambda db: db.fetch("select run from booked"))
            assert {row["run"] for row in found} == await shards.ids(number)

    asyncio.run(main())
    for dsn in shards.dsns:
        asked(dsn, lambda db: db.execute("drop table booked"))


async def _is_empty(client: AsyncClient) -> bool:
    return await client.queue_depth() == 0
