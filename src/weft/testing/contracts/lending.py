"""
The contract of executors whose attempts can lend their slots.

    class TestMyExecutor(LendingExecutorContract):
        @pytest.fixture
        def executor(self):
            return MyExecutor(workers=2, capacity=2)  # full with two

It is separate from :class:`~weft.testing.contracts.executor.ConcurrentExecutorContract`, whose executors are not full
with two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Literal

import pytest

from weft.ports.executor import LendingExecutor
from weft.testing.contracts.gate import Address, Gate, knock
from weft.testing.contracts.owner import Owner, in_a_loop
from weft.testing.contracts.steps import double


class LendingExecutorContract:
    """The contract of an executor that is full when two tickets run."""

    hold: ClassVar[Callable[[Address], str] | Callable[[Address], Awaitable[str]]] = staticmethod(knock)
    """The step that waits at a gate; a coroutine function where only these can run at once."""

    @pytest.fixture
    def executor(self) -> LendingExecutor:
        """Return an executor that is not open, and full with two."""
        raise NotImplementedError("override the fixture `executor`")

    @in_a_loop
    async def test_others_run_while_all_that_fit_only_wait(self, executor: LendingExecutor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            for ticket in (1, 2):
                owner.submit(ticket, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 2)

            executor.lend(1)
            executor.lend(2)
            owner.submit(3, double, 1)
            outcome = await owner.result(3)
            gate.open()
            await owner.until(lambda: len(owner.outcomes) == 3)
        await owner.close()

        assert outcome.result == 2

    @in_a_loop
    async def test_a_place_is_lent_once_and_reclaimed_once(self, executor: LendingExecutor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)

            free = [executor.free]
            for change in (executor.lend, executor.lend, executor.reclaim, executor.reclaim):
                change(1)
                free.append(executor.free)
            gate.open()
            await owner.result(1)
        await owner.close()

        assert free == [1, 2, 2, 1, 1]

    @in_a_loop
    async def test_lending_what_is_not_inside_does_nothing(self, executor: LendingExecutor) -> None:
        owner = Owner(executor)
        owner.submit(1, double, 1)
        await owner.result(1)

        executor.lend(1)
        executor.reclaim(99)
        free = executor.free
        await owner.close()

        assert free == 2

    @pytest.mark.parametrize("how", ["reclaimed", "ended", "cancelled"])
    @in_a_loop
    async def test_whatever_becomes_of_it_everything_is_as_before(
        self, executor: LendingExecutor, how: Literal["reclaimed", "ended", "cancelled"]
    ) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            for ticket in (1, 2):
                owner.submit(ticket, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 2)
            for ticket in (1, 2):
                executor.lend(ticket)
            for ticket in (3, 4):
                owner.submit(ticket, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 4)

            for ticket in (1, 2):
                if how == "reclaimed":
                    executor.reclaim(ticket)
                elif how == "cancelled":
                    executor.cancel(ticket)
            gate.open()
            await owner.until(lambda: len(owner.outcomes) == (2 if how == "cancelled" else 4) and executor.free == 2)
            for ticket in (5, 6):
                owner.submit(ticket, double, ticket)
            await owner.until(lambda: {5, 6} <= set(owner.outcomes))
            owner.collect()
            free = executor.free
        given_up = await owner.close()

        assert (free, given_up) == (2, [])

    @in_a_loop
    async def test_closing_gives_up_what_only_waits(self, executor: LendingExecutor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)
            executor.lend(1)

            given_up = await owner.close(0)
            gate.open()

        assert given_up == [1]
