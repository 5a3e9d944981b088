"""Steps of one run on all workers of a fleet, as real processes on a real server; some of them are killed."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest
import spread_flows as flows
from processes import Workers, workers
from servers import asked
from test_worker import until as soon
from test_worker import with_worker

from weft import AsyncClient, Client, Policy, Runner, Workflow, accumulator, events
from weft.core.functions.reports import Progress
from weft.errors import InvalidPolicy, RunFailed
from weft.fleet import FleetWorker, decisions
from weft.fleet.spread.frames import LONGEST_NOTE
from weft.runner.execution.run_queue import MOST_SPREAD

PATIENCE = 60.0
FLOWS = Path(flows.__file__)
OWNS = ("--queues", "default")
"""A worker that drives runs, and runs no step of others."""
SERVES = ("--queues", flows.QUEUE)
"""A worker that runs steps of others."""


def until(found: Callable[[], object]) -> None:
    """Ask again and again, until the answer is true."""
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


def rows(dsn: str, columns: str = "count(*)") -> Any:
    """Return what the table of tasks has."""
    return asked(dsn, lambda db: db.fetchval(f"select {columns} from weft_tasks"))  # noqa: S608


def check_squares(client: Client, run: str, n: int) -> None:
    """See that the run is right, and has each element exactly once in its log."""
    assert client.result(run, timeout=PATIENCE) == sum(x * x for x in range(n))
    done = [event for event in client.log(run) if isinstance(event, events.ReactionOccurred)]
    assert Counter(event.component for event in done)["square"] == n
    made = [event.value for event in done if event.component == "square"]
    assert sorted(made) == [x * x for x in range(n)]


def squared(fleet: Workers) -> list[tuple[str, str]]:
    """Return which process has begun which element."""
    return [(process, word) for process, _, word in fleet.noted("square-")]


def test_a_wide_map_uses_the_whole_fleet(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, _Gate() as gate:
        owner = fleet.start(*OWNS, lease=10.0)
        serving = [fleet.start(*SERVES, "--tasks", "12", lease=10.0) for _ in range(2)]
        run = client.start(flows.beside, [gate.address] * 24).id

        until(lambda: gate.came == 24)  # as many as both have room for, and more than a run has slots by itself
        until(lambda: fleet.noted("third"))  # which its own steps have
        gate.open()

        assert client.result(run, timeout=PATIENCE) == {"all": ["through"] * 24, "third": 24}
        assert Counter(process for process, *_ in fleet.noted("waits")) == {str(each.pid): 12 for each in serving}
        until(lambda: rows(dsn) == 0)
        for each in (owner, *serving):
            each.terminate()
            assert each.wait(PATIENCE) == 0


def test_a_map_of_thousands_takes_few_statements_and_keeps_its_order(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start(*OWNS, lease=30.0)
        run = client.start(flows.names, 2_000).id
        until(lambda: rows(dsn) == MOST_SPREAD)  # more of one run are not sent at once
        fleet.start(*SERVES, "--tasks", "200", lease=30.0)

        assert client.result(run, timeout=PATIENCE) == [f"n{x}" for x in range(2_000)]
        until(lambda: rows(dsn) == 0)
        # About one for each element, or less: on a busy machine fewer elements share one. One by one, it would be six.
        assert _transactions(dsn) < 5_000


def test_workers_that_are_killed_lose_no_element(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start(*OWNS)
        run = client.start(flows.squares, 80).id
        for kills in (1, 2):
            serving = fleet.start(*SERVES, "--tasks", "4", pause=0.1)
            until(lambda pid=serving.pid, least=4 * kills: _count(fleet, pid) >= least)
            serving.kill()
        fleet.start(*SERVES, "--tasks", "8", pause=0.0)

        check_squares(client, run, 80)

        begun = Counter(word for _, word in squared(fleet))
        assert len(begun) == 80
        assert len(squared(fleet)) > 80  # those that died had begun some
        assert not [event for event in client.log(run) if isinstance(event, events.AttemptFailed)]
        until(lambda: rows(dsn) == 0)


def _count(fleet: Workers, pid: int) -> int:
    return sum(process == str(pid) for process, _ in squared(fleet))


def test_the_next_owner_adopts_what_is_in_flight(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, _Gate() as gate:
        first = fleet.start(*OWNS)
        fleet.start(*SERVES, lease=10.0)
        run = client.start(flows.gated, gate.address).id
        until(lambda: fleet.noted("waits"))

        first.kill()
        second = fleet.start(*OWNS)
        until(lambda: rows(dsn, "max(epoch)") > 2)  # it has adopted the row
        gate.open()

        assert client.result(run, timeout=PATIENCE) == "through"
        assert len(fleet.noted("waits")) == 1
        until(lambda: rows(dsn) == 0)
        second.terminate()
        assert second.wait(PATIENCE) == 0


def test_an_outcome_that_came_while_there_was_no_owner_is_adopted(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        first = fleet.start(*OWNS)
        serving = fleet.start(*SERVES, lease=10.0, pause=0.5)
        run = client.start(flows.squares, 20).id
        until(lambda: len(squared(fleet)) == 20)
        first.kill()
        until(lambda: rows(dsn, "count(*) filter (where state = 'done')") == rows(dsn) > 0)
        serving.kill()

        fleet.start(*OWNS)  # which runs no step itself

        check_squares(client, run, 20)
        assert len(squared(fleet)) == 20


def test_an_orderly_stop_of_owner_and_worker_repeats_nothing(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        first = [fleet.start(*OWNS, lease=10.0), fleet.start(*SERVES, "--tasks", "4", lease=10.0, pause=0.1)]
        run = client.start(flows.squares, 40).id
        until(lambda: len(squared(fleet)) >= 8)
        for each in first:
            each.terminate()
        for each in first:
            assert each.wait(PATIENCE) == 0
        fleet.start("--queues", "default", *SERVES, lease=10.0, pause=0.0)

        check_squares(client, run, 40)

        assert len(squared(fleet)) == 40


def test_a_worker_that_stops_ends_with_the_last_of_its_steps(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither with its grace, nor with its next look for steps."""
    monkeypatch.setattr(decisions, "POLL", 3600.0)
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))

    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        with _Gate() as gate:
            await client.start(flows.gated, gate.address)

            async def has_come() -> bool:
                return gate.came == 1

            await soon(has_come)
            worker.stop()
            gate.open()

            async def has_stopped() -> bool:
                return worker.state == "stopped"

            await soon(has_stopped)

    with_worker(dsn, act, queues=["default", flows.QUEUE], lease=240.0, grace=3600.0)


