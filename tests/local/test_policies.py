"""Policies kept by the loops in memory: retries, timeouts, fallbacks, limits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from everywhere import Go, everywhere

import weft
from weft import Policy, PolicyDriver, Run, Workflow, context, each, step
from weft.core.events import RunnableDispatched
from weft.errors import CircuitOpen, DeadlineExceeded, InvalidFallback, InvalidPolicy, StepTimeout
from weft.policy import DEFAULT, CircuitBreaker, ConcurrencyLimit, RateLimit, RetryWith, Value
from weft.testing import VirtualClock


class Flaky:
    """Fails so many times, then returns what it got."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def __call__(self, x: int) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError(f"attempt {self.calls}")
        return x


@everywhere
@pytest.mark.parametrize(("failures", "retries"), [(0, 0), (1, 1), (2, 3), (3, 3)])
def test_work_that_fails_less_often_than_it_is_retried_completes(go: Go, failures: int, retries: int) -> None:
    """G72."""
    flaky, clock = Flaky(failures), VirtualClock()

    run = go(Workflow("w", step(flaky, name="f")), policies=[("f", Policy(max_retries=retries))], clock=clock)

    assert run.value("f") == 1
    assert flaky.calls == failures + 1
    assert run.log()[-1].attempt == flaky.calls


@everywhere
def test_work_that_fails_more_often_fails(go: Go) -> None:
    flaky = Flaky(9)

    run = go(Workflow("w", step(flaky, name="f")), policies=[("f", Policy(max_retries=2))])

    assert flaky.calls == 3
    assert run.failures["f"].attempts == 3
    assert isinstance(run.failures["f"].__cause__, ConnectionError)


def test_waits_are_on_the_clock_that_was_given() -> None:
    clock = VirtualClock()
    policy = Policy(max_retries=3, backoff="exponential", base_delay=1.0, max_delay=3.0, delay=10.0)

    Workflow("w", step(Flaky(9), name="f")).run(1, policies=[("f", policy)], clock=clock)

    assert clock.slept == [10.0, 1.0, 2.0, 3.0]


@everywhere
def test_a_plain_function_that_overruns_is_left_behind(go: Go) -> None:
    """G73."""
    release = threading.Event()
    slow = step(lambda x: release.wait(30), name="slow")

    run = go(Workflow("w", slow), policies=[("slow", Policy(timeout=0.01))])
    release.set()

    assert isinstance(run.failures["slow"].__cause__, StepTimeout)


