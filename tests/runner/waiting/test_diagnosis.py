"""A wait that runs into its timeout says what the run was waiting for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual_time import SlowStore, double, runner_on, virtually

from weft import Policy, Workflow, current, each, step
from weft.errors import StoreFull, WaitTimeout
from weft.local.counters import LocalCounters
from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.limits import BreakerState, RateState, UseState
from weft.stores import MemoryStore
from weft.testing.wrapping import WrappedStore

ONE = ConcurrencyLimit("db", 1)


async def said(runner: Any, id: str = "a", after: float = 1.0) -> str:
    """Wait until the timeout, and return what the error says."""
    with pytest.raises(WaitTimeout) as raised:
        await runner.wait(id, timeout=after)
    return str(raised.value)


def work(policy: Policy | None = None, call: Any = lambda x: x) -> Workflow:
    workflow = Workflow("w", step(call, name="work"))
    return workflow if policy is None else workflow.with_policies([("work", policy)])


class AwayStore(WrappedStore):
    """Is unavailable from its second append on."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.appends = 0

    async def around(self, call: str, act: Any) -> Any:
        self.appends += call == "append"
        if call == "append" and self.appends > 1:
            raise StoreFull("the store", "no space left on device")
        return await act()


@virtually
async def test_a_store_that_is_unavailable_is_what_is_waited_for() -> None:
    async with MemoryStore() as store:
        runner = await runner_on(AwayStore(store)).open()
        await runner.start(work(), 1, id="a")

        told = await said(runner, after=60.0)

    assert "run 'a' has nothing left to do and is not settled after 60 s" in told
    assert "the store has been unavailable for 1 min, and 1 event is not written" in told
    assert "no space left on device" in told


@virtually
async def test_a_store_that_is_slow_is_what_is_waited_for() -> None:
    async with MemoryStore() as store, runner_on(SlowStore(store)) as runner:
        await runner.start(work(), 1, id="a")

        told = await said(runner, after=0.25)

    assert "1 event is not written yet" in told


@virtually
async def test_an_attempt_that_takes_long_is_named_with_its_number() -> None:
    failed: list[int] = []

    def flaky(x: int) -> int:
        if not failed:
            failed.append(x)
            raise OSError("down")
        return x

    async with runner_on(lasts=lambda _: 100.0 if failed else 0.0) as runner:
        await runner.start(work(Policy(max_retries=1), flaky), 1, id="a")

        told = await said(runner, after=5.0)

    assert "run 'a' is still running after 5 s: 'work' has been running for 5 s, attempt 2;" in told


@virtually
async def test_a_retry_is_told_with_its_time_and_its_reason() -> None:
    def broken(x: int) -> int:
        raise OSError("down")

    async with runner_on() as runner:
        await runner.start(work(Policy(max_retries=1, backoff="linear", base_delay=30.0), broken), 1, id="a")

        told = await said(runner, after=10.0)
        await runner.cancel("a")

    assert "is still waiting after 10 s: 'work' is tried again in 20 s: attempt 1 failed with OSError: down;" in told


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(delay=30.0), "'work' is delayed by its policy for 20 s more"),
        (Policy(concurrency_limit=ONE), "'work' waits for a place in the concurrency limit 'db'"),
        (
            Policy(rate_limit=RateLimit("mail", limit=1, per=30.0)),
            "'work' waits for a turn of the rate limit 'mail', the next one in 20 s",
        ),
        (
            Policy(circuit_breaker=CircuitBreaker("api", failure_threshold=1, reset_timeout=30.0, on_open="wait")),
            "'work' waits for the circuit breaker 'api', 20 s more",
        ),
    ],
    ids=["delay", "concurrency", "rate", "breaker"],
)
@virtually
async def test_a_limit_is_named(policy: Policy, expected: str) -> None:
    counters = LocalCounters()
    moment = asyncio.get_running_loop().time()  # limits count a time that is never set
    counters.update(("concurrency_limit", "db"), lambda _: (UseState(1), None))
    counters.update(("rate_limit", "mail"), lambda _: (RateState(moment + 30.0), None))
    counters.update(("circuit_breaker", "api"), lambda _: (BreakerState(1, moment), None))
    async with runner_on(counters=counters) as runner:
        await runner.start(work(policy), 1, id="a")

        told = await said(runner, after=10.0)
        await runner.cancel("a")

    assert f"is still waiting after 10 s: {expected};" in told


@virtually
async def test_what_has_no_place_yet_is_told_apart_from_what_runs() -> None:
    wide = Workflow("wide", each(step(lambda x: x, name="one")))
    async with runner_on(lasts=100.0, workers=2) as runner:
        await runner.start(double, 1, id="first")
        await runner.start(double, 1, id="second")
        await runner.start(double, 1, id="third")
        await runner.start(wide, [1, 2, 3, 4, 5], id="wide", max_concurrency=1)

        waits = await said(runner, "third")
        many = await said(runner, "wide", after=150.0)

    assert "'double' is queued for executor 'thread'" in waits
    assert "'one' waits for others of its run: max_concurrency=1 are in flight; 2 more are in flight" in many


@virtually
async def test_a_child_that_is_waited_for_is_named() -> None:
    async def parent(x: int) -> Any:
        handle = await current().astart_child(double, x, id="child")
        return await handle.result()

    async with runner_on(lasts=lambda runnable: 100.0 if runnable.component == "double" else 0.0) as runner:
        await runner.start(work(None, parent), 1, id="a")

        told = await said(runner)

    assert "'work' waits for its child 'child'" in told


@virtually
async def test_a_callback_that_takes_long_is_what_is_waited_for() -> None:
    async def slow(*_: Any) -> None:
        await asyncio.sleep(100.0)

    async with runner_on(grace=0.0) as runner:
        await runner.start(work(), 1, id="a", on_complete=slow)

        told = await said(runner)

    assert "its on_complete has not returned yet" in told


@virtually
async def test_a_predicate_that_does_not_hold_is_what_is_waited_for() -> None:
    async with runner_on() as runner:
        await runner.start(work(), 1, id="a", open=True)
        await runner.wait("a")

        with pytest.raises(WaitTimeout, match="nothing is in flight, and what was waited for does not hold"):
            await runner.wait_until("a", lambda _: False, timeout=1.0)
