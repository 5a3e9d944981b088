"""Timers beside limits, and in a loop that is held: a timeout counts the time that a step could use."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from virtual_time import LoopClock, now, runner_on, under, virtually

from weft import AsyncRunner, Policy, Run, Workflow, current, step
from weft.errors import DeadlineExceeded, QueueTimeout, StepTimeout
from weft.executors.tasks import TaskExecutor
from weft.local.counters import LocalCounters
from weft.policy import ConcurrencyLimit, RateLimit, Value
from weft.runner.execution.policy_call import PolicyCall
from weft.stores import MemoryStore
from weft.testing.loop import VirtualLoop

# -- timers and limits -----------------------------------------------------------------------------


ONE = ConcurrencyLimit("one", 1)


class Calls:
    """Remembers when each run called its step."""

    def __init__(self) -> None:
        self.times: list[tuple[float, str]] = []

    def __call__(self, name: str) -> str:
        self.times.append((now(), name))
        return name

    async def start(self, runner: AsyncRunner, name: str, **policy: Any) -> Any:
        """Start a run of one step under this *policy*."""
        workflow = Workflow("w", step(self, name="call")).with_policies([("call", Policy(**policy))])
        return await runner.start(workflow, name, id=name)


def cause(run: Run) -> type[BaseException]:
    """Return why the step of *run* has failed."""
    return type(run.failures["call"].__cause__)


@virtually
async def test_a_step_takes_its_limit_when_its_delay_is_over_and_not_before() -> None:
    calls = Calls()
    async with runner_on(lasts=2.0) as runner:
        delayed = await calls.start(runner, "delayed", delay=5.0, concurrency_limit=ONE)
        other = await calls.start(runner, "other", concurrency_limit=ONE)
        await delayed.wait()
        await other.wait()

    assert calls.times == [(0.0, "other"), (5.0, "delayed")]


@virtually
async def test_a_step_whose_delay_is_over_waits_behind_those_that_wait_for_its_limit_already() -> None:
    calls = Calls()
    async with runner_on(lasts=4.0) as runner:
        handles = [
            await calls.start(runner, "delayed", delay=3.0, concurrency_limit=ONE),
            await calls.start(runner, "holder", concurrency_limit=ONE),
            await calls.start(runner, "waiting", concurrency_limit=ONE),
        ]
        for handle in handles:
            await handle.wait()

    assert calls.times == [(0.0, "holder"), (4.0, "waiting"), (8.0, "delayed")]


@virtually
async def test_a_delay_does_not_use_up_a_turn_of_a_rate() -> None:
    calls, rate = Calls(), RateLimit("rate", limit=1, per=10.0)
    async with runner_on() as runner:
        delayed = await calls.start(runner, "delayed", delay=5.0, rate_limit=rate)
        other = await calls.start(runner, "other", rate_limit=rate)
        await delayed.wait()
        await other.wait()

    assert calls.times == [(0.0, "other"), (10.0, "delayed")]


@virtually
async def test_a_timeout_does_not_count_while_a_step_waits_for_its_delay_or_its_limit() -> None:
    calls = Calls()
    async with runner_on(lasts=5.0) as runner:
        await calls.start(runner, "holder", concurrency_limit=ONE)
        handle = await calls.start(runner, "waiting", delay=2.0, concurrency_limit=ONE, timeout=6.0)
        run = await handle.wait()

    assert (run.output, calls.times) == ("waiting", [(0.0, "holder"), (5.0, "waiting")])


@virtually
async def test_a_timeout_frees_the_limit_for_the_next_step() -> None:
    calls = Calls()
    async with runner_on(lasts=5.0) as runner:
        slow = await calls.start(runner, "slow", concurrency_limit=ONE, timeout=3.0)
        following = await calls.start(runner, "following", concurrency_limit=ONE)
        failed = await slow.wait()
        await following.wait()

    assert cause(failed) is StepTimeout
    assert calls.times == [(0.0, "slow"), (3.0, "following")]


@virtually
async def test_a_step_that_waits_between_two_attempts_has_left_its_limit() -> None:
    calls = Calls()

    def fail(name: str) -> None:
        calls(name)
        raise ValueError(name)

    policy = Policy(concurrency_limit=ONE, max_retries=1, backoff="linear", base_delay=10.0)
    failing = Workflow("w", step(fail, name="call")).with_policies([("call", policy)])
    async with runner_on(lasts=1.0) as runner:
        failed = await runner.start(failing, "failing")
        await calls.start(runner, "other", concurrency_limit=ONE)
        await failed.wait()

    assert calls.times == [(0.0, "failing"), (1.0, "other"), (11.0, "failing")]


@pytest.mark.parametrize(
    ("policy", "error"),
    [({"queue_timeout": 3.0}, QueueTimeout), ({"deadline": 3.0}, DeadlineExceeded)],
    ids=["queue timeout", "deadline"],
)
@virtually
async def test_a_step_whose_time_is_up_while_it_waits_for_a_limit_leaves_its_place_to_the_next(
    policy: dict[str, float], error: type[Exception]
) -> None:
    calls = Calls()
    async with runner_on(lasts=5.0) as runner:
        await calls.start(runner, "holder", concurrency_limit=ONE)
        waiting = await calls.start(runner, "waiting", concurrency_limit=ONE, **policy)
        following = await calls.start(runner, "following", concurrency_limit=ONE)
        failed = await waiting.wait()
        failed_at = now()
        await following.wait()

    assert (cause(failed), failed_at) == (error, 3.0)
    assert calls.times == [(0.0, "holder"), (5.0, "following")]


@virtually
async def test_a_delay_that_is_over_in_the_moment_in_which_its_limit_is_free_starts_the_step_once() -> None:
    calls = Calls()
    async with runner_on(MemoryStore(), lasts=5.0) as runner:
        await calls.start(runner, "holder", concurrency_limit=ONE)
        handle = await calls.start(runner, "delayed", delay=5.0, concurrency_limit=ONE)
        await handle.wait()
        await asyncio.sleep(60.0)

    assert calls.times == [(0.0, "holder"), (5.0, "delayed")]


# -- a loop that is held ---------------------------------------------------------------------------


def hold(seconds: float) -> None:
    """Let *seconds* pass in which the loop does nothing else."""
    cast("VirtualLoop", asyncio.get_running_loop()).advance(seconds)


def tasks_on(**options: Any) -> AsyncRunner:
    """Return a runner whose coroutines are tasks of the loop on virtual time."""
    executors = {name: TaskExecutor() for name in ("inline", "async", "thread")}
    return AsyncRunner(executors=executors, clock=LoopClock(), counters=LocalCounters(), **options)


async def work_while_held(
    policy: Policy, *lasts: float, holds: tuple[tuple[float, float], ...]
) -> tuple[Run, list[float]]:
    """Return a run of one coroutine that waits for *lasts*, while the loop is held from when on for how long."""
    began: list[float] = []

    async def work(x: int) -> int:
        began.append(now())
        for seconds in lasts:
            await asyncio.sleep(seconds)
        return x

    async with tasks_on() as runner:
        for at, seconds in holds:
            asyncio.get_running_loop().call_later(at, hold, seconds)
        await runner.start(under(policy, work), 1, id="a")
        return await runner.wait("a"), began


@pytest.mark.parametrize("lasts", [(0.3,), (0.3, 0.3), (0.1,) * 8])
@virtually
async def test_a_coroutine_that_would_have_ended_in_time_is_not_timed_out_because_the_loop_was_held(
    lasts: tuple[float, ...],
) -> None:
    run, began = await work_while_held(Policy(timeout=1.0, max_retries=2), *lasts, holds=((0.1, 2.0),))

    assert (run.failures, run.values("work"), began) == ({}, [1], [0.0])


@pytest.mark.parametrize(("beats", "attempts"), [(True, [0.0]), (False, [0.0, 4.0])])
@virtually
async def test_a_coroutine_does_not_count_as_silent_because_the_loop_was_held(
    beats: bool, attempts: list[float]
) -> None:
    began: list[float] = []

    async def work(x: int) -> int:
        began.append(now())
        for _ in range(10 if beats or len(began) > 1 else 10_000):
            await asyncio.sleep(0.3)
            if beats or len(began) > 1:
                current().heartbeat()
        return x

    async with tasks_on() as runner:
        asyncio.get_running_loop().call_later(0.5, hold, 2.5)
        await runner.start(under(Policy(heartbeat=1.0, max_retries=1), work), 1, id="a")
        run = await runner.wait("a")

    assert (run.failures, run.values("work"), began) == ({}, [1], attempts)


@virtually
async def test_a_coroutine_that_hangs_is_timed_out_although_the_loop_was_held() -> None:
    run, began = await work_while_held(Policy(timeout=1.0), 3600.0, holds=((0.1, 2.0),))

    assert isinstance(run.failures["work"].__cause__, StepTimeout)
    assert began == [0.0]
    assert now() == pytest.approx(2.1 + 1.0)


@virtually
async def test_a_loop_that_is_held_again_and_again_gives_a_hung_coroutine_its_timeout_once_more_and_not_for_ever() -> (
    None
):
    held = tuple((0.5 * at, 0.4) for at in range(100))

    run, _ = await work_while_held(Policy(timeout=1.0), 3600.0, holds=held)

    assert isinstance(run.failures["work"].__cause__, StepTimeout)
    assert now() < 10.0


@virtually
async def test_a_coroutine_that_takes_too_long_is_timed_out_at_its_time_where_the_loop_is_free() -> None:
    run, _ = await work_while_held(Policy(timeout=1.0), 3600.0, holds=((0.1, 0.5),))

    assert isinstance(run.failures["work"].__cause__, StepTimeout)
    assert now() == 1.0


@virtually
async def test_a_stall_that_is_over_in_time_gives_nothing_back() -> None:
    run, _ = await work_while_held(Policy(timeout=1.0), 0.3, 0.9, holds=((0.1, 0.5),))

    assert isinstance(run.failures["work"].__cause__, StepTimeout)


@pytest.mark.parametrize("seconds", [0.3, 3600.0])
@virtually
async def test_a_deadline_that_passed_while_the_loop_was_held_gives_the_same_time_back(seconds: float) -> None:
    run, _ = await work_while_held(Policy(deadline=1.0), seconds, holds=((0.1, 2.0),))

    assert bool(run.failures) == (seconds > 1.0)
    assert now() < 4.0


@virtually
async def test_a_fallback_is_abandoned_at_the_deadline_of_its_input() -> None:
    def broken(x: int) -> int:
        raise OSError("down")

    workflow = under(Policy(fallback=lambda runnable, error: Value(1)), broken)
    async with runner_on(lasts=lambda runnable: 100.0 if isinstance(runnable, PolicyCall) else 1.0) as runner:
        handle = await runner.start(workflow, 1, deadline=5.0)
        run = await handle.wait()

        assert now() == 5.0

    assert isinstance(run.failures["work"].__cause__, DeadlineExceeded)
