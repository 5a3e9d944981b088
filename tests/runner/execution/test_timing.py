"""The log of a runner says when things happened, and what they waited for; where nothing waited, it stays short."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_time import LoopClock, runner_on, stored_log, under, virtually

from weft import AsyncRunner, Policy, Runner, Workflow, step
from weft.core.events import AttemptFailed, ReactionOccurred, RunnableFailed, RunnableSkipped, Timing
from weft.log import decode, encode
from weft.policy import ConcurrencyLimit
from weft.stores import MemoryStore

chain = Workflow("chain", step(lambda x: x, name="first") >> step(lambda x: x, name="second"))


async def ended(runner: AsyncRunner, run: str, kind: Any = ReactionOccurred) -> list[Any]:
    """Wait until nothing is left to do; return the events of *kind*."""
    return [event for event in (await runner.wait(run)).log() if isinstance(event, kind)]


@virtually
async def test_an_event_says_when_the_component_ended() -> None:
    async with runner_on(lasts=2.0) as runner:
        began = LoopClock().time()
        await runner.start(chain, 1, id="a")
        times = [event.timing for event in await ended(runner, "a")]

    assert times == [Timing(began + 2.0), Timing(began + 4.0)]


@virtually
async def test_an_event_that_follows_at_once_says_nothing() -> None:
    async with runner_on(lasts=0.0) as runner:
        await runner.start(chain, 1, id="a")
        times = [event.timing for event in await ended(runner, "a")]

    assert times == [None, None]


@virtually
async def test_an_event_says_when_if_the_last_one_that_did_is_long_ago() -> None:
    lengths = {"first": 0.004, "second": 0.004, "third": 0.004, "fourth": 0.004}
    steps = [step(lambda x: x, name=name) for name in lengths]
    workflow = Workflow("w", steps[0] >> steps[1] >> steps[2] >> steps[3])
    async with runner_on(lasts=lambda runnable: lengths[runnable.component]) as runner:
        await runner.start(workflow, 1, id="a")
        timed = [event.component for event in await ended(runner, "a") if event.timing is not None]

    assert timed == ["third"]


@virtually
async def test_it_says_how_long_a_limit_was_waited_for() -> None:
    workflow = under(Policy(concurrency_limit=ConcurrencyLimit("one", 1)))
    async with runner_on(lasts=3.0) as runner:
        await runner.start(workflow, 1, id="a")
        await runner.start(workflow, 2, id="b")
        [first], [second] = await ended(runner, "a"), await ended(runner, "b")

    assert (first.timing.limited, second.timing.limited) == (0.0, 3.0)
    assert second.timing.at - first.timing.at == 3.0


@virtually
async def test_it_says_how_long_it_was_delayed() -> None:
    async with runner_on(lasts=1.0) as runner:
        await runner.start(under(Policy(delay=5.0)), 1, id="a")
        [event] = await ended(runner, "a")

    assert (event.timing.delayed, event.timing.limited, event.timing.backing_off) == (5.0, 0.0, 0.0)


@virtually
async def test_every_attempt_says_when_it_ended_and_how_long_it_took() -> None:
    def fails(x: int) -> int:
        raise OSError("no")

    workflow = under(Policy(max_retries=2, backoff=lambda _: 4.0), fails)
    async with runner_on(lasts=1.0) as runner:
        began = LoopClock().time()
        await runner.start(workflow, 1, id="a")
        attempts, [last] = await ended(runner, "a", AttemptFailed), await ended(runner, "a", RunnableFailed)

    assert [event.at - began for event in attempts] == [1.0, 6.0]
    assert [event.duration_ns for event in attempts] == [1_000_000_000] * 2
    assert (last.timing.at - began, last.timing.backing_off) == (11.0, 8.0)


@virtually
async def test_what_is_skipped_says_when() -> None:
    def fails(x: int) -> int:
        raise OSError("no")

    async with runner_on(lasts=1.0) as runner:
        began = LoopClock().time()
        await runner.start(under(Policy(on_failure="skip"), fails), 1, id="a")
        [event] = await ended(runner, "a", RunnableSkipped)

    assert event.timing == Timing(began + 1.0)


@virtually
async def test_times_are_stored() -> None:
    store = MemoryStore()
    workflow = under(Policy(delay=5.0))
    async with runner_on(store, lasts=1.0) as runner:
        await runner.start(workflow, 1, id="a")
        run = await runner.wait("a")
        stored = await stored_log(store, "a", workflow)

    assert stored == run.log()
    assert decode(encode(stored), workflow=workflow) == stored


def test_a_step_in_the_straight_lane_says_when_it_ended_if_that_is_long_after_the_last_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Clock:
        """The time of day, which stands still."""

        def time(self) -> float:
            return 5.0

    monkeypatch.setattr("weft.core.events.PRECISION", 0.0)
    with Runner(executor="inline", clock=Clock()) as runner:
        run = runner.start(chain, 1).wait(20)

    assert [event.timing for event in run.log() if isinstance(event, ReactionOccurred)] == [Timing(5.0)] * 2
