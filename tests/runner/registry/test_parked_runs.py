"""Runs that are parked, and the calls about them meanwhile."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from callers import ended, started
from virtual_time import GatedStore, Refuses, double, runner_on, stored_log, until_nothing_moves, virtually

from weft import AsyncRunner, Policy
from weft.errors import RunParked
from weft.stores import MemoryStore


def tell(runner: AsyncRunner, call: str, run: str) -> Coroutine[Any, Any, None]:
    """Return a *call* that changes a *run*."""
    match call:
        case "cancel":
            return runner.cancel(run)
        case "set_policies":
            return runner.set_policies(run, [("double", Policy(max_retries=1))])
        case "retry":
            return runner.retry(run)
        case _:
            return runner.discard(run)


@pytest.mark.parametrize("call", ["set_policies", "retry", "discard"])
@virtually
async def test_a_parked_run_that_is_told_something_is_still_parked_to_callers_that_wait_for_it(call: str) -> None:
    async with runner_on(MemoryStore(), refuses=lambda _: True) as runner:
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()

        await tell(runner, call, "a")

        with pytest.raises(RunParked):
            await handle.wait()


@pytest.mark.parametrize("call", ["cancel", "set_policies"])
@pytest.mark.parametrize("moment", ["acquire", "load_since", "append"])
@virtually
async def test_what_a_parked_run_is_told_while_it_is_brought_back_is_in_its_log(moment: str, call: str) -> None:
    inner = MemoryStore()
    store, refuses = GatedStore(inner), Refuses(4)
    async with runner_on(store, lasts=1.0, refuses=refuses) as runner:
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()
        loading = store.hold("acquire" if moment == "acquire" else "load_since", times=1)
        back = started(runner.resume("a"))
        await loading.reached.wait()
        writing = store.hold("append", times=1 if moment == "append" else 0)

        told = started(tell(runner, call, "a"))
        await until_nothing_moves()
        loading.open()
        await until_nothing_moves()
        writing.open()

        assert (await ended(back), await ended(told)) == ("returned", "returned")
        kinds = {type(event).__name__ for event in await stored_log(inner, "a")}
        assert ("RunCancelled" if call == "cancel" else "PolicyChanged") in kinds


async def refused(runner: AsyncRunner, store: GatedStore) -> None:
    """Start the run ``a``, and let *store* refuse its first input."""
    await runner.start(double, id="a")
    store.fails_with["append"] = lambda: ValueError("a bug in the store")
    with pytest.raises(ValueError, match="a bug"):
        await runner.send("a", 1)
    store.fails_with.clear()


@pytest.mark.parametrize("call", ["cancel", "set_policies", "retry", "discard"])
@virtually
async def test_a_run_that_the_store_has_refused_is_not_changed_and_can_be_resumed(call: str) -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store) as runner:
        await refused(runner, store)

        with pytest.raises(RunParked, match="a bug in the store"):
            await tell(runner, call, "a")

        assert await runner.status("a") == "parked"
        with pytest.raises(RunParked):
            await runner.wait("a")
        await runner.resume("a", workflow=double)
        await runner.send("a", 1)
        assert await runner.result("a") == 2


@virtually
async def test_callers_of_a_run_that_the_store_has_refused_leave_nothing_in_memory() -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store) as runner:
        await refused(runner, store)

        depths: list[int] = []
        for _ in range(3):
            with pytest.raises(ValueError, match="a bug") as raised:
                await runner.checkpoint("a")
            depths.append(len(raised.traceback))

        assert depths == depths[:1] * 3
        await runner.resume("a", workflow=double)


@pytest.mark.parametrize("strategy", ["every_cycle", "manual"])
@virtually
async def test_a_checkpoint_of_a_parked_run_returns_when_the_store_knows_that_it_is_parked(strategy: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store, refuses=lambda _: True) as runner:
        await runner.start(double, 1, id="a", checkpoint=strategy)
        gate = store.hold("append")
        await gate.reached.wait()
        assert await runner.status("a") == "parked"

        writing = started(runner.checkpoint("a"))
        await until_nothing_moves()
        assert (writing.done(), (await inner.find("a")).status) == (False, "running")
        gate.open()
        await writing

        assert (await inner.find("a")).status == "parked"


@pytest.mark.parametrize("strategy", ["every_cycle", "manual", "on_complete"])
@virtually
async def test_a_checkpoint_of_a_run_that_is_given_more_to_do_meanwhile_returns(strategy: str) -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store, lasts=1.0) as runner:
        await runner.start(double, id="a", checkpoint=strategy)
        gate = store.hold("append", times=1)
        sending = started(runner.send("a", 1))
        await until_nothing_moves()
        writing = started(runner.checkpoint("a"))
        await gate.reached.wait()
        again = started(runner.send("a", 2))
        await until_nothing_moves()
        gate.open()

        assert [await ended(task) for task in (sending, writing, again)] == ["returned"] * 3
        assert (await runner.wait("a")).values("double") == [2, 4]
