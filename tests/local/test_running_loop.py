"""The concurrent loop inside the loop of its caller: what a step sees there, and what ends it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest
from overlapping import PATIENCE, meeting, total

from weft import Run, Workflow, condition, current, each, step
from weft.errors import AlreadyRunning

# -- inside a running loop -------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [None, 2])
def test_an_async_step_runs_inside_a_running_loop(parallel: int | None) -> None:
    async def fetch(x: int) -> int:
        return x + 1

    workflow = Workflow("w", step(fetch))

    async def main() -> Run:
        return workflow.run(1, parallel=parallel)

    assert asyncio.run(main()).output == 2


@pytest.mark.parametrize("parallel", [None, 2])
def test_an_interrupt_comes_through_inside_a_running_loop(parallel: int | None) -> None:
    async def fetch(x: int) -> int:
        raise SystemExit(x)

    run = Workflow("w", step(fetch)).plan(3)

    async def main() -> None:
        with pytest.raises(SystemExit):
            run.react_until_satisfied(parallel=parallel)

    asyncio.run(main())

    assert run.is_runnable


def test_an_async_runnable_can_be_executed_in_a_running_loop_both_ways() -> None:
    async def fetch(x: int) -> int:
        return x + 1

    [runnable] = Workflow("w", step(fetch)).plan(1).prepare()

    async def main() -> tuple[object, object]:
        return runnable.execute().result, (await runnable.aexecute()).result

    assert asyncio.run(main()) == (2, 2)


def test_plain_and_async_steps_mix_in_an_asynchronous_run() -> None:
    async def fetch(x: int) -> int:
        return x + 1

    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    workflow = Workflow("w", step(fetch) >> is_even >> step(lambda x: x * 10, name="tenfold") >> total)

    run = asyncio.run(workflow.arun(1))

    assert run.output == 20


def test_a_further_input_can_be_run_asynchronously() -> None:
    workflow = Workflow("w", total)

    async def main() -> Run:
        run = await workflow.arun(1)
        return await run.arun(2)

    assert asyncio.run(main()).values() == [1, 3]


@pytest.mark.parametrize("parallel", [None, 4])
def test_a_loop_that_was_held_up_before_it_started_anything_starts_it_once(
    parallel: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine under load takes the processor away for longer than a turn of the loop."""
    calls: list[int] = []
    held_up = iter([0.0, 60.0])

    @step
    async def charge(x: int) -> int:
        calls.append(x)
        return x

    monkeypatch.setattr("weft.local.concurrent.monotonic", lambda: next(held_up, 0.0))
    run = Workflow("w", charge).run(1, parallel=parallel)

    assert calls == [1]
    assert run.values("charge") == [1]


# -- what a step sees ------------------------------------------------------------------------------


request: contextvars.ContextVar[str] = contextvars.ContextVar("request")


async def aseen(_: int) -> str:
    return request.get()


@pytest.mark.parametrize("function", [lambda _: request.get(), aseen], ids=["plain", "async"])
@pytest.mark.parametrize("parallel", [None, 2])
def test_a_step_sees_the_context_variables_of_the_caller(
    function: Callable[[int], object], parallel: int | None
) -> None:
    def call() -> object:
        request.set("r-1")
        return Workflow("w", step(function, name="seen")).run(1, parallel=parallel).output

    assert contextvars.copy_context().run(call) == "r-1"


def test_each_of_several_steps_at_once_knows_its_own_name() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)
    steps = [step(lambda _: (barrier.wait(), current().component)[1], name=f"s{n}") for n in range(3)]

    run = Workflow("w", *steps).run(1, parallel=3)

    assert run.results() == {"s0": "s0", "s1": "s1", "s2": "s2"}


def test_each_of_several_coroutines_at_once_knows_its_own_name() -> None:
    barrier = asyncio.Barrier(3)

    async def who(_: int) -> str:
        async with asyncio.timeout(PATIENCE):
            await barrier.wait()
        return current().component

    run = Workflow("w", *(step(who, name=f"s{n}") for n in range(3))).run(1)

    assert run.results() == {"s0": "s0", "s1": "s1", "s2": "s2"}


# -- interrupts and cancellation -------------------------------------------------------------------


async def araise(signal: BaseException) -> None:
    raise signal


def throw(signal: BaseException) -> None:
    raise signal


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])
@pytest.mark.parametrize("function", [throw, araise], ids=["plain", "async"])
def test_an_interrupt_propagates_and_the_work_stays_ready(
    function: Callable[[BaseException], object], signal: BaseException
) -> None:
    run = Workflow("w", step(function, name="work")).plan(signal)

    with pytest.raises(type(signal)):
        run.react_until_satisfied(parallel=2)

    assert [runnable.component for runnable in run.prepare()] == ["work"]
    assert not run.failed


def test_a_cancelled_run_stops_its_coroutines_and_can_go_on() -> None:
    ended: list[str] = []
    patient = [True]

    async def work(x: int) -> int:
        try:
            if patient:
                started.set()
                await asyncio.Event().wait()
        finally:
            ended.append("work")
        return x

    run = Workflow("w", step(work)).plan()

    async def main() -> None:
        task = asyncio.ensure_future(run.arun(1))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(main())
    after = (list(ended), run.is_runnable, run.failed)
    patient.clear()

    assert after == (["work"], True, False)
    assert run.react_until_satisfied().output == 1


def test_a_coroutine_that_something_else_cancelled_has_failed() -> None:
    """The run was not cancelled, so it goes on."""

    async def wait(_: int) -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    run = Workflow("w", step(wait), step(lambda x: x, name="other")).run(1)

    assert isinstance(run.failures["wait"].__cause__, asyncio.CancelledError)
    assert run.value("other") == 1
    assert run.status == "idle"


@pytest.mark.parametrize("parallel", [None, 2])
def test_a_run_is_driven_by_one_at_a_time(parallel: int | None) -> None:
    run = Workflow("w", *meeting(2)).plan()

    async def main() -> list[object]:
        return await asyncio.gather(
            run.arun(1, parallel=parallel), run.arun(1, parallel=parallel), return_exceptions=True
        )

    first, second = asyncio.run(main())

    assert first is run
    assert isinstance(second, AlreadyRunning)
    assert run.values() == [1, 1]


def test_no_thread_outlives_the_run() -> None:
    before = set(threading.enumerate())

    Workflow("w", each(step(lambda x: x, name="keep"))).run(range(10), parallel=4)

    assert set(threading.enumerate()) == before
