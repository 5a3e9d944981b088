"""``weft ls``: the runs in a file."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, step
from weft.stores import SQLiteStore

double = Workflow("double", step(lambda x: x * 2, name="double"))
halve = Workflow("halve", step(lambda x: x / 2, name="halve"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three runs: two are idle, one was cancelled."""
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(double, 1, id="a", open=True).wait()
        runner.start(halve, 1, id="b", open=True).wait()
        runner.start(double, 2, id="c", open=True).wait()
        runner.cancel("c", "changed my mind")
    return path


def columns(out: str) -> list[list[str]]:
    """Return the first four columns of a table, without its headings."""
    return [line.split()[:4] for line in out.splitlines()[1:]]


def test_every_run_is_a_row(weft: Callable[..., Any], file: Path) -> None:
    said = weft("ls", "--store", file)

    assert said.code == 0
    assert said.out.split()[:7] == ["ID", "WORKFLOW", "STATUS", "EVENTS", "CREATED", "UPDATED", "OWNER"]
    assert columns(said.out) == [
        ["c", "double", "cancelled", "4"],
        ["b", "halve", "idle", "3"],
        ["a", "double", "idle", "3"],
    ]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "idle"], ["b", "a"]),
        (["--status", "cancelled", "--status", "idle"], ["c", "b", "a"]),
        (["--workflow", "double"], ["c", "a"]),
        (["--workflow", "double", "--status", "idle"], ["a"]),
        (["--limit", "2"], ["c", "b"]),
    ],
)
def test_a_part_can_be_asked_for(weft: Callable[..., Any], file: Path, options: list[str], ids: list[str]) -> None:
    said = weft("ls", "--store", file, *options)

    assert [row[0] for row in columns(said.out)] == ids


def test_it_says_that_there_are_more(weft: Callable[..., Any], file: Path) -> None:
    assert "more than 2 runs" in weft("ls", "--store", file, "-n", "2").err
    assert weft("ls", "--store", file, "-n", "3").err == ""


def test_an_unknown_status_is_refused_with_those_that_exist(weft: Callable[..., Any], file: Path) -> None:
    said = weft("ls", "--store", file, "--status", "sleepy")

    assert said.code == 2
    assert "sleepy" in said.err
    assert "waiting" in said.err


def test_json_has_everything(weft: Callable[..., Any], file: Path) -> None:
    said = weft("ls", "--store", file, "--json", "--status", "cancelled")

    [run] = json.loads(said.out)
    assert (run["id"], run["workflow"], run["status"], run["events"]) == ("c", "double", "cancelled", 4)
    assert (run["reason"], run["owner"]) == ("changed my mind", None)
    assert (run["failures"], run["dead_letters"]) == (0, 0)
    assert run["finished_at"] == run["updated_at"]
    assert run["created_at"].endswith("Z")


def test_a_store_without_runs_is_not_an_error(weft: Callable[..., Any], tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")):
        pass

    said = weft("ls", "--store", tmp_path / "runs.db")

    assert (said.code, said.out) == (0, "")
    assert "no runs in" in said.err
    assert json.loads(weft("ls", "--store", tmp_path / "runs.db", "--json").out) == []


def test_an_owner_that_is_alive_is_named_and_goes_on(
    weft: Callable[..., Any], shop: Any, busy: subprocess.Popen[str]
) -> None:
    said = weft("ls", "--store", shop.file)

    assert columns(said.out) == [["greeting", "shop", "running", "8"]]
    assert f"process {busy.pid} on" in said.out
    assert said.err == ""
    assert busy.poll() is None


def test_the_run_of_a_killed_process_is_held_by_no_process(weft: Callable[..., Any], killed: Any) -> None:
    said = weft("ls", "--store", killed.file)

    assert columns(said.out) == [["greeting", "shop", "running", "8"]]
    assert said.out.split()[-1] == "none"
    command = f"weft resume --all --import shop --store {killed.file}"
    assert said.err == f"no process drives 1 run with work left; to go on: {command}\n"
    assert [run["is_interrupted"] for run in json.loads(weft("ls", "--store", killed.file, "--json").out)] == [True]


def made(path: Path, kind: str) -> Path:
    """Return a path at which something is wrong."""
    match kind:
        case "missing":
            pass
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "no database":
            path.write_text("dear diary\n" * 500, encoding="utf-8")
        case "foreign":
            db = sqlite3.connect(path)
            db.execute("create table songs (title)")
            db.close()
        case _:
            with Runner(SQLiteStore(path)) as runner:
                runner.start(double, 1, id="a").wait()
            path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096 * 10)
    return path


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "there is no file"),
        ("empty", "nothing has been stored"),
        ("folder", "is a folder"),
        ("no database", "is not a Weft store"),
        ("foreign", "is not a Weft store"),
        ("damaged", "is damaged"),
    ],
)
@pytest.mark.parametrize("command", [["ls"], ["show", "a"], ["log", "a"], ["verify", "a"], ["resume", "a"]])
def test_what_is_wrong_with_the_file_is_one_line(
    weft: Callable[..., Any], tmp_path: Path, kind: str, reason: str, command: list[str]
) -> None:
    path = made(tmp_path / "runs.db", kind)

    said = weft(*command, "--store", path)

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("weft: ")
    assert said.err.count("\n") == 1
    assert reason in said.err
    assert path.exists() == (kind != "missing")


