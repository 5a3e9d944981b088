"""Runs that come, go and are forgotten, all at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from weather import SlowStore, double, runner_on, virtually

from weft import AsyncRunner, Workflow, step
from weft.errors import OwnershipLost, RunParked, WorkflowAlreadyStarted, WorkflowNotFound
from weft.stores import MemoryStore


@virtually
async def test_a_run_that_is_resumed_while_it_is_stopped_is_stopped_and_then_resumed() -> None:
    async with runner_on(SlowStore(MemoryStore()), lasts=3.0) as runner:
        await runner.start(double, 1, id="a")

        stops = asyncio.create_task(runner.stop("a"))
        await asyncio.sleep(0.1)
        handle = await runner.resume("a", workflow=double)
        await stops

        assert await runner.list_workflows() == ["a"]
        assert (await handle.wait()).values("double") == [2]


@virtually
async def test_a_second_stop_does_not_throw_out_what_was_resumed_after_the_first() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store, lasts=3.0) as runner:
        await runner.start(double, 1, id="a")

        stops = [asyncio.create_task(runner.stop("a")) for _ in range(2)]
        await asyncio.sleep(0.1)
        await runner.resume("a", workflow=double)
        await asyncio.gather(*stops)

        assert await runner.list_workflows() == ["a"]
        assert (await store.find("a")).owner is not None


@virtually
async def test_a_run_that_is_started_while_it_is_deleted_is_a_new_one() -> None:
    async with runner_on(SlowStore(MemoryStore()), lasts=3.0) as runner:
        await runner.start(double, 1, id="a")

        deletes = asyncio.create_task(runner.delete("a"))
        await asyncio.sleep(0.1)
        handle = await runner.start(double, 5, id="a")
        await deletes

        assert (await handle.wait()).values("double") == [10]


@virtually
async def test_a_run_that_somebody_else_has_taken_over_can_be_let_go_of() -> None:
    async with MemoryStore() as store, runner_on(store, lasts=1.0) as one, runner_on(store) as other:
        handle = await one.start(double, 1, id="a")
        await other.resume("a", workflow=double)
        with pytest.raises(RunParked):
            await handle.wait()
        with pytest.raises(OwnershipLost):
            await one.checkpoint("a")

        await one.stop("a")

        with pytest.raises(WorkflowNotFound):
            await handle.status()
        assert (await other.wait("a")).values("double") == [2]


@virtually
async def test_a_run_that_turns_out_to_exist_while_others_ask_for_it_was_never_here() -> None:
    store = SlowStore(MemoryStore())
    async with store:
        async with runner_on(store) as runner:
            await (await runner.start(double, 1, id="a")).wait()

        async with runner_on(store) as runner:
            starts = asyncio.create_task(runner.start_workflow("a", double))
            await asyncio.sleep(0.1)
            asks = [runner.set_policies("a", []), runner.run("a", 2), runner.cancel("a"), runner.wait("a")]
            told = await asyncio.gather(*asks, return_exceptions=True)

            with pytest.raises(WorkflowAlreadyStarted):
                await starts
            assert [type(error) for error in told] == [WorkflowNotFound] * 4


@virtually
async def test_whoever_asks_for_a_run_that_is_being_created_is_served_when_it_is() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        starts = asyncio.create_task(runner.start_workflow("a", double))
        await asyncio.sleep(0.1)

        await runner.run("a", 2)
        await starts

        assert (await runner.wait("a")).values("double") == [4]


@pytest.mark.parametrize("patience", [0.25, 0.75, 1.25, 1.75, 2.25, 2.75])
@pytest.mark.parametrize("call", ["resume", "resume_all"])
@virtually
async def test_a_caller_that_is_cancelled_while_a_run_comes_in_leaves_it_whole(call: str, patience: float) -> None:
    """The store had given the run to this runner, which neither had it nor gave it back until it was closed."""
    store = MemoryStore()
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(double, 5, id="c")

    async with runner_on(SlowStore(store), executor="inline") as runner:
        runner.register(double)
        calls: dict[str, Any] = {
            "resume": lambda: runner.resume("c"),
            "resume_all": runner.resume_all,
        }
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(calls[call](), patience)
        await asyncio.sleep(20.0)
        resumed = await runner.resume_all()

        assert [handle.id for handle in resumed] == ["c"] or "c" in await runner.list_workflows()
        assert await runner.result("c") == 10


def test_a_run_that_resume_all_refuses_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def endless(_: int) -> None:
            await asyncio.Event().wait()

        store = MemoryStore()
        async with AsyncRunner(store, grace=0) as runner:
            await runner.start(Workflow("w", step(endless)), 1, id="a")
        async with AsyncRunner(store) as runner:
            assert await runner.resume_all() == []

    asyncio.run(main())

    [record] = caplog.records
    assert record.message.startswith("run 'a' could not be resumed: UnresolvedFunction: the function ")
    assert record.exc_info is None
