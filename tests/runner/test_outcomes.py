"""The outcome of a run: when it finishes, what its record says, and who keeps it (ADR 24)."""

from __future__ import annotations

import gc
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from failing_flows import Calls, halting, inverse, keeping, two_leaves
from small_flows import chain

from weft import Policy, Runner, Saga, Workflow, step
from weft.core.events import (
    InputReceived,
    RunFinished,
)
from weft.errors import (
    NothingProduced,
    RunClosed,
    RunNotFound,
    RunParked,
)
from weft.policy import Value
from weft.ports.store import LogStore
from weft.runner.execution.worker import Worker
from weft.runner.registry.recent_runs import RUNS
from weft.stores import MemoryStore

# -- when a run finishes -------------------------------------------------------------------------


def test_a_run_that_is_started_with_its_input_completes_by_itself(runner: Runner) -> None:
    handle = runner.start(chain, 5, id="a")

    run = handle.wait(20)

    assert (run.status, handle.status(), runner.find("a").status) == ("completed",) * 3
    assert runner.find("a").finished_at is not None
    assert (runner.held, "a" in runner) == ([], False)


def test_a_run_that_is_started_without_input_stays_open_until_it_is_told_to_finish(runner: Runner) -> None:
    handle = runner.start(chain, id="a")
    runner.send("a", 5).wait(20)
    before = (handle.status(), runner.find("a").finished_at, runner.held)

    runner.finish("a")

    assert before == ("idle", None, ["a"])
    assert (handle.wait(20).status, runner.find("a").status, runner.held) == ("completed", "completed", [])
    assert [type(event) for event in handle.log()][-1] is RunFinished


def test_a_run_that_is_kept_open_accepts_more_input_after_its_first_one(runner: Runner) -> None:
    first = runner.start(chain, 5, id="a", open=True)
    second = first.send(6)

    assert (first.result(20), second.result(20), first.status()) == (11, 13, "idle")


def test_a_run_that_is_told_to_finish_does_what_is_left_first(runner: Runner) -> None:
    gate = threading.Event()
    handle = runner.start(Workflow("w", step(lambda x: gate.wait(20) and x, name="slow")), 7, id="a", open=True)

    handle.finish()
    with pytest.raises(RunClosed, match=r"finishes with the input that it has; start\(\.\.\., open=True\) keeps"):
        handle.send(8)
    gate.set()

    assert (handle.result(20), handle.status()) == (7, "completed")


def test_a_run_that_is_told_to_finish_twice_finishes_once(runner: Runner) -> None:
    handle = runner.start(chain, id="a")

    for _ in range(3):
        runner.finish("a")

    assert [type(event) for event in handle.log()].count(RunFinished) == 1
    with pytest.raises(NothingProduced, match="it has had no input"):
        handle.result(20)


def test_finishing_costs_no_event(runner: Runner) -> None:
    handle = runner.start(chain, 5)

    log = handle.wait(20).log()

    assert len(log) == 2 + 2  # the definition, the input, and one for each of two steps
    assert [event.last for event in log if isinstance(event, InputReceived)] == [True]


@pytest.mark.parametrize("flow", [halting, keeping, two_leaves], ids=lambda flow: str(flow.name))
def test_a_run_has_failed_if_something_failed_that_nothing_handled(runner: Runner, flow: Workflow) -> None:
    handle = runner.start(flow, 0, id="a")

    assert (handle.wait(20).status, handle.status()) == ("failed", "failed")
    record = runner.find("a")
    assert (record.status, record.failures, record.dead_letters) == ("failed", 1, int(flow is keeping))
    assert record.reason == "'inverse' failed: ZeroDivisionError: division by zero"
    assert "a" not in runner


@pytest.mark.parametrize("how", ["fallback", "skip", "route"])
def test_a_run_whose_failure_was_handled_completes(runner: Runner, how: str) -> None:
    flows = {
        "fallback": halting.with_policies([("inverse", Policy(fallback=lambda *_: Value(-1.0)))]),
        "skip": halting.with_policies([("inverse", Policy(on_failure="skip"))]),
        "route": Workflow("routed", step(inverse).on_error(ZeroDivisionError, then=step(lambda _: -1.0, name="none"))),
    }

    handle = runner.start(flows[how], 0, id="a")

    assert handle.wait(20).status == "completed"
    assert runner.find("a").failures == 0


def test_an_open_run_counts_its_failures_in_its_record_so_that_lists_find_it(runner: Runner) -> None:
    runner.start(keeping, 0, id="bad", open=True).wait(20)
    runner.start(keeping, 1, id="good", open=True).wait(20)

    found = runner.runs(failed=True)

    assert [(each.id, each.status, each.failures, each.dead_letters) for each in found] == [("bad", "idle", 1, 1)]
    assert [each.id for each in runner.runs(failed=False)] == ["good"]
    assert (runner.count(failed=True), runner.count(failed=False)) == (1, 1)