def test_a_coroutine_that_overruns_is_cancelled() -> None:
    ended: list[str] = []

    async def slow(x: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    run = Workflow("w", step(slow, name="slow")).run(1, policies=[("slow", Policy(timeout=0.01))])

    assert isinstance(run.failures["slow"].__cause__, StepTimeout)
    assert ended == ["cancelled"]


@pytest.mark.parametrize(
    ("fallback", "expected", "calls"),
    [
        (lambda runnable, error: Value("sorry"), "<sorry>", 3),
        (lambda runnable, error: RetryWith(model="small"), "<small:1>", 4),
        (lambda runnable, error: runnable.using(lambda x: f"other:{x}"), "<other:1>", 3),
    ],
)
def test_a_fallback_is_asked_once_after_the_last_retry(fallback: Any, expected: str, calls: int) -> None:
    """G74."""
    made: list[str] = []

    def call(x: int, model: str = context("model", default="large")) -> str:
        made.append(model)
        if model == "large":
            raise RuntimeError("overloaded")
        return f"{model}:{x}"

    workflow = Workflow("w", step(call) >> step(lambda answer: f"<{answer}>", name="after"))
    run = workflow.run(1, policies=[("call", Policy(max_retries=2, fallback=fallback))])

    assert run.value("after") == expected
    assert len(made) == calls


@pytest.mark.parametrize("answer", [5, None, RetryWith(nobody=1)])
def test_a_fallback_that_gives_nothing_usable_is_a_failure(answer: object) -> None:
    run = Workflow("w", step(Flaky(9), name="f")).run(1, policies=[("f", Policy(fallback=lambda r, e: answer))])

    assert run.failed
    assert isinstance(run.failures["f"].__cause__, InvalidFallback | LookupError)


def test_skipping_ends_the_branch_quietly() -> None:
    """G75."""
    fails = step(Flaky(9), name="f")
    workflow = Workflow("w", fails >> step(lambda x: x, name="child"), step(lambda x: x, name="sibling"))

    run = workflow.run(1, policies=[("f", Policy(on_failure="skip"))])

    assert run.results() == {"sibling": 1}
    assert run.skipped == ["f"]
    assert not run.failed


def test_a_dead_letter_is_a_failure_that_is_listed() -> None:
    run = Workflow("w", step(Flaky(9), name="f")).run(1, policies=[("f", Policy(on_failure="dead_letter"))])

    assert run.failed
    assert [letter.component for letter in run.dead_letters] == ["f"]


def test_a_compensation_undoes_and_the_failure_stays() -> None:
    undone: list[str] = []
    policy = Policy(on_failure="compensate", compensation=lambda runnable, error: undone.append(str(error)))

    run = Workflow("w", step(Flaky(9), name="f")).run(1, policies=[("f", policy)])

    assert undone == ["attempt 1"]
    assert run.failed


def test_no_retry_starts_after_the_deadline() -> None:
    clock = VirtualClock()
    policy = Policy(max_retries=100, backoff="linear", base_delay=1.0, deadline=5.0)

    run = Workflow("w", step(Flaky(999), name="f")).run(1, policies=[("f", policy)], clock=clock)

    assert isinstance(run.failures["f"].__cause__, DeadlineExceeded)
    assert sum(clock.slept) <= 5.0


def test_a_circuit_breaker_is_shared_by_all_runs_and_probes_when_its_time_has_come() -> None:
    clock, flaky = VirtualClock(), Flaky(3)
    breaker = Policy(circuit_breaker=CircuitBreaker("api", failure_threshold=3, reset_timeout=60.0))
    service = Workflow("svc", step(flaky, name="f")).with_policies([("f", breaker)])

    for _ in range(5):
        refused = service.run(1, clock=clock)
    clock.advance(61.0)
    back = service.run(1, clock=clock)

    assert isinstance(refused.failures["f"].__cause__, CircuitOpen)
    assert back.value("f") == 1
    assert flaky.calls == 4
    assert not weft.limits()["circuit_breaker"]["api"].is_open


def test_a_rate_limit_spaces_attempts_out() -> None:
    clock = VirtualClock()
    limited = Workflow("w", step(lambda x: x, name="f")).with_policies(
        [("f", Policy(rate_limit=RateLimit("m", 2, burst=1)))]
    )

    for _ in range(3):
        limited.run(1, clock=clock)

    assert clock.slept == [0.5, 0.5]


def test_coroutines_wait_for_the_turns_of_a_rate_one_after_the_other() -> None:
    clock, order = VirtualClock(), list[int]()

    async def call(x: int) -> int:
        order.append(x)
        return x

    limited = Workflow("w", each(step(call, name="f"))).with_policies(
        [("f", Policy(rate_limit=RateLimit("m", 2, burst=1)))]
    )

    asyncio.run(limited.arun(list(range(50)), clock=clock))

    assert sorted(order) == list(range(50))
    assert len(clock.slept) < 100
    assert clock.time() >= 49 * 0.5


def test_a_concurrency_limit_holds_across_runs_and_threads() -> None:
    lock, active, peak = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def work(x: int) -> int:
        nonlocal active, peak
        with lock:
            active += 1
            peak = max(peak, active)
        with lock:
            active -= 1
        return x

    policy = Policy(concurrency_limit=ConcurrencyLimit("one", 1))
    workflow = Workflow("w", *[step(work, name=f"w{i}") for i in range(8)]).with_policies([(DEFAULT, policy)])

    def go() -> None:
        both.wait()
        workflow.run(1, parallel=4)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert peak == 1
    assert weft.limits()["concurrency_limit"]["one"].used == 0


def test_the_driver_tells_the_life_of_a_runnable() -> None:
    """G78."""
    run = Workflow("w", step(Flaky(2), name="f")).plan(1)
    [runnable] = run.prepare()

    executed = PolicyDriver(clock=VirtualClock()).execute(runnable, Policy(max_retries=2))

    assert [type(event).__name__ for event in executed.events] == ["RunnableDispatched"] * 3 + ["RunnableCompleted"]
    assert [event.attempt for event in executed.events] == [1, 2, 3, 3]  # type: ignore[attr-defined]
    assert run.apply(executed).value("f") == 1


def test_durable_work_is_noted_before_it_starts() -> None:
    run = Workflow("w", step(lambda x: x, name="f")).run(1, policies=[(DEFAULT, Policy(execution_mode="durable"))])

    assert isinstance(run.log()[3], RunnableDispatched)
    assert run.pending_runnables() == []
    assert Run.from_log(run.log()) == run


def test_a_policy_may_give_the_idempotency_key() -> None:
    keys = step(lambda x: weft.current().idempotency_key, name="keys")
    policy = Policy(idempotency_key=lambda runnable: f"order-{runnable.args[0]}")

    assert Workflow("w", keys).run(7, policies=[("keys", policy)]).output == "order-7"


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_policy_whose_idempotency_key_is_nothing_fails_the_attempt(nothing: Any) -> None:
    """As text it would be "None", the same key for every call of every run."""
    made: list[int] = []
    flow = Workflow("w", step(made.append, name="pay")).add_policy("pay", Policy(idempotency_key=lambda _: nothing))

    failure = flow.run(5).failures["pay"]

    assert isinstance(failure.__cause__, InvalidPolicy)
    assert "it must return text" in str(failure.__cause__)
    assert made == []


def test_priority_decides_what_starts_first() -> None:
    order: list[str] = []
    workflow = Workflow("w", *[step(lambda x, n=n: order.append(n), name=n) for n in "abc"])

    workflow.run(1, policies=[("c", Policy(priority=9)), ("b", Policy(priority=5))])

    assert order == ["c", "b", "a"]


def test_what_a_run_in_memory_cannot_keep_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidPolicy, match="heartbeat"):
        Workflow("w", step(lambda x: x, name="f")).run(1, policies=[("f", Policy(heartbeat=1.0))])
