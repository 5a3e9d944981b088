"""Cancelling one step: it is stopped, has failed, and the rest of the run goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from small_flows import Gate, hang

from weft import AsyncRunner, Policy, Run, Runner, Saga, Workflow, current, each, join, step, wait_for
from weft.core import events as ev
from weft.core.run.runnable import RunnableRef
from weft.errors import RunFailed, StepCancelled, TokenExpired, UnknownRunnable
from weft.policy import Value
from weft.stores import SQLiteStore
from weft.testing import TestRunner


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


class Endless:
    """A coroutine step that never ends, and says whether it was cancelled."""

    def __init__(self) -> None:
        self.begun, self.was_cancelled = threading.Event(), threading.Event()

    async def run(self, x: Any) -> Any:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise

    def workflow(self, policy: Policy | None = None) -> Workflow:
        flow = step(self.run, name="slow") >> step(str, name="end")
        return Workflow("w", flow, step(lambda x: x + 1, name="other"), policies=[("slow", policy or Policy())])


def test_a_coroutine_is_cancelled_and_the_rest_goes_on(runner: Runner) -> None:
    endless = Endless()
    handle = runner.start(endless.workflow(), 1)
    assert endless.begun.wait(60)

    runner.cancel(handle.id, "too slow", component="slow", by="Ada")

    run = handle.wait()
    assert endless.was_cancelled.wait(60)
    assert run.status == "failed"
    assert run.results() == {"other": 2}
    cause = run.failures["slow"].__cause__
    assert isinstance(cause, StepCancelled)
    assert "'slow' was cancelled by Ada: too slow" in str(cause)
    (cancelled,) = [event for event in handle.log() if isinstance(event, ev.RunnableCancelled)]
    assert (cancelled.reason, cancelled.by, cancelled.attempt) == ("too slow", "Ada", 1)
    assert Run.from_log(handle.log()).status == "failed"


@pytest.mark.parametrize("on_failure", ["skip", "dead_letter"])
def test_it_is_neither_tried_again_nor_rescued_skipped_or_kept(runner: Runner, on_failure: Any) -> None:
    endless = Endless()
    policy = Policy(max_retries=5, on_failure=on_failure)
    handle = runner.start(endless.workflow(policy), 1)
    assert endless.begun.wait(60)

    handle.cancel("no", component="slow")

    run = handle.wait()
    assert run.status == "failed"
    assert run.dead_letters == []
    assert run.skipped == []
    assert run.failures["slow"].attempts == 1


def test_its_fallback_is_not_called(runner: Runner) -> None:
    endless = Endless()
    handle = runner.start(endless.workflow(Policy(fallback=lambda *_: Value("instead"))), 1)
    assert endless.begun.wait(60)
    handle.cancel(component="slow")

    assert list(handle.wait().failures) == ["slow"]


def test_its_compensation_is_called(runner: Runner) -> None:
    undone: list[Any] = []
    endless = Endless()
    policy = Policy(on_failure="compensate", compensation=lambda runnable, error: undone.append(error))
    handle = runner.start(endless.workflow(policy), 1)
    assert endless.begun.wait(60)

    handle.cancel("no", component="slow", by="Ada")
    handle.wait()

    assert [(type(error), error.reason, error.by) for error in undone] == [(StepCancelled, "no", "Ada")]


def test_a_saga_undoes_what_was_done(runner: Runner) -> None:
    undone: list[Any] = []
    begun = threading.Event()
    trip = Saga(name="trip")

    @trip.transaction(compensate=lambda request, results: undone.append(results["book"]))
    def book(request: Any, results: Any) -> str:
        return "seat 5"

    @trip.transaction(compensate=None)
    async def pay(request: Any, results: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    handle = runner.start(Workflow("w", trip), 1)
    assert begun.wait(60)
    handle.cancel(component="trip.pay")
    handle.wait()

    assert undone == ["seat 5"]


def test_an_error_route_takes_it(runner: Runner) -> None:
    endless = Endless()
    slow = step(endless.run, name="slow")
    routed = slow.on_error(StepCancelled, then=step(lambda failure: failure.message, name="told"))
    handle = runner.start(Workflow("w", routed), 1)
    assert endless.begun.wait(60)
    handle.cancel("no", component="slow")

    assert handle.wait().results()["told"] == "'slow' was cancelled: no"


def test_a_join_that_waits_for_all_to_be_done_goes_on(runner: Runner) -> None:
    endless = Endless()
    both = join(step(endless.run, name="slow"), step(abs, name="quick"), wait="all_done")
    handle = runner.start(Workflow("w", both >> step(lambda one, two: two, name="met")), -3)
    assert endless.begun.wait(60)
    handle.cancel(component="slow")

    assert handle.wait().results()["met"] == 3


def test_a_thread_is_left_behind_and_its_result_is_dropped(runner: Runner) -> None:
    gate = Gate()
    handle = runner.start(Workflow("w", step(gate, name="slow")), 1)
    assert gate.begun.wait(60)
    handle.cancel(component="slow")
    gate.opened.set()

    assert list(handle.wait().failures) == ["slow"]


def test_a_worker_process_is_killed(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with Runner(tmp_path / "runs.db", executor="process", processes=1) as runner:
        handle = runner.start(Workflow("w", step(hang, name="slow")), str(begun))
        while not begun.exists():
            pass
        handle.cancel(component="slow")

        assert list(handle.wait().failures) == ["slow"]


def test_one_element_is_cancelled_by_its_ref(runner: Runner) -> None:
    begun, goes_on = threading.Semaphore(0), threading.Event()

    def work(x: int) -> int:
        begun.release()
        goes_on.wait(60)
        return x

    handle = runner.start(Workflow("w", each(step(work, name="work"))), [1, 2, 3])
    for _ in range(3):
        assert begun.acquire(timeout=60)
    handle.cancel(component=RunnableRef("work", ((3, 1),)))
    goes_on.set()

    run = handle.wait()
    assert sorted(run.values("work")) == [1, 3]
    assert run.status == "failed"


def test_what_waits_is_cancelled_too() -> None:
    with TestRunner() as runner:
        handle = runner.start(Workflow("w", step(abs, name="a") >> wait_for("go", name="wait")), 1)
        handle.cancel("no", component="wait")

        assert handle.status() == "failed"


def test_an_open_step_is_cancelled_and_its_token_works_no_more() -> None:
    tokens: list[str] = []
    asks = step(lambda x: tokens.append(current().token), name="ask")
    with TestRunner() as runner:
        policies = [("ask", Policy(execution_mode="external"))]
        handle = runner.start(Workflow("w", asks, policies=policies), 1)
        handle.cancel("no", component="ask")

        assert handle.status() == "failed"
        with pytest.raises(TokenExpired):
            runner.complete(tokens[0], 1)


def test_a_crash_after_any_event_of_a_cancellation_comes_to_the_same(runner: Runner) -> None:
    undone: list[Any] = []
    endless = Endless()
    policy = Policy(on_failure="compensate", compensation=lambda runnable, error: undone.append(error))
    handle = runner.start(endless.workflow(policy), 1)
    assert endless.begun.wait(60)
    handle.cancel("no", component="slow")
    log = handle.wait().log()
    (place,) = [event.seq for event in log if isinstance(event, ev.RunnableCancelled)]

    for length in range(place, len(log) + 1):
        again = Run.from_log(log[:length]).react_until_satisfied()
        assert isinstance(again.failures["slow"].__cause__, StepCancelled)
        assert again.results() == {"other": 2}
    assert len(undone) >= 2, "the one that was not stored is called again"


def test_what_is_not_there_cannot_be_cancelled(runner: Runner) -> None:
    endless = Endless()
    handle = runner.start(endless.workflow(), 1)
    assert endless.begun.wait(60)

    with pytest.raises(UnknownRunnable, match="'end'"):
        handle.cancel(component="end")
    with pytest.raises(UnknownRunnable):
        handle.cancel(component="nothing")
    handle.cancel()


def test_a_step_of_a_run_of_another_process_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        endless = Endless()
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(endless.workflow(), 1, id="r")
            assert await asyncio.to_thread(endless.begun.wait, 60)
            await other.cancel("r", "no", component="slow", by="web")

            with pytest.raises(RunFailed, match="cancelled by web: no"):
                await handle.result()

    asynchronously(main)


def test_a_cancelled_step_is_retried_like_any_that_failed(runner: Runner) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> step(str, name="end"))
    handle = runner.start(workflow, 1)
    assert gate.begun.wait(60)
    handle.cancel("too slow", component="slow", by="Ada")
    with pytest.raises(RunFailed):
        handle.result()

    gate.opened.set()
    runner.retry(handle.id, by="Bob")

    assert handle.result() == "1"
    assert Run.from_log(handle.log()).status == "completed"


def test_a_step_that_was_cancelled_is_retried_after_a_restart(tmp_path: Path) -> None:
    tokens: list[str] = []

    def ask(_: int) -> None:
        tokens.append(current().token)

    workflow = Workflow("w", step(ask, name="ask"), policies=[("ask", Policy(execution_mode="external"))])
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(workflow, 1, id="r")
        runner.wait_until("r", lambda run: run.status == "waiting")
        runner.cancel("r", "wrong desk", component="ask")
        assert runner.wait("r").status == "failed"
    with Runner(tmp_path / "runs.db") as runner:
        runner.register(workflow)
        handle = runner.retry("r")
        runner.wait_until("r", lambda run: run.status == "waiting")
        with pytest.raises(TokenExpired, match="'ask' was cancelled"):
            runner.complete(tokens[0], "late")
        runner.complete(tokens[1], "yes")

        assert handle.result() == "yes"
