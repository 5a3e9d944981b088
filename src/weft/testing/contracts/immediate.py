"""
The contract of executors that can run something while their owner waits.

    class TestMyExecutor(ExecutorContract, ImmediateExecutorContract):
        @pytest.fixture
        def executor(self):
            return MyExecutor(capacity=20)
"""

from __future__ import annotations

import pytest

from weft.errors import ExecutorClosed
from weft.ports.executor import ImmediateExecutor
from weft.testing.contracts.owner import Owner, in_a_loop, runnable_of
from weft.testing.contracts.steps import double, leave, mark, refuse, whoami


class ImmediateExecutorContract:
    """The contract of an executor that can run a runnable without a ticket."""

    @pytest.fixture
    def executor(self) -> ImmediateExecutor:
        """Return an executor that is not open."""
        raise NotImplementedError("override the fixture `executor`")

    @in_a_loop
    async def test_what_is_run_at_once_has_ended_and_is_not_inside(self, executor: ImmediateExecutor) -> None:
        owner = Owner(executor)
        free = executor.free

        outcome = executor.run(runnable_of(double, 2))

        assert (outcome.status, outcome.result) == ("completed", 4)
        assert (executor.free, executor.collect(), owner.wakes) == (free, [], 0)
        await owner.close()

    @in_a_loop
    async def test_what_is_run_at_once_knows_what_it_is(self, executor: ImmediateExecutor) -> None:
        owner = Owner(executor)
        runnable = runnable_of(whoami, "x")

        outcome = executor.run(runnable)

        assert outcome.result == (runnable.run_id, "it", 1, runnable.idempotency_key, "x")
        await owner.close()

    @in_a_loop
    async def test_whatever_is_raised_at_once_is_the_outcome(self, executor: ImmediateExecutor) -> None:
        owner = Owner(executor)

        refused, left = executor.run(runnable_of(refuse, "tea")), executor.run(runnable_of(leave, "now"))

        assert (refused.status, type(refused.error)) == ("failed", LookupError)
        assert (left.status, type(left.error)) == ("failed", SystemExit)
        await owner.close()

    @in_a_loop
    async def test_nothing_that_is_run_at_once_sees_the_context_variables_of_another(
        self, executor: ImmediateExecutor
    ) -> None:
        owner = Owner(executor)

        found = [executor.run(runnable_of(mark, x)).result for x in (1, 2, 3)]

        assert found == [0, 0, 0]
        await owner.close()

    @in_a_loop
    async def test_one_that_is_closed_runs_nothing_at_once(self, executor: ImmediateExecutor) -> None:
        owner = Owner(executor)
        await owner.close()

        with pytest.raises(ExecutorClosed):
            executor.run(runnable_of(double, 1))
