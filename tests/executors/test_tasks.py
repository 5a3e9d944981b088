"""Execution in the event loop."""

from __future__ import annotations

import asyncio
import logging

import pytest

from weft.executors import TaskExecutor, tasks
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import Gate, aknock
from weft.testing.contracts.lending import LendingExecutorContract
from weft.testing.contracts.owner import Owner, in_a_loop


class TestTaskExecutor(ConcurrentExecutorContract):
    """The contract."""

    hold = staticmethod(aknock)

    @pytest.fixture
    def executor(self) -> TaskExecutor:
        return TaskExecutor(capacity=20)


class TestLending(LendingExecutorContract):
    """The contract of places that are lent."""

    hold = staticmethod(aknock)

    @pytest.fixture
    def executor(self) -> TaskExecutor:
        return TaskExecutor(capacity=2)


@in_a_loop
async def test_a_step_that_cancels_itself_has_failed() -> None:
    async def give_up(x: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    owner = Owner(TaskExecutor())

    owner.submit(1, give_up, 1)
    outcome = await owner.result(1)

    assert outcome.status == "failed"
    assert isinstance(outcome.error, asyncio.CancelledError)


@in_a_loop
async def test_a_step_that_waited_for_something_cancelled_has_failed() -> None:
    async def wait_for_nothing(x: object) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    owner = Owner(TaskExecutor())

    owner.submit(1, wait_for_nothing, 1)
    outcome = await owner.result(1)

    assert isinstance(outcome.error, asyncio.CancelledError)


@in_a_loop
async def test_what_is_cancelled_before_its_first_turn_never_runs() -> None:
    ran = []

    async def run(x: object) -> None:
        ran.append(x)

    owner = Owner(TaskExecutor(capacity=1))
    owner.submit(1, run, "no")

    owner.executor.cancel(1)
    await owner.until(lambda: owner.executor.free == 1)

    assert (ran, owner.outcomes) == ([], {})


@in_a_loop
async def test_a_cancelled_coroutine_keeps_its_place_until_it_has_cleaned_up() -> None:
    cleaning, cleaned = asyncio.Event(), asyncio.Event()

    async def slow_to_leave(x: object) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaning.set()
            await cleaned.wait()

    owner = Owner(TaskExecutor(capacity=1))
    owner.submit(1, slow_to_leave, 1)
    await asyncio.sleep(0)

    owner.executor.cancel(1)
    await cleaning.wait()
    meanwhile = owner.executor.free
    cleaned.set()
    await owner.until(lambda: owner.executor.free == 1)

    assert meanwhile == 0
    assert owner.outcomes == {}


@in_a_loop
async def test_one_that_ignores_its_cancellation_is_reported_and_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "CANCEL_GRACE", 0.01)

    async def stubborn(gate: Gate) -> str:
        while True:
            try:
                return await aknock(gate.address)
            except asyncio.CancelledError:
                continue

    owner = Owner(TaskExecutor())
    async with Gate() as gate:
        owner.submit(1, stubborn, gate)
        await gate.until(lambda: gate.came == 1)

        with caplog.at_level(logging.WARNING):
            given_up = await owner.close(0)
        await gate.until(lambda: gate.came == 2)
        gate.open()
    owner.collect()

    assert given_up == [1]
    assert "ignores its cancellation" in caplog.text
    assert owner.outcomes == {}
