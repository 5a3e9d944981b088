"""Commands that change stored runs: send, signal, cancel, retry, fork, upgrade, export and import."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Runner
from weft.core import events as ev
from weft.stores import SQLiteView

BANK = """
from dataclasses import dataclass
from pathlib import Path

from weft import Workflow, step, wait_for


@dataclass
class Approval:
    by: str


@step
def total(order):
    return sum(order)


@step
def charge(amount):
    if Path("broken").exists():
        raise ConnectionError("no answer \\x1b[2J")
    return {"charged": amount}


@step
def ship(answer):
    return f"shipped: {answer}"


@step
def receipt(charged):
    return ["receipt", charged]


pay = Workflow("pay", total >> charge)
longer = Workflow("pay", total >> charge >> receipt)
asked = Workflow("asked", total >> wait_for("approved", name="approval", schema=bool) >> ship)
signed = Workflow("signed", total >> wait_for("approved", schema=Approval) >> ship)
"""

START = """
from bank import asked, pay, signed
from weft import Runner

with Runner("runs.db") as runner:
    runner.start(pay, [1, 2], id="good").wait()
    runner.start(pay, [7], id="open", open=True).wait()
    open("broken", "w").close()
    runner.start(pay, [1, 2], id="bad").wait()
    runner.start(asked, [5], id="asks")
    runner.start(signed, [5], id="signs")
    for id in ("asks", "signs"):
        runner.wait_until(id, lambda run: run.status == "waiting")
"""


@pytest.fixture(scope="module")
def first_bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs that have completed, failed, wait for an answer, and are open; no process drives them."""
    folder = tmp_path_factory.mktemp("bank")
    (folder / "bank.py").write_text(BANK, encoding="utf-8")
    (folder / "weft.toml").write_text('store = "runs.db"\n', encoding="utf-8")
    subprocess.run([sys.executable, "-c", START], cwd=folder, timeout=60, check=True)
    (folder / "broken").unlink()
    return folder


@pytest.fixture
def bank(first_bank: Path, shop: Any) -> Any:
    """A copy of that folder, to change."""
    shutil.copytree(first_bank, shop.folder, dirs_exist_ok=True)
    return shop


def log(bank: Any, run: str) -> list[Any]:
    with Runner(bank.file) as runner:
        return runner.log(run)


def test_an_answer_is_left_for_the_run_with_the_name_of_the_sender(bank: Any) -> None:
    said = bank.command("signal", "asks", "approved", "true", "--by", "ada")

    assert (said.code, said.out) == (0, "asks: the signal 'approved' is stored\n")
    assert "no process drives it; to go on: weft resume asks --import bank" in said.err

    resumed = bank.command("resume", "asks", "--import", "bank")
    assert "ship = 'shipped: True'" in resumed.out
    assert [event.by for event in log(bank, "asks") if isinstance(event, ev.SignalReceived)] == ["ada"]


def test_an_answer_that_does_not_fit_a_class_is_refused_without_its_code(bank: Any) -> None:
    said = bank.command("signal", "signs", "approved", '{"by": 7}')

    assert (said.code, said.out) == (1, "")
    assert said.err == "weft: the signal 'approved' was refused: expected text, got an integer, at by\n"


def test_an_input_for_a_run_that_is_not_open_is_refused_at_once(bank: Any) -> None:
    said = bank.command("send", "asks", "7")

    assert (said.code, said.out) == (1, "")
    assert "run 'asks' is not open: it finishes with the input that it has" in said.err


