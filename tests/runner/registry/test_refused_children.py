"""Tests of places where children cannot be started, and of the error."""

from __future__ import annotations

import sys
import threading
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from virtual_time import double

from weft import Runner, Workflow, current, step
from weft.errors import InvalidOption, NoRun, NoRunner, RunClosed, RunFailed, RunnerClosed, RunNotFound
from weft.ports.store import LogStore


def test_without_a_runner_there_are_no_children() -> None:
    parent = Workflow("parent", step(lambda x: current().start_child(double, x), name="delegate"))

    assert isinstance(parent.run(1).failures["delegate"].__cause__, NoRunner)


def test_another_process_starts_no_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weft_parents.py").write_text(PARENTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # a worker would import pytest
    delegate = import_module("weft_parents").delegate

    with Runner(executor="process", processes=1) as runner, pytest.raises(RunFailed, match="without a runner"):
        runner.start(Workflow("parent", step(delegate)), 1).result()


PARENTS = """
from weft import Workflow, current, step

double = Workflow("double", step(lambda x: x * 2, name="double"))


def delegate(x):
    return current().start_child(double, x).result()
"""


def _delegate(x: int) -> Any:
    return current().start_child(double, x).result()


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_start_child_in_the_event_loop_is_refused(executor: str) -> None:
    async def in_a_coroutine(x: int) -> Any:
        return current().start_child(double, x)

    parent = Workflow("parent", step(_delegate if executor == "inline" else in_a_coroutine))

    with Runner(executor=executor) as runner, pytest.raises(RunFailed, match="astart_child") as caught:
        runner.start(parent, 1).result()

    assert [type(failure.__cause__) for failure in caught.value.failures.values()] == [InvalidOption]


def test_a_run_is_not_its_own_child() -> None:
    parent = Workflow("parent", step(lambda x: current().start_child(double, x, id="p"), name="delegate"))

    with Runner() as runner, pytest.raises(RunFailed, match="its own child"):
        runner.start(parent, 1, id="p").result()


def test_an_attempt_that_is_over_starts_no_children() -> None:
    begun, opened, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def late(x: int) -> None:
        here = current()
        begun.set()
        opened.wait(10)
        try:
            here.start_child(double, x, id="c")
        except NoRun as error:
            raised.append(error)
        ended.set()

    with Runner() as runner:
        runner.start(Workflow("late", step(late)), 1, id="p")
        begun.wait(10)
        runner.cancel("p")
        opened.set()
        ended.wait(10)
        with pytest.raises(RunNotFound):
            runner.result("c")

    assert "is over" in str(raised[0])


def test_the_result_of_a_cancelled_run_says_so() -> None:
    with Runner() as runner:
        runner.start(double, id="a")
        runner.cancel("a", "not wanted")
        with pytest.raises(RunClosed, match="not wanted"):
            runner.result("a")


@pytest.mark.parametrize(
    "options", [{"id": 5}, {"id": "\ud800"}, {"cancel_with_parent": "yes"}, {"executor": "nowhere"}], ids=str
)
def test_a_child_that_cannot_be_is_refused_before_the_log_names_it(store: LogStore, options: dict[str, Any]) -> None:
    def delegate(x: int) -> str:
        with pytest.raises(InvalidOption):
            current().start_child(double, x, **options)
        return "refused"

    parent = Workflow("parent", step(delegate))
    with Runner(store) as runner:
        run = runner.start(parent, 1, id="p").wait()

        assert (run.output, run.children) == ("refused", {})


def test_a_handle_that_outlives_its_runner_says_that_it_is_closed() -> None:
    kept: list[Any] = []

    def keep(x: int) -> int:
        kept.append(current().start_child(double, x))
        return int(kept[0].result())

    with Runner() as runner:
        runner.start(Workflow("keep", step(keep)), 1).result()

    with pytest.raises(RunnerClosed):
        kept[0].result()
