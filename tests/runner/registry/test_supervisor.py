"""Workers that crash are rebuilt, and those that keep crashing are parked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from callers import T, cancel_tasks_of, started
from virtual_time import Refuses, SlowStore, double, now, runner_on, virtually

from weft import Policy, Runnable, Workflow, step
from weft.errors import RunnerClosed, RunParked
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore
from weft.testing import Fault, FaultyStore

# -- workers that crash ----------------------------------------------------------------------------


def crash() -> None:
    raise ValueError("a bug")


@virtually
async def test_a_worker_is_rebuilt_although_other_code_cancels_that_before_it_begins() -> None:
    def cancel() -> None:
        asyncio.get_running_loop().call_soon(cancel_tasks_of, "_restart")

    async with runner_on(MemoryStore(), refuses=Refuses(1, cancel)) as runner:
        handle = await runner.start(double, 1)

        assert await handle.result() == 2


@virtually
async def test_a_run_whose_worker_crashes_while_it_is_stopped_leaves_at_once() -> None:
    async with runner_on(MemoryStore(), lasts=50.0, refuses=lambda runnable: runnable.args == (2,)) as runner:
        await runner.start(double, 1, id="a")
        worker = runner._runtime.registry.get("a")
        assert worker is not None
        stopping = started(runner.stop("a", grace=20.0))
        await asyncio.sleep(1.0)

        worker.dispatcher.guard(worker, crash)
        await stopping

        assert now() < 2.0


@virtually
async def test_crashes_are_forgotten_after_a_while() -> None:
    crashed: set[str] = set()

    def once(runnable: Runnable) -> bool:
        is_first = runnable.run_id not in crashed
        crashed.add(runnable.run_id)
        return is_first

    async with runner_on(MemoryStore(), refuses=once) as runner:
        for number in range(10):
            await (await runner.start(double, 1, id=f"run {number}")).wait()
            await runner.stop(f"run {number}")
            await asyncio.sleep(50.0)

        assert list(runner._runtime.registry.supervisor._restarts) == ["run 8", "run 9"]


class Exhausted:
    """Lets the executors of a runner refuse the first *times* attempts."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, _: Runnable) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual"])
@virtually
async def test_a_worker_that_crashes_loses_nothing_that_was_recorded(checkpoint: str) -> None:
    async with runner_on(MemoryStore(), refuses=Exhausted(1), checkpoint=checkpoint) as runner:
        await runner.start(double, id="a")
        await runner.send("a", 1)
        await runner.send("a", 2)

        run = await runner.wait("a")

    assert sorted(run.values("double")) == [2, 4]


@virtually
async def test_an_input_that_comes_while_a_worker_is_rebuilt_is_taken() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store, refuses=Exhausted(1)) as runner:
        await runner.start(double, id="a")
        await runner.send("a", 1)

        inputs = [asyncio.ensure_future(_later(seconds, runner.send("a", 2))) for seconds in (0.0, 0.5, 1.0, 2.0, 3.0)]
        await asyncio.gather(*inputs)
        run = await runner.wait("a")

    assert sorted(run.values("double")) == [2, 4, 4, 4, 4, 4]


@virtually
async def test_a_worker_that_keeps_crashing_is_parked_and_callers_that_wait_are_told() -> None:
    store = MemoryStore()
    async with runner_on(store, refuses=Exhausted(100)) as runner:
        handle = await runner.start(double, 1, id="a", open=True)

        with pytest.raises(RunParked, match="ThreadsExhausted"):
            await handle.wait()
        with pytest.raises(RunParked, match="ThreadsExhausted"):
            await handle.send(2)
        await asyncio.sleep(1)
        stored = await store.find("a")

    assert (stored.status, stored.reason[:32]) == ("parked", "its worker crashed 4 times: Thre")


@virtually
async def test_a_store_that_is_unavailable_parks_no_run_whose_worker_has_crashed() -> None:
    faults = {("load_since", number): Fault.fail() for number in range(1, 8)}
    async with runner_on(FaultyStore(MemoryStore(), faults), refuses=Exhausted(1)) as runner:
        handle = await runner.start(double, 1, id="a")

        result = await handle.result()

    assert result == 2


@virtually
async def test_a_runner_can_be_closed_while_a_worker_is_rebuilt() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store, refuses=Exhausted(1)) as runner:
        await runner.start(double, id="a")
        await runner.send("a", 1)
        waiting = asyncio.ensure_future(runner.wait("a"))
        await asyncio.sleep(0.8)

    with pytest.raises(RunnerClosed):
        await waiting
    async with runner_on(store) as runner:
        await runner.resume("a", workflow=double)
        assert await runner.result("a") == 2


async def _later(seconds: float, work: Awaitable[T]) -> T:
    await asyncio.sleep(seconds)
    return await work


# -- errors that cannot say what they are ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("name", ["__notes__", "__str__", "__class__", "__cause__", "__traceback__", "args"])
@virtually
async def test_an_exception_that_cannot_say_what_it_is_fails_its_step_and_not_its_worker(name: str, kind: str) -> None:
    calls: list[int] = []

    def breaks(*_: object) -> Any:
        raise RuntimeError(f"{name} is broken")

    nasty: Any = type("Nasty", (Exception,), {name: breaks if name == "__str__" else property(breaks, breaks)})

    def fail(x: int) -> None:
        calls.append(x)
        raise nasty("text")

    async def afail(x: int) -> None:
        fail(x)

    flow = Workflow("w", step(fail if kind == "plain" else afail, name="fail"))
    async with runner_on() as runner:
        await runner.start(flow, 1, id="a")
        run = await runner.wait("a")
        await runner.start(flow.with_policies([("fail", Policy(max_retries=1, backoff="none"))]), 1, id="b")
        again = await runner.wait("b")

        assert (await runner.status("a"), await runner.status("b")) == ("failed", "failed")
        assert (list(run.failures), list(again.failures)) == (["fail"], ["fail"])
        assert len(calls) == 1 + 2


@virtually
async def test_a_worker_that_crashes_with_what_cannot_be_said_is_parked_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def crash(*_: Any) -> None:
        raise Unspeakable

    monkeypatch.setattr(Worker, "ended", crash)
    async with runner_on() as runner:
        await runner.start(double, 1, id="a")

        with pytest.raises(RunParked, match=r"Unspeakable: <.*Unspeakable whose text fails with RuntimeError>"):
            await runner.wait("a")
