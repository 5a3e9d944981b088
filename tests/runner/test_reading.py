"""Reading runs, which takes no ownership: of any process, finished, or deleted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from failing_flows import Calls, Switch, halting, positive, switched, two_leaves
from small_flows import chain

from weft import Runner, Workflow, step
from weft.errors import (
    NothingProduced,
    RunClosed,
    RunFailed,
    RunNotFound,
)
from weft.log import register
from weft.log.outcome import LARGEST
from weft.ports.store import LogStore, RunRecord
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.wrapping import WrappedStore

# -- reading -------------------------------------------------------------------------------------


def test_what_has_finished_is_read_from_its_record_and_needs_no_log(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="good").wait(20)
        runner.start(two_leaves, 0, id="bad").wait(20)
        runner.start(positive, 0, id="none").wait(20)
    calls = Calls(store)

    with Runner(calls) as runner:
        calls.seen.clear()
        assert (runner.result("good", 20), runner.results("good"), runner.status("good")) == (
            11,
            {"increment": 11},
            "completed",
        )
        with pytest.raises(RunFailed, match="'inverse' failed: ZeroDivisionError: division by zero") as failed:
            runner.result("bad", 20)
        with pytest.raises(NothingProduced, match="the condition 'is_positive' did not hold"):
            runner.result("none", 20)
        assert runner.gather(["good"]) == [11]

        assert set(calls.seen) == {"find"}
    assert failed.value.results == {"successor": 1}
    assert failed.value.failures["inverse"].attempts == 1


@dataclass(frozen=True)
class Point:
    """A class of an application."""

    x: int


@pytest.mark.parametrize("what", ["large", "class"])
def test_an_outcome_that_cannot_stand_in_the_record_is_read_from_the_log(store: LogStore, what: str) -> None:
    register(Point)
    made: Any = "x" * (LARGEST + 1) if what == "large" else Point(3)
    flow = Workflow("w", step(lambda _: made, name="make"))
    with Runner(store) as runner:
        runner.start(flow, 1, id="a").wait(20)
        outcome = runner.find("a").outcome
    assert bool(outcome) is (what == "class")

    with Runner(store) as runner:
        runner.register(flow)
        assert (runner.result("a", 20), runner.results("a"), runner.held) == (made, {"make": made}, [])


def test_reading_a_run_in_another_process_owns_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        runner.start(chain, 5, id="done").wait(20)
        runner.start(chain, 6, id="open", open=True).wait(20)
        epochs = [runner.find(run).epoch for run in ("done", "open")]
        other.register(chain)

        for run, output, status in (("done", 11, "completed"), ("open", 13, "idle")):
            assert (other.result(run, 20), other.results(run)) == (output, {"increment": output})
            assert (other.wait(run, 20).status, other.get(run).status, other.status(run)) == (status,) * 3
            assert other.log(run) == runner.log(run)
            assert other.wait_until(run, lambda seen: bool(seen.values("increment")), 20).value("increment") == output

        assert other.resume("done").result(20) == 11
        assert other.held == []
        assert [runner.find(run).epoch for run in ("done", "open")] == epochs
        assert (runner.find("done").owner, runner.find("open").owner is None) == (None, False)
        assert runner.send("open", 7).result(20) == 15


def test_two_processes_that_start_the_same_run_both_get_its_result(tmp_path: Path) -> None:
    path, switch = tmp_path / "runs.db", threading.Event()
    flow = Workflow("slow", step(lambda x: switch.wait(20) and x * 2, name="fetch"))
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        handle = runner.start(flow, 5, id="a")

        again = other.start(flow, 5, id="a")

        assert (runner.held, other.held) == (["a"], [])
        switch.set()
        assert (handle.result(20), again.result(20)) == (10, 10)


def test_a_failed_run_that_another_process_has_retried_is_read_as_it_is_now(tmp_path: Path) -> None:
    path, switch = tmp_path / "runs.db", Switch()
    flow = switched(switch)
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        other.register(flow)
        handle = runner.start(flow, 5, id="a")
        assert handle.wait(20).status == "failed"
        switch.is_on.set()

        other.retry("a").wait(20)

        assert (handle.status(), handle.result(20), runner.result("a", 20)) == ("completed", 10, 10)


def test_a_predicate_that_does_not_hold_of_a_finished_run_never_will(runner: Runner) -> None:
    handle = runner.start(chain, 5)
    handle.wait(20)

    with pytest.raises(RunClosed, match="has completed"):
        runner.wait_until(handle, lambda _: False, 20)


@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
def test_a_finished_run_needs_no_time_to_be_waited_for(runner: Runner, value: int) -> None:
    handle = runner.start(halting, value, id="a")
    handle.wait(20)

    assert runner.wait("a", 0).status == handle.wait(0).status
    if value:
        assert (handle.result(0), runner.gather([handle, "a"], 0)) == (10.0, [10.0, 10.0])


# -- runs that were deleted ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["delete", "purge"])
def test_a_handle_that_is_kept_says_that_its_run_was_deleted(runner: Runner, how: str) -> None:
    handle, other = runner.start(chain, 1, id="a"), runner.start(chain, 2, id="b")
    assert (handle.result(20), other.result(20)) == (3, 5)
    later = time.time() + 10

    if how == "delete":
        runner.delete("a")
    else:
        runner.purge(before=later)

    asked: list[Callable[[], object]] = [handle.status, handle.result, handle.results, handle.log, handle.wait]
    for ask in (*asked, lambda: runner.status("a"), lambda: runner.get(handle), lambda: runner.gather([handle])):
        with pytest.raises(RunNotFound):
            ask()
    if how == "delete":
        assert (other.status(), other.result(20), runner.status("b")) == ("completed", 5, "completed")


def test_runs_that_are_kept_are_not_asked_for_again_and_again_after_another_one_was_deleted() -> None:
    class Counting(WrappedStore):
        finds = 0

        async def find(self, run: str) -> RunRecord:
            self.finds += 1
            return await super().find(run)

    store = Counting(MemoryStore())
    with Runner(store) as runner:
        kept, deleted = runner.start(chain, 1, id="a"), runner.start(chain, 2, id="b")
        assert (kept.result(20), deleted.result(20)) == (3, 5)
        assert store.finds == 0
        runner.delete("b")

        for _ in range(5):
            assert (kept.result(20), kept.status()) == (3, "completed")

        assert store.finds == 1


def test_a_failure_of_an_input_does_not_say_that_its_open_run_has_failed(runner: Runner) -> None:
    runner.start(halting, id="a")

    with pytest.raises(RunFailed, match=r"^run 'a': '\w+' failed: ZeroDivisionError"):
        runner.send("a", 0).result(20)
    assert runner.status("a") == "idle"
