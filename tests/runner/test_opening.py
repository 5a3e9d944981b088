"""Opening a runner, also while callers are cancelled: it is open for all of them, or nothing is left open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from callers import ended, started
from virtual_time import GatedStore, SlowStore, double, now, runner_on, until_nothing_moves, virtually

from weft import AsyncRunner
from weft.errors import RunnerClosed, StoreUnavailable
from weft.stores import MemoryStore
from weft.testing.simulation.executor import SimulatedExecutor


@pytest.mark.parametrize("patience", [0.25, 0.5, 0.75, 1.0])
@virtually
async def test_a_runner_whose_only_opener_was_cancelled_leaves_its_store_closed(patience: float) -> None:
    store = SlowStore(MemoryStore())
    runner = runner_on(store)

    try:
        async with asyncio.timeout(patience):
            await runner.open()
    except TimeoutError:
        with pytest.raises(RunnerClosed):
            await runner.open()
    await runner.close()

    assert not store.is_open


@virtually
async def test_a_runner_is_open_for_one_caller_although_another_was_cancelled() -> None:
    runner = runner_on(SlowStore(MemoryStore()))
    first, second = started(runner.open()), started(runner.open())
    await asyncio.sleep(0.1)
    second.cancel()
    await first

    assert await (await runner.start(double, 2)).result() == 4
    await runner.close()


@pytest.mark.parametrize("is_alone", [True, False])
@virtually
async def test_a_caller_that_is_cancelled_in_the_moment_in_which_a_runner_is_open_leaves_nothing_open(
    is_alone: bool,
) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    gate = store.hold("open")
    runner = runner_on(store)
    cancelled = started(runner.open())
    await asyncio.sleep(0)
    others = [] if is_alone else [started(runner.open())]
    await gate.reached.wait()
    [opening] = [task for task in asyncio.all_tasks() if task.get_name() == "weft-open"]
    opening.add_done_callback(lambda _: cancelled.cancel())
    gate.open()

    assert await ended(cancelled) == "CancelledError"
    assert [await ended(other) for other in others] == ["returned"] * len(others)
    if others:
        assert await (await runner.start(double, 1)).result() == 2
        await runner.close()
    await until_nothing_moves()
    assert not inner.is_open


@virtually
async def test_a_caller_of_open_that_is_cancelled_does_not_close_what_another_one_has_opened() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    gate = store.hold("open")
    runner = runner_on(store)

    async def open_first() -> None:
        await runner.open()
        second.cancel()

    first = started(open_first())
    await asyncio.sleep(0)
    second = started(runner.open())
    await gate.reached.wait()
    await until_nothing_moves()
    gate.open()

    assert (await ended(first), await ended(second)) == ("returned", "CancelledError")
    await until_nothing_moves()
    assert await (await runner.start(double, 1)).result() == 2
    await runner.close()
    assert not inner.is_open


@virtually
async def test_a_caller_that_opens_a_runner_after_it_could_not_be_opened_can_close_it() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    store.is_unavailable("open")
    gate = store.hold("open", times=1)
    runner = runner_on(store)

    async def open_twice() -> None:
        with pytest.raises(StoreUnavailable):
            await runner.open()
        store.fails_with.clear()
        await runner.open()

    first = started(open_twice())
    await asyncio.sleep(0)
    second = started(runner.open())  # which gets the failure when the first one tries again already
    await gate.reached.wait()
    await until_nothing_moves()
    gate.open()

    assert (await ended(first), await ended(second)) == ("returned", "StoreUnavailable")
    await runner.close()
    assert not inner.is_open


@virtually
async def test_a_runner_that_is_closed_while_it_opens_is_closed_once_if_the_caller_of_open_is_cancelled() -> None:
    closed: list[float] = []

    class Watched(SlowStore):
        async def close(self) -> None:
            await super().close()
            closed.append(now())

    runner = runner_on(Watched(MemoryStore()))
    opening = started(runner.open())
    await asyncio.sleep(0.2)
    closing = started(runner.close())
    await asyncio.sleep(0.2)

    opening.cancel()

    assert (await ended(opening), await ended(closing)) == ("CancelledError", "returned")
    await asyncio.sleep(10)
    assert len(closed) == 1


@virtually
async def test_a_runner_whose_executors_cannot_be_opened_leaves_its_store_closed() -> None:
    class Broken(SimulatedExecutor):
        def open(self, wake: Callable[[], None]) -> None:
            raise OSError("no more threads")

    store = MemoryStore()
    runner = AsyncRunner(store, executors={"thread": Broken(lambda _: 0.0)})

    with pytest.raises(OSError, match="no more threads"):
        await runner.open()

    assert not store.is_open
