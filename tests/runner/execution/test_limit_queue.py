"""Waiting for a limit: many at once, in order, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from weather import double, now, runner_on, virtually

from weft import Policy, Workflow, each, step
from weft.errors import WaitTimeout
from weft.local.counters import LocalCounters
from weft.policy import ConcurrencyLimit, RateLimit
from weft.policy.limits import UseState

ONE = ConcurrencyLimit("one", 1)


def wide(policy: Policy) -> Workflow:
    return Workflow("wide", each(step(lambda x: x, name="element"))).with_policies([("element", policy)])


@pytest.mark.parametrize(
    "policy",
    [
        Policy(concurrency_limit=ONE),
        Policy(rate_limit=RateLimit("rate", limit=1000)),
        Policy(delay=1.0),
        Policy(concurrency_limit=ONE, execution_mode="durable"),
    ],
    ids=["concurrency", "rate", "delay", "durable"],
)
@virtually
async def test_any_number_may_wait_at_once(policy: Policy) -> None:
    async with runner_on() as runner:
        handle = await runner.start(wide(policy), list(range(1_000)))

        run = await handle.wait()

    assert len(run.values("element")) == 1_000


@virtually
async def test_a_place_that_becomes_free_wakes_one_of_many() -> None:
    asked: list[str] = []

    class Counted(LocalCounters):
        def update(self, key: Any, change: Callable[[Any], tuple[Any, Any]]) -> Any:
            asked.append(key[1])
            return super().update(key, change)

    async with runner_on(counters=Counted()) as runner:
        await (await runner.start(wide(Policy(concurrency_limit=ONE)), list(range(300)))).wait()

    assert len(asked) < 300 * 6


@virtually
async def test_the_one_that_waited_first_is_first_but_for_those_that_are_more_urgent() -> None:
    order: list[str] = []
    tell = step(lambda name: order.append(name) or name, name="tell")
    policies = {name: Policy(concurrency_limit=ONE, priority=int(name == "urgent")) for name in ("a", "b", "urgent")}
    async with runner_on(lasts=1.0) as runner:
        holder = await runner.start(
            double.with_policies([("double", Policy(concurrency_limit=ONE))]), 1, max_concurrency=1
        )
        waits = []
        for name, policy in policies.items():
            waits.append(await runner.start(Workflow("tell", tell).with_policies([("tell", policy)]), name))

        for handle in (holder, *waits):
            await handle.wait()

    assert order == ["urgent", "a", "b"]


@virtually
async def test_a_change_that_comes_before_anybody_listens_is_not_missed() -> None:
    """Another runner, on another thread, leaves the limit just after it was asked for."""

    class Late(LocalCounters):
        def on_change(self, key: Any, wake: Callable[[], None]) -> Callable[[], None]:
            self.update(key, lambda _: (UseState(0), None))
            return super().on_change(key, wake)

    counters = Late()
    counters.update(("concurrency_limit", "one"), lambda _: (UseState(1), None))
    async with runner_on(counters=counters) as runner:
        handle = await runner.start(wide(Policy(concurrency_limit=ONE)), [1])

        run = await handle.wait(1_000)

    assert run.values("element") == [1]


@virtually
async def test_a_run_without_room_does_not_keep_others_from_a_place() -> None:
    """The first in line is in a run that is busy with something else, and cannot take the place that is free."""
    limited = step(lambda x: x, name="limited")
    busy = Workflow("busy", limited, step(lambda x: x, name="long")).with_policies(
        [("limited", Policy(concurrency_limit=ONE))]
    )
    free = Workflow("free", limited).with_policies([("limited", Policy(concurrency_limit=ONE))])
    lengths = {"double": 1.0, "limited": 1.0, "long": 100.0}
    async with runner_on(lasts=lambda runnable: lengths[runnable.component]) as runner:
        await runner.start(double.with_policies([("double", Policy(concurrency_limit=ONE))]), 1)
        await runner.start(busy, 1, max_concurrency=1)
        handle = await runner.start(free, 1)

        await handle.wait()

        assert now() == 2.0


@virtually
async def test_changes_are_not_listened_for_when_nothing_waits() -> None:
    counters = LocalCounters()
    counters.update(("concurrency_limit", "one"), lambda _: (UseState(1), None))
    async with runner_on(counters=counters) as runner:
        handle = await runner.start(wide(Policy(concurrency_limit=ONE)), [1, 2, 3])
        with pytest.raises(WaitTimeout):
            await handle.wait(1.0)

        await handle.cancel()
        await asyncio.sleep(0)

        assert not any(counters._wakers.values())


# -- turns of a rate -----------------------------------------------------------------------------

SLOW = RateLimit("slow", limit=1, per=10.0)


class Times:
    """Remembers when it was called, and with what."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Any]] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append((now(), x))
        return x

    def under(self, rate: RateLimit = SLOW, **more: Any) -> Workflow:
        return Workflow("w", each(step(self, name="call"))).with_policies([("call", Policy(rate_limit=rate, **more))])


