"""Outcomes while the store is slow or unavailable, and while callers do several things at once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from failing_flows import Switch, halting, inverse, switched
from small_flows import chain
from virtual_time import GatedStore, Refuses, SlowStore, double, now, runner_on, until_nothing_moves, virtually

from weft import Policy, Run, Runner, Workflow, step
from weft.core.events import (
    InputReceived,
    WorkflowDefined,
)
from weft.errors import (
    InvalidArgument,
    InvalidOption,
    RunClosed,
    RunFailed,
    RunNotHeld,
)
from weft.log.outcome import decode_outcome
from weft.stores import MemoryStore


@virtually
async def test_the_last_append_stores_the_outcome_and_releases_the_run() -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store)) as runner:
        handle = await runner.start(double, 5, id="a")
        before = await store.find("a")
        assert await handle.result() == 10
        after = await store.find("a")

    assert (before.status, before.outcome, before.owner is None) == ("running", b"", False)
    assert (after.status, after.owner) == ("completed", None)
    outcome = decode_outcome(after.outcome)
    assert outcome is not None
    assert (outcome.ordinal, outcome.output, outcome.results) == (1, 10, {"double": 10})


@pytest.mark.parametrize("call", ["stop", "discarding stop", "cancel", "send", "finish", "checkpoint", "wait", "close"])
@virtually
async def test_callers_of_a_run_that_is_just_leaving_are_told_and_lose_nothing(call: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with inner:
        runner = await runner_on(store, lasts=1.0).open()
        handle = await runner.start(double, 5, id="a")
        gate = store.hold("append")
        await gate.reached.wait()  # its last events are being written
        calls: dict[str, Any] = {
            "stop": lambda: runner.stop("a"),
            "discarding stop": lambda: runner.stop("a", persist=False),
            "cancel": lambda: runner.cancel("a"),
            "send": lambda: runner.send("a", 6),
            "finish": lambda: runner.finish("a"),
            "checkpoint": lambda: runner.checkpoint("a"),
            "wait": lambda: runner.wait("a"),
            "close": runner.close,
        }
        asking = asyncio.ensure_future(calls[call]())
        waiting = asyncio.ensure_future(handle.result())
        await until_nothing_moves()
        gate.open()
        told, result = await asyncio.gather(asking, waiting, return_exceptions=True)
        await until_nothing_moves()  # a stop that discards does not wait for what is being written

        assert isinstance(told, RunClosed) is (call in ("cancel", "send"))
        assert isinstance(result, RunNotHeld) if call == "discarding stop" else result == 10
        record = await inner.find("a")
        assert (record.status, record.owner) == ("completed", None)
        await runner.close()
        async with runner_on(inner) as other:
            assert (await other.result("a"), await other.status("a")) == (10, "completed")


@virtually
async def test_a_retry_of_a_run_that_is_just_leaving_waits_until_it_has_left() -> None:
    inner, switch = MemoryStore(), Switch()
    store = GatedStore(inner)
    async with runner_on(store, lasts=1.0) as runner:
        await runner.start(switched(switch), 5, id="a")
        gate = store.hold("append", times=1)
        await gate.reached.wait()
        switch.is_on.set()
        retrying = asyncio.ensure_future(runner.retry("a"))
        await until_nothing_moves()
        gate.open()

        assert await (await retrying).result() == 10
        record = await inner.find("a")
    assert (record.status, record.owner, record.epoch) == ("completed", None, 2)


@virtually
async def test_a_caller_that_waits_for_a_run_whose_worker_was_rebuilt_gets_what_the_next_one_made() -> None:
    inner = MemoryStore()
    async with runner_on(SlowStore(inner), refuses=Refuses(1)) as runner:
        handle = await runner.start(double, 5, id="a")
        run = await handle.wait()

        assert (run.values("double"), run.status, await handle.result()) == ([10], "completed", 10)
        assert (runner.held, (await inner.find("a")).owner) == ([], None)


@virtually
async def test_a_run_that_is_stopped_before_its_end_is_written_is_finished_by_the_next_runner() -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=5.0) as runner:
        handle = await runner.start(double, 5, id="a")
        await runner.stop("a", grace=0.0, persist=False)
        assert (await handle.status(), runner.held) == ("running", [])

    async with runner_on(inner) as runner:
        runner.register(double)
        [handle] = await runner.resume_all()
        assert (await handle.result(), await handle.status(), runner.held) == (10, "completed", [])


@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
@pytest.mark.parametrize("way", ["stop", "close"])
@virtually
async def test_a_run_whose_last_step_ends_while_it_is_being_stopped_has_finished(way: str, value: int) -> None:
    async with MemoryStore() as inner:
        runner = await runner_on(inner, lasts=5.0).open()
        await runner.start(halting, value, id="a")
        await (runner.stop("a") if way == "stop" else runner.close())
        record = await inner.find("a")
        await runner.close()

    assert (record.status, record.owner) == ("completed" if value else "failed", None)
    assert ("ZeroDivisionError" in record.reason, record.failures) == (not value, 1 - value)
    assert decode_outcome(record.outcome) is not None


@virtually
async def test_on_complete_is_called_before_a_run_is_stored_as_finished() -> None:
    inner, seen = MemoryStore(), list[Any]()

    async def tell(run: str, told: Run) -> None:
        seen.append((told.status, (await inner.find(run)).status, now()))

    async with runner_on(SlowStore(inner)) as runner:
        handle = await runner.start(double, 5, id="a", on_complete=tell)
        await handle.wait()
        record = await inner.find("a")

    assert [(told, stored) for told, stored, _ in seen] == [("completed", "running")]
    assert (record.status, record.owner) == ("completed", None)
    async with runner_on(inner) as runner:
        runner.register(double)
        assert await runner.resume_all(on_complete=tell) == []
    assert len(seen) == 1


def test_the_record_counts_what_is_left_after_a_letter_was_discarded(runner: Runner) -> None:
    flow = Workflow("w", step(inverse)).add(step(lambda x: [][x], name="item"))
    flow = flow.with_policies([("item", Policy(on_failure="dead_letter"))])
    runner.start(flow, 0, id="done").wait(20)
    runner.start(flow, 0, id="open", open=True).wait(20)

    for run, status in (("done", "failed"), ("open", "idle")):
        runner.discard(run).wait(20)

        record = runner.find(run)
        assert (record.status, record.failures, record.dead_letters) == (status, 1, 0)
    with pytest.raises(RunFailed) as failed:
        runner.result("done", 20)
    assert list(failed.value.failures) == ["inverse"]


def test_an_input_that_was_sent_before_its_run_finished_can_be_sent_again(runner: Runner) -> None:
    runner.start(chain, id="a")
    first = runner.send("a", 5, key="k")
    first.result(20)
    runner.finish("a")
    runner.wait("a", 20)

    again = runner.send("a", 5, key="k")

    assert (again, again.result(20)) == (first, 11)
    with pytest.raises(RunClosed):
        runner.send("a", 5, key="another")


def test_an_input_that_is_refused_or_was_seen_changes_no_policies(runner: Runner) -> None:
    rules, no_text, no_number = [("double", Policy(max_retries=1))], cast("str", 5), cast("float", "soon")
    runner.start(chain, id="a")
    runner.send("a", 1, key="k", policies=rules).result(20)
    before = runner.log("a")

    with pytest.raises(InvalidOption, match="key=5"):
        runner.send("a", 2, key=no_text, policies=rules)
    with pytest.raises(InvalidArgument, match="deadline='soon'"):
        runner.send("a", 2, deadline=no_number, policies=rules)
    assert runner.send("a", 2, key="k", policies=rules).result(20) == 3
    assert runner.log("a") == before


def test_an_input_for_a_run_that_finishes_changes_no_policies(runner: Runner) -> None:
    gate = threading.Event()
    runner.start(Workflow("gated", step(lambda _: gate.wait(20), name="pass_gate")), 1, id="a")
    try:
        with pytest.raises(RunClosed):
            runner.send("a", 2, policies=[("pass_gate", Policy(max_retries=1))])
        assert [type(event) for event in runner.log("a")] == [WorkflowDefined, InputReceived]
    finally:
        gate.set()


def test_many_runs_can_be_started_open(runner: Runner) -> None:
    handles = runner.start_many(chain, [1, 2], ids=["a", "b"], open=True)

    assert handles.gather(20) == [3, 5]
    assert (runner.status("a"), runner.send("b", 5).result(20)) == ("idle", 11)


def test_the_caller_of_a_start_without_input_is_in_the_log_too(runner: Runner) -> None:
    runner.start(chain, id="a", by="ann", policies=[("double", Policy(max_retries=1))])

    defined, changed = runner.log("a")
    assert (defined.by, changed.by) == ("ann", "ann")  # type: ignore[union-attr]


def test_a_deadline_without_an_input_is_refused(runner: Runner) -> None:
    with pytest.raises(InvalidOption, match="it counts from an input"):
        runner.start(chain, id="a", deadline=5.0)
