"""Waiting for runs, stopping and resuming them, and what a crash would find."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from small_flows import Gate, chain, increment

from weft import Policy, Run, Runner, Workflow, step
from weft.core.events import Notified
from weft.errors import (
    NothingProduced,
    RunClosed,
    RunnerClosed,
    RunOwned,
    WaitTimeout,
)
from weft.ports.store import LogStore
from weft.runner import every_n
from weft.stores import MemoryStore, SQLiteStore

# -- waiting -------------------------------------------------------------------------------------


def test_a_wait_ends_when_its_time_is_up(runner: Runner) -> None:
    gate = Gate()
    runner.start(Workflow("w", step(gate, name="slow")), 1, id="a")
    assert gate.begun.wait(20)

    with pytest.raises(WaitTimeout, match="still running"):
        runner.wait("a", timeout=0.01)

    gate.opened.set()
    assert runner.wait("a", timeout=20).value("slow") == 1


def test_what_wait_gives_does_not_change_any_more(runner: Runner) -> None:
    runner.start(chain, 5, id="a")
    before = runner.wait("a")

    runner.run("a", 6)
    runner.wait("a")

    assert before.values("increment") == [11]
    with pytest.raises(NothingProduced):
        runner.start(chain, id="empty").wait().value("increment")


def test_on_complete_is_called_once_for_every_busy_period_before_wait_returns(store: LogStore) -> None:
    """CONFORMANCE 90."""
    told: list[Any] = []

    def note(id: str, run: Run, *more: object) -> None:
        told.append((id, run.values("increment"), *more))

    with Runner(store) as runner:
        runner.start_workflow("a", chain, on_complete=note, on_complete_args=("x",))
        runner.run("a", 5)
        runner.wait("a")
        assert told == [("a", [11], "x")]
        runner.run("a", 6)
        runner.wait("a")
        events = runner.log("a")

    assert told == [("a", [11], "x"), ("a", [11, 13], "x")]
    assert sum(isinstance(event, Notified) for event in events) == 2


def test_a_callback_that_fails_changes_nothing(store: LogStore) -> None:
    def fails(id: str, run: Run) -> None:
        raise RuntimeError("no")

    with Runner(store) as runner:
        assert runner.start(chain, 5, on_complete=fails).wait(20).value("increment") == 11


async def _note_async(told: list[str], id: str) -> None:
    await asyncio.sleep(0)
    told.append(id)


def test_a_callback_may_be_a_coroutine_function(store: LogStore) -> None:
    told: list[str] = []

    async def note(id: str, run: Run) -> None:
        await _note_async(told, id)

    with Runner(store) as runner:
        runner.start(chain, 5, id="a", on_complete=note).wait(20)

    assert told == ["a"]


def test_a_callback_can_be_named_by_its_place(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="by-name", on_complete=f"{__name__}:_remember").wait(20)

    assert "by-name" in _REMEMBERED


_REMEMBERED: list[str] = []


def _remember(id: str, run: Run) -> None:
    _REMEMBERED.append(id)


# -- stopping, resuming --------------------------------------------------------------------------


def test_a_stopped_run_is_resumed_where_it_was(store: LogStore) -> None:
    """CONFORMANCE 88."""
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait()
        runner.stop("a")
        assert runner.lookup("a") is None

        runner.resume("a", workflow=chain)
        assert runner.get_results("a") == {"increment": 11}
        runner.run("a", 6)
        assert runner.wait("a").values("increment") == [11, 13]


def test_a_run_that_is_stopped_without_persisting_leaves_nothing_behind(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start_workflow("a", chain, checkpoint="manual")
        runner.run("a", 5)
        runner.wait("a")
        runner.stop("a", persist=False)

        runner.resume("a", workflow=chain)
        assert runner.wait("a").values("increment") == []


def test_stopping_waits_for_what_is_under_way_and_burns_no_attempt(store: LogStore) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> increment).with_policies(
        [("slow", Policy(execution_mode="durable"))]
    )
    with Runner(store) as runner:
        runner.start(workflow, 1, id="a")
        assert gate.begun.wait(20)
        runner.stop("a", grace=0.0)
        gate.opened.set()

        runner.resume("a", workflow=workflow)
        run = runner.wait("a", timeout=20)

    assert run.value("increment") == 2
    assert gate.calls == [1, 1]
    assert not run.failed


def test_what_another_runner_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as first, Runner(SQLiteStore(path)) as second:
        first.start(chain, 5, id="a").wait()

        with pytest.raises(RunOwned):
            second.resume("a")
        first.stop("a")
        second.resume("a", workflow=chain)
        assert second.get_results("a") == {"increment": 11}


def test_resume_all_brings_back_what_has_something_to_do(store: LogStore) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> increment)
    with Runner(store) as runner:
        runner.start(chain, 5, id="done").wait()
        runner.start(workflow, 1, id="busy")
        assert gate.begun.wait(20)
        runner.close(grace=0.0)
    gate.opened.set()

    with Runner(store) as runner:
        runner.register(workflow)
        handles = runner.resume_all()

        assert [handle.id for handle in handles] == ["busy"]
        assert handles[0].result(20) == 2


def test_a_closed_runner_says_so(store: LogStore) -> None:
    runner = Runner(store)

    with pytest.raises(RunnerClosed, match="with Runner"):
        runner.start(chain, 5)
    with runner:
        runner.start(chain, 5).wait()
    with pytest.raises(RunnerClosed):
        runner.list_workflows()


def test_a_run_that_is_cancelled_takes_nothing_more(store: LogStore) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> increment)
    with Runner(store) as runner:
        handle = runner.start(workflow, 1, id="a")
        assert gate.begun.wait(20)

        handle.cancel("not wanted")
        gate.opened.set()

        assert handle.wait(20).values("increment") == []
        assert handle.status() == "cancelled"
        with pytest.raises(RunClosed, match="not wanted"):
            handle.send(2)
        runner.stop("a")
        runner.resume("a", workflow=workflow)
        with pytest.raises(RunClosed):
            runner.run("a", 2)
        assert [record.status for record in runner.records()] == ["cancelled"]
        assert (runner.count(), runner.count(statuses=["cancelled"]), runner.count(statuses=["idle"])) == (1, 1, 0)


# -- what a crash would find ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checkpoint", "stored"),
    [("every_cycle", 3), (every_n(2), 2), ("on_complete", None), ("manual", None), ("pipelined", 3)],
)
def test_what_the_store_holds_while_the_last_of_four_runs(checkpoint: Any, stored: int | None) -> None:
    """CONFORMANCE 89."""
    store, gate = MemoryStore(), Gate()
    steps = [step(lambda x: x + 1, name=f"s{n}") for n in range(3)]
    workflow = Workflow("w", steps[0] >> steps[1] >> steps[2] >> step(gate, name="slow"))
    with Runner(store) as runner:
        runner.start_workflow("a", workflow, checkpoint=checkpoint)
        runner.run("a", 0)
        assert gate.begun.wait(20)
        if stored is not None:
            runner.wait_until("a", lambda run: len(run.values()) >= 3, timeout=20)
        held = runner._do(_head(store, "a"))
        gate.opened.set()
        runner.wait("a", timeout=20)
        at_idle = runner._do(_head(store, "a"))
        runner.checkpoint("a")
        after = runner._do(_head(store, "a"))

    assert held == (1 if stored is None else 2 + stored)
    assert at_idle == (1 if checkpoint == "manual" else 6)
    assert after == 6


async def _head(store: MemoryStore, id: str) -> int:
    return (await store.find(id)).head


def test_an_input_is_durable_before_anything_runs_on_it() -> None:
    store = MemoryStore()
    heads: list[int] = []

    with Runner(store, executor="inline") as runner:
        look = step(lambda x: heads.append(store._runs["a"].record.head), name="look")
        runner.start(Workflow("w", look), 1, id="a").wait()

    assert heads == [2]
