"""Many runs that one caller waits for."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import double, runner_on, until_nothing_moves, virtually

from weft import Runner, Workflow, step
from weft.errors import InvalidOption, RunClosed, RunFailed, RunnerClosed, RunNotFound, RunNotHeld, WaitTimeout
from weft.runner.waiting_queries import AT_ONCE
from weft.stores import MemoryStore

failing = Workflow("failing", step(lambda x: 1 // x, name="divide"))


def test_the_first_error_in_order_is_raised_when_all_have_ended(runner: Runner) -> None:
    handles = runner.start_many(failing, [1, 0, 1], ids=["a", "b", "c"])

    with pytest.raises(RunFailed, match="divide"):
        handles.gather(timeout=10)
    assert [handle.status() for handle in handles] == ["completed", "failed", "completed"]


def test_errors_stand_in_the_places_of_outputs_where_that_is_wanted(runner: Runner) -> None:
    handles = runner.start_many(failing, [1, 0, 1])

    first, second, third = handles.gather(timeout=10, return_exceptions=True)

    assert (first, third) == (1, 1)
    assert isinstance(second, RunFailed)


def test_runs_that_are_not_here_and_handles_can_be_gathered(runner: Runner) -> None:
    handle = runner.start(double, 1)

    output, missing = runner.gather([handle, "nothing"], timeout=10, return_exceptions=True)

    assert output == 2
    assert isinstance(missing, RunNotFound)


@virtually
async def test_a_timeout_holds_for_all_of_them_and_names_the_first_that_is_not_done() -> None:
    async with runner_on(lasts=lambda runnable: 100.0 if runnable.args[0] else 0.0) as runner:
        handles = await runner.start_many(double, [0, 1, 2], ids=["a", "b", "c"])

        with pytest.raises(WaitTimeout, match="'b'"):
            await handles.gather(5.0)
        assert [type(each) for each in await handles.gather(5.0, return_exceptions=True)] == [
            int,
            WaitTimeout,
            WaitTimeout,
        ]
        assert await handles.gather() == [0, 2, 4]


@virtually
async def test_a_caller_whose_time_is_up_leaves_nothing_behind() -> None:
    async with runner_on(lasts=100.0) as runner:
        handles = await runner.start_many(double, [1, 2])

        for _ in range(3):
            await handles.gather(1.0, return_exceptions=True)

        assert runner._runtime.waiters._waiting == {}


@virtually
async def test_runs_that_are_done_need_no_time_to_be_gathered() -> None:
    async with runner_on() as runner:
        handles = await runner.start_many(double, range(AT_ONCE + 10))
        await handles.gather()

        assert await handles.gather(timeout=0) == [2 * x for x in range(AT_ONCE + 10)]


def test_one_id_or_handle_is_not_a_list_of_them(runner: Runner) -> None:
    handle = runner.start(double, 1, id="ab")

    for one in ("ab", handle):
        with pytest.raises(InvalidOption, match="list of ids or handles"):
            runner.gather(one)  # type: ignore[arg-type]


@virtually
async def test_a_caller_that_is_cancelled_while_it_gathers_leaves_nothing_behind() -> None:
    async with runner_on(lasts=1.0) as runner:
        handles = await runner.start_many(double, [1, 2])
        gathers = asyncio.create_task(handles.gather())
        await until_nothing_moves()
        gathers.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathers

        assert runner._runtime.waiters._waiting == {}
        assert await handles.gather() == [2, 4]


@virtually
async def test_an_output_counts_as_it_was_when_the_run_was_first_idle() -> None:
    async with runner_on(lasts=lambda runnable: float(runnable.args[0])) as runner:
        for run, value in (("a", 1), ("b", 9)):
            await runner.start(double, value, id=run, open=True)
        gathers = asyncio.create_task(runner.gather(["a", "b"]))
        await runner.wait("a")
        await runner.send("a", 5)
        await runner.wait("a")
        await runner.stop("a")

        assert await gathers == [2, 18]


@virtually
async def test_a_run_that_is_stopped_or_cancelled_is_an_error_in_its_place() -> None:
    async with runner_on(lasts=10.0) as runner:
        handles = await runner.start_many(double, [1, 2, 3], ids=["a", "b", "c"])
        gathers = asyncio.create_task(handles.gather(return_exceptions=True))
        await until_nothing_moves()
        await runner.stop("a", grace=0.0)
        await runner.cancel("b")

        stopped, cancelled, output = await gathers
        assert isinstance(stopped, RunNotHeld)
        assert isinstance(cancelled, RunClosed)
        assert output == 6


@virtually
async def test_callers_that_gather_are_told_that_the_runner_is_closed() -> None:
    runner = await runner_on(MemoryStore(), lasts=10.0).open()
    handles = await runner.start_many(double, [1, 2])
    gathers, waits = asyncio.create_task(handles.gather()), asyncio.create_task(handles[0].wait())
    await until_nothing_moves()
    await runner.close(grace=0.0)

    for each in (gathers, waits):
        with pytest.raises(RunnerClosed, match="was closed and stays closed"):
            await each
