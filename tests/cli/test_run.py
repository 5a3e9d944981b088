"""``weft run``: a workflow from the command line, ``weft show --follow``, ``weft top`` and ``weft init``."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

WORK = """
import sys
from pathlib import Path

from weft import Workflow, context, each, reduce, step


@step
def split(text):
    return list(text)


@step
def up(letter, mark=context("mark", default="")):
    return letter.upper() + mark


@step
def hang(text):
    if Path("hang").exists():
        Path("hanging").touch()
        while Path("hang").exists():
            pass
    return text


@step
def fail(text):
    raise ValueError("no \\x1b[2J")


def add(text, letter):
    return text + letter


@step
def last(text):
    return text


shout = Workflow("shout", split >> each(up) >> reduce(add, init="", name="glue"))
slow = Workflow("slow", split >> each(up) >> reduce(add, init="", name="glue") >> hang >> last)
broken = Workflow("broken", split >> fail)
marks = {"mark": "!"}
"""


@pytest.fixture
def work(shop: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("WEFT_STORE", raising=False)
    (shop.folder / "work.py").write_text(WORK, encoding="utf-8")
    return shop


def test_a_workflow_runs_and_its_results_are_the_answer(work: Any) -> None:
    said = work.command("run", "work:shout", "--input", '"abc"', "--id", "r", "--store", "runs.db")

    assert said.code == 0
    assert said.out == "r: has completed, 8 events\n  glue = 'ABC'\n"
    assert "r: ✓ up done: 3/3" in said.err
    assert work.command("show", "r", "--store", "runs.db").code == 0


def test_without_a_store_it_says_that_nothing_is_kept(work: Any) -> None:
    said = work.command("run", "work.py:shout", "--input", '"abc"', "--context", "work:marks")

    assert said.code == 0
    assert "glue = 'A!B!C!'" in said.out
    assert said.err.startswith("no store is named, so nothing is kept: --store runs.db keeps the run\n")
    assert not work.file.exists()


def test_the_same_run_again_is_answered_from_the_store(work: Any) -> None:
    arguments = ("run", "work:shout", "--id", "r", "--store", "runs.db", "--input")
    work.command(*arguments, '"abc"')

    again, other = work.command(*arguments, '"abc"'), work.command(*arguments, '"xyz"')

    assert (again.code, "glue = 'ABC'" in again.out) == (0, True)
    assert other.code == 1
    assert "there is a run 'r' already" in other.err


def test_a_failure_ends_with_one_and_is_escaped(work: Any) -> None:
    said = work.command("run", "work:broken", "--input", '"abc"', "--id", "r")

    assert said.code == 1
    assert "'fail' failed: ValueError: no \\x1b[2J" in said.out
    assert "r: ✗ fail failed: ValueError: no \\x1b[2J" in said.err
    assert "\x1b" not in said.out + said.err


def test_json_is_a_line_for_each_event_and_one_with_the_results(work: Any) -> None:
    said = work.command("run", "work:shout", "--input", '"ab"', "--id", "r", "--json")

    *events, outcome = [json.loads(line) for line in said.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[1]["value"] == "ab"
    assert outcome == {
        "run": "r",
        "status": "completed",
        "events": len(events),
        "results": {"glue": "AB"},
        "failures": {},
    }


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["work:nothing", "--input", "1"], 1, "work:nothing: there is no such name"),
        (["work:split", "--input", "1"], 1, "work:split: that is Step"),
        (["work", "--input", "1"], 1, "it has several workflows, shout, slow, broken"),
        (["nowhere:w", "--input", "1"], 1, "cannot import 'nowhere'"),
        (["work:shout"], 2, "weft: missing option '--input'; see weft run --help"),
        (["work:shout", "--input", "abc"], 2, "text needs quotes"),
        (["work:shout", "--input", "@nothing.json"], 2, "nothing.json cannot be read"),
    ],
)
def test_what_cannot_run_is_said_in_a_line(work: Any, arguments: list[str], code: int, reason: str) -> None:
    said = work.command("run", *arguments, "--store", "runs.db")

    assert (said.code, said.out) == (code, "")
    assert reason in said.err
    assert "Traceback" not in said.err


def test_that_nothing_is_kept_is_not_said_of_a_run_that_cannot_begin(work: Any) -> None:
    said = work.command("run", "work:nothing", "--input", "1")

    assert said.err.startswith("weft: work:nothing")


class Terminal:
    """A command in a terminal of 100 columns."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._mine, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft", *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
        )
        os.close(theirs)
        self.text = ""

    def until(self, text: str) -> None:
        """Read until *text* is there."""
        end = time.monotonic() + 60
        while text not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self._mine], [], [], 1)[0]:
                try:
                    self.text += os.read(self._mine, 65_536).decode(errors="replace")
                except OSError:  # it has ended
                    assert text in self.text, self.text
                    return

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while True:
            try:
                read = os.read(self._mine, 65_536)
            except OSError:
                break
            if not read:
                break
            self.text += read.decode(errors="replace")
        os.close(self._mine)
        return self.process.wait(60)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_terminal_shows_a_tree_and_interrupting_says_what_is_kept_and_how_to_go_on(
    work: Any, number: signal.Signals, code: int
) -> None:
    (work.folder / "hang").touch()
    terminal = Terminal(work.folder, "run", "work:slow", "--input", '"abc"', "--id", "r", "--store", "runs.db")
    terminal.until("▶ r  slow  running")
    terminal.until("3/3")
    while not (work.folder / "hanging").exists():
        terminal.until("hang")
    terminal.process.send_signal(number)
    terminal.until("stopping: steps in flight may end first")
    (work.folder / "hang").unlink()

    assert terminal.end() == code
    assert "are kept in runs.db; to go on: weft resume r --import work --store runs.db" in terminal.text.replace(
        "\r\n", ""
    )
    resumed = work.command("resume", "r", "--import", "work", "--store", "runs.db")
    assert "last = 'ABC'" in resumed.out