def test_a_resumed_run_that_waits_for_a_person_says_for_what_and_how_to_answer(bank: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "resume", "asks", "--import", "bank"],
        cwd=bank.folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = [process.stderr.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert said[1:] == [
        "asks: waits for the signal 'approved'; Ctrl-C ends this, and it goes on waiting\n",
        "asks: to answer: weft signal asks approved VALUE\n",
    ]
    assert (process.returncode, out) == (130, "")
    assert "what was done is kept" in err
    assert bank.command("signal", "asks", "approved", "true").code == 0


def test_an_answer_of_a_class_needs_no_code_where_it_is_sent(bank: Any) -> None:
    assert bank.command("signal", "signs", "approved", '{"by": "ada"}').code == 0

    assert "ship = \"shipped: Approval(by='ada')\"" in bank.command("resume", "signs", "--import", "bank").out


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["signal", "asks", "aproved", "true"], 1, "it waits for 'approved'"),
        (["signal", "asks", "approved", "7"], 1, "Expected `bool`"),
        (["signal", "asks", "approved", "maybe"], 2, "text needs quotes: '\"maybe\"'"),
        (["signal", "good", "approved"], 1, "has completed"),
        (["send", "good", "1"], 1, "has completed, and accepts nothing more"),
        (["send", "nobody", "1"], 1, "no run 'nobody' is stored here; weft ls"),
        (["cancel", "good"], 1, "has completed"),
        (["retry", "good"], 1, "has completed"),
        (
            ["retry", "bad"],
            1,
            "needs code that is not here: total (bank.total), charge (bank.charge); pass --import bank;",
        ),
        (["fork", "good"], 1, "pass --import bank; if it has lambdas or local functions, the workflow must be"),
        (["fork", "good", "--value", "1"], 2, "which value is edited?"),
        (["upgrade", "asks", "bank:longer"], 1, "another version of 'asked'"),
        (
            ["upgrade", "bad", "bank:nothing"],
            1,
            "bank:nothing: there is no such name, and the module has the workflows pay,",
        ),
        (["upgrade", "bad", "no.py:pay"], 1, "cannot import 'no.py': FileNotFoundError: there is no such file"),
        (["export", "good", "no/such/folder"], 1, "cannot be written"),
        (["import", "nothing.weft"], 1, "cannot be read"),
        (
            ["import", "bank.py"],
            1,
            "bank.py cannot be imported: this is not a run that was exported; name a file of weft",
        ),
        (["diff", "good", "nobody"], 2, "no run 'nobody'"),
        (["explain", "good", "nothing"], 1, "no component 'nothing'"),
        (["graph", "nobody"], 1, "no run 'nobody'"),
        (["graph", "good", "--format", "gif"], 2, "is none of mermaid, dot, svg"),
    ],
)
def test_a_refusal_is_a_line_that_says_why_and_changes_nothing(
    bank: Any, weft: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, reason: str
) -> None:
    monkeypatch.chdir(bank.folder)
    command = bank.command if arguments[0] == "upgrade" else weft  # a module that is imported stays imported
    with SQLiteView(bank.file) as view:
        before = {record.id: record.head for record in view.list()}

    said = command(*arguments)

    assert (said.code, said.out) == (code, "")
    assert reason in said.err
    assert "Traceback" not in said.err
    if code == 1:
        assert said.err.startswith("weft: ")
        assert said.err.count("\n") == 1
    with SQLiteView(bank.file) as view:
        assert {record.id: record.head for record in view.list()} == before


def test_a_failure_to_retry_that_is_not_there_is_said_in_words_of_the_command_line(bank: Any) -> None:
    said = bank.command("retry", "bad", "total", "--import", "bank")

    assert said.code == 1
    assert said.err.endswith("weft: there is no failure of 'total' to retry; weft show lists what has failed\n")


def test_an_input_is_left_for_a_run_that_is_open(bank: Any) -> None:
    (bank.folder / "more.json").write_text("[10, 20]", encoding="utf-8")

    said = bank.command("send", "open", "@more.json", "--key", "k", "--json")
    again = bank.command("send", "open", "@more.json", "--key", "k")

    assert json.loads(said.out) == {"id": "open", "stored": True, "owner": None}
    assert again.code == 0
    bank.command("resume", "open", "--import", "bank")
    inputs = [event.value for event in log(bank, "open") if isinstance(event, ev.InputReceived)]
    assert inputs == [[7], [10, 20]]


