"""Waiting for a limit: many at once, in order, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from virtual_time import double, now, runner_on, virtually

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
        def update(self, key: Any, change: Callable[[Any], tuple[Any, Any]], limit: Any = None) -> Any:
            asked.append(key[1])
            return super().update(key, change, limit)

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


class Counted(LocalCounters):
    """Counts how often a limit is asked or told something."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def update(self, key: Any, change: Callable[[Any], tuple[Any, Any]], limit: Any = None) -> Any:
        self.asked += 1
        return super().update(key, change, limit)


@virtually
async def test_a_turn_wakes_one_of_many() -> None:
    times, counters = Times(), Counted()
    async with runner_on(counters=counters) as runner:
        await (await runner.start(times.under(), list(range(300)))).wait()

    assert counters.asked < 300 * 7


@virtually
async def test_a_turn_wakes_few_of_many_that_all_wait_for_a_worker_or_a_slot() -> None:
    """Workers and turns become free at about the same rate, so that now these are missing and now those."""
    times, counters = Times(), Counted()
    rate = RateLimit("r", limit=2, per=1.0, burst=1)
    async with runner_on(counters=counters, lasts=1.0, workers=2) as runner:
        wide = await runner.start(times.under(rate), list(range(200)), max_concurrency=3)
        single = [await runner.start(times.under(rate), [n]) for n in range(200)]
        for handle in (wide, *single):
            await handle.wait()

    assert len(times.calls) == 400
    assert counters.asked < 400 * 50


# -- turns are taken last ------------------------------------------------------------------------

FIVE = RateLimit("five", limit=5, per=1.0, burst=1)


def apart(times: Times) -> float:
    """Return the least time between two starts."""
    starts = [at for at, _ in times.calls]
    return min(later - earlier for earlier, later in pairwise(starts))


@pytest.mark.parametrize("missing", ["worker", "slot", "place", "log"])
@virtually
async def test_turns_do_not_pile_up_while_something_else_is_missing(missing: str) -> None:
    """For ten seconds nothing can start, and then everything could at once."""
    times = Times()
    place = {"concurrency_limit": ConcurrencyLimit("many", 20)} if missing == "place" else {}
    mode: dict[str, Any] = {"execution_mode": "durable"} if missing == "log" else {}
    limited = each(step(times, name="call"))
    workflow = Workflow("w", step(lambda x: x, name="long"), limited).with_policies(
        [("call", Policy(rate_limit=FIVE, **place, **mode)), ("long", Policy(priority=1))]
    )
    counters = LocalCounters()
    workers, slots = {"worker": (1, 40), "slot": (40, 1)}.get(missing, (40, 40))
    if missing == "place":
        counters.update(("concurrency_limit", "many"), lambda _: (UseState(20), None))
        asyncio.get_running_loop().call_later(
            10.0, lambda: counters.update(("concurrency_limit", "many"), lambda _: (UseState(0), None))
        )
    lengths = {"long": 10.0}
    async with runner_on(
        counters=counters, lasts=lambda runnable: lengths.get(runnable.component, 0.0), workers=workers
    ) as runner:
        handle = await runner.start(workflow, list(range(20)), max_concurrency=slots)
        await handle.wait()

    assert len(times.calls) == 20
    assert apart(times) >= 0.2 - 1e-3
    if missing == "place":
        assert times.calls[0][0] == 10.0


@virtually
async def test_as_many_may_start_at_once_as_the_limit_says_unless_a_burst_is_given() -> None:
    times = Times()
    async with runner_on() as runner:
        await (await runner.start(times.under(RateLimit("ten", limit=10)), list(range(30)))).wait()

    starts = [round(at, 3) for at, _ in times.calls]
    assert starts == [0.0] * 10 + [round(0.1 * n, 3) for n in range(1, 21)]


@virtually
async def test_a_run_without_room_does_not_keep_others_from_a_turn() -> None:
    times = Times()
    busy = Workflow("busy", step(lambda x: x, name="long"), each(step(times, name="call"))).with_policies(
        [("call", Policy(rate_limit=FIVE)), ("long", Policy(priority=1))]
    )
    lengths = {"long": 100.0}
    async with runner_on(lasts=lambda runnable: lengths.get(runnable.component, 0.0)) as runner:
        await runner.start(busy, list(range(50)), max_concurrency=2)
        await runner.start(busy, list(range(50)), max_concurrency=1)
        free = await runner.start(times.under(FIVE), ["free"] * 10)

        await free.wait()

        assert now() < 15.0


@virtually
async def test_a_runnable_that_waited_for_a_worker_in_vain_keeps_its_place_in_the_order() -> None:
    times = Times()
    rate = RateLimit("r", limit=1, per=10.0)
    async with runner_on(workers=1, lasts=lambda runnable: 5.0 if runnable.component == "long" else 0.0) as runner:
        await runner.start(Workflow("long", step(lambda x: x, name="long")), 1)
        handles = [await runner.start(times.under(rate), [name]) for name in ("first", "second", "third")]
        for handle in handles:
            await handle.wait()

    assert times.calls == [(5.0, "first"), (15.0, "second"), (25.0, "third")]


@virtually
async def test_turns_go_to_others_when_a_runnable_that_was_woken_is_given_up() -> None:
    """The run of the first one has no slot for it, and is cancelled."""
    times = Times()
    busy = Workflow("busy", step(lambda x: x, name="long"), step(times, name="call")).with_policies(
        [("call", Policy(rate_limit=SLOW)), ("long", Policy(priority=1))]
    )
    async with runner_on(lasts=lambda runnable: 100.0 if runnable.component == "long" else 0.0) as runner:
        await (await runner.start(times.under(), ["before"])).wait()
        await runner.start(busy, "never", id="busy", max_concurrency=1)
        after = await runner.start(times.under(), ["a", "b"])
        await asyncio.sleep(15.0)
        await runner.cancel("busy")
        await after.wait()

    assert times.calls == [(0.0, "before"), (10.0, "a"), (20.0, "b")]
