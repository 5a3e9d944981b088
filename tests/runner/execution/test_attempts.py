"""Policies under the runner: what holds for work that waits, that is stopped, and that was started before."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from small_flows import broken
from virtual_time import LoopClock, SlowStore, double, now, runner_on, under, virtually

from weft import AsyncRunner, Policy, Run, Runner, Workflow, condition, current, step
from weft.core.events import ReactionOccurred, RunnableDelayed, RunnableDispatched
from weft.errors import InvalidOption, InvalidPolicy, RunClosed, RunFailed, UnencodableValue
from weft.local.counters import LocalCounters
from weft.policy import ConcurrencyLimit, Value
from weft.policy.limits import UseState
from weft.runner import WorkerHooks
from weft.stores import MemoryStore
from weft.testing.wrapping import WrappedStore


class Flaky:
    """Fails until it has been called so often; remembers when it was, and at which attempt."""

    def __init__(self, failures: int = 1) -> None:
        self._failures = failures
        self.calls: list[tuple[float, int]] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append((now(), current().attempt))
        if len(self.calls) <= self._failures:
            raise OSError("down")
        return x


async def cut_off(workflow: Workflow, seconds: float, *, crashes: bool = True, lasts: float = 0.0, **how: Any) -> Run:
    """Return the outcome of a run whose runner ends after *seconds*, by a crash or in good order."""
    async with MemoryStore() as store:
        first = await runner_on(store, lasts=lasts, **how).open()
        await first.start(workflow, 1, id="a")
        await asyncio.sleep(seconds)
        if not crashes:
            await first.close()

        async with runner_on(WrappedStore(store), **how) as runner:  # as of another process
            await runner.resume("a", workflow=workflow)
            return await runner.wait("a")


# -- restarts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual", "pipelined"])
@virtually
async def test_the_wait_of_a_durable_step_outlives_a_crash_whatever_the_strategy(checkpoint: str) -> None:
    flaky = Flaky()
    policy = Policy(max_retries=1, backoff="linear", base_delay=30.0, execution_mode="durable")
    workflow = under(policy, flaky)

    await cut_off(workflow, 1.0, checkpoint=checkpoint)

    assert flaky.calls == [(0.0, 1), (30.0, 2)]


@virtually
async def test_a_wait_between_attempts_is_not_a_wait_for_a_start_after_a_restart_either() -> None:
    flaky = Flaky()
    workflow = under(Policy(max_retries=1, backoff="linear", base_delay=30.0, queue_timeout=5.0), flaky)

    run = await cut_off(workflow, 1.0, crashes=False)

    assert (run.failures, flaky.calls) == ({}, [(0.0, 1), (30.0, 2)])


@virtually
async def test_a_delay_that_a_policy_asks_for_is_not_a_wait_for_a_start() -> None:
    async with runner_on() as runner:
        run = await (await runner.start(under(Policy(delay=10.0, queue_timeout=5.0)), 1)).wait()

        assert (run.failures, now()) == ({}, 10.0)


@pytest.mark.parametrize("mode", ["sync", "durable"])
@virtually
async def test_a_delay_counts_from_when_the_step_became_ready_across_restarts(mode: Any) -> None:
    steady = Flaky(0)
    workflow = under(Policy(delay=30.0, execution_mode=mode), steady)
    async with MemoryStore() as store:
        for _ in range(3):
            async with runner_on(store) as runner:
                await runner.start(workflow, 1, id="a")
                await asyncio.sleep(8.0)

        async with runner_on(store) as runner:
            await runner.resume("a", workflow=workflow)
            run = await runner.wait("a")

    assert steady.calls == [(30.0, 1)]
    assert sum(isinstance(event, RunnableDelayed) for event in run.log()) == 1


@pytest.mark.parametrize("checkpoint", ["on_complete", "manual", "pipelined"])
@virtually
async def test_the_delay_of_a_durable_step_outlives_a_crash_whatever_the_strategy(checkpoint: str) -> None:
    steady = Flaky(0)
    workflow = under(Policy(delay=30.0, execution_mode="durable"), steady)

    await cut_off(workflow, 8.0, checkpoint=checkpoint)

    assert steady.calls == [(30.0, 1)]


@virtually
async def test_a_durable_step_that_is_due_at_a_time_is_not_started_before_by_a_restart() -> None:
    steady = Flaky(0)
    due = datetime.fromtimestamp(LoopClock().time() + 30.0, tz=UTC)
    workflow = under(Policy(scheduled_at=due, execution_mode="durable"), steady)

    await cut_off(workflow, 8.0)

    assert steady.calls == [(30.0, 1)]


@virtually
async def test_a_delayed_durable_step_that_was_cut_off_at_work_is_not_delayed_again() -> None:
    steady = Flaky(0)
    workflow = under(Policy(delay=30.0, execution_mode="durable"), steady)

    await cut_off(workflow, 40.0, lasts=100.0)

    assert steady.calls == [(30.0, 1), (40.0, 2)]


@virtually
async def test_a_deadline_of_a_delayed_step_counts_its_delay_across_a_restart() -> None:
    flaky = Flaky(9)
    workflow = under(Policy(delay=30.0, deadline=35.0, max_retries=9, backoff="linear", base_delay=2.0), flaky)

    await cut_off(workflow, 20.0, crashes=False)

    assert flaky.calls == [(30.0, 1), (32.0, 2)]  # the next one would be due after 36 seconds


@virtually
async def test_a_delay_is_not_a_wait_for_a_start_after_a_restart_either() -> None:
    workflow = under(Policy(delay=30.0, queue_timeout=5.0))

    run = await cut_off(workflow, 20.0, crashes=False)

    assert (run.failures, now()) == ({}, 30.0)


@virtually
async def test_a_delay_that_is_changed_meanwhile_counts_from_when_the_step_became_ready() -> None:
    steady = Flaky(0)
    workflow = under(Policy(delay=30.0), steady)
    async with MemoryStore() as store, runner_on(store) as runner:
        await runner.start(workflow, 1, id="a")
        await asyncio.sleep(8.0)

        await runner.set_policies("a", [("work", Policy(delay=12.0))])
        await runner.wait("a")

    assert steady.calls == [(12.0, 1)]


@virtually
async def test_what_has_no_delay_has_no_event_for_it() -> None:
    async with runner_on() as runner:
        run = await (await runner.start(under(Policy(timeout=5.0)), 1)).wait()

    assert [type(event).__name__ for event in run.log()] == ["WorkflowDefined", "InputReceived", "ReactionOccurred"]


@virtually
async def test_what_this_runner_cannot_keep_is_refused_by_resume_too() -> None:
    workflow = under(Policy(executor="gpu"))
    async with MemoryStore() as store:
        async with runner_on(store, names=("inline", "async", "thread", "gpu")) as runner:
            await runner.start(workflow, id="a")

        async with runner_on(store) as runner:
            with pytest.raises(InvalidPolicy, match="gpu"):
                await runner.resume("a", workflow=workflow)
            assert runner.held == []


# -- stopping --------------------------------------------------------------------------------------


@virtually
async def test_a_stop_does_not_wait_for_a_retry_that_is_an_hour_away() -> None:
    flaky = Flaky()
    workflow = under(Policy(max_retries=1, backoff="linear", base_delay=3600.0), flaky)
    async with runner_on(lasts=1.0) as runner:
        await runner.start(workflow, 1, id="a")
        await asyncio.sleep(0.5)

        await runner.stop("a", grace=100.0)

        assert now() == 1.0
        await runner.resume("a", workflow=workflow)
        run = await runner.wait("a")
    assert [attempt for _, attempt in flaky.calls] == [1, 2]
    assert run.values("work") == [1]


# -- policies that change --------------------------------------------------------------------------


@virtually
async def test_a_new_policy_holds_for_the_failure_of_an_attempt_that_was_in_flight() -> None:
    flaky = Flaky(failures=2)
    async with runner_on(lasts=2.0) as runner:
        handle = await runner.start(Workflow("w", step(flaky, name="work")), 1, id="a")
        await asyncio.sleep(1.0)

        await runner.set_policies("a", [("work", Policy(max_retries=5))])

        assert (await handle.wait()).values("work") == [1]


@virtually
async def test_a_limit_that_is_lifted_is_no_longer_waited_for() -> None:
    counters = LocalCounters()
    counters.update(("concurrency_limit", "full"), lambda _: (UseState(1), None))
    workflow = under(Policy(concurrency_limit=ConcurrencyLimit("full", 1), execution_mode="durable"))
    async with runner_on(counters=counters) as runner:
        handle = await runner.start(workflow, 1, id="a")
        await asyncio.sleep(1.0)

        await runner.set_policies("a", [("work", Policy(execution_mode="durable"))])

        assert (await handle.wait(1.0)).values("work") == [1]
        assert not any(counters._wakers.values())


@virtually
async def test_a_retry_that_waits_is_due_when_it_was_and_runs_under_the_new_policy() -> None:
    flaky, places = Flaky(), list[str]()
    policy = Policy(max_retries=1, backoff="linear", base_delay=30.0)
    async with runner_on() as runner:

        def tell(_: object) -> None:
            [worker] = runner._runtime.registry
            places.extend(inflight.executor for inflight in worker.queue.by_key.values())

        handle = await runner.start(under(policy, flaky), 1, id="a", hooks=WorkerHooks(on_dispatch=tell))
        await asyncio.sleep(1.0)

        await runner.set_policies("a", [("work", Policy(max_retries=1, executor="inline"))])
        await handle.wait()

    assert (flaky.calls, places) == ([(0.0, 1), (30.0, 2)], ["thread", "inline"])


@virtually
async def test_a_change_for_others_does_not_start_a_wait_over() -> None:
    async with runner_on() as runner:
        handle = await runner.start(under(Policy(delay=10.0)), 1, id="a")
        await asyncio.sleep(9.0)

        await runner.set_policies("a", [("other", Policy(max_retries=1))], mode="merge")
        await handle.wait()

        assert now() == 10.0


@virtually
async def test_a_run_that_is_over_takes_no_policies_and_no_retries() -> None:
    async with runner_on() as runner:
        await (await runner.start(double, 1, id="a")).cancel("not wanted")

        for call in (runner.set_policies("a", []), runner.retry("a"), runner.discard("a"), runner.send("a", 1)):
            with pytest.raises(RunClosed, match="not wanted"):
                await call


# -- dead letters and additions --------------------------------------------------------------------


@virtually
async def test_a_letter_is_retried_under_a_policy_that_only_a_runner_can_keep() -> None:
    flaky = Flaky()
    async with runner_on() as runner:
        handle = await runner.start(under(Policy(on_failure="dead_letter"), flaky), 1, id="a")
        await handle.wait()

        await runner.retry("a", policy=Policy(executor="inline", queue_timeout=5.0))

        assert (await handle.wait()).values("work") == [1]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"policy": Policy(executor="gpu")}, InvalidPolicy),
        ({"input": object()}, UnencodableValue),
    ],
)
@virtually
async def test_a_retry_that_cannot_be_is_refused_and_changes_nothing(given: Any, error: type[Exception]) -> None:
    flaky = Flaky()
    async with runner_on() as runner:
        handle = await runner.start(under(Policy(on_failure="dead_letter"), flaky), 1, id="a")
        await handle.wait()

        with pytest.raises(error):
            await runner.retry("a", **given)

        await runner.retry("a")
        assert (await handle.wait()).values("work") == [1]


@virtually
async def test_a_step_adds_to_a_run_whose_policies_only_a_runner_can_keep() -> None:
    def more(x: int) -> int:
        current().add(step(lambda y: y + 1, name="late"), to="work")
        return x

    async with runner_on() as runner:
        run = await (await runner.start(under(Policy(queue_timeout=5.0), more), 1)).wait()

    assert run.results() == {"late": 2}


# -- what only some executors can do ---------------------------------------------------------------


def test_heartbeats_are_refused_where_they_are_not_heard_also_if_the_run_says_where() -> None:
    async def main() -> None:
        async with AsyncRunner(executor="process") as runner:
            await runner.start(under(Policy(heartbeat=5.0)), id="a")
            with pytest.raises(InvalidPolicy, match="heartbeats"):
                await runner.start(under(Policy(heartbeat=5.0)), id="b", executor="inline")
            await runner.start(under(Policy(heartbeat=5.0, executor="thread")), id="c")

    asyncio.run(main())


def test_a_plain_function_is_not_run_where_it_would_hold_up_all_runs() -> None:
    with pytest.raises(InvalidOption, match="async"):
        Runner(executor="async")
    with Runner() as runner:
        with pytest.raises(InvalidPolicy, match="hold up"):
            runner.start(under(Policy(executor="async")), 1)

        async def work(x: int) -> int:
            return x

        assert runner.start(under(Policy(executor="async"), work), 1).result(20) == 1


@pytest.mark.parametrize("is_condition", [False, True])
def test_a_step_that_cannot_be_cut_short_fails_when_it_comes_back_too_late(is_condition: bool) -> None:
    def late(x: int) -> int:
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
        return x

    work = condition(late, name="work") >> step(abs) if is_condition else step(late, name="work")
    workflow = Workflow("w", work).with_policies([("work", Policy(timeout=0.001))])
    with Runner(executor="inline") as runner, pytest.raises(RunFailed, match="StepTimeout"):
        runner.start(workflow, 1).result(20)


@virtually
async def test_what_stands_in_line_for_a_worker_waits_for_what_a_policy_wants_durable() -> None:
    began: dict[str, float] = {}

    def note(name: str) -> Any:
        return step(lambda x: began.setdefault(name, now()) and x, name=name)

    workflow = Workflow("w", note("first"), note("second")).with_policies([("first", Policy(checkpoint_after=True))])
    async with runner_on(SlowStore(MemoryStore()), lasts=1.0, workers=1) as runner:
        await (await runner.start(workflow, 1)).wait()

    assert began["second"] - began["first"] >= 2.0


# -- fallbacks and compensations -------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.parametrize("kind", ["fallback", "compensation"])
def test_a_function_of_a_policy_that_takes_its_time_holds_nothing_else_up(kind: str, executor: str) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slow(*_: object) -> Value:
        asked.set()
        assert may_answer.wait(20)
        return Value(7)

    policy = Policy(fallback=slow) if kind == "fallback" else Policy(on_failure="compensate", compensation=slow)
    with Runner(executor=executor) as runner:
        waits = runner.start(under(policy, broken), 1)
        assert asked.wait(20)

        assert runner.start(double, 1, executor="thread").result(20) == 2

        may_answer.set()
        assert waits.wait(20).values("work") == ([7] if kind == "fallback" else [])


@virtually
async def test_a_fallback_counts_as_no_attempt_and_is_told_to_no_hook_as_one() -> None:
    started: list[int] = []
    hooks = WorkerHooks(on_dispatch=lambda runnable: started.append(runnable.attempt))
    policy = Policy(max_retries=1, fallback=lambda *_: Value(7), timeout=5.0)
    async with runner_on(lasts=1.0) as runner:
        run = await (await runner.start(under(policy, broken), 1, hooks=hooks)).wait()

    assert (run.values("work"), started) == ([7], [1, 2])
    [made] = [event for event in run.log() if isinstance(event, ReactionOccurred)]
    assert (made.attempt, made.duration_ns) == (2, 2_000_000_000)


@virtually
async def test_a_fallback_of_a_condition_decides_for_it() -> None:
    workflow = Workflow("w", condition(broken, name="work") >> step(lambda x: x, name="after")).with_policies(
        [("work", Policy(fallback=lambda *_: Value(value=False)))]
    )
    async with runner_on() as runner:
        run = await (await runner.start(workflow, 1)).wait()

    assert (run.values("after"), run.failures) == ([], {})


@virtually
async def test_a_fallback_that_is_asked_while_its_run_is_stopped_gets_the_grace_time() -> None:
    async with runner_on(lasts=1.0) as runner:
        await runner.start(under(Policy(fallback=lambda *_: Value(7)), broken), 1, id="a")
        await asyncio.sleep(0.5)

        await runner.stop("a")

        assert [record.status for record in await runner.runs()] == ["completed"]
        assert now() == 2.0


@virtually
async def test_a_fallback_that_is_cut_off_is_asked_again_after_a_resume() -> None:
    asked: list[float] = []
    workflow = under(Policy(fallback=lambda *_: Value(asked.append(now()))), broken)
    async with MemoryStore() as store:
        async with runner_on(store, lasts=1.0) as runner:
            await runner.start(workflow, 1, id="a")
            await asyncio.sleep(1.5)
            await runner.close(grace=0.0)

        async with runner_on(store, lasts=1.0) as runner:
            await runner.resume("a", workflow=workflow)
            run = await runner.wait("a")

    assert (len(asked), run.values("work")) == (2, [None])


@virtually
async def test_a_durable_dispatch_is_in_the_log_with_its_policy() -> None:
    def broken(x: int) -> int:
        raise OSError("down")

    policy = Policy(execution_mode="durable", max_retries=1, metadata={"team": "data"})
    async with runner_on() as runner:
        handle = await runner.start(under(policy, broken), 1)
        await handle.wait()
        log = await handle.log()

    dispatched = [(event.attempt, event.policy) for event in log if isinstance(event, RunnableDispatched)]
    said = {"max_retries": 1, "execution_mode": "durable", "metadata": {"team": "data"}}
    assert dispatched == [(1, said), (2, said)]


@virtually
async def test_a_more_urgent_runnable_of_a_run_gets_the_next_slot() -> None:
    order: list[str] = []

    def said(name: str) -> Any:
        return step(lambda x: order.append(name) or x, name=name)

    first = said("first")
    flow = Workflow("w", first, first >> said("urgent"), first >> said("last"), said("second"), said("third"))
    flow = flow.with_policies([("urgent", Policy(priority=9)), ("last", Policy(priority=-1))])
    async with runner_on(lasts=1.0) as runner:
        await (await runner.start(flow, 1, max_concurrency=1)).wait()

    assert order == ["first", "urgent", "second", "third", "last"]