def test_a_request_to_cancel_is_left_with_its_reason(bank: Any) -> None:
    said = bank.command("cancel", "asks", "--reason", "too late", "--by", "ada")

    assert (said.code, said.out) == (0, "asks: the request to cancel is stored\n")
    bank.command("resume", "asks", "--import", "bank")
    [cancelled] = [event for event in log(bank, "asks") if isinstance(event, ev.RunCancelled)]
    assert (cancelled.reason, cancelled.by) == ("too late", "ada")


@pytest.mark.parametrize(("option", "undoes"), [([], True), (["--undo"], True), (["--no-undo"], False)])
def test_a_request_to_cancel_says_whether_the_run_is_undone(bank: Any, option: list[str], undoes: bool) -> None:
    bank.command("cancel", "asks", *option)

    with Runner(bank.file) as runner:
        (message,) = runner.unread("asks")
    assert isinstance(message, ev.RunCancelled)
    assert message.undo is undoes


def test_a_failed_run_is_retried_here_to_its_end(bank: Any) -> None:
    said = bank.command("retry", "bad", "--import", "bank")

    assert said.code == 0
    assert said.out.startswith("bad: has completed, ")
    assert "charge = {'charged': 3}" in said.out


def test_a_retry_that_fails_again_ends_with_one_and_cannot_control_the_terminal(bank: Any) -> None:
    (bank.folder / "broken").touch()

    said = bank.command("retry", "bad", "charge", "--import", "bank")

    assert said.code == 1
    assert "'charge' failed: ConnectionError: no answer \\x1b[2J" in said.out
    assert "\x1b" not in said.out + said.err
    assert "Traceback" not in said.err


def test_a_fork_runs_only_what_depends_on_the_edit(bank: Any) -> None:
    preview = bank.command("fork", "good", "--at", "total", "--value", "9", "--preview")
    as_data = bank.command("fork", "good", "--at", "total", "--value", "9", "--preview", "--json")
    said = bank.command("fork", "good", "--at", "total", "--value", "9", "--id", "other", "--import", "bank")

    assert (preview.code, preview.out) == (0, "runs: charge\nstands: total\n")
    assert json.loads(as_data.out)["runs"] == {"charge": 1}
    assert said.code == 0
    assert said.out.startswith("other: has completed, ")
    assert "charge = {'charged': 9}" in said.out


def test_two_runs_are_compared_and_a_difference_ends_with_one(bank: Any) -> None:
    bank.command("fork", "good", "--at", "total", "--value", "9", "--id", "other", "--import", "bank")

    same, different = bank.command("diff", "good", "good"), bank.command("diff", "good", "other")
    as_data = json.loads(bank.command("diff", "good", "other", "--json").out)

    assert (same.code, same.out) == (0, "no difference in 3 outcomes\n")
    assert different.code == 1
    assert "first: total of input 1: 3 and 9" in different.out
    assert as_data["differences"][0]["component"] == "total"


def test_a_run_is_moved_to_another_version_of_its_workflow(bank: Any) -> None:
    preview = bank.command("upgrade", "bad", "bank:longer", "--preview")
    said = bank.command("upgrade", "open", "bank:longer")

    assert preview.code == 0
    assert "new: receipt" in preview.out
    assert said.code == 0
    upgraded = [event for event in log(bank, "open") if isinstance(event, ev.RunUpgraded)]
    assert [list(event.workflow.components) for event in upgraded] == [["total", "charge", "receipt"]]


def test_a_run_goes_from_one_store_to_another_in_a_file(bank: Any) -> None:
    said = bank.command("export", "good", "good.weft")
    there = bank.command("import", "good.weft", "--store", "other.db")
    twice = bank.command("import", "good.weft", "--store", "other.db")
    parked = bank.command("export", "asks", "asks.weft"), bank.command("import", "asks.weft", "--id", "copy")

    assert said.out == "good: 4 events are in good.weft\n"
    assert there.out == "good: 5 events are in other.db, completed\n"
    assert (twice.code, twice.err) == (1, "weft: there is a run 'good' already; choose another id with --id\n")
    assert "parked" in parked[1].out
    assert "charge" in bank.command("explain", "good", "--store", "other.db").out


