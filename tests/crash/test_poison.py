"""Real processes that die of a step of one run: that run is parked, and the others are not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import killer
import pytest

from weft import Runner
from weft.core.events import RunTakenOver
from weft.stores import SQLiteStore

WELL = ["well-1", "well-2", "well-3"]
ENDS = {"exits": 3, "segfaults": -signal.SIGSEGV, "is_killed": -signal.SIGKILL, "calls_back": 3}


def live(path: Path, name: str) -> tuple[int, list[str], str]:
    """Let a process live until it dies; return how it ended, what it said, and what it complained about."""
    command = [sys.executable, killer.__file__, str(path), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("name", ["exits", "segfaults", *(["is_killed"] if "WEFT_THOROUGH" in os.environ else [])])
def test_a_run_that_kills_its_process_is_parked_after_three_starts_and_no_other_one_is(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"

    lives = [live(path, name) for _ in range(4)]

    said = Counter(line for _, lines, _ in lives for line in lines)
    assert [code for code, _, _ in lives] == [ENDS[name]] * 3 + [1]
    assert said["fatal"] == 3
    assert f"'{name}' was in flight" in lives[-1][2]
    assert "resume('killer') tries again" in lives[-1][2]
    with Runner(SQLiteStore(path)) as runner:
        assert [record.id for record in runner.runs(status="parked")] == ["killer"]
        assert {run: runner.status(run) for run in WELL} == dict.fromkeys(WELL, "completed")
        assert [said[f"last {number}"] for number in (1, 2, 3)] == [1, 1, 1]
        noted = [event.deaths for event in runner.log("killer") if isinstance(event, RunTakenOver)]
        assert noted == [1, 2]
    code, said_last, _ = live(path, "rescue")
    assert (code, said_last[-1]) == (0, "failed WorkerDied")


def test_a_run_whose_callback_kills_its_process_is_parked_and_a_person_can_resume_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    lives = [live(path, "calls_back") for _ in range(4)]

    said = Counter(line for _, lines, _ in lives for line in lines)
    assert [code for code, _, _ in lives] == [3, 3, 3, 1]
    assert (said["quick 0"], said["last 0"], said["called back for killer"]) == (1, 1, 3)
    assert "while on_complete was in flight" in lives[-1][2]
    told: list[str] = []
    with Runner(SQLiteStore(path)) as runner:
        runner.register(killer.well)
        handle = runner.resume("killer", on_complete=lambda run, _: told.append(run))
        assert handle.wait(timeout=60).status == "completed"
    assert told == ["killer"]
