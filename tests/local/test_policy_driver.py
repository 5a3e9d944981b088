"""The policy driver for those who schedule by themselves, and exceptions of every kind."""

from __future__ import annotations

import asyncio
import re
from typing import cast

import pytest

from weft import (
    Policy,
    PolicyDriver,
    Run,
    Runnable,
    Step,
    Workflow,
    aexecute_with_policies,
    condition,
    each,
    execute_with_policies,
    step,
)
from weft.core import events as ev
from weft.errors import StepFailed, StepTimeout, UnknownRunnable
from weft.policy import DEFAULT, Value, kind, matching, tag
from weft.testing import VirtualClock, run_virtually
from weft.testing.loop import VirtualLoop

DRIVER = PolicyDriver(clock=VirtualClock())


def failing(times: int) -> Workflow:
    left = [times]

    def work(x: int) -> int:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError("not yet")
        return x * 2

    return Workflow("w", step(work))


def only(run: Run) -> Runnable:
    [runnable] = run.prepare()
    return runnable


THREE = [f"RunnableDispatched {attempt}" for attempt in (1, 2, 3)]


# -- what a driver tells -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "policy", "told"),
    [
        (0, Policy(), ["RunnableDispatched 1", "RunnableCompleted 1"]),
        (2, Policy(max_retries=2), [*THREE, "RunnableCompleted 3"]),
        (9, Policy(max_retries=2), [*THREE, "RunnableFailed 3 halt"]),
        (9, Policy(on_failure="skip"), ["RunnableDispatched 1", "RunnableSkipped 1"]),
        (9, Policy(fallback=lambda runnable, error: Value(0)), ["RunnableDispatched 1", "RunnableCompleted 1"]),
    ],
)
def test_the_life_of_a_runnable_is_told(times: int, policy: Policy, told: list[str]) -> None:
    """CONFORMANCE 78, counted from 1."""
    outcome = DRIVER.execute(only(failing(times).plan(1)), policy)

    def line(event: ev.Activated) -> str:
        count = getattr(event, "attempt", None) or getattr(event, "attempts", None)
        how = f" {event.on_failure}" if isinstance(event, ev.RunnableFailed) else ""
        return f"{type(event).__name__} {count}{how}"

    assert [line(event) for event in outcome.events] == told


def test_a_recorded_policy_holds_no_functions() -> None:
    """CONFORMANCE 78."""
    policy = Policy(max_retries=1, non_retryable=(ValueError,), fallback=lambda runnable, error: Value(0))

    outcome = DRIVER.execute(only(failing(0).plan(1)), policy)

    dispatched = outcome.events[0]
    assert isinstance(dispatched, ev.RunnableDispatched)
    assert dispatched.policy == {"max_retries": 1, "non_retryable": ["ValueError"]}


@pytest.mark.parametrize("times", [0, 1, 9])
def test_a_run_takes_what_a_driver_tells_as_events_or_as_an_outcome(times: int) -> None:
    policy = Policy(max_retries=1)
    told, applied = failing(times).plan(1, id="r"), failing(times).plan(1, id="r")

    told.record(DRIVER.execute(only(told), policy).events)
    applied.apply(DRIVER.execute(only(applied), policy))

    assert told.results() == applied.results()
    assert told.failed == applied.failed
    assert [event.seq for event in told.log()] == list(range(1, len(told.log()) + 1))
    assert Run.from_log(told.log()) == told


def test_a_completed_condition_and_a_completed_map_are_recorded_as_what_they_are() -> None:
    gate = Workflow("w", condition(lambda x: True, name="gate") >> step(lambda x: x, name="same")).plan(1)
    spread = Workflow("w", each(step(lambda x: x, name="same"), name="spread")).plan([1, 2])

    gate.record(DRIVER.execute(only(gate), Policy()).events)
    spread.record(DRIVER.execute(only(spread), Policy()).events)

    assert isinstance(gate.log()[-1], ev.ConditionEvaluated)
    assert isinstance(spread.log()[-1], ev.FannedOut)
    assert len(spread.prepare()) == 2


def test_what_is_told_twice_counts_once() -> None:
    run = failing(0).plan(1)
    outcome = DRIVER.execute(only(run), Policy())

    run.record(outcome.events).record(outcome.events).apply(outcome)

    assert run.values("work") == [2]


def test_what_a_driver_tells_of_another_run_is_refused() -> None:
    outcome = DRIVER.execute(only(failing(0).plan(1)), Policy())

    with pytest.raises(UnknownRunnable):
        Workflow("other", step(lambda x: x, name="same")).plan(1).record(outcome.events)


# -- choosing a policy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matcher", ["work", matching(re.compile("^wo")), kind(Step), tag("slow"), lambda target: True, DEFAULT]
)
def test_a_runnable_is_executed_under_the_rule_that_is_about_it(matcher: object) -> None:
    left = [2]

    def work(x: int) -> int:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError("not yet")
        return x

    run = Workflow("w", step(work).tagged("slow")).plan(1)
    rules = [("other", Policy()), (matcher, Policy(max_retries=2))]

    outcome = execute_with_policies(only(run), rules, clock=VirtualClock())

    assert outcome.attempt == 3
    assert run.apply(outcome).value("work") == 1