@pytest.mark.parametrize("how", ["cancel", "stop"])
@virtually
async def test_a_runnable_that_waits_for_a_turn_moves_up_when_others_are_gone(how: str) -> None:
    times = Times()
    async with runner_on() as runner:
        await runner.start(times.under(), ["first", "gone", "gone"], id="goes")
        stays = await runner.start(times.under(), ["second", "third"])
        await asyncio.sleep(1.0)

        await getattr(runner, how)("goes")
        await stays.wait()

    assert times.calls == [(0.0, "first"), (10.0, "second"), (20.0, "third")]


@virtually
async def test_turns_of_a_run_that_is_gone_are_there_for_the_next_one() -> None:
    times = Times()
    async with runner_on() as runner:
        await runner.start(times.under(), list(range(200)), id="goes")
        await asyncio.sleep(15.0)

        await runner.cancel("goes")
        await (await runner.start(times.under(), ["next"])).wait()

    assert times.calls == [(0.0, 0), (10.0, 1), (20.0, "next")]


@virtually
async def test_a_turn_is_given_back_by_what_stood_in_line_for_its_executor() -> None:
    times = Times()
    long = Workflow("long", step(lambda x: x, name="long"))
    lengths = {"long": 5.0}
    async with runner_on(lasts=lambda runnable: lengths.get(runnable.component, 0.0), workers=1) as runner:
        await runner.start(long, 1)
        await runner.start(times.under(), ["never"], id="goes")
        await asyncio.sleep(1.0)

        await runner.cancel("goes")
        await (await runner.start(times.under(), ["other"])).wait()

    assert times.calls == [(5.0, "other")]


@virtually
async def test_a_turn_that_was_used_is_not_given_back_by_a_cancelled_run() -> None:
    times = Times()
    async with runner_on(lasts=lambda runnable: 5.0 if runnable.component == "call" else 0.0) as runner:
        await runner.start(times.under(), ["used"], id="goes")
        await asyncio.sleep(1.0)

        await runner.cancel("goes")
        await (await runner.start(times.under(), ["other"])).wait()

    assert times.calls == [(0.0, "used"), (10.0, "other")]


@virtually
async def test_an_urgent_one_is_the_first_to_move_up() -> None:
    times = Times()
    async with runner_on() as runner:
        await runner.start(times.under(), ["first", "gone"], id="goes")
        patient = await runner.start(times.under(), ["patient"])
        urgent = await runner.start(times.under(priority=1), ["urgent"])
        await asyncio.sleep(1.0)

        await runner.cancel("goes")
        await patient.wait()
        await urgent.wait()

    assert times.calls == [(0.0, "first"), (10.0, "urgent"), (20.0, "patient")]


@virtually
async def test_taking_turns_wakes_nothing() -> None:
    asked: list[str] = []

    class Counted(LocalCounters):
        def update(self, key: Any, change: Callable[[Any], tuple[Any, Any]]) -> Any:
            asked.append(key[1])
            return super().update(key, change)

    times = Times()
    async with runner_on(counters=Counted()) as runner:
        await (await runner.start(times.under(), list(range(300)))).wait()

    assert len(asked) < 300 * 3
