"""``weft resume``: going on with runs that were interrupted."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Policy, Runner, Workflow, step
from weft.cli import resume
from weft.cli.screen import Screen
from weft.errors import RunParked
from weft.stores import SQLiteStore, SQLiteView
from weft.testing.contracts.cases import first, write


def head(file: Path, run: str = "greeting") -> int:
    """Return how many events a run has."""
    with SQLiteView(file) as view:
        return view.load(run).record.head


def test_a_killed_run_goes_on_where_it_stopped(killed: Any) -> None:
    killed.open()

    said = killed.command("resume", "--store", "runs.db", "greeting", "--import", "shop")

    assert (said.code, said.err) == (0, "greeting: resumed\n")
    assert said.out == "greeting: has completed, 11 events\n  send = 'sent HELLO WORLD'\n"
    assert sorted(killed.calls()) == ["send", "send", "shout hello", "shout world"]


def test_all_that_is_left_can_be_resumed_at_once(killed: Any) -> None:
    killed.open()

    said = killed.command("resume", "--store", "runs.db", "--all", "--import", "shop")
    again = killed.command("resume", "--store", "runs.db", "--all", "--import", "shop")

    assert said.code == 0
    assert "send = 'sent HELLO WORLD'" in said.out
    assert (again.code, again.out, again.err) == (0, "", "nothing to resume\n")


def test_what_failed_on_the_way_is_told_and_ends_with_one(killed: Any) -> None:
    killed.open()
    (killed.folder / "broken").touch()

    said = killed.command("resume", "--store", "runs.db", "greeting", "--import", "shop")

    assert said.code == 1
    assert said.out.startswith("greeting: has failed, ")
    assert "'send' failed after 2 attempts: ConnectionError: nobody is there" in said.out
    assert "greeting: send failed: ConnectionError: nobody is there" in said.err


def test_a_run_whose_code_was_not_imported_is_left_as_it_is(weft: Callable[..., Any], killed: Any) -> None:
    killed.open()
    before = head(killed.file)

    said = weft("resume", "--store", killed.file, "greeting")

    assert (said.code, said.out) == (1, "")
    assert "send (shop.send)" in said.err
    assert "--import" in said.err
    assert head(killed.file) == before


def test_as_json_each_run_is_one_object_whether_it_went_on_or_had_ended(killed: Any) -> None:
    killed.open()

    went_on = killed.command("resume", "--store", "runs.db", "greeting", "--import", "shop", "--json")
    had_ended = killed.command("resume", "--store", "runs.db", "greeting", "--json")

    assert (went_on.code, had_ended.code) == (0, 0)
    assert json.loads(went_on.out) == json.loads(had_ended.out)
    assert json.loads(went_on.out).keys() == {"run", "status", "events", "results", "failures"}
    assert json.loads(went_on.out)["status"] == "completed"


def test_an_import_that_cannot_help_a_local_function_is_not_asked_for_again(shop: Any) -> None:
    (shop.folder / "local.py").write_text(
        "from weft import Runner, Workflow, step\n"
        "from weft.stores import SQLiteStore\n"
        "def main():\n"
        "    with Runner(SQLiteStore('runs.db')) as runner:\n"
        "        runner.start(Workflow('w', step(lambda x: x, name='same')), 1, id='lam', open=True).wait()\n"
        "if __name__ == '__main__':\n"
        "    main()\n"
    )
    shop.python("local.py")

    first, again = (
        shop.command("resume", "--store", "runs.db", "lam"),
        shop.command("resume", "--store", "runs.db", "lam", "--import", "local"),
    )

    assert (first.code, again.code) == (1, 1)
    assert "pass --import" in first.err
    assert "pass --import" not in again.err
    assert "put the workflow at the top level of a module, or resume from Python" in again.err


@pytest.mark.parametrize("which", [["greeting"], ["--all"]])
def test_what_a_living_process_holds_is_left_to_it(
    weft: Callable[..., Any], shop: Any, busy: subprocess.Popen[str], which: list[str]
) -> None:
    said = weft("resume", "--store", shop.file, *which)

    assert said.out == ""
    assert head(shop.file) == 8
    assert busy.poll() is None
    if which == ["--all"]:
        assert said.code == 0
        assert "1 run with living owners" in said.err
    else:
        assert said.code == 1
        assert f"held by process {busy.pid} on" in said.err


def test_lambdas_come_with_the_workflow_at_the_top_of_the_module_and_context_with_a_name(shop: Any) -> None:
    died = shop.python("-c", NEEDY, check=False)

    without = shop.command("resume", "--store", "runs.db", "needy", "--import", "shop")
    said = shop.command("resume", "--store", "runs.db", "needy", "--import", "shop", "--context", "shop:needs")

    assert died.returncode == 9
    assert died.stderr.startswith("another process could not find the function of 'needy', the hooks of workflow")
    assert without.code == 1
    assert "required context is missing: 'secret'" in without.err
    assert (said.code, said.out) == (0, "needy: has completed, 4 events\n  needy = 'hush!'\n")  # one is of the death


NEEDY = """
import os
import shop
from weft import Runner
from weft.runner import WorkerHooks
from weft.stores import SQLiteStore

def die(_):
    os._exit(9)

with Runner(SQLiteStore("runs.db"), context=shop.needs) as runner:
    runner.start(shop.needy, "hush", id="needy", hooks=WorkerHooks(on_dispatch=die)).wait()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_lets_what_is_in_flight_end_and_gives_the_run_up(
    killed: Any, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "weft", "resume", "--store", "runs.db", "greeting", "--import", "shop"],
        cwd=killed.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "sending\n"

    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert process.returncode == code
    assert "stopped; what was done is kept" in err
    assert "Traceback" not in out + err
    assert head(killed.file) == 11  # one says that the first owner died
    with SQLiteView(killed.file) as view:
        assert view.owners() == {}


