"""Runners on PostgreSQL: embedded in a program, killed, frozen, and talking to each other."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import driving_process
import pytest
from postgres_stores import ask, until
from servers import asked

from weft import Runner, Workflow, step, wait_for
from weft.errors import InvalidStoreOption, RunExists, RunOwned, WaitTimeout
from weft.stores import PostgresStore


@step
def add(x: int) -> int:
    return x + 1


@step
def double(x: int) -> int:
    return 2 * x


def test_a_runner_opens_the_database_that_it_is_told(dsn: str) -> None:
    name = f"weft_{uuid.uuid4().hex}"
    asked(dsn, lambda db: db.execute(f"create database {name}"))
    where = dsn.replace("/postgres?", f"/{name}?")
    assert where != dsn
    try:
        with Runner(where) as runner:
            assert runner.start(Workflow("small", add >> double), 4, id="r").result(60) == 10
        with Runner(where) as runner:
            assert runner.result("r") == 10
            assert runner.find("r").status == "completed"
    finally:
        asked(dsn, lambda db: db.execute(f"drop database {name} with (force)"))


def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)

    with pytest.raises(InvalidStoreOption, match=r"pip install 'weft\[postgres\]'"):
        Runner("postgresql://weft@localhost/runs")


def test_a_signal_from_another_process_reaches_the_owner(dsn: str, schema: str) -> None:
    flow = Workflow("approval", wait_for("yes") >> double)
    with (
        Runner(PostgresStore(dsn, schema=schema, lease=3600)) as owner,
        Runner(PostgresStore(dsn, schema=schema)) as other,
    ):
        handle = owner.start(flow, 1, id="r")
        with pytest.raises(RunOwned):
            other.resume("r", workflow=flow)

        other.signal("r", "yes", 21)

        assert handle.result(60) == 42
        assert other.result("r", timeout=60) == 42


OWNER = """
import sys
from weft import Runner, Workflow, wait_for
from weft.stores import PostgresStore
runner = Runner(PostgresStore(sys.argv[1], schema=sys.argv[2], lease=3600)).__enter__()
runner.start(Workflow("flow", wait_for("go")), 20, id="w")
runner.wait_until("w", lambda run: run.waiting_for == ["go"])
print("waiting", flush=True)
sys.stdin.read()
"""


def timed_out(runner: Runner) -> str:
    """Return what a caller is told that has waited for the run in vain, and has seen it."""
    seconds = 0.2
    while True:
        with pytest.raises(WaitTimeout) as timeout:
            runner.wait("w", seconds)
        if "the store has not said" not in str(timeout.value):
            return str(timeout.value)
        seconds *= 2


def test_an_open_runner_says_that_the_owner_of_a_run_has_died(dsn: str, schema: str) -> None:
    command = [sys.executable, "-c", OWNER, dsn, schema]
    flow = Workflow("flow", wait_for("go"))
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner,
        Runner(PostgresStore(dsn, schema=schema)) as runner,
    ):
        assert said(owner) == "waiting"
        assert str(owner.pid) in str(runner.find("w").owner)
        assert re.search(f"process {owner.pid} .* drives it", timed_out(runner))

        owner.kill()
        owner.wait()

        assert [(each.owner, each.owner_died) for each in (runner.find("w"), *runner.runs())] == [(None, True)] * 2
        assert "since the one that did has died, and resume('w')" in timed_out(runner)
        with pytest.raises(RunExists, match=r"has died; choose another id, or delete\('w'\) it first; resume\('w'\)"):
            runner.start(flow, 1, id="w", if_exists="restart")
        runner.resume("w", workflow=flow)
        runner.signal("w", "go", 21)
        assert runner.result("w", 60) == 21
        assert not runner.find("w").owner_died


def driven(dsn: str, schema: str, lease: float, counter: Path) -> subprocess.Popen[str]:
    program = str(Path(driving_process.__file__))
    arguments = [sys.executable, program, dsn, schema, str(lease), str(counter)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def check(dsn: str, schema: str) -> None:
    """See that all runs have finished, each step of each completed once."""
    with Runner(PostgresStore(dsn, schema=schema)) as runner:
        for i in range(driving_process.COUNT):
            assert runner.result(f"r{i}") == (i + 1) * 2 - 3
            done = [each.component for each in runner.log(f"r{i}") if type(each).__name__ == "ReactionOccurred"]
            assert done == ["begin", "middle", "end"]


def test_a_killed_process_is_followed_by_another_which_repeats_only_what_was_in_flight(
    dsn: str, schema: str, tmp_path: Path
) -> None:
    with driven(dsn, schema, 3600, tmp_path / "counter") as first:
        assert said(first) == "started"
        first.kill()
    with driven(dsn, schema, 3600, tmp_path / "counter") as second:
        assert (said(second), said(second)) == ("started", "finished")

    check(dsn, schema)
    executed = Counter((tmp_path / "counter").read_text(encoding="utf-8").split("\n")[:-1])
    assert max(executed.values()) <= 2
    assert len(executed) == 3 * driving_process.COUNT


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
def test_a_process_that_was_frozen_past_its_lease_changes_nothing_in_what_was_taken_over(
    dsn: str, schema: str, tmp_path: Path
) -> None:
    with driven(dsn, schema, 0.6, tmp_path / "counter") as frozen:
        assert said(frozen) == "started"
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            expired = "select 1 from weft_workers where expires_at < clock_timestamp()"
            asyncio.run(until(lambda: ask(PostgresStore(dsn, schema=schema), expired)))
            with driven(dsn, schema, 60, tmp_path / "counter") as second:
                assert (said(second), said(second)) == ("started", "finished")
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        assert said(frozen) == "finished"

    check(dsn, schema)