def test_a_run_is_followed_to_its_end(work: Any) -> None:
    work.command("run", "work:shout", "--input", '"abc"', "--id", "r", "--store", "runs.db")

    said = work.command("show", "r", "--follow", "--store", "runs.db")
    data = work.command("show", "r", "--follow", "--json", "--store", "runs.db")

    assert said.code == 0
    assert "r: ✓ up done: 3/3" in said.out
    assert said.out.endswith("r: has completed, 8 events\n  glue = 'ABC'\n")
    assert json.loads(data.out.splitlines()[-1])["results"] == {"glue": "ABC"}


def test_show_draws_where_the_time_went(work: Any) -> None:
    work.command("run", "work:broken", "--input", '"abc"', "--id", "r", "--store", "runs.db")

    shown = work.command("show", "r", "--store", "runs.db").out

    assert "✗ fail failed: ValueError: no \\x1b[2J" in shown
    lines = shown.split("where the time went\n")[1].splitlines()
    assert [line[:8] for line in lines[1:3]] == ["✓ split ", "✗ fail  "]
    assert lines[2].split()[2].endswith("✗")


def test_top_lists_problems_first_and_interrupted_runs_with_what_to_do(work: Any, killed: Any) -> None:
    for number in range(3):
        work.command("run", "work:shout", "--input", '"abc"', "--id", f"r{number}", "--store", "runs.db")
    work.command("run", "work:broken", "--input", '"abc"', "--id", "bad", "--store", "runs.db")

    said = work.command("top", "--store", "runs.db")
    data = json.loads(work.command("top", "--json", "--limit", "4", "--store", "runs.db").out)

    head, _, *lines = said.out.splitlines()
    assert "✗ 1 failed" in head
    assert "✓ 3 completed" in head
    assert [line.split()[1] for line in lines] == ["bad", "greeting", "r2", "r1", "r0"]
    assert "▮✗" in lines[0]
    assert "no process drives it: weft resume greeting --import shop --store runs.db" in lines[1]
    assert [run["is_interrupted"] for run in data["runs"]] == [False, True, False, False]
    assert [run["id"] for run in data["runs"]] == ["bad", "greeting", "r2", "r1"]
    assert "\x1b" not in said.out


def test_a_terminal_shows_all_runs_until_it_is_interrupted(work: Any) -> None:
    work.command("run", "work:shout", "--input", '"abc"', "--id", "first", "--store", "runs.db")
    terminal = Terminal(work.folder, "top", "--store", "runs.db")
    terminal.until("first")
    work.command("run", "work:shout", "--input", '"abc"', "--id", "second", "--store", "runs.db")
    terminal.until("second")
    terminal.process.send_signal(signal.SIGINT)

    assert terminal.end() == 0


def test_the_starter_project_runs_and_its_tests_pass(work: Any) -> None:
    made = work.command("init", "new")
    again = work.command("init", "new")
    folder = work.folder / "new"

    assert (made.code, again.code) == (0, 1)
    assert "exists already, and nothing was changed" in again.err
    ran = subprocess.run(
        [sys.executable, "-m", "weft", "run", "orders:orders", "--input", '{"lines": ["tea", "pot"]}'],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, "invoice = '36.5 EUR'" in ran.stdout) == (0, True)
    assert (folder / "runs.db").exists()
    assert (tested.returncode, "3 passed" in tested.stdout) == (0, True)
    assert len((folder / "README.md").read_text(encoding="utf-8").splitlines()) <= 12