def test_code_that_has_changed_is_said_so(killed: Any) -> None:
    killed.open()
    source = killed.folder / "shop.py"
    source.write_text(source.read_text(encoding="utf-8").replace('f"sent {text}"', 'f"SENT {text}"'), encoding="utf-8")

    said = killed.command("resume", "--store", "runs.db", "greeting", "--import", "shop")

    assert said.code == 0
    assert "send = 'SENT HELLO WORLD'" in said.out
    assert "the code of send has changed" in said.err


def test_a_cancelled_run_is_not_resumed(weft: Callable[..., Any], tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(Workflow("w", step(abs)), 1, id="r", open=True).wait()
        runner.cancel("r", "changed my mind")

    said = weft("resume", "--store", tmp_path / "runs.db", "r")

    assert said.code == 1
    assert "was cancelled (changed my mind)" in said.err


def test_parked_runs_are_resumed_with_all_others_if_that_is_asked_for(
    weft: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runs.db"
    with Runner(SQLiteStore(file)) as runner, monkeypatch.context() as broken:
        broken.setattr("weft.runner.execution.worker.Worker.turn", _crash)
        with pytest.raises(RunParked):
            runner.start(Workflow("w", step(abs)), -1, id="r").wait()

    without = weft("resume", "--store", file, "--all")
    said = weft("resume", "--store", file, "--all", "--parked")
    alone = weft("resume", "--store", file, "r", "--parked")

    assert (without.code, without.err) == (0, "nothing to resume\n")
    assert (said.code, said.out) == (0, "r: has completed, 3 events\n  abs = 1\n")
    assert (alone.code, "use it with --all" in alone.err) == (2, True)


def _crash(_: object) -> None:
    raise ZeroDivisionError("a bug in a worker")


def test_runs_that_can_go_on_do_although_others_cannot(weft: Callable[..., Any], tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(Workflow("w", step(abs)), -1, id="r", open=True).wait()

    said = weft("resume", "--store", tmp_path / "runs.db", "nobody", "r")

    assert said.code == 1
    assert "no run 'nobody' is stored here; weft ls" in said.err
    assert said.out == "r: has nothing left to do, 3 events\n  abs = 1\n"


@pytest.mark.parametrize(("value", "code", "outcome"), [(-1, 0, "has completed"), ("text", 1, "has failed")])
def test_what_came_of_a_run_that_has_finished_is_told_without_its_code(
    weft: Callable[..., Any], tmp_path: Path, value: object, code: int, outcome: str
) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(Workflow("w", step(lambda x: -x, name="minus")), value, id="r").wait()

    said = weft("resume", "--store", tmp_path / "runs.db", "r")

    assert (said.code, said.out.splitlines()[0], said.err) == (code, f"r: {outcome}, 3 events", "")


def test_dead_letters_are_counted(weft: Callable[..., Any], tmp_path: Path) -> None:
    workflow = Workflow("w", step(abs)).add_policy("abs", Policy(on_failure="dead_letter"))
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(workflow, "no number", id="r").wait()

    said = weft("resume", "--store", tmp_path / "runs.db", "r")

    assert said.code == 1
    assert "1 dead letter: weft show lists them" in said.out


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ([], 2, "name the runs, or say --all"),
        (["r", "--all"], 2, "name the runs, or say --all, not both"),
        (["r", "--import", "no.such.module"], 1, "cannot import 'no.such.module'"),
        (["r", "--context", "json"], 1, "MODULE:NAME"),
        (["r", "--context", "json:nothing"], 1, "that is NoneType"),
        (["r", "--context", "no.such:thing"], 1, "cannot import 'no.such'"),
        (["r", "--context", "json:loads"], 1, "it raised TypeError"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    weft: Callable[..., Any], tmp_path: Path, options: list[str], code: int, reason: str
) -> None:
    said = weft("resume", "--store", tmp_path / "runs.db", *options)

    assert said.code == code
    assert reason in " ".join(said.err.split())
    assert not (tmp_path / "runs.db").exists()


MANY = """
import os, signal, threading
from pathlib import Path

from weft import Runner, Workflow, step
from weft.stores import SQLiteStore


@step
def late(x: int) -> int:
    if not Path("go").exists():
        threading.Event().wait()
    return x


many = Workflow("many", late)

if __name__ == "__main__":
    runner = Runner(SQLiteStore("runs.db")).open()
    for n in range(20):
        runner.start(many, n, id=f"r{n}")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_runs_go_on_though_nothing_reads_what_came_of_them(shop: Any) -> None:
    (shop.folder / "many.py").write_text(MANY, encoding="utf-8")
    shop.python("many.py", check=False)
    shop.open()

    with subprocess.Popen(
        [sys.executable, "-m", "weft", "resume", "--store", "runs.db", "--all", "--import", "many"],
        cwd=shop.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        complaints = command.stderr.read()

    with SQLiteView(shop.file) as view:
        assert {record.status for record in view.list()} == {"completed"}
    assert complaints.count("\n") == complaints.count(": resumed\n") == 20
    assert command.returncode == 0


def test_the_oldest_runs_are_resumed_first(tmp_path: Path) -> None:
    async def filled() -> None:
        async with SQLiteStore(tmp_path / "runs.db") as store:
            await write(store, *(first(f"r{i}", at=float(i), release=True) for i in range(3)))

    asyncio.run(filled())

    with SQLiteView(tmp_path / "runs.db") as view:
        assert resume._due(view, Screen(), parked=False) == (["r0", "r1", "r2"], 0)
