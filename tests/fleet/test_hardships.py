"""
A fleet in trouble: connections that are cut, answers that are lost, notifications that are lost, rows that are damaged.

Most workers are in this process, as is what stands between them and the server; test_faults has the other faults.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import fault_flows
import fleet_flows as flows
import pytest
import spread_flows
from cutting_proxy import CuttingProxy
from fault_trial import PATIENCE, RUNS, Expected, Trial, chained, squared, trial
from pooler import pooled
from processes import workers
from servers import asked
from test_moving import is_in, working
from test_worker import until

from weft import AsyncClient, Client
from weft.stores.postgres.statements import Statements

BOOKED = ("begin", "book", "end")
NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"
FEW = max(2, RUNS // 10)
"""How many runs there are beside the chains, of kinds that cost more."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the notes of steps."""
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))
    return tmp_path


async def chains_and_books(dsn: str, client: AsyncClient) -> dict[str, Expected]:
    """Start runs of three steps, some of which have a step with a transaction."""
    await asyncio.to_thread(asked, dsn, lambda db: db.execute(fault_flows.TABLE))
    ids = (await client.start_many("chain", range(RUNS - FEW))).ids
    return chained(ids) | chained((await client.start_many("booked", range(FEW))).ids, BOOKED)


async def check_books(dsn: str) -> None:
    """See that each transaction was committed once."""
    query = "select count(*), count(distinct run) from booked"
    assert tuple(await asyncio.to_thread(asked, dsn, lambda db: db.fetchrow(query))) == (FEW, FEW)


# -- connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "what"),
    [(True, "connections cut in a statement"), (False, "a commit that is reported as failed")],
    ids=["in a statement", "before an answer"],
)
def test_connections_that_are_cut_lose_and_repeat_nothing(dsn: str, notes: Path, cut: bool, what: str) -> None:
    async def main(faults: Trial) -> None:
        proxy = CuttingProxy(dsn, cut=cut, mute=not cut)
        async with asyncio.timeout(PATIENCE), AsyncClient(dsn) as client, proxy.open() as through:
            expected = await chains_and_books(dsn, client)
            async with working(through, lease=2.0, concurrency=8), working(through, lease=2.0, concurrency=8):

                async def is_done() -> bool:
                    return await asyncio.to_thread(faults.left) == 0

                await until(is_done)
                proxy.is_calm = True
                faults.faults["connections cut" if cut else "answers lost with their connections"] = proxy.cuts
                await faults.acheck(expected)
            assert proxy.cuts > 0
            await check_books(dsn)

    with trial(what, dsn, notes) as faults:
        asyncio.run(main(faults))


def test_a_client_whose_answers_are_lost_starts_each_run_once(dsn: str, notes: Path) -> None:
    ids = [f"r{i}" for i in range(RUNS)]

    async def main(faults: Trial) -> None:
        proxy = CuttingProxy(dsn, mute=True)
        async with asyncio.timeout(PATIENCE), proxy.open() as through:
            proxy.is_calm = True
            async with AsyncClient(through) as client:
                proxy.is_calm = False
                for number, run in enumerate(ids):
                    await client.start("chain", number, id=run)
                proxy.is_calm = True
            assert proxy.cuts > 0
            faults.faults["answers of start lost"] = proxy.cuts
            async with working(dsn):
                await faults.acheck(chained(ids))

    with trial("a start that is reported as failed", dsn, notes) as faults:
        asyncio.run(main(faults))


@pytest.mark.skipif("WEFT_TEST_DSN" in os.environ, reason="the pooler knows sockets and no passwords")
def test_workers_that_share_two_sessions_finish_every_run(dsn: str, notes: Path) -> None:
    parts = urlsplit(dsn)
    (socket,) = parse_qs(parts.query)["host"]

    async def main(faults: Trial) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shared = pooled(Path(socket), Path(folder), sessions=2, database=parts.path[1:])
            async with asyncio.timeout(PATIENCE), AsyncClient(dsn) as client, shared as (pooler, address):
                options = {"prepared": False, "listen_dsn": dsn, "lease": 10.0}
                async with working(address, **options) as one, working(address, **options) as two:
                    await is_in(one, "working")
                    await is_in(two, "working")
                    faults.faults["sessions for 2 workers"] = 2
                    await faults.acheck(chained((await client.start_many("chain", range(RUNS))).ids))
                assert pooler.opened == 2
                assert pooler.transactions > 10

    with trial("a pool of 2", dsn, notes) as faults:
        asyncio.run(main(faults))


