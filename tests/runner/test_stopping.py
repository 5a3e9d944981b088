"""Stopping and resuming runs, and what a crash would find."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from small_flows import Gate, chain, increment
from virtual_time import SlowStore, double, runner_on, virtually

from weft import Policy, Runner, Workflow, step
from weft.errors import RunClosed, RunnerClosed, RunNotHeld, RunOwned
from weft.local.counters import LocalCounters
from weft.policy import DEFAULT, ConcurrencyLimit
from weft.ports.store import LogStore, RunRecord
from weft.runner import every_n
from weft.stores import MemoryStore, SQLiteStore

# -- stopping and resuming -------------------------------------------------------------------------


def test_a_stopped_run_is_resumed_where_it_was(store: LogStore) -> None:
    """CONFORMANCE 88."""
    with Runner(store) as runner:
        runner.start(chain, 5, id="a", open=True).wait()
        runner.stop("a")
        assert "a" not in runner

        runner.resume("a", workflow=chain)
        assert runner.results("a") == {"increment": 11}
        runner.send("a", 6)
        assert runner.wait("a").values("increment") == [11, 13]


def test_a_run_that_is_stopped_without_persisting_leaves_nothing_behind(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, id="a", checkpoint="manual")
        runner.send("a", 5)
        runner.wait("a")
        runner.stop("a", persist=False)

        runner.resume("a", workflow=chain)
        assert runner.wait("a").values("increment") == []


def test_stopping_waits_for_what_is_in_flight_and_costs_no_attempt(store: LogStore) -> None:
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
        first.start(chain, 5, id="a", open=True).wait()

        with pytest.raises(RunOwned):
            second.resume("a")
        first.stop("a")
        second.resume("a", workflow=chain)
        assert second.results("a") == {"increment": 11}


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
        runner.runs()


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
            runner.send("a", 2)
        assert [record.status for record in runner.runs()] == ["cancelled"]
        assert (runner.count(), runner.count(status="cancelled"), runner.count(status=["idle"])) == (1, 1, 0)


# -- what a crash would find -----------------------------------------------------------------------


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
        runner.start(workflow, id="a", checkpoint=checkpoint)
        runner.send("a", 0)
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


# -- the last moment -------------------------------------------------------------------------------


@virtually
async def test_a_stopped_run_leaves_the_limits_that_it_had_passed() -> None:
    """A further attempt of a durable step has its place before the log says that it starts."""

    def fail(_: int) -> None:
        raise ValueError

    counters = LocalCounters()
    policy = Policy(concurrency_limit=ConcurrencyLimit("api", 1), execution_mode="durable", max_retries=1)
    workflow = Workflow("w", step(fail)).with_policies([(DEFAULT, policy)])
    async with runner_on(SlowStore(MemoryStore()), counters=counters) as runner:
        await runner.start(workflow, 1, id="a")
        await asyncio.sleep(0.5)
        before = counters.states()["concurrency_limit", "api"].used

        await runner.stop("a", grace=0.0)

    assert (before, counters.states()["concurrency_limit", "api"].used) == (1, 0)


@virtually
async def test_what_ends_in_the_last_moment_of_a_stop_counts() -> None:
    store = MemoryStore()
    async with runner_on(store, lasts=5.0) as runner:
        handle = await runner.start(double, 1, id="a")
        await asyncio.sleep(5.0)

        await runner.stop("a", grace=0.0)
        await runner.resume("a", workflow=double)
        at_once = await handle.status()

    assert at_once == "completed"


# -- without being persisted -----------------------------------------------------------------------


@virtually
async def test_what_a_run_was_told_that_is_stopped_without_being_persisted_is_not_written_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0) as runner:
        await (await runner.start(double, 1, id="a", open=True)).wait()
        head = (await store.find("a")).head
        first = asyncio.create_task(runner.send("a", 2))
        await asyncio.sleep(0.2)
        second = asyncio.create_task(runner.send("a", 3))
        await asyncio.sleep(0.2)

        await runner.stop("a", persist=False)

        told = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in told] == [RunNotHeld, RunNotHeld]
    assert (await store_of(store, "a")).head == head + 1  # the first was on its way
    assert caplog.messages == []


@virtually
async def test_a_run_that_is_stopped_without_being_persisted_as_soon_as_it_was_told_something_is_left_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0) as runner:
        await (await runner.start(double, 1, id="a", open=True)).wait()
        before = await store.find("a")

        told = await asyncio.gather(runner.send("a", 2), runner.stop("a", persist=False), return_exceptions=True)

    assert isinstance(told[0], RunNotHeld)
    assert (await store_of(store, "a")) == replace(before, owner=None)
    assert caplog.messages == []


async def store_of(store: MemoryStore, run: str) -> RunRecord:
    """Return what *store*, which is closed, knows of *run*."""
    async with store:
        return await store.find(run)
