"""The executor of a simulation is an executor like any other, but for the time that things take."""

from __future__ import annotations

import asyncio

import pytest

from weft.errors import ThreadsExhausted
from weft.testing.contracts.executor import ExecutorContract, double
from weft.testing.contracts.immediate import ImmediateExecutorContract
from weft.testing.contracts.owner import Owner, runnable_of
from weft.testing.loop import run_virtually
from weft.testing.simulation.executor import ImmediateSimulatedExecutor, SimulatedExecutor


class TestSimulatedExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self) -> SimulatedExecutor:
        return SimulatedExecutor(lambda _: 0.0, max_workers=4)


class TestImmediateSimulatedExecutor(ExecutorContract, ImmediateExecutorContract):
    @pytest.fixture
    def executor(self) -> ImmediateSimulatedExecutor:
        return ImmediateSimulatedExecutor(lambda _: 0.0, max_workers=4)


def test_what_lasts_less_ends_first_and_the_rest_waits_for_a_worker() -> None:
    async def main() -> tuple[list[int], float]:
        lasts = iter((30.0, 10.0, 5.0))
        owner = Owner(SimulatedExecutor(lambda _: next(lasts), max_workers=2))
        for ticket in (1, 2, 3):
            owner.submit(ticket, double, ticket)
        await owner.until(lambda: len(owner.outcomes) == 3)
        return owner.order, asyncio.get_running_loop().time()

    assert run_virtually(main()) == ([2, 3, 1], 30.0)


def test_what_is_cancelled_was_called_and_is_never_collected() -> None:
    calls: list[int] = []

    async def main() -> None:
        executor = SimulatedExecutor(lambda _: 60.0, max_workers=1)
        owner = Owner(executor)
        owner.submit(1, calls.append, 1)
        owner.submit(2, calls.append, 2)
        await asyncio.sleep(1)

        executor.cancel(1)
        await owner.result(2)

        assert list(owner.outcomes) == [2]

    run_virtually(main())

    assert calls == [1, 2]


def test_what_it_refuses_is_as_if_all_threads_hung() -> None:
    async def main() -> None:
        executor = SimulatedExecutor(lambda _: 0.0, refuses=lambda runnable: runnable.args == (2,))
        Owner(executor)
        executor.submit(1, runnable_of(double, 1))

        with pytest.raises(ThreadsExhausted):
            executor.submit(2, runnable_of(double, 2))

    run_virtually(main())


def test_an_attempt_gives_signs_of_life_where_a_policy_asks_for_them() -> None:
    async def main() -> list[float]:
        loop, heard = asyncio.get_running_loop(), list[float]()
        owner = Owner(SimulatedExecutor(lambda _: 10.0, beats=lambda _: 4.0))
        listened = runnable_of(double, 1)
        listened.on_heartbeat = lambda: heard.append(loop.time())
        owner.executor.submit(1, listened)
        await owner.until(lambda: len(owner.outcomes) == 1)
        return heard

    assert run_virtually(main()) == [4.0, 8.0]
