"""Loops in memory: what sleeps is slept through, and signals are not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from weft import Run, Workflow, each, reduce, sleep, step, wait_for
from weft.errors import SignalTimeout, StepFailed
from weft.local.timers import LONGEST
from weft.testing import VirtualClock

double = step(lambda x: x * 2, name="double")
nap = sleep(10, name="nap")


@step
async def fetch(x: int) -> int:
    """Suspend, once."""
    await asyncio.sleep(0)
    return x


Loop = Callable[..., Run]


def aloop(flow: Workflow, value: Any, **options: Any) -> Run:
    return asyncio.run(flow.arun(value, **options))


def parallel(flow: Workflow, value: Any, **options: Any) -> Run:
    return flow.run(value, parallel=3, **options)


@pytest.fixture(params=[Workflow.run, parallel, aloop], ids=["serial", "parallel", "asyncio"])
def loop(request: pytest.FixtureRequest) -> Loop:
    """Run a workflow on a value, in each of the loops."""
    driven: Loop = request.param
    return driven


def test_every_loop_passes_time(loop: Loop) -> None:
    clock = VirtualClock(50.0)

    run = loop(Workflow("w", double >> sleep(days=1) >> nap >> fetch), 1, clock=clock)

    assert run.output == 2
    assert clock.slept == [86_400.0, 10.0]
    assert Run.from_log(run.log()) == run


def test_branches_go_on_while_one_sleeps(loop: Loop) -> None:
    clock = VirtualClock()
    flow = Workflow("w", nap >> double.named("last"), double >> sleep(3, name="short") >> double.named("first"))

    run = loop(flow, 1, clock=clock)

    assert run.results() == {"last": 2, "first": 4}
    if loop is not parallel:  # there the virtual time passes while a thread is at work
        assert [fact.producer for fact in run.facts()] == [None, "double", "short", "first", "nap", "last"]
        assert clock.slept == [3.0, 7.0]


def test_a_loop_returns_when_only_signals_are_waited_for(loop: Loop) -> None:
    clock = VirtualClock()
    flow = Workflow("w", double >> [wait_for("approved"), wait_for("paid", timeout=60)])

    run = loop(flow, 1, clock=clock)

    assert (run.status, run.waiting_for, clock.slept) == ("waiting", ["approved", "paid"], [])


def test_a_timeout_counts_while_something_sleeps(loop: Loop) -> None:
    clock = VirtualClock()
    flow = Workflow("w", nap, wait_for("early", timeout=5), wait_for("late", timeout=60))

    run = loop(flow, 1, clock=clock)

    assert (run.waiting_for, list(run.failures)) == (["late"], ["early"])
    assert clock.slept == [5.0, 5.0]


def test_a_timeout_that_is_due_counts_when_the_loop_begins(loop: Loop) -> None:
    clock = VirtualClock()
    late = step(lambda failure: failure.type, name="late")
    run = loop(Workflow("w", wait_for("paid", timeout=60).on_error(SignalTimeout, then=late)), 1, clock=clock)

    clock.advance(60)
    run.react_until_satisfied()

    assert run.value("late") == "weft.errors.SignalTimeout"


def test_a_timeout_that_is_due_while_steps_run_counts(loop: Loop) -> None:
    clock = VirtualClock()
    slow = step(lambda x: clock.advance(40), name="slow")
    flow = Workflow("w", wait_for("paid", timeout=60), slow >> slow.named("slower") >> fetch)

    run = loop(flow, 1, clock=clock)

    assert list(run.failures) == ["paid"]


def test_a_signal_timeout_can_be_raised(loop: Loop) -> None:
    with pytest.raises(StepFailed) as caught:
        loop(Workflow("w", wait_for("paid", timeout=5), nap), 1, clock=VirtualClock(), raise_on_failure=True)

    assert isinstance(caught.value.__cause__, SignalTimeout)


def test_a_checkpoint_sees_what_time_has_done(loop: Loop) -> None:
    seen: list[int] = []

    run = loop(Workflow("w", nap), 1, clock=VirtualClock(), checkpoint=lambda run: seen.append(len(run.log())))

    assert seen[-1] == len(run.log())


def test_ten_thousand_elements_sleep_at_once(loop: Loop) -> None:
    clock = VirtualClock()
    flow = Workflow("w", each(sleep(lambda x: x % 7)) >> reduce(lambda acc, x: acc + x, init=0))

    run = loop(flow, range(10_000), clock=clock)

    assert run.output == sum(range(10_000))
    assert sum(clock.slept) == 6


def test_a_sleep_is_not_lengthened_by_a_clock_that_is_set_back(loop: Loop) -> None:
    class SetBack(VirtualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            self.advance(-3600)

    clock = SetBack(10_000.0)

    run = loop(Workflow("w", nap), 1, clock=clock)

    assert run.output == 1
    assert clock.slept == [10.0]


def test_a_time_of_day_is_waited_for_also_if_the_clock_is_set_back(loop: Loop) -> None:
    class SetBack(VirtualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            self.advance(-30 if len(self.slept) == 1 else 0)

    clock = SetBack()

    run = loop(Workflow("w", sleep(until=100.0)), 1, clock=clock)

    assert run.output == 1
    assert clock.slept == [100.0, 30.0]


def test_a_very_long_sleep_is_slept_in_parts(loop: Loop) -> None:
    clock = VirtualClock()

    assert loop(Workflow("w", sleep(2.5 * LONGEST)), 1, clock=clock).output == 1
    assert clock.slept == [LONGEST, LONGEST, LONGEST / 2]


def test_a_clock_that_fails_ends_the_loop_and_the_run_can_go_on(loop: Loop) -> None:
    class Broken(VirtualClock):
        def sleep(self, seconds: float) -> None:
            raise OSError("no clock")

    runs: list[Run] = []
    with pytest.raises(OSError, match="no clock"):
        loop(Workflow("w", double >> nap), 1, clock=Broken(), checkpoint=runs.append)

    run = Run.from_log(runs[-1].log()).under(clock=VirtualClock()).react_until_satisfied()
    assert run.output == 2


def test_a_run_goes_on_after_a_restart_with_the_time_that_is_left() -> None:
    run = Workflow("w", nap >> double).plan(1).fire_timers(100.0)
    clock = VirtualClock(104.0)

    again = Run.from_log(run.log()).under(clock=clock).react_until_satisfied()

    assert again.output == 2
    assert clock.slept == [6.0]


def test_a_cycle_fires_what_is_due_and_sleeps_for_nothing() -> None:
    clock = VirtualClock()
    run = Workflow("w", nap >> double).plan(1).under(clock=clock).react().react()
    assert (run.status, clock.slept) == ("waiting", [])

    clock.advance(10)

    assert run.react().output == 2


def test_a_step_can_send_a_signal_to_its_own_run(loop: Loop) -> None:
    runs: list[Run] = []
    send = step(lambda x: runs[0].signal("paid", x) and None, name="send")
    flow = Workflow("w", step(lambda x: x, name="first") >> nap >> send, wait_for("paid") >> double)

    run = loop(flow, 4, clock=VirtualClock(), checkpoint=runs.append)

    assert run.value("double") == 8


def test_a_cancelled_loop_leaves_a_run_that_can_go_on() -> None:
    class Endless(VirtualClock):
        def __init__(self) -> None:
            super().__init__()
            self.asked = asyncio.Event()

        async def asleep(self, seconds: float) -> None:
            self.asked.set()
            await asyncio.Event().wait()

    async def cancelled() -> Run:
        clock = Endless()
        run = Workflow("w", nap >> double).plan().under(clock=clock)
        task = asyncio.ensure_future(run.arun(1))
        await clock.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return run

    run = asyncio.run(cancelled())

    assert (run.status, run.is_driven) == ("waiting", False)
    assert run.fire_timers(10.0).react().output == 2
