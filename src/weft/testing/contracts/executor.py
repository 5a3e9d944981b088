"""
The contract of executors, as tests to inherit.

    class TestMyExecutor(ConcurrentExecutorContract):
        @pytest.fixture
        def executor(self):
            return MyExecutor(capacity=20)

:class:`ExecutorContract` holds for all executors; :class:`ConcurrentExecutorContract` for those that run work while
their owner does something else.  The executor is passed in unopened, has a capacity of 4 to 1,000 tickets and runs at
least two at once.  Nothing here waits for time to pass: slow steps wait at a gate (``weft.testing.contracts.gate``).

This module is public API: a stricter contract is a breaking change and is announced as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

import msgspec
import pytest

from weft.core.components.condition import condition
from weft.core.components.step import step
from weft.core.workflow import Workflow
from weft.errors import ExecutorClosed, ExecutorFull
from weft.ports.executor import Executor
from weft.testing.contracts.gate import Address, Gate, knock
from weft.testing.contracts.owner import Owner, in_a_loop, runnable_of
from weft.testing.contracts.steps import Mark, count_down, double, has_elements, leave, mark, refuse, seen, whoami


class ExecutorContract:
    """The contract of every executor: inherit it, and provide an ``executor`` fixture."""

    @pytest.fixture
    def executor(self) -> Executor:
        """Return an executor that is not open yet."""
        raise NotImplementedError("override `executor` to return an unopened executor")

    @in_a_loop
    async def test_an_outcome_carries_the_value_under_its_ticket(self, executor: Executor) -> None:
        owner = Owner(executor)

        runnable = owner.submit(7, double, 21)
        outcome = await owner.result(7)
        await owner.close()

        assert (outcome.status, outcome.result, outcome.error) == ("completed", 42, None)
        assert (outcome.component, outcome.inputs, outcome.run_id) == ("it", runnable.inputs, runnable.run_id)
        assert outcome.duration_ns > 0

    @in_a_loop
    async def test_what_a_step_raises_is_a_failed_outcome(self, executor: Executor) -> None:
        owner = Owner(executor)

        owner.submit(1, refuse, "tea")
        outcome = await owner.result(1)
        await owner.close()

        assert outcome.status == "failed"
        assert type(outcome.error) is LookupError
        assert outcome.error.args == ("no such thing", "tea")

    @in_a_loop
    async def test_a_step_that_wants_to_exit_fails_alone(self, executor: Executor) -> None:
        owner = Owner(executor)

        owner.submit(1, leave, "now")
        left = await owner.result(1)
        owner.submit(2, double, 2)
        after = await owner.result(2)
        await owner.close()

        assert left.status == "failed"
        assert type(left.error) is SystemExit
        assert after.result == 4

    @in_a_loop
    async def test_arguments_that_could_not_be_made_fail_the_attempt(self, executor: Executor) -> None:
        owner = Owner(executor)
        broken = ValueError("no such default")

        executor.submit(1, msgspec.structs.replace(runnable_of(double, 1), broken=broken))
        outcome = await owner.result(1)
        await owner.close()

        assert (outcome.status, outcome.error) == ("failed", broken)

    @in_a_loop
    async def test_an_iterator_comes_back_as_a_list(self, executor: Executor) -> None:
        owner = Owner(executor)

        owner.submit(1, count_down, 3)
        outcome = await owner.result(1)
        await owner.close()

        assert outcome.result == [2, 1, 0]

    @in_a_loop
    async def test_a_condition_comes_back_as_a_truth(self, executor: Executor) -> None:
        owner = Owner(executor)
        [test] = Workflow("w", condition(has_elements) >> step(double)).plan([0]).prepare()

        executor.submit(1, test)
        outcome = await owner.result(1)
        await owner.close()

        assert outcome.result is True

    @in_a_loop
    async def test_the_entries_of_a_runnable_are_called_in_its_context_alone(self, executor: Executor) -> None:
        owner = Owner(executor)

        executor.submit(1, msgspec.structs.replace(runnable_of(mark, 1), entries=(Mark(6), Mark(7))))
        entered = await owner.result(1)
        owner.submit(2, mark, 2)
        after = await owner.result(2)
        await owner.close()

        assert (entered.result, after.result) == (7, 0)

    @in_a_loop
    async def test_a_step_knows_what_it_is(self, executor: Executor) -> None:
        owner = Owner(executor)
        runnable = msgspec.structs.replace(runnable_of(whoami, "x"), attempt=3)

        executor.submit(1, runnable)
        outcome = await owner.result(1)
        await owner.close()

        assert outcome.result == (runnable.run_id, "it", 3, runnable.idempotency_key, "x")
        assert outcome.attempt == 3

    @in_a_loop
    async def test_no_step_sees_the_context_variables_of_another(self, executor: Executor) -> None:
        owner = Owner(executor)

        for ticket in range(4):
            owner.submit(ticket, mark, ticket + 1)
            await owner.result(ticket)
        await owner.close()

        assert [outcome.result for outcome in owner.outcomes.values()] == [0, 0, 0, 0]
        assert seen.get() == 0

    @in_a_loop
    async def test_nothing_is_lost_and_every_ticket_gets_its_own(self, executor: Executor) -> None:
        owner = Owner(executor)
        tickets = iter(range(300))
        most = executor.free

        for ticket in tickets:
            while executor.free == 0:
                await owner.woken()
                owner.collect()
            owner.submit(ticket, double, ticket)
        await owner.until(lambda: len(owner.outcomes) == 300)
        await owner.close()

        assert {ticket: outcome.result for ticket, outcome in owner.outcomes.items()} == {t: 2 * t for t in range(300)}
        assert most >= 4

    @in_a_loop
    async def test_it_wakes_once_until_it_is_asked(self, executor: Executor) -> None:
        """An owner that only collects when woken is woken exactly as often as it collects."""
        owner = Owner(executor)

        for ticket in range(40):
            if executor.free == 0:
                await owner.until(lambda: executor.free > 0)
            owner.submit(ticket, double, ticket)
        await owner.until(lambda: len(owner.outcomes) == 40)
        await owner.close()

        assert owner.collects <= owner.wakes <= owner.collects + 1

    @in_a_loop
    async def test_it_takes_no_more_than_it_says(self, executor: Executor) -> None:
        owner = Owner(executor)
        fits = executor.free

        for ticket in range(fits):
            owner.submit(ticket, double, ticket)
        left = executor.free
        with pytest.raises(ExecutorFull):
            owner.submit(fits, double, 1)
        await owner.until(lambda: len(owner.outcomes) == fits)
        free = executor.free
        await owner.close()

        assert (left, free) == (0, fits)
        assert fits not in owner.outcomes

    @in_a_loop
    async def test_what_has_ended_can_still_be_cancelled(self, executor: Executor) -> None:
        owner = Owner(executor)
        fits = executor.free
        owner.submit(1, double, 1)
        await owner.woken()

        executor.cancel(1)
        owner.collect()
        owner.submit(2, double, 2)
        await owner.result(2)
        free = executor.free
        await owner.close()

        assert list(owner.outcomes) == [2]
        assert free == fits

    @in_a_loop
    async def test_cancelling_what_is_not_inside_does_nothing(self, executor: Executor) -> None:
        owner = Owner(executor)
        fits = executor.free

        executor.cancel(99)
        owner.submit(1, double, 1)
        outcome = await owner.result(1)
        executor.cancel(1)
        free = executor.free
        await owner.close()

        assert (outcome.result, free) == (2, fits)

    @in_a_loop
    async def test_what_ended_before_the_close_can_be_collected_after_it(self, executor: Executor) -> None:
        owner = Owner(executor)
        owner.submit(1, double, 1)
        await owner.woken()

        given_up = await owner.close()
        owner.collect()

        assert given_up == []
        assert owner.outcomes[1].result == 2

    @in_a_loop
    async def test_closed_it_takes_nothing(self, executor: Executor) -> None:
        owner = Owner(executor)

        await owner.close()
        again = await owner.close()

        assert (executor.free, again) == (0, [])
        with pytest.raises(ExecutorClosed):
            owner.submit(1, double, 1)
        with pytest.raises(ExecutorClosed):
            Owner(executor)

    @in_a_loop
    async def test_unopened_it_takes_nothing(self, executor: Executor) -> None:
        assert executor.free == 0
        assert executor.collect() == []
        with pytest.raises(ExecutorClosed):
            executor.submit(1, runnable_of(double, 1))


class ConcurrentExecutorContract(ExecutorContract):
    """The contract of an executor that runs work while its owner does something else."""

    hold: ClassVar[Callable[[Address], str] | Callable[[Address], Awaitable[str]]] = staticmethod(knock)
    """The step that waits at a gate; a coroutine function where only these can run at once."""
    stops: ClassVar[bool] = True
    """Whether cancelled work is really ended."""

    @in_a_loop
    async def test_several_run_at_once(self, executor: Executor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            for ticket in range(2):
                owner.submit(ticket, type(self).hold, gate.address)

            await gate.until(lambda: gate.came == 2)
            gate.open()
            await owner.until(lambda: len(owner.outcomes) == 2)
        await owner.close()

        assert [outcome.result for outcome in owner.outcomes.values()] == ["through", "through"]

    @in_a_loop
    async def test_what_ends_first_is_collected_first(self, executor: Executor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)

            owner.submit(2, double, 1)
            await owner.result(2)
            gate.open()
            await owner.result(1)
        await owner.close()

        assert owner.order == [2, 1]

    @in_a_loop
    async def test_it_tells_since_when_something_runs(self, executor: Executor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)
            while (running := executor.started(1)) is None:  # noqa: ASYNC110 - elsewhere the news comes after the step
                await asyncio.sleep(0)
            gate.open()
            await owner.result(1)
        ended = executor.started(1)
        await owner.close()

        assert running <= asyncio.get_running_loop().time()
        assert (ended, executor.started(99)) == (None, None)

    @in_a_loop
    async def test_what_is_cancelled_is_never_collected_and_makes_room(self, executor: Executor) -> None:
        owner = Owner(executor)
        fits = executor.free
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)

            executor.cancel(1)
            if self.stops:
                await gate.until(lambda: gate.went == 1)
            gate.open()
            await owner.until(lambda: executor.free == fits)
            owner.submit(2, double, 1)
            await owner.result(2)
        await owner.close()

        assert list(owner.outcomes) == [2]

    @in_a_loop
    async def test_closing_waits_for_what_runs(self, executor: Executor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)

            closing = asyncio.ensure_future(owner.close())
            await asyncio.sleep(0)
            free = executor.free
            gate.open()
            given_up = await closing
            owner.collect()

        assert (free, given_up) == (0, [])
        assert owner.outcomes[1].result == "through"

    @in_a_loop
    async def test_closing_does_not_wait_for_what_is_cancelled_meanwhile(self, executor: Executor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)
            closing = asyncio.ensure_future(owner.close(3600))
            await asyncio.sleep(0)

            executor.cancel(1)
            async with asyncio.timeout(60):
                given_up = await closing
            gate.open()
        owner.collect()

        assert (given_up, list(owner.outcomes)) == ([], [])

    @in_a_loop
    async def test_closing_gives_up_what_does_not_end(self, executor: Executor) -> None:
        owner = Owner(executor)
        async with Gate() as gate:
            owner.submit(1, double, 1)
            await owner.result(1)
            owner.submit(2, type(self).hold, gate.address)
            await gate.until(lambda: gate.came == 1)

            given_up = await owner.close(0)
            if self.stops:
                await gate.until(lambda: gate.went == 1)
            gate.open()
        owner.collect()

        assert given_up == [2]
        assert list(owner.outcomes) == [1]
