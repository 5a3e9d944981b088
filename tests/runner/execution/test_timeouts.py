"""Timers beside limits: a delay comes before a limit is taken, and a timeout counts from when it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from weather import now, runner_on, virtually

from weft import AsyncRunner, Policy, Run, Workflow, step
from weft.errors import DeadlineExceeded, QueueTimeout, StepTimeout
from weft.policy import ConcurrencyLimit, RateLimit
from weft.stores import MemoryStore

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
