"""A run whose process is killed: an open runner says that nothing drives it, and that it can be resumed."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft import Runner, Workflow, step, wait_for
from weft.errors import RunExists, RunOwned, WaitTimeout
from weft.stores import SQLiteStore, SQLiteView

OWNER = """
import sys
sys.path.append(sys.argv[2])
from test_owner_died import FLOW
from weft import Runner
runner = Runner(sys.argv[1]).__enter__()
runner.start(FLOW, 20, id="w")
runner.wait_until("w", lambda run: run.waiting_for == ["go"])
print("waiting", flush=True)
sys.stdin.read()
"""


@step
def double(x: int) -> int:
    """Return twice *x*."""
    return 2 * x


FLOW = Workflow("flow", wait_for("go") >> double)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that drives the run ``w``, which waits."""
    command = [sys.executable, "-c", OWNER, str(path), str(Path(__file__).parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        yield process
        process.kill()


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def timed_out(runner: Runner) -> str:
    """Return what a caller is told that has waited for the run in vain, and has seen it."""
    seconds = 0.05
    while True:
        with pytest.raises(WaitTimeout) as timeout:
            runner.result("w", seconds)
        if "the store has not said" not in str(timeout.value):
            return str(timeout.value)
        seconds *= 2


def test_an_open_runner_says_that_the_owner_of_a_run_has_died(
    path: Path, owner: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Runner(SQLiteStore(path)) as runner:
        alive = f"process {owner.pid} on "
        with pytest.raises(RunOwned, match=f"held by {alive}.*which is alive"):
            runner.resume("w", workflow=FLOW)
        assert re.search(f"{alive}.* drives it", timed_out(runner))
        assert alive in str(runner.find("w").owner)
        assert not runner.find("w").owner_died

        killed(owner)

        assert (runner.find("w").owner, runner.find("w").owner_died) == (None, True)
        assert [(each.owner, each.owner_died) for each in runner.runs()] == [(None, True)]
        assert runner.status("w") == "waiting"
        with caplog.at_level(logging.WARNING, "weft.runner"):
            told = timed_out(runner)
        assert "no process drives it, since the one that did has died, and resume('w')" in told
        assert "no process drives it, since the one that did has died" in caplog.text
        assert runner.resume("w", workflow=FLOW).status() == "waiting"
        assert not runner.find("w").owner_died
        runner.signal("w", "go", 21)
        assert runner.result("w") == 42
        assert not runner.find("w").owner_died


def test_a_view_says_so_too(path: Path, owner: subprocess.Popen[str]) -> None:
    with SQLiteView(path) as view:
        assert str(owner.pid) in str(view.find("w").owner)
        killed(owner)
        assert [(each.owner, each.owner_died) for each in (view.find("w"), *view.list())] == [(None, True)] * 2


def test_a_restart_of_a_run_that_nothing_drives_advises_what_works(path: Path, owner: subprocess.Popen[str]) -> None:
    with Runner(SQLiteStore(path)) as runner:
        with pytest.raises(RunExists, match=f"process {owner.pid} .* drives it; .* cancel"):
            runner.start(FLOW, 1, id="w", if_exists="restart")

        killed(owner)

        with pytest.raises(RunExists) as refused:
            runner.start(FLOW, 1, id="w", if_exists="restart")
        assert str(refused.value) == (
            "run 'w' exists already, and has not finished: the process that drove it has died; choose another id, or "
            "delete('w') it first; resume('w') continues it"
        )
        runner.delete("w")
        assert runner.start(FLOW, 1, id="w", if_exists="restart").status() in {"running", "waiting"}


def test_a_restart_of_a_run_that_was_released_advises_what_works(path: Path) -> None:
    with Runner(SQLiteStore(path)) as runner:
        runner.start(FLOW, 1, id="w")
        runner.stop("w")
        with pytest.raises(RunExists, match=r"the process that drove it has released it; .* delete\('w'\) it first"):
            runner.start(FLOW, 2, id="w", if_exists="restart")
