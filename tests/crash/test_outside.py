"""kill -9 of processes with external steps: what was handed out is handed out once, and the token goes on working."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import outsider
import pytest
from msgspec.structs import replace

from weft import Policy, Runner, Workflow, step
from weft.core import events as ev
from weft.core.run.run import Run
from weft.errors import TokenExpired
from weft.runner.checkpoints import Checkpoints, every_cycle, manual, on_complete, pipelined
from weft.stores import SQLiteStore
from weft.testing import Scenario, Trial, simulate
from weft.testing.simulation.process import Moment

MOMENTS: tuple[Moment, ...] = ("before", "during", "after")


def execute(path: Path, moment: str, strategy: str, kill_at: str | None) -> list[list[str]]:
    """Run the program, kill it when it has said *kill_at*, and return what it has said."""
    command = [sys.executable, outsider.__file__, str(path), moment, strategy]
    said: list[list[str]] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.split(maxsplit=1))
            if said[-1][0] == kill_at:
                process.send_signal(signal.SIGKILL)
    assert process.returncode == (0 if kill_at is None else -signal.SIGKILL)
    return said


@pytest.mark.parametrize("strategy", ["every_cycle", "pipelined", "manual"])
def test_a_step_that_was_handed_out_is_not_run_again(strategy: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    (_, token), *_ = execute(path, "after", strategy, "open")

    with Runner(SQLiteStore(path)) as other:  # no process drives the run: the inbox has the completion
        other.complete(token.strip(), "yes", by="Ada")
    said = execute(path, "resumed", strategy, None)

    assert [line[0] for line in said] == ["result"]
    assert said[-1][1] == "shipped: yes\n"
    with Runner(SQLiteStore(path)) as other, pytest.raises(TokenExpired):
        other.complete(token.strip(), "no")


@pytest.mark.parametrize("strategy", ["every_cycle", "pipelined", "manual"])
def test_a_function_that_was_killed_runs_again_with_the_same_token(strategy: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    (_, first), *_ = execute(path, "before", strategy, "token")

    (_, second), *_ = execute(path, "after", strategy, "open")

    assert first == second
    with Runner(SQLiteStore(path)) as other:
        other.complete(first.strip(), "yes")
    assert execute(path, "resumed", strategy, None)[-1] == ["result", "shipped: yes\n"]


def test_a_step_is_cancelled_although_its_owner_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    execute(path, "after", "every_cycle", "open")

    with Runner(SQLiteStore(path)) as other:
        other.cancel("job", "too late", component="ask", by="Ada")
    with Runner(SQLiteStore(path)) as runner:
        run = runner.resume("job", workflow=outsider.orders).wait()

    assert "'ask' was cancelled by Ada: too late" in str(run.failures["ask"])
    assert run.status == "failed"


@pytest.mark.parametrize("strategy", [every_cycle, on_complete, manual, pipelined()], ids=str)
def test_a_crash_at_any_append_of_an_external_step_changes_nothing(strategy: Checkpoints) -> None:
    policy = Policy(execution_mode="external", timeout=5.0, max_retries=1, base_delay=1.0, backoff="linear")
    workflow = Workflow("w", step(lambda x: x, name="ask") >> step(str, name="end"), policies=[("ask", policy)])

    def check(run: Run) -> list[str]:
        failures = [event for event in run.log() if isinstance(event, ev.FailureReceived)]
        problems = [] if list(run.failures) == ["ask"] else [f"it came to {run.results()}"]
        return problems if len(failures) == 2 else [*problems, f"it has failed {len(failures)} times"]

    trial = Trial(workflow, (1,), check)
    scenario = Scenario(strategy=strategy, ends="input")
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)
    crashed = [
        simulate(1, lambda _: trial, scenario=replace(scenario, dies=(number, moment)))
        for number in range(1, undisturbed.writes + 1)
        for moment in MOMENTS
    ]

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []
