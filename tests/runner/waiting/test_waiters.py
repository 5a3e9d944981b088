"""Whoever waits for a run is told what is durable, and is told when there is nothing to wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from weather import LoopClock, SlowStore, double, now, runner_on, virtually

from weft import Policy, Run, Workflow, current, each, step
from weft.core.events import RunCancelled
from weft.errors import RunClosed, RunFrozen, RunParked, StoreFull, WaitTimeout
from weft.local.counters import LocalCounters
from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.limits import BreakerState, RateState, UseState
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore
from weft.testing.wrapping import WrappedStore


@pytest.mark.parametrize("checkpoint", ["every_cycle", "pipelined"])
@virtually
async def test_what_a_predicate_was_told_is_durable_when_its_caller_hears_of_it(checkpoint: str) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0, checkpoint=checkpoint) as runner:
        await runner.start(double, 1, id="a")

        run = await runner.wait_until("a", lambda run: bool(run.values("double")))

        assert (await store.find("a")).head >= len(run.log())


@pytest.mark.parametrize("way", ["wait", "get_workflow", "wait_until", "on_complete", "a predicate"])
@virtually
async def test_a_run_that_is_handed_out_is_frozen_and_shares_nothing_with_the_one_that_goes_on(way: str) -> None:
    handed: list[Run] = []
    left, right = step(lambda x: x + 1, name="left"), step(lambda x: x * 10, name="right")
    pair = Workflow("pair", [left, right] >> step(lambda a, b: (a, b), name="both"))

    def is_half_way(run: Run) -> bool:
        if way == "a predicate":
            handed.append(run)
        return run.values("left") == [2] and not run.values("right")

    async def completed(_: str, run: Run) -> None:
        if way == "on_complete":
            handed.append(run)

    lengths = {"left": 1.0, "right": 5.0}
    async with runner_on(lasts=lambda runnable: lengths.get(runnable.component, 1.0)) as runner:
        await runner.start(pair, 1, id="a", on_complete=completed)
        half = await runner.wait_until("a", is_half_way)
        handed += [half] if way == "wait_until" else []
        handed += [await runner.get_workflow("a")] if way == "get_workflow" else []
        if way in ("wait", "on_complete"):
            handed += [await runner.wait("a")] if way == "wait" else []
            await runner.wait("a")
        for run in handed:
            for runnable in run.prepare():
                outcome = await runnable.aexecute()
                with pytest.raises(RunFrozen):
                    run.apply(outcome)
            with pytest.raises(RunFrozen, match=r"call the runner"):
                run.plan(100)

        assert handed
        assert await runner.result("a") == (2, 10)
        assert (await runner.wait("a")).values("both") == [(2, 10)]


@virtually
async def test_a_predicate_may_hold_in_the_middle_where_nothing_is_written_before_the_end() -> None:
    chain = Workflow("chain", step(lambda x: x, name="first") >> step(lambda x: x, name="second"))
    async with runner_on(lasts=1.0, checkpoint="on_complete") as runner:
        await runner.start(chain, 1, id="a")

        run = await runner.wait_until("a", lambda run: bool(run.values("first")))

        assert (run.values("second"), now()) == ([], 1.0)


@virtually
async def test_whoever_waits_for_what_a_cancelled_run_will_never_do_is_told() -> None:
    async with runner_on(lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        waits = asyncio.create_task(runner.wait_until("a", lambda _: False))
        await asyncio.sleep(0.5)

        await runner.cancel("a", "not wanted")

        with pytest.raises(RunClosed, match="not wanted"):
            await waits
        with pytest.raises(RunClosed):
            await runner.wait_until("a", lambda _: False)
        assert (await runner.wait_until("a", lambda _: True)).values("double") == []


@virtually
async def test_whoever_waits_for_what_a_parked_run_will_not_do_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with runner_on(lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        waits = asyncio.create_task(runner.wait_until("a", lambda _: False))
        await asyncio.sleep(0.5)

        monkeypatch.setattr(Worker, "finish", crash)

        with pytest.raises(RunParked):
            await waits


@virtually
async def test_whoever_loses_patience_is_forgotten() -> None:
    async with runner_on(lasts=3600.0) as runner:
        handle = await runner.start(double, 1, id="a")

        for _ in range(3):
            with pytest.raises(WaitTimeout):
                await handle.wait(1.0)
            with pytest.raises(WaitTimeout):
                await runner.wait_until("a", lambda _: False, 1.0)

        waiters = runner._runtime.waiters
        assert waiters._waiting == {}


# -- on_complete ---------------------------------------------------------------------------------


@virtually
async def test_an_input_whose_key_was_seen_is_nothing_to_tell() -> None:
    told: list[int] = []

    async def tell(_: str, run: Run) -> None:
        told.append(run.memory.received)

    async with runner_on() as runner:
        await runner.start_workflow("a", double, on_complete=tell)
        for _ in range(2):
            await runner.run("a", 1, key="once")
            await runner.wait("a")

    assert told == [1]


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual"])
@virtually
async def test_whoever_waits_for_a_run_that_is_cancelled_while_its_on_complete_is_called_is_told(
    checkpoint: str,
) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    async with runner_on(grace=0.0, checkpoint=checkpoint) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=never)
        waits = asyncio.create_task(handle.wait(60.0))
        await asyncio.sleep(1.0)

        await runner.cancel("a", "not wanted")

        assert isinstance((await waits).log()[-1], RunCancelled)
        assert isinstance((await runner.wait("a", 60.0)).log()[-1], RunCancelled)


@virtually
async def test_whoever_waits_for_a_run_that_was_parked_and_then_cancelled_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with runner_on(lasts=1.0) as runner:
        monkeypatch.setattr(Worker, "finish", crash)
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()

        await runner.cancel("a", "not wanted")

        assert isinstance((await handle.wait(60.0)).log()[-1], RunCancelled)


@virtually
async def test_on_complete_is_called_once_at_a_time_also_by_a_worker_that_was_rebuilt() -> None:
    order: list[tuple[str, int]] = []
    crashes, has_begun = iter([False, True]), asyncio.Event()

    async def tell(_: str, run: Run) -> None:
        inputs = run.memory.received
        order.append(("begins", inputs))
        has_begun.set()
        await asyncio.sleep(10.0 if inputs == 1 else 0.0)
        order.append(("ends", inputs))

    async with runner_on(refuses=lambda _: next(crashes, False)) as runner:
        await runner.start(double, 1, id="a", on_complete=tell)
        await has_begun.wait()
        await runner.run("a", 2)
        await runner.wait("a")

    assert order == [("begins", 1), ("ends", 1), ("begins", 2), ("ends", 2)]


@virtually
async def test_a_change_of_policies_is_nothing_to_tell_here_or_after_a_resume() -> None:
    told: list[int] = []

    async def tell(_: str, run: Run) -> None:
        told.append(run.memory.received)

    async with MemoryStore() as store:
        async with runner_on(store) as runner:
            await (await runner.start(double, 1, id="a", on_complete=tell)).wait()
            await runner.set_policies("a", [("double", Policy(max_retries=1))])
            await runner.wait("a")
        async with runner_on(store) as runner:
            await runner.resume("a", workflow=double, on_complete=tell)
            await runner.wait("a")

    assert told == [1]


@virtually
async def test_a_duplicate_input_is_acknowledged_only_when_the_first_is_durable() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        await runner.start_workflow("a", double)
        began = now()

        await asyncio.gather(*(runner.run("a", 1, key="once") for _ in range(2)))

        assert now() == began + 1.0
        assert (await runner.wait("a")).values("double") == [2]


@virtually
async def test_a_run_that_was_cancelled_has_no_result_and_says_so() -> None:
    async with runner_on(lasts=1.0) as runner:
        handle = await runner.start(double, 1)
        await handle.cancel("not wanted")

        with pytest.raises(RunClosed, match="not wanted"):
            await handle.result()


@virtually
async def test_a_run_that_is_cancelled_while_it_is_told_that_it_is_idle_gets_no_event_after_that() -> None:
    async def tell(*_: object) -> None:
        await asyncio.sleep(1.0)

    async with runner_on() as runner:
        handle = await runner.start(double, 1, on_complete=tell)
        await asyncio.sleep(0.5)

        await handle.cancel()
        await asyncio.sleep(1.0)

        assert isinstance((await handle.log())[-1], RunCancelled)


# -- why it takes so long --------------------------------------------------------------------------

ONE = ConcurrencyLimit("db", 1)


async def said(runner: Any, id: str = "a", after: float = 1.0) -> str:
    """Lose patience, and return what one is told."""
    with pytest.raises(WaitTimeout) as raised:
        await runner.wait(id, timeout=after)
    return str(raised.value)


def work(policy: Policy | None = None, call: Any = lambda x: x) -> Workflow:
    workflow = Workflow("w", step(call, name="work"))
    return workflow if policy is None else workflow.with_policies([("work", policy)])


class AwayStore(WrappedStore):
    """Is away from its second append on."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.appends = 0

    async def around(self, call: str, act: Any) -> Any:
        self.appends += call == "append"
        if call == "append" and self.appends > 1:
            raise StoreFull("the store", "no space left on device")
        return await act()


@virtually
async def test_a_store_that_is_away_is_what_is_waited_for() -> None:
    async with MemoryStore() as store:
        runner = await runner_on(AwayStore(store)).open()
        await runner.start(work(), 1, id="a")

        told = await said(runner, after=60.0)

    assert "run 'a' has nothing left to do and is not settled after 60 s" in told
    assert "the store has been unavailable for 60 s, and 1 event is not written" in told
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
            "'work' waits for a turn of the rate limit 'mail', 20 s more",
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
    moment = LoopClock().time()
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
        await runner.start(work(), 1, id="a")
        await runner.wait("a")

        with pytest.raises(WaitTimeout, match="nothing is in flight, and what was waited for does not hold"):
            await runner.wait_until("a", lambda _: False, timeout=1.0)
