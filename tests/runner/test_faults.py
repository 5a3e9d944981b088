"""
A runner in bad weather, on virtual time: what the simulation has found, and what it cannot reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

import pytest

from weft import AsyncRunner, Run, Workflow, step
from weft.core.events import Notified
from weft.stores import MemoryStore
from weft.testing import run_virtually
from weft.testing.executor import SimulatedExecutor
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")

double = Workflow("double", step(lambda x: x * 2, name="double"))


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop on virtual time."""

    @wraps(test)
    def call(*args: Any, **kwargs: Any) -> None:
        run_virtually(test(*args, **kwargs))

    return call


class SlowStore(WrappedStore):
    """Takes a second for everything, half of it before it is done and half of it after."""

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(0.5)
        result = await act()
        await asyncio.sleep(0.5)
        return result


def runner_on(store: Any, *, lasts: float = 0.0, **options: Any) -> AsyncRunner:
    """Return a runner without threads, on which every step takes *lasts* seconds."""
    executors = {name: SimulatedExecutor(lambda _: lasts, max_workers=8) for name in ("inline", "async", "thread")}
    return AsyncRunner(store, executors=executors, **options)


# -- starting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", ["every_cycle", "pipelined", "on_complete", "manual"])
@virtually
async def test_a_run_that_turns_out_to_exist_executes_nothing_again(checkpoint: str) -> None:
    calls: list[int] = []
    workflow = Workflow("count", step(lambda x: calls.append(x) or x, name="count"))
    store = SlowStore(MemoryStore())
    async with runner_on(store) as runner:
        await (await runner.start(workflow, 5, id="a")).wait()

    async with runner_on(store, checkpoint=checkpoint) as runner:
        handle = await runner.start(workflow, 5, id="a")
        run = await handle.wait()

    assert (run.values("count"), calls) == ([5], [5])


# -- waiting -------------------------------------------------------------------------------------


@virtually
async def test_whoever_waits_is_told_when_it_is_durable_that_on_complete_was_called() -> None:
    store = SlowStore(MemoryStore())
    told: list[str] = []

    async def on_complete(run: str, _: Run) -> None:
        told.append(run)

    async with runner_on(store) as runner:
        run = await (await runner.start(double, 5, id="a", on_complete=on_complete)).wait()
        stored = await store.inner.find("a")

    assert isinstance(run.log()[-1], Notified)
    assert (stored.head, stored.status, told) == (len(run.log()), "idle", ["a"])


@virtually
async def test_a_wait_in_a_second_busy_period_ends_after_the_second_call_of_on_complete() -> None:
    told: list[int] = []
    begun = asyncio.Event()

    async def on_complete(_: str, run: Run) -> None:
        begun.set()
        await asyncio.sleep(1)
        told.append(len(run.values("double")))

    async with runner_on(SlowStore(MemoryStore())) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=on_complete)
        await handle.wait()
        begun.clear()
        await handle.send(2)
        await begun.wait()
        await handle.wait()

    assert told == [1, 2]
