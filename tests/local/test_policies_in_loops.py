"""Policies where loops, threads and clocks meet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from everywhere import Go, everywhere, in_parallel

import weft
from weft import Policy, PolicyDriver, Run, Runnable, Workflow, each, repeat, step
from weft.core import events as ev
from weft.core.components.repeat import Repeat
from weft.errors import DeadlineExceeded, InvalidPolicy, NotACollection, StepTimeout
from weft.local.concurrent import adrive
from weft.local.counters import COUNTERS, LocalCounters
from weft.policy import DEFAULT, CircuitBreaker, ConcurrencyLimit, Value, kind, tag
from weft.testing import VirtualClock


def failing(x: object) -> Any:
    raise ConnectionError(f"no {x}")


class Watched:
    """A clock whose waits show whether others get a turn meanwhile."""

    def __init__(self) -> None:
        self.turns = 0

    def time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"blocked the event loop for {seconds} s")

    async def asleep(self, seconds: float) -> None:
        del seconds
        for _ in range(3):
            await asyncio.sleep(0)


def test_a_plain_function_that_waits_for_its_retry_does_not_block_the_event_loop() -> None:
    clock = Watched()

    async def main() -> Run:
        async def others() -> None:
            while True:
                clock.turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(others())
        patient = Policy(max_retries=2, backoff="linear")
        run = await Workflow("w", step(failing)).arun(1, clock=clock, policies=[(DEFAULT, patient)])
        beside.cancel()
        return run

    assert asyncio.run(main()).failures["failing"].attempts == 3
    assert clock.turns >= 6


def test_a_plain_function_that_overruns_does_not_block_the_event_loop() -> None:
    release = threading.Event()

    async def main() -> Run:
        def until_others_had_a_turn(x: int) -> bool:
            return release.wait(10)

        asyncio.get_running_loop().call_later(0.01, release.set)
        workflow = Workflow("w", step(until_others_had_a_turn, name="s"))
        return await workflow.arun(1, policies=[("s", Policy(timeout=30.0))])

    assert asyncio.run(main()).value("s") is True


def test_plain_functions_of_an_event_loop_still_run_one_at_a_time() -> None:
    at_once: list[int] = []
    lock, now = threading.Lock(), [0]

    def count(x: int) -> int:
        with lock:
            now[0] += 1
            at_once.append(now[0])
        with lock:
            now[0] -= 1
        return x

    workflow = Workflow("w", each([step(count), step(count, name="other")]))
    run = asyncio.run(workflow.arun(range(20), policies=[("count", Policy(timeout=30.0))]))

    assert len(run.values("count")) == len(run.values("other")) == 20
    assert set(at_once) == {1}


def test_a_run_that_is_cancelled_ends_the_waits_of_its_threads() -> None:
    attempted = threading.Event()

    def work(x: int) -> None:
        attempted.set()
        raise OSError("again")

    async def main() -> Run:
        run = Workflow("w", step(work)).plan(1)
        run.set_policies([("work", Policy(max_retries=9, backoff="linear", base_delay=60.0))])
        going = asyncio.ensure_future(weft.local.adrive(run, parallel=2))
        await asyncio.to_thread(attempted.wait, 10)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        return run

    run = asyncio.run(main())

    assert run.is_runnable
    assert not run.failed


@everywhere
def test_what_is_ready_at_once_starts_by_priority(go: Go) -> None:
    started: list[str] = []
    side_by_side = threading.Barrier(2 if go is in_parallel else 1)

    def work(name: str) -> Callable[[int], None]:
        def note(x: int) -> None:
            started.append(name)
            side_by_side.wait(60)  # nothing else has a place before all that started first have started

        return note

    names = ["a", "b", "c", "d"]
    workflow = Workflow("w", *(step(work(name), name=name) for name in names))
    limit = ConcurrencyLimit("one", 1)

    go(workflow, policies=[("d", Policy(priority=2, concurrency_limit=limit)), ("c", Policy(priority=1))])

    first, rest = started[:2], started[2:]
    assert (first, rest) == (["d", "c"], ["a", "b"]) or (go is in_parallel and set(first) == {"d", "c"})


@everywhere
def test_a_plain_function_may_run_beside_the_others(go: Go) -> None:
    """``execution_mode="async"``: each of the two waits for the other, and both end."""
    met = threading.Barrier(2, timeout=10)

    workflow = Workflow("w", *(step(lambda x: met.wait() >= 0, name=name) for name in "ab"))
    run = go(workflow, policies=[(DEFAULT, Policy(execution_mode="async"))])

    assert run.results() == {"a": True, "b": True}


# -- clocks --------------------------------------------------------------------------------------


@everywhere
def test_waiting_for_a_breaker_is_on_the_clock_that_was_given(go: Go) -> None:
    clock, broken = VirtualClock(), [True]

    def call(x: int) -> int:
        return failing(x) if broken[0] else x

    breaker = CircuitBreaker("api", failure_threshold=1, reset_timeout=3600.0, on_open="wait")
    workflow = Workflow("w", step(call)).add_policy("call", Policy(circuit_breaker=breaker))
    go(workflow, clock=clock)
    broken[0] = False

    run = go(workflow, clock=clock)

    assert run.value("call") == 1
    assert clock.slept == [3600.0]


@everywhere
def test_a_deadline_holds_without_any_policy(go: Go) -> None:
    """G77."""
    clock = VirtualClock()
    late = step(lambda x: clock.advance(6.0), name="late")
    never = step(lambda x: x, name="never")

    run = go(Workflow("w", late >> never), deadline=5.0, clock=clock)

    assert isinstance(run.failures["never"].__cause__, DeadlineExceeded)
    assert run.log()[1].deadline == 5.0


@everywhere
def test_a_deadline_ends_the_wait_for_a_place_on_the_clock_that_was_given(go: Go) -> None:
    limit = ConcurrencyLimit("db", 1)
    COUNTERS.update(("concurrency_limit", "db"), lambda state: (weft.policy.limits.UseState(1), None))
    clock, calls = VirtualClock(), list[int]()

    workflow = Workflow("w", step(calls.append, name="s"))
    run = go(workflow, clock=clock, deadline=5.0, policies=[("s", Policy(concurrency_limit=limit))])

    assert isinstance(run.failures["s"].__cause__, DeadlineExceeded)
    assert calls == []
    assert weft.limits()["concurrency_limit"]["db"].used == 1


def test_a_task_that_waits_in_a_loop_that_is_closed_does_not_disturb_one_that_leaves() -> None:
    counters, key = LocalCounters(), ("concurrency_limit", "db")
    wakers: list[Callable[[], None]] = []
    counters.on_change(key, lambda: None)

    class Late(LocalCounters):
        """Keeps wakers that were to be forgotten: what a release sees that has copied them just before."""

        def on_change(self, key: Any, wake: Callable[[], None]) -> Callable[[], None]:
            wakers.append(wake)
            return super().on_change(key, wake)

    late = Late()
    late.update(key, lambda state: (weft.policy.limits.UseState(1), None))
    driver = PolicyDriver(clock=VirtualClock(), counters=late)
    run = Workflow("w", step(lambda x: x, name="s")).plan(1)
    policy = Policy(concurrency_limit=ConcurrencyLimit("db", 1), deadline=1.0)

    asyncio.run(driver.aexecute(run.prepare()[0], policy))

    assert wakers
    for wake in wakers:
        wake()


# -- what cannot be kept -------------------------------------------------------------------------


def test_a_driver_refuses_what_it_cannot_keep() -> None:
    [runnable] = Workflow("w", step(lambda x: x, name="s")).plan(1).prepare()

    with pytest.raises(InvalidPolicy, match="heartbeat"):
        PolicyDriver().execute(runnable, Policy(heartbeat=1.0))


def test_a_matcher_that_fails_is_named_before_anything_runs() -> None:
    calls: list[int] = []

    with pytest.raises(InvalidPolicy, match=r"failed on 's' with ZeroDivisionError"):
        Workflow("w", step(calls.append, name="s")).run(1, policies=[(lambda target: bool(1 / 0), Policy())])

    assert calls == []


def test_what_is_added_to_a_run_has_to_work_under_its_policies() -> None:
    run = Workflow("w", step(lambda x: x, name="s")).plan(1).set_policies([("new", Policy(heartbeat=1.0))])

    with pytest.raises(InvalidPolicy, match="heartbeat"):
        run.add(step(lambda x: x, name="new"))

    assert [type(event) for event in run.log()] == [ev.WorkflowDefined, ev.InputReceived, ev.PolicyChanged]


@pytest.mark.parametrize("name", ["backoff", "retryable", "fallback", "compensation", "idempotency_key"])
def test_a_coroutine_function_that_would_not_be_awaited_is_refused_when_it_is_written(name: str) -> None:
    async def waits(*_: object) -> None: ...

    fields: dict[str, Any] = {name: waits} | ({"on_failure": "compensate"} if name == "compensation" else {})

    with pytest.raises(InvalidPolicy, match="nothing would await"):
        Policy(**fields)


# -- fallbacks -----------------------------------------------------------------------------------


@everywhere
def test_a_map_whose_fallback_gives_no_collection_has_failed(go: Go) -> None:
    def junk(runnable: Runnable, error: BaseException) -> Value:
        return Value(7)

    workflow = Workflow("w", each(step(lambda x: x, name="e"), name="m"))
    run = go(workflow, policies=[("m", Policy(fallback=junk))])

    assert isinstance(run.failures["m"].__cause__, NotACollection)
    assert Run.from_log(run.log()) == run


async def waiting(x: int) -> str:
    await asyncio.sleep(0)
    return f"waited for {x}"


@everywhere
@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_fallback_may_give_a_coroutine_function_to_try(go: Go, timeout: float | None) -> None:
    policy = Policy(timeout=timeout, fallback=lambda runnable, error: runnable.using(waiting))

    assert go(Workflow("w", step(failing)), policies=[(DEFAULT, policy)]).output == "waited for 1"


@everywhere
def test_hooks_run_around_what_a_fallback_gives_too(go: Go) -> None:
    seen: list[Any] = []
    hooked = step(failing).before(lambda call: seen.append(call.attempt)).after(lambda call, value: seen.append(value))

    go(Workflow("w", hooked), policies=[(DEFAULT, Policy(fallback=lambda r, e: r.using(lambda x: "other")))])

    assert seen == [1, 2, "other"]


def test_a_hook_on_a_thread_that_was_left_behind_adds_nothing() -> None:
    left, ended = threading.Event(), threading.Event()

    def hook(call: weft.core.functions.current.Current) -> None:
        left.wait(10)
        call.add(step(lambda x: x, name="late"), to="s")
        ended.set()

    workflow = Workflow("w", step(lambda x: x, name="s").before(hook))
    run = workflow.run(1, policies=[("s", Policy(timeout=0.01))])
    log = run.log()
    left.set()

    assert ended.wait(10)
    assert isinstance(run.failures["s"].__cause__, StepTimeout)
    assert run.log() == log
    assert list(run.workflow.components) == ["s"]


def test_what_was_added_before_an_interrupt_is_not_added_by_the_next_one() -> None:
    asked: list[int] = []

    def work(x: int) -> int:
        asked.append(x)
        if len(asked) == 1:
            weft.current().add(step(lambda y: y, name="new"), to="work")
            raise KeyboardInterrupt
        return x

    run = Workflow("w", step(work)).plan(1)
    with pytest.raises(KeyboardInterrupt):
        run.react()

    run.react_until_satisfied()

    assert list(run.workflow.components) == ["work"]


def test_a_function_that_gives_a_coroutine_may_add_from_it() -> None:
    async def inside(x: int) -> int:
        weft.current().add(step(lambda y: y + 1, name="new"), to="work")
        return x

    run = Workflow("w", step(lambda x, limit=weft.context("limit", default=1): inside(x), name="work")).run(1)

    assert run.results() == {"new": 2}


@everywhere
def test_how_long_an_attempt_took_is_told_under_a_policy_too(go: Go) -> None:
    run = go(Workflow("w", step(lambda x: x, name="s")), policies=[("s", Policy(timeout=30.0))])

    event = run.log()[-1]
    assert isinstance(event, ev.ReactionOccurred)
    assert event.duration_ns > 0


def test_policies_may_change_from_another_thread_while_inputs_follow_older_plans() -> None:
    run = Workflow("w", step(failing)).plan(1)
    run.set_policies([("failing", Policy(max_retries=1_000_000, backoff="linear", base_delay=0.001))])
    asked = threading.Event()

    def change() -> None:
        asked.wait(10)
        run.set_policies([("failing", Policy(on_failure="skip"))])

    def noticed(x: int) -> None:
        asked.set()

    run.add(step(noticed))
    changing = threading.Thread(target=change)
    changing.start()
    run.plan(2)
    run.react_until_satisfied(parallel=3)
    changing.join()

    assert run.skipped == ["failing"]
    assert Run.from_log(run.log()) == run


@everywhere
def test_a_fallback_that_hangs_is_abandoned_at_the_deadline_of_its_input(go: Go) -> None:
    release = threading.Event()

    def hangs(runnable: Runnable, error: BaseException) -> Value:
        release.wait(60)
        return Value("late")

    run = go(Workflow("w", step(failing, name="f")), deadline=0.2, policies=[("f", Policy(fallback=hangs))])
    release.set()

    assert isinstance(run.failures["f"].__cause__, DeadlineExceeded)


@everywhere
@pytest.mark.parametrize(
    ("rule", "made"),
    [("agent", 2), ("agent.turn", 2), ("agent.until", 2), (kind(Repeat), 2), (tag("net"), 2), (DEFAULT, 5)],
)
def test_a_policy_for_a_loop_holds_once_per_turn(go: Go, rule: Any, made: int) -> None:
    body = step(lambda x: x + 1, name="agent").tagged("net")
    loop = repeat(body, until=lambda x: x >= 3, at_most=5)
    clock = VirtualClock()

    go(Workflow("w", loop), clock=clock, policies=[(rule, Policy(delay=1.0))])

    assert clock.slept == [1.0] * made


@everywhere
def test_a_policy_for_a_loop_over_a_graph_holds_once_per_turn(go: Go) -> None:
    body = Workflow("draft", step(lambda x: x + 1, name="a") >> step(lambda x: x, name="b"))
    clock = VirtualClock()

    go(
        Workflow("w", repeat(body, until=lambda x: x >= 3, at_most=5)),
        clock=clock,
        policies=[("draft", Policy(delay=1.0))],
    )

    assert clock.slept == [1.0] * 2


@pytest.mark.parametrize("how", ["serially", "in_parallel", "in_a_loop"])
@pytest.mark.parametrize("mode", ["durable", "sync"])
def test_attempts_count_on_after_a_restore(how: str, mode: Any) -> None:
    """The log is of a process that died during the second attempt, after one that had failed."""
    workflow = Workflow("w", step(lambda x: weft.current().attempt, name="f")).with_policies(
        [("f", Policy(max_retries=5, execution_mode=mode))]
    )
    before = workflow.plan(1)
    [runnable] = before.prepare()
    before.record_dispatch(msgspec.structs.replace(runnable, attempt=2))

    run = Run.from_log(before.log())
    if how == "serially":
        run.react_until_satisfied()
    elif how == "in_parallel":
        run.react_until_satisfied(parallel=2)
    else:
        asyncio.run(adrive(run))

    assert run.value("f") == 3
    attempts = [event.attempt for event in run.log() if isinstance(event, ev.RunnableDispatched)]
    assert attempts == ([2, 3] if mode == "durable" else [2])
    assert run.log()[-1].attempt == 3


class Died(Exception):
    """The end of a process, as far as a run in memory can tell."""


class UntilTheWait(VirtualClock):
    """A clock of a process that dies while something waits."""

    def sleep(self, seconds: float) -> None:
        raise Died

    async def asleep(self, seconds: float) -> None:
        raise Died


def driven(run: Run, how: str) -> Run:
    """Drive *run* in one of the three loops."""
    if how == "serially":
        run.react_until_satisfied()
    elif how == "in_parallel":
        run.react_until_satisfied(parallel=2)
    else:
        asyncio.run(adrive(run))
    return run


@pytest.mark.parametrize("how", ["serially", "in_parallel", "in_a_loop"])
@pytest.mark.parametrize("mode", ["durable", "sync", "async"])
@pytest.mark.parametrize("timeout", [None, 30.0])
def test_attempts_that_have_failed_count_after_a_restore(how: str, mode: Any, timeout: float | None) -> None:
    """The log is of a process that died while the step waited for its second attempt."""

    @step
    def fetch(x: int) -> Any:
        raise ConnectionError(f"attempt {weft.current().attempt}")

    policy = Policy(max_retries=2, backoff="linear", base_delay=5.0, execution_mode=mode, timeout=timeout)
    workflow = Workflow("w", fetch, step(lambda x: x, name="beside")).with_policies([("fetch", policy)])
    before = workflow.plan(1).under(clock=UntilTheWait(start=100.0))
    with pytest.raises(Died):
        driven(before, how)

    clock = VirtualClock(start=103.0)
    run = driven(Run.from_log(before.log()).under(clock=clock), how)

    assert [(event.attempt, event.retry_at) for event in run.log() if isinstance(event, ev.AttemptFailed)] == [
        (1, 105.0),
        (2, 115.0),
    ]
    assert run.failures["fetch"].attempts == 3
    assert clock.slept == [2.0, 10.0]
    assert Run.from_log(run.log()) == run
