"""CONFORMANCE G, case by case: which policy holds, and what it does about failures and time."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from weft import Policy, PolicyDriver, Rule, Step, Workflow, context, rule, step
from weft.core import events as ev
from weft.core.run.runnable import Runnable
from weft.errors import DeadlineExceeded, InvalidFallback, StepTimeout
from weft.policy import DEFAULT, RetryWith, Value, kind
from weft.testing import VirtualClock


def failing(x: Any) -> Any:
    raise ConnectionError("down")


class Unreliable:
    """A step that fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("down")
        return x


@pytest.mark.parametrize(
    ("matcher", "fetch", "ruled"),
    [
        ("fetch", 1, 0),
        (re.compile("^fe"), 1, 0),
        (Step, 1, 0),
        (kind(Step, Rule), 1, 1),
        (lambda target: target.name == "ruled", 0, 1),
        (DEFAULT, 1, 1),
        ("nothing", 0, 0),
    ],
)
def test_70_a_rule_matches_by_name_pattern_kind_function_or_default(matcher: Any, fetch: int, ruled: int) -> None:
    flow = Workflow("w", step(failing, name="fetch"), rule(then=failing, name="ruled"))
    flow = flow.with_policies([(matcher, Policy(max_retries=1)), (DEFAULT, Policy(timeout=5.0))])

    for name, retries in (("fetch", fetch), ("ruled", ruled)):
        policy = flow.policy_for(name)
        assert (policy.max_retries, policy.timeout) == (retries, None if retries else 5.0)  # the first one alone
    assert Workflow("w", step(failing, name="fetch")).policy_for("fetch") == Policy()


def test_71_rules_at_run_time_go_in_front_or_in_place_of_the_others() -> None:
    flow = Workflow("w", step(failing, name="f")).with_policies([("f", Policy(max_retries=1))])

    def attempts(**given: Any) -> int:
        return flow.run(1, **given).failures["f"].attempts

    own = [(DEFAULT, Policy(max_retries=3))]
    assert (attempts(), attempts(policies=own)) == (2, 4)
    assert attempts(policies=[("other", Policy(max_retries=3))]) == 2
    assert attempts(policies=[("other", Policy(max_retries=3))], policies_mode="replace") == 1
    assert (attempts(policies=[]), attempts(policies=None)) == (2, 2)
    assert attempts(policies=[], policies_mode="replace") == 1


@pytest.mark.parametrize(("fails", "retries"), [(0, 0), (1, 0), (1, 1), (2, 3), (3, 2)])
def test_72_work_is_tried_again_as_often_as_the_policy_says(fails: int, retries: int) -> None:
    work = Unreliable(fails)
    run = Workflow("w", step(work, name="f")).run(1, policies=[("f", Policy(max_retries=retries))])

    assert work.calls == min(fails, retries) + 1
    assert run.failed == (fails > retries)


@pytest.mark.parametrize(
    ("backoff", "waits"), [("none", []), ("linear", [1.0, 2.0, 3.0, 3.0]), ("exponential", [1.0, 2.0, 3.0, 3.0])]
)
def test_72_the_wait_before_a_retry_grows_up_to_its_cap(backoff: Any, waits: list[float]) -> None:
    clock = VirtualClock()
    policy = Policy(max_retries=4, backoff=backoff, base_delay=1.0, max_delay=3.0)

    Workflow("w", step(failing, name="f")).run(1, clock=clock, policies=[("f", policy)])

    assert [wait for wait in clock.slept if wait] == waits


@pytest.mark.parametrize("draw", [0.0, 0.5, 1.0])
def test_72_jitter_is_drawn_between_nothing_and_the_exponential_wait(draw: float) -> None:
    clock = VirtualClock()
    policy = Policy(max_retries=3, backoff="jitter", base_delay=1.0, max_delay=3.0)
    [runnable] = Workflow("w", step(failing, name="f")).plan(1).prepare()

    PolicyDriver(clock=clock, draw=lambda: draw).execute(runnable, policy)

    assert [wait for wait in clock.slept if wait] == [draw * most for most in (1.0, 2.0, 3.0) if draw]


def test_73_an_attempt_that_takes_too_long_has_failed_and_is_tried_again() -> None:
    never, calls = threading.Event(), list[int]()

    def slow_once(x: int) -> int:
        calls.append(x)
        if len(calls) == 1:
            never.wait(20)
        return x

    def slow(x: int) -> object:
        return never.wait(20)

    try:
        cut = Workflow("w", step(slow)).run(1, policies=[("slow", Policy(timeout=0.01))])
        often = Policy(timeout=0.05, max_retries=100)  # on a busy machine some of the others take too long as well
        again = Workflow("w", step(slow_once)).run(1, policies=[("slow_once", often)])
    finally:
        never.set()

    error = cut.failures["slow"].__cause__
    assert isinstance(error, StepTimeout)
    assert "0.01" in str(error)
    assert again.value("slow_once") == 1
    assert again.log()[-1].attempt >= 2
    assert Workflow("w", step(abs)).run(-1, policies=[("abs", Policy(timeout=20.0))]).output == 1