def test_an_exception_keeps_its_class_and_the_policy_stays_with_the_owner(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start("--queues", "default", *SERVES, lease=10.0)
        run = client.start(flows.declining, 1).id

        assert client.result(run, timeout=PATIENCE) == 4
        assert [word for *_, word in fleet.noted("attempt-")] == ["attempt-1", "attempt-2", "attempt-3"]
        failed = [event for event in client.log(run) if isinstance(event, events.AttemptFailed)]
        assert [event.error.type for event in failed] == ["spread_flows.Declined"] * 2
        until(lambda: rows(dsn) == 0)


def test_a_step_that_kills_its_workers_fails_after_three(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start(*OWNS)
        fleet.start(*SERVES, "--processes", "2")
        run = client.start(flows.deadly, 1).id

        with pytest.raises(RunFailed, match="has died, as those before it"):
            client.result(run, timeout=PATIENCE)
        assert len(fleet.noted("die-")) == 3


def test_a_cancelled_run_stops_its_steps(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, _Gate() as gate:
        fleet.start(*OWNS, lease=10.0)
        fleet.start(*SERVES, lease=10.0)
        run = client.start(flows.gated, gate.address).id
        until(lambda: gate.came)

        client.cancel(run)

        until(lambda: gate.went == 1)
        until(lambda: rows(dsn) == 0)


def test_a_timeout_counts_from_the_start_on_the_other_worker(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, _Gate() as gate:
        fleet.start("--queues", "default", *SERVES, lease=10.0)
        run = client.start(flows.impatient, gate.address).id

        with pytest.raises(RunFailed, match=r"timeout of 0\.5 s"):
            client.result(run, timeout=PATIENCE)
        until(lambda: gate.went == 1)


def test_what_no_worker_serves_waits_and_its_queue_timeout_holds(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start(*OWNS, lease=10.0)
        run = client.start(flows.unserved, 1).id

        with pytest.raises(RunFailed, match=r"0\.3 s"):
            client.result(run, timeout=PATIENCE)
        until(lambda: rows(dsn) == 0)


def test_values_of_the_application_cross_and_the_context_is_that_of_the_other_worker(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start(*OWNS, "--context", f"{FLOWS}:OWNER", lease=10.0)
        fleet.start(*SERVES, "--context", f"{FLOWS}:SERVER", lease=10.0)

        assert client.result(client.start(flows.prices, 4).id, timeout=PATIENCE) == flows.Priced(4, 8.0)
        assert client.result(client.start(flows.secrets, 4).id, timeout=PATIENCE) == "46"
        until(lambda: rows(dsn) == 0)


def test_a_secret_that_the_other_worker_lacks_is_said(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start(*OWNS, "--context", f"{FLOWS}:OWNER", lease=10.0)
        fleet.start(*SERVES, lease=10.0)

        with pytest.raises(RunFailed, match=r"required context is missing: 'secret' \(for aprice\)"):
            client.result(client.start(flows.secrets, 4).id, timeout=PATIENCE)


def test_a_stream_is_refused_in_every_executor(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start("--queues", "default", *SERVES, lease=10.0)

        for workflow in (flows.streaming, flows.streaming_apart):
            with pytest.raises(RunFailed, match="keeps no streams"):
                client.result(client.start(workflow, 4).id, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("workflow", "reported"),
    [
        pytest.param(flows.progressing, Progress("report_and_wait", 2, 4, "half"), id="a coroutine"),
        pytest.param(flows.isolated, Progress("isolated", 3, None, "x" * LONGEST_NOTE), id="a process"),
    ],
)
def test_progress_is_seen_while_another_worker_runs_the_step(
    dsn: str, tmp_path: Path, workflow: Any, reported: Progress
) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, _Gate() as gate:
        fleet.start(*OWNS, lease=10.0)
        fleet.start(*SERVES, lease=10.0)
        run = client.start(workflow, gate.address)

        until(lambda: run.progress() == [reported])
        gate.open()

        assert run.result(timeout=PATIENCE) == "through"
        assert run.progress() == []
        until(lambda: rows(dsn) == 0)


def test_the_next_owner_knows_the_progress_of_what_is_in_flight(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, _Gate() as gate:
        first = fleet.start(*OWNS)
        fleet.start(*SERVES, lease=10.0)
        run = client.start(flows.progressing, gate.address)
        until(lambda: run.progress() != [])

        first.kill()
        fleet.start(*OWNS)
        until(lambda: rows(dsn, "max(epoch)") > 2)  # it has adopted the row

        until(lambda: run.progress() == [Progress("report_and_wait", 2, 4, "half")])
        gate.open()
        assert run.result(timeout=PATIENCE) == "through"
        assert len(fleet.noted("waits")) == 1


def test_a_worker_that_does_not_know_the_workflow_leaves_its_steps_to_others(dsn: str, tmp_path: Path) -> None:
    other = FLOWS.with_name("fleet_flows.py")
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet, workers(dsn, tmp_path, other) as strangers:
        strangers.start(*SERVES, lease=10.0)
        fleet.start(*OWNS, lease=10.0)
        run = client.start(flows.squares, 5).id
        until(lambda: rows(dsn) == 5)
        serving = fleet.start(*SERVES, lease=10.0)

        check_squares(client, run, 5)
        assert {process for process, _ in squared(fleet)} == {str(serving.pid)}


def test_limits_hold_for_steps_that_other_workers_run(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        fleet.start("--queues", "default", *SERVES, "--tasks", "8", lease=10.0)

        assert client.result(client.start(flows.narrowed, 24).id, timeout=PATIENCE) == sum(range(24))
        inside, most = 0, 0
        for *_, word in fleet.noted():
            inside += 1 if word == "enter" else -1
            most = max(most, inside)
        assert 1 <= most <= flows.LIMIT

        begun = time.monotonic()
        assert len(client.result(client.start(flows.paced, flows.RATE).id, timeout=PATIENCE)) == flows.RATE
        assert time.monotonic() - begun > 0.6  # a second, but for the burst and turns that are granted a little early

        assert {each.name for each in client.limits()} == {"door", "pace"}
        until(lambda: rows(dsn) == 0)


def test_without_a_fleet_a_step_with_a_queue_runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))

    with Runner() as runner:
        assert runner.start(flows.squares, 5).result() == 30
    assert flows.squares.run(5).value("total") == 30


def test_policies_that_cannot_be_honoured_are_refused() -> None:
    with pytest.raises(InvalidPolicy, match="do not go together"):
        Policy(queue="wide", heartbeat=1.0)
    with pytest.raises(InvalidPolicy, match="do not go together"):
        Policy(queue="wide", execution_mode="external")
    with pytest.raises(InvalidPolicy, match="the name of a queue"):
        Policy(queue="")
    states = Workflow("states", accumulator(flows.append, init=list, name="words"))
    with pytest.raises(InvalidPolicy, match="only a step can run on any worker"):
        states.with_policies([("words", Policy(queue="wide"))]).run("x")


def _transactions(dsn: str) -> int:
    """Return how many transactions the database has seen, from the statistics of the server."""
    query = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    return int(asked(dsn, lambda db: db.fetchval(query)))


class _Gate:
    """A gate at which steps wait, for tests without an event loop."""

    def __enter__(self) -> Self:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(None)
        self.address: Any = list(self._server.getsockname())
        self._connections: list[socket.socket] = []
        self.came = self.went = 0
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            self.came += 1
            threading.Thread(target=self._watch, args=(connection,), daemon=True).start()

    def _watch(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.recv(1)
        self.went += 1

    def open(self) -> None:
        """Let those that wait go on."""
        for connection in self._connections:
            connection.sendall(b"through")
            connection.shutdown(socket.SHUT_WR)

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.close()