def test_a_coroutine_is_executed_in_the_loop_that_is_running() -> None:
    async def work(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    run = Workflow("w", step(work)).plan(1)

    outcome = asyncio.run(aexecute_with_policies(only(run), [(DEFAULT, Policy(timeout=60.0))]))

    assert outcome.result == 2


# -- exceptions of every kind --------------------------------------------------------------------


class Odd(BaseException):
    """Neither an Exception nor anything that ends a program."""


POLICIES = [None, Policy(max_retries=0, metadata={"any": 1}), Policy(timeout=60.0)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("parallel", [None, 2])
@pytest.mark.parametrize("error", [Odd("odd"), asyncio.CancelledError("own"), BaseExceptionGroup("g", [Odd("in")])])
def test_what_is_not_an_exception_becomes_an_outcome(
    error: BaseException, parallel: int | None, policy: Policy | None
) -> None:
    def work(x: int) -> int:
        raise error

    async def waits(x: int) -> int:
        raise error

    rules = [(DEFAULT, policy)] if policy else None
    for workflow in (Workflow("w", step(work, name="work")), Workflow("w", step(waits, name="work"))):
        run = workflow.run(1, parallel=parallel, policies=rules)
        assert run.failures["work"].__cause__ is error


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("parallel", [None, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_propagates_and_the_work_stays_to_be_done(
    error: type[BaseException], parallel: int | None, policy: Policy | None
) -> None:
    def work(x: int) -> int:
        raise error("stop")

    run = Workflow("w", step(work)).plan(1).under([(DEFAULT, policy)] if policy else None)

    with pytest.raises(error):
        run.react_until_satisfied(parallel=parallel)

    assert [runnable.component for runnable in run.prepare()] == ["work"]
    assert not run.failed
    assert not run.is_driven


def test_an_odd_exception_is_not_retried_unless_the_policy_names_it() -> None:
    calls: list[int] = []

    def work(x: int) -> int:
        calls.append(x)
        raise Odd("odd")

    workflow = Workflow("w", step(work))
    workflow.run(1, policies=[(DEFAULT, Policy(max_retries=2))])
    workflow.run(2, policies=[(DEFAULT, Policy(max_retries=2, retryable=(Odd,)))])

    assert calls == [1, 2, 2, 2]


@pytest.mark.parametrize("policy", POLICIES)
def test_cancelling_a_run_reaches_the_coroutine_that_is_running(policy: Policy | None) -> None:
    told: list[str] = []

    began = asyncio.Event()

    async def work(x: int) -> int:
        told.append("began")
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        return x

    async def main() -> Run:
        run = Workflow("w", step(work)).plan().under([(DEFAULT, policy)] if policy else None)
        task = asyncio.create_task(run.arun(1))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return run

    run = asyncio.run(main())

    assert told == ["began", "cancelled"]
    assert [runnable.component for runnable in run.prepare()] == ["work"]


def test_a_coroutine_that_does_not_let_itself_be_cancelled_is_too_late_all_the_same() -> None:
    async def work(x: int) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return x
        return x

    run = Workflow("w", step(work)).run(1, policies=[(DEFAULT, Policy(timeout=0.01))])

    assert isinstance(run.failures["work"], StepFailed)
    assert isinstance(run.failures["work"].__cause__, StepTimeout)


# -- a loop that is held ---------------------------------------------------------------------------


@pytest.mark.parametrize("lasts", [(0.3,), (0.3, 0.3)])
def test_a_coroutine_that_would_have_ended_in_time_is_not_timed_out_because_the_loop_was_held(
    lasts: tuple[float, ...],
) -> None:
    async def work(x: int) -> int:
        for seconds in lasts:
            await asyncio.sleep(seconds)
        return x

    async def main() -> Run:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        loop.call_later(0.1, loop.advance, 2.0)
        flow = Workflow("w", step(work)).with_policies([("work", Policy(timeout=1.0))])
        return await flow.arun(1)

    assert run_virtually(main()).values("work") == [1]


@pytest.mark.parametrize(("held", "ends"), [(0.0, 1.0), (0.5, 1.0), (2.0, 3.1)])
def test_a_coroutine_that_hangs_is_timed_out_however_long_the_loop_was_held(held: float, ends: float) -> None:
    async def work(x: int) -> None:
        await asyncio.sleep(3600.0)

    async def main() -> tuple[Run, float]:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        loop.call_later(0.1, loop.advance, held)
        flow = Workflow("w", step(work)).with_policies([("work", Policy(timeout=1.0))])
        return await flow.arun(1), loop.time()

    run, at = run_virtually(main())

    assert isinstance(run.failures["work"].__cause__, StepTimeout)
    assert at == pytest.approx(ends)
