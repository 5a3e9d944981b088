"""
Execution in worker processes: a process that dies fails one attempt, and one that is cancelled is stopped.

The deaths are real ones.  The functions are in a module that the workers can import.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

import pytest
from shop_module import run_in_a_process

from weft.errors import WorkerDied
from weft.executors import ProcessExecutor
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import Gate, knock
from weft.testing.contracts.owner import PATIENCE, Owner, in_a_loop
from weft.testing.contracts.steps import double, own_pid

pytestmark = pytest.mark.usefixtures("main_module")


class TestProcessExecutor(ConcurrentExecutorContract):
    """The contract."""

    @pytest.fixture
    def executor(self) -> ProcessExecutor:
        return ProcessExecutor(2, capacity=20)


# -- deaths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "value", "exitcode", "told"),
    [
        (ctypes.string_at, 0, -signal.SIGSEGV, "killed by SIGSEGV"),
        (os._exit, 3, 3, "exited with code 3"),
        (signal.raise_signal, signal.SIGKILL, -signal.SIGKILL, "out of memory"),
    ],
)
def test_a_death_fails_one_attempt(function: Any, value: int, exitcode: int, told: str) -> None:
    before, died, after = run_in_a_process((double, 1), (function, value), (double, 2))

    assert (before, after) == (2, 4)
    assert isinstance(died, WorkerDied)
    assert died.exitcode == exitcode
    assert told in str(died)
    assert "'it'" in str(died)


@in_a_loop
async def test_a_death_is_not_felt_next_door() -> None:
    owner = Owner(ProcessExecutor(2))
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        await gate.until(lambda: gate.came == 1)

        owner.submit(2, ctypes.string_at, 0)
        died = await owner.result(2)
        gate.open()
        lived = await owner.result(1)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert lived.result == "through"


@in_a_loop
async def test_a_kill_from_outside_fails_what_runs() -> None:
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result
    async with Gate() as gate:
        owner.submit(2, knock, gate.address)
        await gate.until(lambda: gate.came == 1)

        os.kill(pid, signal.SIGKILL)
        died = await owner.result(2)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert died.error.exitcode == -signal.SIGKILL


@in_a_loop
async def test_a_death_between_two_steps_costs_no_attempt() -> None:
    executor = ProcessExecutor(1)
    owner = Owner(executor)
    owner.submit(1, own_pid, 0)
    first = (await owner.result(1)).result
    [child] = executor._children

    os.kill(first, signal.SIGKILL)
    assert child._watch.has_ended(PATIENCE)
    owner.submit(2, own_pid, 0)
    second = (await owner.result(2)).result
    await owner.close()

    assert isinstance(second, int)
    assert second != first


@in_a_loop
async def test_a_death_is_noticed_though_a_grandchild_holds_the_pipe(shop: Any) -> None:
    owner = Owner(ProcessExecutor(1))
    async with Gate() as gate:
        owner.submit(1, shop.leave_a_child, gate.address)
        died = await owner.result(1)
        await gate.until(lambda: gate.came == 1)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert died.error.exitcode == 5


# -- stopping --------------------------------------------------------------------------------------


@in_a_loop
async def test_what_is_cancelled_while_its_process_starts_never_runs() -> None:
    owner = Owner(ProcessExecutor(1))
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        owner.executor.cancel(1)
        owner.submit(2, double, 2)
        outcome = await owner.result(2)
    await owner.close()

    assert outcome.result == 4
    assert (gate.came, list(owner.outcomes)) == (0, [2])


@in_a_loop
async def test_cancelling_one_never_hits_the_next() -> None:
    """An attempt that has just ended is cancelled while the worker is at the next one already."""
    owner = Owner(ProcessExecutor(1))

    for ticket in range(0, 100, 2):
        owner.submit(ticket, double, ticket)
        owner.submit(ticket + 1, double, ticket)
        await owner.woken()
        owner.executor.cancel(ticket)
        owner.collect()
        await owner.result(ticket + 1)
    await owner.close()

    assert {outcome.status for ticket, outcome in owner.outcomes.items() if ticket % 2} == {"completed"}


@in_a_loop
async def test_closed_it_leaves_no_process_behind() -> None:
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result

    await owner.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