def asked(answer: Callable[[Runnable], Any], called: list[int]) -> Policy:
    def fallback(runnable: Runnable, error: BaseException) -> Any:
        called.append(runnable.attempt)
        return answer(runnable)

    return Policy(max_retries=2, fallback=fallback)


def test_74_a_fallback_is_called_once_after_the_last_attempt() -> None:
    seen, called = list[Any](), list[int]()

    def fetch(x: int, mirror: str = context("mirror", default="")) -> Any:
        seen.append(mirror)
        if mirror != "other":
            raise ConnectionError("down")
        return mirror

    flow = Workflow("w", step(fetch) >> step(lambda x: ("after", x), name="after"))

    def run(answer: Callable[[Runnable], Any]) -> Any:
        seen.clear()
        called.clear()
        return flow.run(1, policies=[("fetch", asked(answer, called))])

    assert run(lambda _: Value("v")).results() == {"after": ("after", "v")}
    assert (len(seen), len(called)) == (3, 1)
    assert run(lambda _: RetryWith(mirror="other")).results() == {"after": ("after", "other")}
    assert (seen[3:], len(called)) == (["other"], 1)
    assert run(lambda runnable: runnable.using(lambda x: "using")).results() == {"after": ("after", "using")}
    junk = run(lambda _: object())
    assert isinstance(junk.failures["fetch"].__cause__, InvalidFallback)
    assert (len(seen), len(called)) == (3, 1)


@pytest.mark.parametrize("on_failure", ["halt", "skip"])
def test_75_what_fails_or_is_skipped_ends_its_branch(on_failure: Any) -> None:
    flow = Workflow("w", step(failing, name="f") >> step(lambda x: x, name="child"), step(lambda x: x, name="sibling"))

    run = flow.run(1, policies=[("f", Policy(on_failure=on_failure))])

    assert run.failed == (on_failure == "halt")
    assert any(isinstance(event, ev.RunnableSkipped) for event in run.log()) == (on_failure == "skip")
    assert (run.results(), run.is_runnable, run.prepare()) == ({"sibling": 1}, False, [])


def test_77_a_deadline_of_the_run_holds_without_any_policy() -> None:
    clock = VirtualClock()

    def slow(x: int) -> int:
        clock.advance(0.05)
        return x

    run = Workflow("w", step(lambda x: clock.advance(0.05) or x, name="before") >> step(slow)).run(
        1, clock=clock, deadline=0.005
    )

    assert isinstance(next(iter(run.failures.values())).__cause__, DeadlineExceeded)
    assert run.values("slow") == []


def lifecycle(work: Callable[[Any], Any], policy: Policy) -> list[Any]:
    [runnable] = Workflow("w", step(work, name="f")).plan(1).prepare()
    return list(PolicyDriver(clock=VirtualClock()).execute(runnable, policy).events)


def test_78_a_driver_reports_every_attempt_and_how_it_ended() -> None:
    policies = {"max_retries": 2, "fallback": lambda runnable, error: Value("v")}
    reported = {
        "success": lifecycle(Unreliable(0), Policy()),
        "third time": lifecycle(Unreliable(2), Policy(max_retries=2)),
        "exhausted": lifecycle(failing, Policy(max_retries=2)),
        "skipped": lifecycle(failing, Policy(on_failure="skip")),
        "fallback": lifecycle(failing, Policy(**policies)),
    }

    def short(events: list[Any]) -> list[Any]:
        return [getattr(event, "attempt", getattr(event, "attempts", None)) for event in events]

    assert {name: short(events) for name, events in reported.items()} == {
        "success": [1, 1],
        "third time": [1, 2, 3, 3],
        "exhausted": [1, 2, 3, 3],
        "skipped": [1, 1],
        "fallback": [1, 2, 3, 3],
    }
    endings = {name: type(events[-1]) for name, events in reported.items()}
    assert endings == {
        "success": ev.RunnableCompleted,
        "third time": ev.RunnableCompleted,
        "exhausted": ev.RunnableFailed,
        "skipped": ev.RunnableSkipped,
        "fallback": ev.RunnableCompleted,
    }
    assert reported["exhausted"][-1].on_failure == "halt"
    assert reported["fallback"][0].policy == {"max_retries": 2}  # and no functions
