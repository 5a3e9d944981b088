"""``weft show``: one run, and where it stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Policy, Runner, Workflow, condition, current, each, events, rule, sleep, step, wait_for
from weft.cli.show import tallies
from weft.stores import SQLiteStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def stored(file: Path, workflow: Workflow, *inputs: Any) -> None:
    """Store the run 'r', which has nothing left to do."""
    with Runner(SQLiteStore(file)) as runner:
        runner.start(workflow, id="r")
        for value in inputs:
            runner.send("r", value)
        runner.wait("r")


def cells(out: str) -> dict[str, list[str]]:
    """Return what is in each row, by its first word."""
    return {row.split()[0]: row.split()[1:] for row in out.splitlines() if row.strip()}


def test_a_run_is_shown_with_its_state_its_input_and_its_result(weft: Callable[..., Any], file: Path) -> None:
    stored(file, Workflow("double", step(lambda x: x * 2, name="double")), 21)

    said = weft("show", "--store", file, "r")

    shown = cells(said.out)
    assert said.code == 0
    assert (shown["run"], shown["workflow"][0], shown["status"]) == (["r"], "double,", ["idle"])
    assert said.out.index("inputs\n  1  21\n") < said.out.index("results\n  double  42\n")


def test_a_killed_run_is_shown_without_its_code(weft: Callable[..., Any], killed: Any) -> None:
    said = weft("show", "--store", killed.file, "greeting")

    shown = cells(said.out)
    assert said.code == 0
    assert shown["status"] == ["running,", "no", "owner"]
    assert shown["split"][:4] == ["step", "done", "×1", "1"]
    assert shown["shout"][:4] == ["step", "done", "×2", "2"]
    assert shown["send"] == ["step", "in", "flight", "×1", "1"]
    assert shown["code"][:2] == ["not", "imported"]
    assert killed.calls().count("send") == 1


def test_a_run_that_no_process_drives_says_so_first_with_the_command_that_goes_on(
    weft: Callable[..., Any], killed: Any
) -> None:
    said = weft("show", "--store", killed.file, "greeting")
    data = json.loads(weft("show", "--store", killed.file, "greeting", "--json").out)

    command = f"weft resume greeting --import shop --store {killed.file}"
    assert "\n… no process drives it, its process has died, last change " in said.out
    assert f"\n  to go on: {command}\n" in said.out
    assert (data["is_interrupted"], data["undriven"]["command"], data["undriven"]["has_died"]) == (True, command, True)


def test_a_run_that_a_process_drives_is_not_said_to_be_left(weft: Callable[..., Any], shop: Any, busy: Any) -> None:
    assert busy.poll() is None
    assert "no process drives it" not in weft("show", "--store", shop.file, "greeting").out
    assert json.loads(weft("show", "--store", shop.file, "greeting", "--json").out)["is_interrupted"] is False


def test_the_process_that_holds_a_run_is_named(weft: Callable[..., Any], shop: Any, busy: Any) -> None:
    assert f"held by process {busy.pid} on" in weft("show", "--store", shop.file, "greeting").out


def test_a_failure_is_shown_with_the_end_of_its_traceback(weft: Callable[..., Any], file: Path) -> None:
    def broken(x: int) -> int:
        raise ValueError("red \x1b[31m alert\nsecond line")

    workflow = Workflow("w", step(broken) >> step(abs, name="after")).add_policy("broken", Policy(max_retries=1))
    stored(file, workflow.add_policy("broken", Policy(max_retries=1, base_delay=0)), 1)

    said = weft("show", "--store", file, "r")

    assert "broken  ValueError: red \\x1b[31m alert (event 4, 2 attempts)" in said.out
    assert 'raise ValueError("red' in said.out
    assert cells(said.out)["after"][:3] == ["step", "not", "reached"]
    assert "\x1b" not in said.out


def test_dead_letters_are_listed(weft: Callable[..., Any], file: Path) -> None:
    def lost(x: int) -> int:
        raise LookupError("nobody lives here")

    stored(file, Workflow("w", step(lost)).add_policy("lost", Policy(on_failure="dead_letter")), 1)

    said = weft("show", "--store", file, "r")

    assert "\ndead letters\n  lost  LookupError: nobody lives here" in said.out


def test_a_failure_that_was_handled_is_a_line(weft: Callable[..., Any], file: Path) -> None:
    def lost(x: int) -> int:
        raise LookupError(f"{x} is nowhere")

    handled = step(lost).on_error(LookupError, then=step(lambda failure: failure.message, name="told"))
    stored(file, Workflow("w", handled), 1, 2)

    said, data = weft("show", "--store", file, "r"), weft("show", "--store", file, "r", "--json")

    first, second, how = said.out.partition("failures that were handled\n")[2].splitlines()
    assert first.startswith("  lost  LookupError: 1 is nowhere (event ")
    assert second.startswith("  lost  LookupError: 2 is nowhere (event ")
    assert how == "  with the traceback: weft explain r lost"
    assert [each["component"] for each in json.loads(data.out)["handled_failures"]] == ["lost", "lost"]
    assert json.loads(data.out)["failures"] == []


def test_of_many_inputs_the_last_are_shown(weft: Callable[..., Any], file: Path) -> None:
    stored(file, Workflow("w", step(abs)), *range(100, 125))

    said = weft("show", "--store", file, "r")

    assert "  25  124\n" in said.out
    assert "  5   104\n" not in said.out
    assert "and 5 earlier ones" in said.out


def test_an_unknown_run_is_one_line(weft: Callable[..., Any], file: Path) -> None:
    stored(file, Workflow("w", step(abs)), 1)

    said = weft("show", "--store", file, "no\nbody")

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("weft: no run 'no\\nbody' is stored here; weft ls shows those that are")
    assert said.err.count("\n") == 1


def test_an_instance_of_a_class_that_is_not_here_is_shown_by_its_fields(weft: Callable[..., Any], shop: Any) -> None:
    (shop.folder / "classy.py").write_text(
        "import dataclasses\n"
        "from weft import Runner, Workflow, step\n"
        "from weft.stores import SQLiteStore\n"
        "@dataclasses.dataclass\n"
        "class Order:\n"
        "    total: int\n"
        "@step\n"
        "def order(total: int) -> Order:\n"
        "    return Order(total)\n"
        "if __name__ == '__main__':\n"
        "    with Runner(SQLiteStore('runs.db')) as runner:\n"
        "        runner.start(Workflow('classy', order), 5, id='r').wait()\n",
        encoding="utf-8",
    )
    shop.python("classy.py")

    said = weft("show", "--store", shop.file, "r")

    assert "  order  classy.Order(total=5)\n" in said.out


# -- tallies -------------------------------------------------------------------------------------


def test_what_is_pending_is_counted_by_what_it_waits_for() -> None:
    run = Workflow("w", step(lambda text: [*text], name="split") >> each(step(str.upper, name="up"))).plan("abc")
    while len(run.prepare()) < 3:
        run.react()

    first, second, _ = run.prepare()
    run.apply(first.execute()).record_dispatch(second)

    assert tallies(run)["up"].told == "done ×1, in flight ×1, ready ×1"
    assert tallies(run)["up"].attempts == 2


def test_what_waits_is_counted_by_what_it_waits_for() -> None:
    run = Workflow("w", each(sleep(5, name="nap") >> wait_for("paid"))).plan("ab")
    run.record([events.FannedOut(3, "map_1", (2,), ["a", "b"])]).fire_timers(100.0)
    run.record([events.TimerFired(6, "nap", ((3, 0),), "a", 105.0)])

    assert tallies(run)["nap"].told == "done ×1, sleeping ×1"
    assert tallies(run)["paid"].told == "waiting for 'paid' ×1"
    assert tallies(run)["nap"].attempts == 0


def test_what_a_condition_said_is_counted() -> None:
    is_large = condition(lambda x: x > 10, name="is_large")
    run = Workflow("w", rule(when=is_large, then=lambda x: x, name="large")).plan()

    run.run(5).run(20).run(30)

    assert tallies(run)["is_large"].told == "did not hold ×1, held ×2"
    assert tallies(run)["large"].told == "done ×2"


def test_the_children_of_a_run_are_listed_with_where_they_stand(weft: Callable[..., Any], file: Path) -> None:
    child = Workflow("child", step(lambda x: x + 1, name="more"))
    ask = step(lambda x: current().start_child(child, x, id="the-child").result(), name="ask")
    stored(file, Workflow("parent", ask), 1)

    shown = cells(weft("show", "--store", file, "r").out)

    assert shown["the-child"] == ["completed,", "started", "by", "ask"]


# -- json ----------------------------------------------------------------------------------------


def test_json_has_all_of_it_with_whole_values(weft: Callable[..., Any], file: Path) -> None:
    def broken(x: int) -> int:
        raise ValueError("not today")

    workflow = Workflow("w", step(lambda x: "tea" * 100, name="tea"), step(broken))
    stored(file, workflow, 1, 2)

    said = weft("show", "--store", file, "r", "--json")

    shown = json.loads(said.out)
    assert (said.code, shown["id"], shown["workflow"], shown["status"]) == (0, "r", "w", "idle")
    assert [each["value"] for each in shown["inputs"]] == [1, 2]
    assert shown["results"] == {"tea": "tea" * 100}
    assert [(each["name"], each["kind"], each["states"]) for each in shown["components"]] == [
        ("tea", "step", {"done": 2}),
        ("broken", "step", {"failed": 2}),
    ]
    _, failure = shown["failures"]
    assert (failure["component"], failure["error"]["type"], failure["error"]["message"]) == (
        "broken",
        "ValueError",
        "not today",
    )
    assert shown["dead_letters"] == []


def test_json_of_a_run_without_its_code_names_what_is_missing(weft: Callable[..., Any], killed: Any) -> None:
    shown = json.loads(weft("show", "--store", killed.file, "greeting", "--json").out)

    assert "send" in shown["unresolved"]
    assert shown["owner"] is None
    assert shown["results"] == {}