# -- notifications -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_refused", [True, False], ids=["no connection", "a silent connection"])
def test_what_no_notification_tells_is_found_by_looking(
    dsn: str, notes: Path, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.runner.jobs.loop.POLL", 2.0)  # half a minute else, since jobs are rare

    async def main(faults: Trial) -> None:
        proxy = CuttingProxy(dsn, deaf=True)
        async with asyncio.timeout(PATIENCE), AsyncClient(dsn) as client, proxy.open() as silent:
            options = {"lease": 2.0, "listen_dsn": NOWHERE if is_refused else silent, "queues": ["default", "wide"]}
            async with working(dsn, **options) as one, working(dsn, **options) as two:
                await is_in(one, "working")
                await is_in(two, "working")
                expected = chained((await client.start_many("chain", range(RUNS))).ids)
                expected |= await signalled(client)
                expected |= squared((await client.start_many("squares", [4] * FEW)).ids, 4)
                faults.faults["workers without notifications"] = 2

                async def is_done() -> bool:
                    return await asyncio.to_thread(faults.left) == 0

                await until(is_done)
                if not is_refused:
                    assert proxy.lost > 0
                    faults.faults["notifications lost"] = proxy.lost
                await faults.acheck(expected)

    with trial("NOTIFY lost, " + ("LISTEN refused" if is_refused else "connected and silent"), dsn, notes) as faults:
        asyncio.run(main(faults))


async def signalled(client: AsyncClient) -> dict[str, Expected]:
    """Start runs that wait, signal each of them, and then all by a job; the first signal counts."""
    waiting = (await client.start_many("approval", range(FEW))).ids

    async def all_wait() -> bool:
        return await client.count(workflow="approval", status="waiting") == FEW

    await until(all_wait)
    for run in waiting[1:]:
        await client.signal(run, "go", run)
    job = await client.bulk("signal", name="go", value=waiting[0], workflow="approval", status="waiting")
    assert (await client.wait_job(job.id, timeout=PATIENCE)).state == "completed"
    return {run: Expected(run, ["begin", "forward"]) for run in waiting}


def test_notifications_that_are_repeated_and_invented_change_nothing(dsn: str, tmp_path: Path) -> None:
    spread, what = Path(spread_flows.__file__), "NOTIFY repeated and invented"
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial(what, dsn, tmp_path) as faults:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        wide = client.start_many(spread_flows.squares, [4] * FEW).ids
        options = ("--concurrency", "16", "--queues", "default", "--queues", "wide", "--import", str(spread))
        living = [fleet.start(*options) for _ in range(2)]
        faults.until(lambda: fleet.noted("end"))
        while faults.left():
            faults.faults["notifications too many, on every channel"] += shout(dsn, ids)

        faults.check(chained(ids) | squared(wide, 4))
        for process in living:
            process.terminate()
            assert process.wait(60) == 0


def shout(dsn: str, ids: list[str]) -> int:
    """Send on every channel what is sent there, and what is sent elsewhere, and nonsense; return how many."""
    known = Statements("public")
    channels = [known.channel, known.changes, known.followers, known.tasks]
    told = ["", "jobs", "wanted", "answers", "dropped", "default", "wide", f'["{ids[0]}"]', "{", "\u2028"]
    query = """
        select count(pg_notify(channel, told))
        from (select unnest($1::text[]) as channel union select channel from weft_workers) c, unnest($2::text[]) told
    """
    return int(asked(dsn, lambda db: db.fetchval(query, channels, told)))


# -- rows ----------------------------------------------------------------------------------------


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
def test_a_damaged_run_stops_no_other_no_list_and_no_job(dsn: str, notes: Path, damage: str) -> None:
    async def main(faults: Trial) -> None:
        async with asyncio.timeout(PATIENCE), AsyncClient(dsn) as client:
            await client.start("approval", 0, id="bad", priority=9)
            expected = chained((await client.start_many("chain", range(RUNS))).ids)
            waiting = (await client.start_many("approval", range(FEW))).ids
            await asyncio.to_thread(asked, dsn, lambda db: db.execute(damage))
            faults.faults["damaged run"] = 1
            async with working(dsn):

                async def all_wait() -> bool:
                    return await client.count(workflow="approval", status="waiting") >= FEW

                await until(all_wait)
                assert {each.id for each in await client.runs(workflow="approval", limit=FEW + 1)} >= {*waiting}
                job = await client.bulk("cancel", workflow="approval")
                assert (await client.wait_job(job.id, timeout=PATIENCE)).sent >= FEW
                await faults.acheck(expected, besides=["bad"], cancelled=FEW)

    with trial("a corrupt row", dsn, notes) as faults:
        asyncio.run(main(faults))