def test_redacted_values_are_not_in_the_file(bank: Any) -> None:
    bank.command("export", "good", "good.weft", "--redact", "ALL")
    bank.command("import", "good.weft", "--store", "other.db")

    shown = bank.command("show", "good", "--store", "other.db")
    assert "{'charged': 3}" not in shown.out
    assert "{'charged': 3}" in bank.command("show", "good").out


def test_a_value_is_explained(bank: Any) -> None:
    said, one = bank.command("explain", "good"), bank.command("explain", "good", "total", "--json")

    assert said.out == "charge = {'charged': 3}\n└─ total = 3\n   └─ input 1 = [1, 2]\n"
    assert [fact["value"] for fact in json.loads(one.out)[0]["facts"]] == [[1, 2], 3]


def test_a_failure_is_explained_by_its_traceback(bank: Any) -> None:
    said, data = bank.command("explain", "bad", "charge"), bank.command("explain", "bad", "charge", "--json")

    assert (said.code, data.code) == (1, 1)
    assert said.out.startswith("charge  ConnectionError: no answer \\x1b[2J (event ")
    assert "    Traceback (most recent call last):" in said.out
    assert 'raise ConnectionError("no answer' in said.out
    assert said.err.startswith("weft: 'charge' has produced nothing: it failed")
    (found,) = json.loads(data.out)
    assert (found["failure"]["component"], found["failure"]["error"]["type"]) == ("charge", "ConnectionError")


def test_a_failed_run_without_results_is_not_said_to_have_none_yet(bank: Any) -> None:
    said = bank.command("explain", "bad")

    assert (said.code, said.out) == (0, "")
    assert "bad failed and has no results; name a component: weft show bad lists them" in said.err


def test_a_workflow_and_a_run_are_drawn(bank: Any) -> None:
    workflow, run = bank.command("graph", "bank:pay"), bank.command("graph", "good")
    written = bank.command("graph", "good", "--format", "svg", "--output", "good.svg")
    dot, data = bank.command("graph", "bank.py:pay", "-f", "dot"), bank.command("graph", "good", "--json")

    assert workflow.out.startswith("flowchart TD")
    assert "✓" in run.out
    assert "✓" not in workflow.out
    assert (written.code, written.out) == (0, "")
    assert (bank.folder / "good.svg").read_text(encoding="utf-8").startswith("<svg")
    assert dot.out.startswith('digraph "pay"')
    assert {node["data"]["id"] for node in json.loads(data.out)["nodes"]} >= {"total", "charge"}


def test_versions_of_a_workflow_that_is_not_there_are_an_error(bank: Any) -> None:
    for options in ([], ["--json"]):
        said = bank.command("versions", "nope", *options)

        assert (said.code, said.out) == (1, "")
        assert said.err == "weft: no run of 'nope' is stored here; weft versions lists those that have runs\n"


def test_versions_are_counted_with_their_open_runs(bank: Any) -> None:
    listed = json.loads(bank.command("versions", "--json").out)
    table = bank.command("versions", "pay")

    assert [(line["workflow"], line["open"], sum(line["runs"].values())) for line in listed] == [
        ("asked", 1, 1),
        ("pay", 1, 3),
        ("signed", 1, 1),
    ]
    assert len(table.out.splitlines()) == 2


def test_a_file_that_is_not_there_is_not_created(weft: Callable[..., Any], tmp_path: Path) -> None:
    for command in (["send", "r", "1"], ["signal", "r", "s"], ["cancel", "r"], ["retry", "r"], ["fork", "r"]):
        said = weft(*command, "--store", tmp_path / "runs.db")

        assert (said.code, said.out) == (1, "")
        assert "there is no file" in said.err
    assert not (tmp_path / "runs.db").exists()
