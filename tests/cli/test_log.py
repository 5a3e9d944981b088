"""``weft log``: everything that has happened in one run."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Policy, Runner, Workflow, step
from weft.stores import SQLiteStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One run, 'r', of five events, some values of which are kept beside the log."""
    path = tmp_path / "runs.db"
    workflow = Workflow("double", step(lambda x: x * 2, name="double") >> step(lambda x: x * 100, name="large"))
    with Runner(SQLiteStore(path)) as runner:
        runner.start(workflow, "tea for two ", id="r", open=True).wait()
    return path


def changed(file: Path, sql: str, *values: Any) -> None:
    """Change the file behind the back of Weft."""
    db = sqlite3.connect(file)
    assert db.execute(sql, values).rowcount == 1
    db.commit()
    db.close()


def test_every_event_is_a_line_with_its_number_its_time_and_its_value(weft: Callable[..., Any], file: Path) -> None:
    said = weft("log", "--store", file, "r")

    rows = [line.split(maxsplit=3) for line in said.out.splitlines()[1:]]
    assert said.code == 0
    assert [(row[0], row[2]) for row in rows] == [
        ("1", "WorkflowDefined"),
        ("2", "InputReceived"),
        ("3", "ReactionOccurred"),
        ("4", "ReactionOccurred"),
    ]
    assert all(row[1].startswith("20") and row[1].endswith("Z") for row in rows)
    assert rows[1][3] == "input 1 = 'tea for two '"
    assert rows[2][3].startswith("double     = 'tea for two tea for two '")
    assert "..." in rows[3][3]


def test_json_has_whole_values_one_event_a_line(weft: Callable[..., Any], file: Path) -> None:
    said = weft("log", "--store", file, "r", "--json")

    events = [json.loads(line) for line in said.out.splitlines()]
    assert [event["seq"] for event in events] == [1, 2, 3, 4]
    assert events[0]["workflow"]["components"] == ["double", "large"]
    assert events[3]["value"] == "tea for two " * 200


def test_failures_and_retries_are_told(weft: Callable[..., Any], tmp_path: Path) -> None:
    def broken(x: int) -> int:
        raise ValueError("not \x1b[31m today")

    workflow = Workflow("w", step(broken)).add_policy("broken", Policy(max_retries=1, base_delay=0.001))
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(workflow, 1, id="r").wait()

    said = weft("log", "--store", tmp_path / "runs.db", "r")
    data = [json.loads(line) for line in weft("log", "--store", tmp_path / "runs.db", "r", "--json").out.splitlines()]

    assert "attempt 1: ValueError: not \\x1b[31m today, again at 20" in said.out
    assert "ValueError: not \\x1b[31m today after 2 attempts" in said.out
    assert "\x1b" not in said.out
    assert data[-1]["error"]["type"] == "ValueError"


def test_a_delay_is_told_with_the_time_from_which_it_counts(weft: Callable[..., Any], tmp_path: Path) -> None:
    workflow = Workflow("w", step(abs)).add_policy("abs", Policy(delay=3600.0))
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(workflow, 1, id="r")

    said = weft("log", "--store", tmp_path / "runs.db", "r")
    shown = weft("show", "--store", tmp_path / "runs.db", "r")

    assert said.out.splitlines()[-1].split()[2:5] == ["RunnableDelayed", "abs", "from"]
    assert "delayed ×1" in shown.out


def test_the_log_of_a_killed_process_can_be_read_and_is_whole(weft: Callable[..., Any], killed: Any) -> None:
    said = weft("log", "--store", killed.file, "greeting")

    assert said.out.splitlines()[-1].split()[2:] == ["RunnableDispatched", "send", "attempt", "1"]
    assert weft("verify", "--store", killed.file, "greeting").out.startswith("8 events in ")


# -- verify --------------------------------------------------------------------------------------


def test_a_log_that_is_as_it_was_written_is_said_so(weft: Callable[..., Any], file: Path) -> None:
    said = weft("verify", "--store", file, "r")

    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("4 events in ")


LAST = "(select max(place) from segments)"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("update segments set body = cast(x'00' || substr(body, 2) as blob) where place = LAST", "format 0"),
        ("update segments set body = substr(body, 1, length(body) - 1) where place = LAST", "checksum"),
        ("update segments set chain = x'0102' where place = LAST", "does not end in its head"),
        ("delete from segments where place = LAST", "was cut off"),
        ("update segments set count = count + 1 where place = LAST", "was cut off"),
        ("delete from segments where place = (select min(place) from segments)", "is missing"),
        (
            "delete from segments where place = (select place from segments order by place limit 1 offset 1)",
            "is missing",
        ),
        ("update facts set body = x'00'", "was altered"),
        ("delete from facts", "is missing"),
        ("delete from definitions", "is missing"),
    ],
)
def test_what_was_altered_is_found(weft: Callable[..., Any], file: Path, sql: str, reason: str) -> None:
    changed(file, sql.replace("LAST", LAST))

    said = weft("verify", "--store", file, "r")

    assert (said.code, said.out) == (1, "")
    assert reason in said.err
    assert said.err.count("\n") == 1


def test_a_log_that_cannot_be_read_is_one_line(weft: Callable[..., Any], file: Path) -> None:
    changed(file, "delete from definitions")

    for command in (["log"], ["show"]):
        said = weft(*command, "--store", file, "r")

        assert (said.code, said.out) == (1, "")
        assert "is missing" in said.err


# -- follow --------------------------------------------------------------------------------------


def test_a_run_is_followed_until_it_has_finished(shop: Any, busy: Any) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "log", "--store", "runs.db", "greeting", "--follow"],
        cwd=shop.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        before = [follower.stdout.readline() for _ in range(9)]
        busy.stdin.close()
        busy.stdin = None
        ended = busy.wait(timeout=60)

        if ended:  # nothing more will come
            follower.kill()
        after = follower.stdout.readline()
        _, complaints = follower.communicate(timeout=20)  # it ends with the run

    assert ended == 0
    assert before[0].split() == ["SEQ", "TIME", "EVENT", "COMPONENT"]
    assert before[-1].split()[2:4] == ["RunnableDispatched", "send"]
    assert after.split()[2:4] == ["ReactionOccurred", "send"]
    assert (follower.returncode, complaints) == (0, "")


def test_an_open_run_is_followed_until_the_reader_has_seen_enough(file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "log", "--store", file, "r", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        for _ in range(5):
            follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        _, complaints = follower.communicate(timeout=20)

    assert (follower.returncode, complaints) == (0, "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_run_that_is_closed_is_followed_to_its_end(weft: Callable[..., Any], file: Path, options: list[str]) -> None:
    with Runner(SQLiteStore(file)) as runner:
        runner.resume("r", workflow=Workflow("double", step(abs, name="double") >> step(abs, name="large")))
        runner.cancel("r")

    said = weft("log", "--store", file, "r", "--follow", *options)

    assert said.code == 0
    assert said.out == weft("log", "--store", file, "r", *options).out
    assert "RunCancelled" in said.out


def test_a_run_that_is_not_there_is_not_waited_for(weft: Callable[..., Any], file: Path) -> None:
    said = weft("log", "--store", file, "nobody", "--follow")

    assert (said.code, "no run 'nobody'" in said.err) == (1, True)
