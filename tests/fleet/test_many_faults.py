"""Faults again and again, while many runs proceed: ``make faults``."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import fleet_flows as flows
import pytest
from processes import workers
from servers import asked
from test_faults import RUNS, stoppable, until

from weft import Client, events

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not os.environ.get("WEFT_FAULT_RUNS"), reason="takes minutes: make faults"),
]
__all__ = ["stoppable"]

PATIENCE = 600.0
STEPS = ["begin", "middle", "end"]


def check_all(client: Client, ids: list[str], told: str) -> None:
    """See that every run is at its end, every step completed once in its log, and the queue is empty; print figures."""
    begun = time.monotonic()
    until(lambda: client.queue_depth() == 0, PATIENCE)
    spent, again, taken = time.monotonic() - begun, 0, 0
    for number, run in enumerate(ids):
        assert client.result(run, timeout=PATIENCE) == (number + 1) * 2 - 3
        log = client.log(run)
        assert [each.component for each in log if isinstance(each, events.ReactionOccurred)] == STEPS
        taken += any(isinstance(each, events.RunTakenOver) for each in log)
        again += client.find(run).epoch > 2
    figures = f"{len(ids)} runs, {again} moved, {taken} after a death; done {spent:.1f} s after the last fault"
    sys.stdout.write(f"\n{told}: {figures}\n")


def test_workers_are_killed_at_random(dsn: str, tmp_path: Path) -> None:
    draw = random.Random(5)  # noqa: S311 - not a secret
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        living = [fleet.start("--concurrency", "16", lease=2.0) for _ in range(2)]
        for share in (0.05, 0.2, 0.35, 0.5, 0.65):
            until(lambda share=share: client.queue_depth() < RUNS * (1 - share), PATIENCE)
            doomed = living.pop(draw.randrange(len(living)))
            doomed.kill()
            living.append(fleet.start("--concurrency", "16", lease=2.0))

        check_all(client, ids, "5 workers killed")


def test_the_server_restarts_every_few_seconds(stoppable: Any, tmp_path: Path) -> None:
    with Client(stoppable.dsn) as client, workers(stoppable.dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        for _ in range(2):
            fleet.start("--concurrency", "16", lease=3.0)
        for restart in range(4):
            until(lambda restart=restart: len(fleet.noted("end")) >= RUNS * (restart + 1) // 6, PATIENCE)
            stoppable.stop()
            stoppable.start()

        check_all(client, ids, "4 restarts of the server")


def test_a_worker_and_the_server_die_together(stoppable: Any, tmp_path: Path) -> None:
    with Client(stoppable.dsn) as client, workers(stoppable.dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        for share in (0.1, 0.4):
            worker = fleet.start("--concurrency", "16", lease=2.0)
            until(lambda share=share: len(fleet.noted("end")) >= RUNS * share, PATIENCE)
            stoppable.stop()
            worker.kill()
            stoppable.start()
        fleet.start("--concurrency", "16", lease=2.0)

        check_all(client, ids, "worker and server died together, twice")


def test_notifications_are_repeated_all_the_time(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        for _ in range(2):
            fleet.start("--concurrency", "16")
        until(lambda: fleet.noted("end"), PATIENCE)
        sent = 0
        while client.queue_depth():
            sql = "select pg_notify(channel, '') from (select distinct channel from weft_workers) w"
            asked(dsn, lambda db: db.execute(sql))  # noqa: B023
            sent += 1

        check_all(client, ids, f"{sent} notifications too many")


def test_a_run_that_kills_its_process_stops_no_other(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        client.start(flows.fatal, 1, id="fatal", priority=9)
        supervisor = fleet.start("--processes", "2", "--concurrency", "16", lease=2.0)

        until(lambda: client.find("fatal").status == "parked", PATIENCE)
        check_all(client, ids, "one run that kills its process")

        assert len(fleet.noted("fatal")) == 3
        supervisor.terminate()
        assert supervisor.wait(60) == 0


def test_two_versions_of_the_code_and_rolling_back(dsn: str, tmp_path: Path) -> None:
    import second_flows as second

    new = Path(second.__file__)
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with (
        Client(dsn) as client,
        workers(dsn, tmp_path / "old") as old_fleet,
        workers(dsn, tmp_path / "new", new) as new_fleet,
    ):
        ids = client.start_many(flows.chain, range(RUNS // 2)).ids
        later = client.start_many(second.chain, range(RUNS // 2)).ids
        old_fleet.start("--concurrency", "16", lease=2.0)
        worker = new_fleet.start("--concurrency", "16", lease=2.0)
        until(lambda: len(new_fleet.noted("end")) > 3, PATIENCE)
        worker.terminate()  # rolled back: what began in the new version waits for it
        assert worker.wait(60) == 0
        for run in ids:
            client.result(run, timeout=PATIENCE)
        left = client.queue_depth()
        new_fleet.start("--concurrency", "16", lease=2.0)

        check_all(client, ids, f"two versions, {left} runs waited for theirs")
        for number, run in enumerate(later):
            assert client.result(run, timeout=PATIENCE) == (number + 1) * 2 - 3
            done = [each.component for each in client.log(run) if isinstance(each, events.ReactionOccurred)]
            assert done == ["begin", "middle", "check", "end"]
