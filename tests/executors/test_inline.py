"""Execution here and now."""

from __future__ import annotations

import pytest

from weft.executors import InlineExecutor
from weft.testing.contracts.executor import ExecutorContract
from weft.testing.contracts.immediate import ImmediateExecutorContract
from weft.testing.contracts.owner import Owner, in_a_loop


class TestInlineExecutor(ExecutorContract, ImmediateExecutorContract):
    """The contract."""

    @pytest.fixture
    def executor(self) -> InlineExecutor:
        return InlineExecutor(capacity=20)


@in_a_loop
async def test_it_has_run_when_submit_returns() -> None:
    owner, ran = Owner(InlineExecutor()), []

    owner.submit(1, ran.append, "here")

    assert ran == ["here"]


@in_a_loop
async def test_a_coroutine_is_run_to_its_end() -> None:
    async def double(x: int) -> int:
        return 2 * x

    owner = Owner(InlineExecutor())

    owner.submit(1, double, 2)
    owner.collect()

    assert owner.outcomes[1].result == 4


@in_a_loop
async def test_the_ctrl_c_of_a_person_goes_through() -> None:
    def interrupted(x: object) -> None:
        raise KeyboardInterrupt

    owner = Owner(InlineExecutor())

    with pytest.raises(KeyboardInterrupt):
        owner.submit(1, interrupted, 1)
    owner.collect()

    assert owner.outcomes == {}
    assert owner.executor.free == InlineExecutor().capacity


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        InlineExecutor(capacity=0)
