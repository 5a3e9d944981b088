"""Runnables that wait for a worker of an executor, and for how long they may."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual_time import double, runner_on, virtually

from weft import AsyncRunner, Policy, Run, Workflow, each, step
from weft.errors import QueueTimeout
from weft.local.counters import LocalCounters
from weft.policy import DEFAULT, ConcurrencyLimit
from weft.stores import MemoryStore
from weft.testing.simulation.executor import SimulatedExecutor

# -- waiting for a worker --------------------------------------------------------------------------


@virtually
async def test_a_stop_starts_nothing_that_waits_for_a_worker() -> None:
    calls: list[int] = []
    wide = Workflow("wide", each(step(lambda x: calls.append(x) or x, name="count")))
    async with runner_on(MemoryStore(), lasts=1.0) as runner:
        await runner.start(wide, list(range(100)), id="a")
        await asyncio.sleep(1.5)
        begun = len(calls)

        await runner.stop("a", grace=1_000.0)

    assert len(calls) == begun == 8


@pytest.mark.parametrize("way", ["cancel", "stop", "timeout"])
@virtually
async def test_a_worker_that_becomes_free_takes_what_waits_for_it(way: str) -> None:
    executors = {"thread": SimulatedExecutor(lambda r: 1.0 if r.run_id == "b" else 1_000.0, max_workers=1)}
    hanging = double.with_policies([(DEFAULT, Policy(timeout=5.0))]) if way == "timeout" else double
    async with AsyncRunner(MemoryStore(), executors=executors) as runner:
        await runner.start(hanging, 1, id="a")
        handle = await runner.start(double, 2, id="b")
        await asyncio.sleep(1.0)

        if way == "cancel":
            await runner.cancel("a")
        elif way == "stop":
            await runner.stop("a", grace=4.0)

        assert await handle.result() == 4


# -- waiting too long ------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, ConcurrencyLimit("two", 2)])
@pytest.mark.parametrize("mode", ["sync", "durable"])
@virtually
async def test_what_waits_too_long_for_a_worker_or_a_limit_fails(limit: ConcurrencyLimit | None, mode: Any) -> None:
    policy = Policy(queue_timeout=5.0, concurrency_limit=limit, execution_mode=mode)

    run, calls, took = await three_at_once(policy)

    assert (run.values("count"), calls, took) == ([1, 2], [1, 2], 60.0)
    assert [type(failure.__cause__) for failure in run.failures.values()] == [QueueTimeout]


@pytest.mark.parametrize("limit", [None, ConcurrencyLimit("two", 2)])
@pytest.mark.parametrize("mode", ["sync", "durable"])
@virtually
async def test_what_has_waited_too_long_and_is_retried_runs_once(limit: ConcurrencyLimit | None, mode: Any) -> None:
    policy = Policy(queue_timeout=5.0, concurrency_limit=limit, execution_mode=mode, max_retries=1)

    run, calls, took = await three_at_once(policy)

    assert (sorted(run.values("count")), calls, took) == ([1, 2, 3], [1, 2, 3], 120.0)


async def three_at_once(policy: Policy) -> tuple[Run, list[int], float]:
    """Run a step on three elements under *policy*, where two workers take a minute each."""
    calls: list[int] = []
    wide = Workflow("wide", each(step(lambda x: calls.append(x) or x, name="count"))).with_policies([("count", policy)])
    executors = {"thread": SimulatedExecutor(lambda _: 60.0, max_workers=2)}
    async with AsyncRunner(MemoryStore(), executors=executors, counters=LocalCounters()) as runner:
        run = await (await runner.start(wide, [1, 2, 3])).wait()
        return run, calls, asyncio.get_running_loop().time()