def test_lists_find_finished_runs_by_their_outcome_the_newest_first(runner: Runner) -> None:
    for number, value in enumerate([1, 0, 2, 0]):
        runner.start(halting, value, id=f"r{number}").wait(20)

    assert [each.id for each in runner.runs(status="failed")] == ["r3", "r1"]
    assert [each.id for each in runner.runs(status="completed")] == ["r2", "r0"]
    assert runner.count(status=["failed", "completed"]) == 4
    assert runner.purge(before=2e10, statuses=["failed"]) == 2
    assert [each.id for each in runner.runs()] == ["r2", "r0"]


def test_parked_goes_before_failed(runner: Runner) -> None:
    trip = Saga("trip")

    @trip.transaction
    def book(x: int, results: dict[str, Any]) -> int:
        return x

    @book.compensate
    def cancel(x: int, results: dict[str, Any]) -> None:
        raise ConnectionError("down")

    @trip.transaction(compensate=None)
    def pay(x: int, results: dict[str, Any]) -> None:
        raise ValueError("declined")

    handle = runner.start(Workflow("w", trip).add(step(inverse)), 0, id="a")

    with pytest.raises(RunParked, match="ConnectionError: down"):
        handle.wait(20)
    assert (handle.status(), runner.find("a").status, runner.find("a").failures) == ("parked", "parked", 2)
    assert runner.held == ["a"]


@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
def test_a_finished_run_takes_no_input_and_cannot_be_cancelled(runner: Runner, value: int) -> None:
    handle = runner.start(halting, value, id="a")
    status = handle.wait(20).status

    calls: list[Callable[[], object]] = [lambda: handle.send(1), handle.cancel, lambda: runner.set_policies("a", [])]
    for call in calls:
        with pytest.raises(RunClosed, match=f"has {status} and accepts nothing more") as refused:
            call()
        assert refused.value.status == status
    runner.finish("a")
    runner.checkpoint("a")
    runner.stop("a")
    assert (handle.status(), len(handle.log())) == (status, 3)


def test_a_cancelled_run_leaves_as_well(runner: Runner) -> None:
    handle = runner.start(chain, id="a")

    handle.cancel("not wanted", by="me")
    handle.cancel("again")

    assert (handle.wait(20).status, runner.find("a").reason, runner.held) == ("cancelled", "not wanted", [])
    with pytest.raises(RunClosed, match="not wanted"):
        handle.result(20)
    with pytest.raises(RunClosed):
        runner.finish("a")


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual", "pipelined"])
def test_a_run_finishes_under_every_strategy_and_leaves_when_it_is_written(runner: Runner, checkpoint: str) -> None:
    handle = runner.start(chain, 5, id="a", checkpoint=checkpoint)

    assert (handle.result(20), handle.status()) == (11, "completed")
    assert runner.held == (["a"] if checkpoint == "manual" else [])
    runner.checkpoint("a")
    assert (runner.held, runner.find("a").status, handle.result(0)) == ([], "completed", 11)


# -- forgetting ----------------------------------------------------------------------------------


def test_a_run_that_was_purged_is_not_there_any_more(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait(20)
        assert runner.purge(before=time.time() + 60) == 1

        for ask in (runner.find, runner.get, runner.status, runner.results, runner.result, runner.log):
            with pytest.raises(RunNotFound):
                ask("a")


# -- what is finished leaves ---------------------------------------------------------------------


def test_thousands_of_finished_runs_leave_the_memory_of_their_runner() -> None:
    name = uuid.uuid4().hex  # other tests may have left something

    async def alive() -> set[int]:
        gc.collect()
        ids = [each.id for each in gc.get_objects() if type(each) is Worker]
        return {int(each.removeprefix(name)) for each in ids if each.startswith(name)}

    with Runner(executor="inline") as runner:
        for number in range(2 * RUNS):
            runner.start(chain, number, id=f"{name}{number}").result(20)
        last, found = set(range(RUNS, 2 * RUNS)), set[int]()
        for _ in range(100):  # the thread that ended the last one may be at work for it still
            found = runner._do(alive())
            if found == last:
                break

        assert found == last
        assert runner.held == []
        assert runner.count() == 2 * RUNS


def test_a_handle_keeps_its_run_after_it_has_left_the_memory_of_the_runner() -> None:
    store = Calls(MemoryStore())
    with Runner(store, executor="inline") as runner:
        handle = runner.start(chain, 5)
        runner.start_many(chain, range(RUNS + 1)).gather(60)
        store.seen.clear()

        assert (handle.result(20), handle.wait(20).values("double"), handle.results()) == (11, [10], {"increment": 11})
        assert store.seen == []


def test_a_run_that_has_left_is_not_owned(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait(20)
        runner.start(halting, 0, id="b").wait(20)
        runner.start(chain, id="c").cancel()

        assert [runner.find(run).owner for run in "abc"] == [None] * 3