def test_names_that_would_command_the_terminal_are_escaped(weft: Callable[..., Any], tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(double.renamed("w\x1b[2J"), 1, id="i\x07\nd").wait()

    said = weft("ls", "--store", tmp_path / "runs.db")

    assert len(said.out.splitlines()) == 2
    assert "\x1b" not in said.out
    assert "i\\x07\\nd" in said.out


@pytest.fixture
def lossy(file: Path, tmp_path: Path) -> Path:
    """The file that a killed process leaves whose last run was in a write-ahead log that is gone."""
    left = tmp_path / "left.db"
    with Runner(SQLiteStore(file)) as runner:
        runner.start(double, 3, id="d").wait()
        for end in ("", "-commits"):
            shutil.copy(f"{file}{end}", f"{left}{end}")
    return left


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["ls", "--workflow", "halve"]])
def test_runs_are_listed_and_it_is_said_that_commits_are_missing(
    weft: Callable[..., Any], lossy: Path, arguments: list[str]
) -> None:
    command, *options = arguments

    said = weft(command, "--store", lossy, *options)

    assert said.code == 1
    assert "b" in said.out
    assert said.err == (
        f"weft: committed work is missing from {lossy}, so runs may be missing here: see weft doctor --store {lossy}\n"
    )


@pytest.mark.parametrize(
    "command", [["show"], ["show", "--json"], ["log"], ["log", "--json"], ["verify"], ["log", "--follow"]]
)
def test_a_run_of_a_file_that_lost_commits_is_shown_with_that_warning(
    weft: Callable[..., Any], lossy: Path, command: list[str]
) -> None:
    said, other = weft(*command, "--store", lossy, "c"), weft(*command, "--store", lossy, "d")

    assert (said.code, other.code) == (1, 1)
    assert said.out
    assert "committed work is missing from" in said.err
    assert "no run 'd'" in other.err
    assert "committed work is missing from" in other.err


def test_a_run_that_was_lost_is_resumed_with_the_same_word_as_all_others(weft: Callable[..., Any], lossy: Path) -> None:
    for named in (["d"], ["a"], ["--all"]):
        said = weft("resume", "--store", lossy, *named)

        assert said.code == 1
        assert "has lost committed work" in said.err
        assert "no run" not in said.err


def test_a_run_that_the_index_does_not_lead_to_is_damaged_and_not_missing(weft: Callable[..., Any], file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        (root,) = db.execute("select rootpage from sqlite_schema where name = 'sqlite_autoindex_runs_1'").fetchone()
    content = bytearray(file.read_bytes())
    content[(root - 1) * 4096 + 3 : (root - 1) * 4096 + 5] = b"\0\0"  # how many entries that page has
    file.write_bytes(content)

    for command in (["show", "a"], ["log", "a"], ["verify", "a"], ["resume", "a"]):
        said = weft(*command, "--store", file)

        assert said.code == 1
        assert "is damaged" in said.err
        assert "no run" not in said.err
    assert "no run 'z'" in weft("show", "--store", file, "z").err
    assert [row[0] for row in columns(weft("ls", "--store", file).out)] == ["c", "b", "a"]
