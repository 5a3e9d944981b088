"""The parts of a run that need attention: steps that wait for the outside, or were cancelled."""

from __future__ import annotations

from weft import Policy, Runner, Workflow, current, step, wait_for
from weft.testing import TestRunner
from weft.views import attention

ASK = Workflow(
    "ask",
    step(lambda _: current().token, name="ask") >> step(str, name="told"),
    policies=[("ask", Policy(execution_mode="external", timeout=60))],
)


def test_a_step_that_is_open_waits_for_a_completion_and_says_when_it_times_out() -> None:
    with TestRunner() as runner:
        handle = runner.start(ASK, 1)
        runner.advance(seconds=10)
        [line] = attention(runner.get(handle.id), runner.find(handle.id), now=runner.now)

    assert (line.state, line.component, line.text) == ("waiting", "ask", "waits for a completion from outside")
    assert (line.detail, line.action) == ("times out in 50 s", "")


def test_an_open_step_without_a_timeout_says_so() -> None:
    with Runner() as runner:
        handle = runner.start(ASK.with_policies([("ask", Policy(execution_mode="external"))]), 1)
        runner.wait_until(handle.id, lambda run: run.status == "waiting")
        [line] = attention(runner.get(handle.id), runner.find(handle.id), now=0.0)

    assert (line.state, line.detail) == ("waiting", "no timeout")


def test_a_step_that_was_cancelled_says_by_whom_and_why_and_can_be_retried() -> None:
    for workflow, name in ((ASK, "ask"), (Workflow("w", wait_for("go", name="go") >> step(str, name="told")), "go")):
        with Runner() as runner:
            handle = runner.start(workflow, 1)
            runner.wait_until(handle.id, lambda run: run.status == "waiting")
            runner.cancel(handle.id, "wrong desk", component=name, by="ann")
            runner.wait(handle)
            [line] = attention(runner.get(handle.id), runner.find(handle.id), now=0.0)

        assert (line.state, line.component, line.text) == ("cancelled", name, "cancelled")
        assert line.error == f"{name!r} was cancelled by ann: wrong desk"
        assert (line.detail, line.action) == ("told cannot start", "retry")
