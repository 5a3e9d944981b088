"""Whoever waits for a run is told what is durable, and is told when there is nothing to wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from weather import SlowStore, double, now, runner_on, virtually

from weft import Policy, Run, Workflow, step
from weft.core.events import RunCancelled
from weft.errors import RunClosed, RunParked, WaitTimeout
from weft.runner.worker import Worker
from weft.stores import MemoryStore


@pytest.mark.parametrize("checkpoint", ["every_cycle", "pipelined"])
@virtually
async def test_what_a_predicate_was_told_is_durable_when_its_caller_hears_of_it(checkpoint: str) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0, checkpoint=checkpoint) as runner:
        await runner.start(double, 1, id="a")

        run = await runner.wait_until("a", lambda run: bool(run.values("double")))

        assert (await store.find("a")).head >= len(run.log())


@virtually
async def test_a_predicate_may_hold_in_the_middle_where_nothing_is_written_before_the_end() -> None:
    chain = Workflow("chain", step(lambda x: x, name="first") >> step(lambda x: x, name="second"))
    async with runner_on(lasts=1.0, checkpoint="on_complete") as runner:
        await runner.start(chain, 1, id="a")

        run = await runner.wait_until("a", lambda run: bool(run.values("first")))

        assert (run.values("second"), now()) == ([], 1.0)


@virtually
async def test_whoever_waits_for_what_a_cancelled_run_will_never_do_is_told() -> None:
    async with runner_on(lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        waits = asyncio.create_task(runner.wait_until("a", lambda _: False))
        await asyncio.sleep(0.5)

        await runner.cancel("a", "not wanted")

        with pytest.raises(RunClosed, match="not wanted"):
            await waits
        with pytest.raises(RunClosed):
            await runner.wait_until("a", lambda _: False)
        assert (await runner.wait_until("a", lambda _: True)).values("double") == []


@virtually
async def test_whoever_waits_for_what_a_parked_run_will_not_do_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with runner_on(lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        waits = asyncio.create_task(runner.wait_until("a", lambda _: False))
        await asyncio.sleep(0.5)

        monkeypatch.setattr(Worker, "finish", crash)

        with pytest.raises(RunParked):
            await waits


@virtually
async def test_whoever_loses_patience_is_forgotten() -> None:
    async with runner_on(lasts=3600.0) as runner:
        handle = await runner.start(double, 1, id="a")

        for _ in range(3):
            with pytest.raises(WaitTimeout):
                await handle.wait(1.0)
            with pytest.raises(WaitTimeout):
                await runner.wait_until("a", lambda _: False, 1.0)

        waiters = runner._waiters
        assert (waiters._idle, waiters._until) == ({}, {})


# -- on_complete ---------------------------------------------------------------------------------


@virtually
async def test_an_input_whose_key_was_seen_is_nothing_to_tell() -> None:
    told: list[int] = []

    async def tell(_: str, run: Run) -> None:
        told.append(run.memory.received)

    async with runner_on() as runner:
        await runner.start_workflow("a", double, on_complete=tell)
        for _ in range(2):
            await runner.run("a", 1, key="once")
            await runner.wait("a")

    assert told == [1]


@virtually
async def test_a_change_of_policies_is_nothing_to_tell_here_or_after_a_resume() -> None:
    told: list[int] = []

    async def tell(_: str, run: Run) -> None:
        told.append(run.memory.received)

    async with MemoryStore() as store:
        async with runner_on(store) as runner:
            await (await runner.start(double, 1, id="a", on_complete=tell)).wait()
            await runner.set_policies("a", [("double", Policy(max_retries=1))])
            await runner.wait("a")
        async with runner_on(store) as runner:
            await runner.resume("a", workflow=double, on_complete=tell)
            await runner.wait("a")

    assert told == [1]


@virtually
async def test_a_duplicate_input_is_acknowledged_only_when_the_first_is_durable() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        await runner.start_workflow("a", double)
        began = now()

        await asyncio.gather(*(runner.run("a", 1, key="once") for _ in range(2)))

        assert now() == began + 1.0
        assert (await runner.wait("a")).values("double") == [2]


@virtually
async def test_a_run_that_was_cancelled_has_no_result_and_says_so() -> None:
    async with runner_on(lasts=1.0) as runner:
        handle = await runner.start(double, 1)
        await handle.cancel("not wanted")

        with pytest.raises(RunClosed, match="not wanted"):
            await handle.result()


@virtually
async def test_a_run_that_is_cancelled_while_it_is_told_that_it_is_idle_gets_no_event_after_that() -> None:
    async def tell(*_: object) -> None:
        await asyncio.sleep(1.0)

    async with runner_on() as runner:
        handle = await runner.start(double, 1, on_complete=tell)
        await asyncio.sleep(0.5)

        await handle.cancel()
        await asyncio.sleep(1.0)

        assert isinstance((await handle.log())[-1], RunCancelled)
