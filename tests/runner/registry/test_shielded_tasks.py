"""A call whose caller is cancelled is made to its end, and can be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from callers import cut_off, ended, owned, started
from virtual_time import (
    GatedStore,
    SlowStore,
    chain,
    double,
    keys_of,
    runner_on,
    stored_log,
    until_nothing_moves,
    virtually,
)

import weft
from weft import Policy, Runnable, Workflow, step
from weft.errors import RunClosed
from weft.stores import MemoryStore

# -- stopping --------------------------------------------------------------------------------------


@virtually
async def test_stopping_goes_on_when_its_caller_is_cancelled() -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=5.0) as runner:
        await runner.start(chain, 1, id="a")

        await cut_off(runner.stop("a"), 1.0)
        await asyncio.sleep(10.0)

        assert runner.held == []
        assert (await inner.find("a")).owner is None
        assert len(await stored_log(inner, "a", chain)) == 3


@virtually
async def test_a_run_goes_on_that_is_resumed_after_the_caller_of_stop_was_cancelled() -> None:
    async with runner_on(MemoryStore(), lasts=5.0) as runner:
        handle = await runner.start(chain, 1, id="a", open=True)

        await cut_off(runner.stop("a"), 1.0)
        await runner.resume("a", workflow=chain)
        await handle.send(10)
        run = await handle.wait()

    assert sorted(run.values("next")) == [4, 22]


@virtually
async def test_a_second_caller_of_stop_joins_the_first_whose_caller_was_cancelled() -> None:
    executed: list[str] = []

    def lasts(runnable: Runnable) -> float:
        executed.append(runnable.component)
        return 5.0

    inner = MemoryStore()
    async with runner_on(inner, lasts=lasts) as runner:
        await runner.start(chain, 1, id="a")
        await until_nothing_moves()

        await cut_off(runner.stop("a"), 1.0)
        await runner.stop("a")

        assert runner.held == []
        assert (await inner.find("a")).owner is None
        log = await stored_log(inner, "a", chain)
    assert (executed, len(log)) == (["slow"], 3)


@pytest.mark.parametrize("moment", ["append", "release"])
@virtually
async def test_a_stop_that_was_cancelled_while_it_asked_the_store_leaves_a_run_that_can_be_used(moment: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store, checkpoint="manual") as runner:
        handle = await runner.start(double, id="a")
        await handle.send(1, key="k1")
        gate = store.hold(moment)

        await cut_off(runner.stop("a"), 1.0)
        gate.open()
        await runner.resume("a", workflow=double)
        await handle.send(2, key="k2")
        run = await handle.wait()
        await runner.checkpoint("a")

        assert sorted(run.values("double")) == [2, 4]
        assert keys_of(await stored_log(inner, "a")) == ["k1", "k2"]


@pytest.mark.parametrize("way", ["close", "stop"])
@pytest.mark.parametrize("what", ["start", "cancel", "wait"])
@virtually
async def test_a_step_that_uses_a_child_while_it_is_being_stopped_costs_no_attempt(what: str, way: str) -> None:
    inner, begun, gate = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def delegate(x: int) -> Any:
        given = () if what == "cancel" else (x,)  # without input it stays open
        child = None if what == "start" else await weft.current().astart_child(double, *given)
        begun.set()
        await gate.wait()
        child = child or await weft.current().astart_child(double, x)
        if what == "cancel":
            await child.cancel()
            return "cancelled"
        return await child.result()

    parent = Workflow("parent", step(delegate))
    runner = await runner_on(inner, grace=60.0).open()
    runner.register(parent, double)
    await runner.start(parent, 1, id="p")
    await begun.wait()
    stopping = started(runner.close() if way == "close" else runner.stop("p"))
    await until_nothing_moves()
    gate.set()
    await stopping
    await runner.close()

    async with runner_on(inner) as other:
        other.register(parent, double)
        run = await (await other.resume("p")).wait()
    assert run.failures == {}
    assert run.output == ("cancelled" if what == "cancel" else 2)


# -- all other calls -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["start", "open", "send", "resume", "cancel", "delete", "visit"])
@pytest.mark.parametrize("seconds", [0.25, 0.75, 1.25, 1.75])
@virtually
async def test_a_call_whose_caller_is_cancelled_has_happened_or_not_and_can_be_made_again(
    call: str, seconds: float
) -> None:
    inner = MemoryStore()
    async with runner_on(SlowStore(inner)) as runner:
        runner.register(double)
        if call not in ("start", "open"):
            await (await runner.start(double, 1, id="a", open=True)).wait()
        if call in ("resume", "visit"):
            await runner.stop("a")
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "start": lambda: runner.start(double, 1, id="a", open=True),
            "open": lambda: runner.start(double, id="a", if_exists="error"),
            "send": lambda: runner.send("a", 1, key="k"),
            "resume": lambda: runner.resume("a"),
            "cancel": lambda: runner.cancel("a"),
            "delete": lambda: runner.delete("a"),
            "visit": lambda: runner.start(double, 1, id="a", open=True),
        }
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await calls[call]()

        again = await ended(started(calls[call]()))
        expected = {
            "delete": {"returned", "RunNotFound"},
            "open": {"returned", "RunExists"},
        }
        assert again in expected.get(call, {"returned"})
        if call == "open":
            await runner.resume("a")
        if call == "delete":
            assert runner.held == await owned(inner) == []
            return
        try:
            run = await runner.wait("a")
        except RunClosed:
            run = await runner.get("a")
        assert len(keys_of(run.log())) == {"send": 2, "open": 0}.get(call, 1)
        assert runner.held == await owned(inner) == ([] if call == "cancel" else ["a"])


@pytest.mark.parametrize("call", ["cancel", "finish", "checkpoint"])
@virtually
async def test_a_call_about_a_run_that_finishes_returns_when_that_is_stored(call: str) -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store) as runner:
        await (await runner.start(double, id="a")).send(1)
        await runner.wait("a")
        gate = store.hold("append")
        first = started(runner.cancel("a") if call == "cancel" else runner.finish("a"))
        await until_nothing_moves()
        calls: dict[str, Callable[[str], Coroutine[Any, Any, Any]]] = {
            "cancel": runner.cancel,
            "finish": runner.finish,
            "checkpoint": runner.checkpoint,
        }

        second = started(calls[call]("a"))
        await until_nothing_moves()
        assert not second.done()

        gate.open()
        assert [await ended(first), await ended(second)] == ["returned", "returned"]
        assert (await runner.find("a")).status == ("cancelled" if call == "cancel" else "completed")


@virtually
async def test_a_retry_of_a_run_whose_end_the_store_refuses_is_told_so() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    workflow = Workflow("w", step(lambda x: 1 // x, name="invert"))
    async with runner_on(store) as runner:
        handle = await runner.start(workflow.with_policies([("invert", Policy(on_failure="dead_letter"))]), id="a")
        await handle.send(0)
        await runner.wait("a")
        gate = store.hold("append")
        finishing = started(runner.finish("a"))
        await until_nothing_moves()
        retrying = started(runner.retry("a"))
        await until_nothing_moves()

        await inner.acquire("a")  # another owner: the end of the run is refused
        gate.open()

        assert await ended(finishing) == "OwnershipLost"
        assert await ended(retrying) in ("OwnershipLost", "RunParked")


@virtually
@pytest.mark.parametrize("call", ["result", "gather"])
async def test_a_result_whose_end_the_store_refuses_is_not_returned(call: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store) as runner:
        handle = await runner.start(Workflow("w", double), 1, id="a")
        gate = store.hold("append")
        waiting = started(handle.result() if call == "result" else runner.gather([handle]))
        await until_nothing_moves()

        await inner.acquire("a")  # another owner: the end of the run is refused
        gate.open()

        assert await ended(waiting) == "RunParked"
