"""A run whose log was truncated, by the commands: from its snapshot on, and what is gone is said to be gone."""

from __future__ import annotations

import json
import operator
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, accumulator, step, wait_for
from weft.cli import stored
from weft.core.events import LogTruncated
from weft.stores import SQLiteStore, SQLiteView


def double(number: int) -> int:
    if number == 999:
        raise ValueError("too large")
    return 2 * number


SUMS = Workflow("sums", step(double) >> accumulator(operator.add, init=0, name="total"))
ASK = Workflow("ask", step(abs) >> wait_for("approved"))
GONE = "was truncated: the events before {first} were removed, and this needs them; weft show and weft log have"


class Cut:
    """A file with the run 'r', which was truncated, and the run 'whole', which was not."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with self.runner() as runner:
            for run in ("r", "whole"):
                runner.start(SUMS, id=run)
                for number in range(100):
                    runner.send(run, number).result()
            runner.compact("r")
            runner.stop("r")
            assert runner.truncate("r") > 200
            runner.resume("r")
            for number in range(3):
                runner.send("r", number).result()
            runner.stop("r")
            record = runner.find("r")
        self.first, self.head = record.first, record.head

    def runner(self) -> Runner:
        runner = Runner(SQLiteStore(self.file, synchronous="normal"), executor="inline", snapshot_every=50)
        runner.register(SUMS)
        return runner

    @property
    def gone(self) -> str:
        return GONE.format(first=self.first)


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    return Cut(tmp_path / "runs.db")


def test_it_verifies_from_the_cut_to_its_head(weft: Callable[..., Any], cut: Cut) -> None:
    said = weft("verify", "--store", cut.file, "r")
    data = json.loads(weft("verify", "--store", cut.file, "r", "--json").out)

    assert (said.code, said.out.startswith(f"{cut.head - cut.first + 1} events in ")) == (0, True)
    assert f"the events before {cut.first} were removed" in said.err
    assert (data["verdict"], data["first"]) == ("fine", cut.first)


@pytest.mark.parametrize("change", ["delete from snapshots", "update snapshots set body = x'00'"])
@pytest.mark.parametrize("command", ["verify", "show", "explain", "graph"])
def test_without_its_snapshot_it_is_lost_and_that_is_said(
    weft: Callable[..., Any], cut: Cut, command: str, change: str
) -> None:
    with sqlite3.connect(cut.file) as db:
        db.execute(change)
    db.close()

    said = weft(command, "--store", cut.file, "r")

    assert said.code == 1
    assert "snapshot" in said.err
    assert len(said.err.splitlines()) == 1


def test_its_log_begins_with_what_says_so(weft: Callable[..., Any], cut: Cut) -> None:
    rows = weft("log", "--store", cut.file, "r").out.splitlines()[1:]
    first, second, *_ = map(json.loads, weft("log", "--store", cut.file, "r", "--json").out.splitlines())

    assert rows[0].split()[:2] == [str(cut.first - 1), "LogTruncated"]
    assert len(rows) == 1 + cut.head - cut.first + 1
    assert (first["event"], first["seq"], second["seq"]) == ("LogTruncated", cut.first - 1, cut.first)


def test_it_is_shown_with_its_present_state_and_what_is_gone(weft: Callable[..., Any], cut: Cut) -> None:
    said = weft("show", "--store", cut.file, "r")
    data = json.loads(weft("show", "--store", cut.file, "r", "--json").out)

    assert said.code == 0
    assert f"truncated  the events before {cut.first} were removed" in said.out
    assert "results\n  total  9906\n" in said.out
    assert (data["first"], data["events"], data["results"]) == (cut.first, cut.head, {"total": 9906})
    assert [each["ordinal"] for each in data["inputs"]][-3:] == [101, 102, 103]


def test_what_came_since_is_explained(weft: Callable[..., Any], cut: Cut) -> None:
    said = weft("explain", "--store", cut.file, "r")

    assert said.code == 0
    assert said.out.startswith("total = 9906\n")
    assert "input 103 = 2" in said.out


def test_the_graph_is_drawn_with_a_note(weft: Callable[..., Any], cut: Cut) -> None:
    said = weft("graph", "--store", cut.file, "r")

    assert (said.code, "total" in said.out) == (0, True)
    assert f"truncated: the events before {cut.first} were removed" in said.err


@pytest.mark.parametrize("at", [(), ("--at", 3), ("--at", "head"), ("--at", "double")])
def test_it_cannot_be_forked(weft: Callable[..., Any], cut: Cut, at: tuple[Any, ...]) -> None:
    place = [cut.head if each == "head" else each for each in at]

    said = weft("fork", "--store", cut.file, "r", "--id", "other", *place)

    assert (said.code, cut.gone in said.err) == (1, True)
    assert "other" not in weft("ls", "--store", cut.file).out


def test_it_cannot_be_exported_nor_compared(weft: Callable[..., Any], cut: Cut, tmp_path: Path) -> None:
    exported = weft("export", "--store", cut.file, "r", tmp_path / "r.weft")
    compared = weft("diff", "--store", cut.file, "r", "whole")

    assert (exported.code, cut.gone in exported.err) == (1, True)
    assert not (tmp_path / "r.weft").exists()
    assert (compared.code, cut.gone in compared.err) == (2, True)


def test_a_failure_in_it_cannot_be_retried(weft: Callable[..., Any], cut: Cut) -> None:
    with cut.runner() as runner:
        runner.resume("r")
        runner.send("r", 999)
        runner.wait("r")
        runner.stop("r")

    said = weft("retry", "--store", cut.file, "r")

    assert (said.code, cut.gone in said.err) == (1, True)


@pytest.mark.parametrize("change", ["delete from snapshots", "update snapshots set body = x'00'"])
def test_a_file_with_it_is_fine_unless_its_snapshot_is_damaged(weft: Callable[..., Any], cut: Cut, change: str) -> None:
    fine = weft("doctor", "--store", cut.file)
    with sqlite3.connect(cut.file) as db:
        db.execute(change)
    db.close()
    lost = weft("doctor", "--store", cut.file)

    assert (fine.code, lost.code) == (0, 1)
    assert "run 'r'" in lost.out + lost.err
    assert "snapshot" in lost.out + lost.err


def test_a_wait_that_began_before_the_cut_is_shown_and_answered(weft: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "asks.db"
    with Runner(SQLiteStore(file, synchronous="normal"), executor="inline", snapshot_every=10) as runner:
        runner.start(ASK, id="asks")
        for number in range(20):
            runner.send("asks", number)
        runner.wait_until("asks", lambda run: len(run.memory.waiting or ()) == 20)
        runner.stop("asks")
        assert runner.truncate("asks")

    shown = weft("show", "--store", file, "asks")
    signalled = weft("signal", "--store", file, "asks", "approved", "1")

    assert (shown.code, "waiting for 'approved' ×20" in shown.out) == (0, True)
    assert " d " not in shown.out.split("where the time went")[1]  # not since 1970
    assert (signalled.code, "is stored" in signalled.out) == (0, True)


def test_a_run_that_has_finished_is_followed_to_its_end(weft: Callable[..., Any], cut: Cut) -> None:
    with cut.runner() as runner:
        runner.resume("r")
        runner.cancel("r")

    shown, logged = weft("show", "-f", "--store", cut.file, "r"), weft("log", "-f", "--store", cut.file, "r")
    events = [json.loads(line) for line in weft("show", "-f", "--json", "--store", cut.file, "r").out.splitlines()]

    assert (shown.code, "total = 9906" in shown.out) == (0, True)
    assert (logged.code, logged.out.splitlines()[-1].split()[2]) == (0, "RunCancelled")
    assert [each["seq"] for each in events[:-1]] == [cut.first - 1, *range(cut.first, cut.head + 2)]


def test_a_run_that_is_truncated_while_it_is_followed_is_read_on(cut: Cut) -> None:
    def at_first_read_then_truncated(count: int) -> tuple[stored.Stored, stored.Stored]:
        with SQLiteView(cut.file) as view:
            reader = stored.Reader(view, "whole")
            before = reader.more()
            with cut.runner() as runner:
                runner.resume("whole")
                for _ in range(count):
                    runner.send("whole", 1).result()
                runner.stop("whole")
                assert runner.truncate("whole")
            return before, reader.more()

    behind, new = at_first_read_then_truncated(0)
    assert (new.events, new.after(behind).run().results()) == ([], {"total": 9900})

    behind, new = at_first_read_then_truncated(100)
    assert isinstance(new.events[0], LogTruncated)
    assert new.after(behind).run().results() == {"total": 10_100}
