"""Operations on many runs: workers drive them, clients watch, and each run is sent the request once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import asyncpg
import fleet_flows as flows
import pytest
from processes import workers
from servers import asked
from shard_databases import Databases
from test_moving import working
from test_worker import until, with_worker

from weft import AsyncClient, Client
from weft.core import events as ev
from weft.errors import InvalidOption, JobNotFound, JobTimeout, UnencodableValue
from weft.fleet import FleetWorker
from weft.runner.jobs.loop import PAGE

NOWHERE = "no worker serves this"


def test_a_signal_for_all_waiting_runs_reaches_each_of_them_once(dsn: str) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        handles = await client.start_many("approval", range(20))
        await client.start("chain", 1, id="other")
        await until(lambda: _counts(client, 20, workflow="approval", status="waiting"))

        preview = await client.preview_bulk("signal", workflow="approval", status="waiting")
        assert (preview.matched, preview.sent, preview.skipped) == (20, 20, {})
        assert preview.counts == {("approval", "waiting"): 20}
        assert len(preview.examples) == 5

        job = await client.bulk("signal", name="go", value=7, workflow="approval", status="waiting", by="ada")
        assert (job.matched, job.text) == (20, "signal 'go' to runs of 'approval' that are waiting")
        ended = await client.wait_job(job.id, timeout=30)

        assert (ended.state, ended.visited, ended.sent, ended.skipped) == ("completed", 20, 20, {})
        assert (ended.driver, ended.by) == (worker.id, "ada")
        await handles.gather(timeout=30)
        signals = [event for event in await client.log(handles[3]) if isinstance(event, ev.SignalReceived)]
        assert [(event.value, event.key, event.by) for event in signals] == [(7, f"job {job.id}", "ada")]

    with_worker(dsn, act)


async def _counts(client: AsyncClient, expected: int, **asked: Any) -> bool:
    return await client.count(**asked) == expected


def test_a_preview_says_what_would_be_skipped_and_why(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_FIXED", str(tmp_path / "fixed"))

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await client.start_many("fragile", range(4))
        await client.start_many("chain", range(3))
        await client.start_many("approval", range(2))
        await until(lambda: _counts(client, 4, status="failed"))
        await until(lambda: _counts(client, 3, status="completed"))
        await until(lambda: _counts(client, 2, status="waiting"))

        cancel = await client.preview_bulk("cancel")
        assert (cancel.matched, cancel.sent, cancel.skipped) == (9, 2, {"has completed": 3, "has failed": 4})
        retry = await client.preview_bulk("retry", since=1.0)
        assert (retry.matched, retry.sent, retry.skipped) == (9, 4, {"has completed": 3, "nothing has failed": 2})
        assert retry.counts == {("approval", "waiting"): 2, ("chain", "completed"): 3, ("fragile", "failed"): 4}

        (tmp_path / "fixed").touch()
        job = await client.bulk("retry", everything=True)
        ended = await client.wait_job(job.id, timeout=30)
        assert (ended.sent, ended.skipped) == (4, {"has completed": 3, "nothing has failed": 2})
        await until(lambda: _counts(client, 7, status="completed"))

        cancelled = await client.bulk("cancel", workflow="approval", reason="too late")
        assert (await client.wait_job(cancelled.id, timeout=30)).sent == 2
        await until(lambda: _counts(client, 2, status="cancelled"))
        assert [job.operation for job in await client.jobs()] == ["cancel", "retry"]
        assert (await client.runs(status="cancelled"))[0].reason == "too late"

    with_worker(dsn, act)


def test_a_job_goes_on_after_its_driver_was_killed_in_the_middle_of_a_page(dsn: str, tmp_path: Path) -> None:
    runs = [f"r{number:04}" for number in range(PAGE + 20)]
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        client.start_many(flows.chain, range(len(runs)), ids=runs, queue=NOWHERE)
        first = fleet.start()

        async def kill_in_a_page() -> None:
            """Lock a run of the second page, so that its driver waits there, and kill the driver."""
            db = await asyncpg.connect(dsn)
            try:
                async with db.transaction():
                    await db.execute("select from weft_runs where id = (select min(id) from weft_runs) for update")
                    job.append(await asyncio.to_thread(client.bulk, "cancel", workflow="chain"))
                    await until(lambda: _is_blocked(db))
                    first.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(first.wait)
            finally:
                await db.close()

        job: list[Any] = []
        asyncio.run(kill_in_a_page())
        left = client.job(job[0].id)
        assert (left.state, left.visited) == ("running", PAGE)

        fleet.start()
        client.resume_job(left.id, by="ada")  # else its time would have to pass first
        ended = client.wait_job(left.id, timeout=30)

        assert (ended.state, ended.sent, ended.skipped) == ("completed", len(runs), {})
        assert ended.driver != left.driver
        assert ended.changed is not None
        assert (ended.changed.what, ended.changed.by) == ("resumed", "ada")
        sent = asked(dsn, lambda db: db.fetch("select run, count(*) from weft_inbox group by run"))
        assert [count for _, count in sent] == [1] * len(runs)


async def _is_blocked(db: asyncpg.Connection) -> bool:
    asked = "select count(*) from pg_locks l where not l.granted and pg_backend_pid() = any(pg_blocking_pids(l.pid))"
    return bool(await db.fetchval(asked))


def test_a_worker_that_stops_leaves_its_job_to_another_one(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            async with working(dsn) as worker:
                await client.bulk("cancel", everything=True, id="none")
                assert (await client.wait_job("none")).matched == 0
                assert (await client.wait_job("none")).driver == worker.id
            job = await client.bulk("cancel", everything=True)
            with pytest.raises(JobTimeout, match=r"still running after 0.1 s, at 0 of 0 runs: no worker has taken it"):
                await client.wait_job(job.id, timeout=0.1)
            async with working(dsn) as other:
                assert (await client.wait_job(job.id)).driver == other.id

    asyncio.run(main())


def test_a_job_is_paused_resumed_and_cancelled(dsn: str) -> None:
    with Client(dsn) as client:
        client.start_many(flows.chain, range(3), queue=NOWHERE)
        job = client.bulk("cancel", workflow="chain", id="j")

        assert client.pause_job("j", by="ada").state == "paused"
        assert client.resume_job("j").state == "running"
        cancelled = client.cancel_job("j", by="bob")
        assert (cancelled.state, cancelled.sent) == ("cancelled", 0)
        assert client.pause_job("j").state == "cancelled"
        assert list(client.watch_job("j"))[-1].state == "cancelled"
        assert client.job(job.id).changed == cancelled.changed
        with pytest.raises(JobNotFound, match="no job 'nope'"):
            client.resume_job("nope")


def test_what_cannot_be_a_job_is_refused_at_once(dsn: str) -> None:
    with Client(dsn) as client:
        refused: list[tuple[str, dict[str, Any]]] = [
            ("say everything=True", {"operation": "cancel"}),
            ("use 'cancel' or", {"operation": "explode", "workflow": "w"}),
            ("name=None", {"operation": "signal", "workflow": "w"}),
            ("reason='x' is for a cancel, and this is a retry", {"operation": "retry", "workflow": "w", "reason": "x"}),
            ("status='nope'", {"operation": "retry", "status": "nope"}),
        ]
        for message, given in refused:
            with pytest.raises(InvalidOption, match=message):
                client.bulk(**given)
        with pytest.raises(UnencodableValue):
            client.bulk("signal", name="go", value=object(), workflow="w")
        client.bulk("cancel", workflow="w", id="j")
        assert client.bulk("cancel", workflow="w", id="j").id == "j"
        with pytest.raises(InvalidOption, match="another job has this id"):
            client.bulk("cancel", workflow="v", id="j")
        assert [job.id for job in client.jobs()] == ["j"]


def test_on_several_databases_a_job_has_a_part_in_each(shards: Databases) -> None:
    async def act(client: AsyncClient) -> None:
        await client.start_many(flows.chain, range(40), queue=NOWHERE)
        preview = await client.preview_bulk("cancel", workflow="chain")
        assert (preview.matched, preview.sent) == (40, 40)
        job = await client.bulk("cancel", workflow="chain")
        assert job.matched == 40
        for number in range(3):
            async with working(shards.dsns[number], schema=shards.schema):
                await until(lambda number=number: _part_is_done(shards, number, job.id))

        ended = await client.wait_job(job.id, timeout=30)

        assert (ended.state, ended.sent, ended.visited) == ("completed", 40, 40)
        assert len(ended.driver.split(", ")) == 3
        assert [each.id for each in await client.jobs()] == [job.id]

    shards.on((0, 1, 2), act)


async def _part_is_done(shards: Databases, number: int, job: str) -> bool:
    async with shards.store(number) as store:
        (row,) = await store.list_jobs(job)
        return row.look_at == float("inf")
