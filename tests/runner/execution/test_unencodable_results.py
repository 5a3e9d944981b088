"""A value that cannot be written fails the attempt that made it, and the policy of the step decides what follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from small_flows import hands_out_an_object

from weft import Policy, Runnable, Runner, Workflow, condition, step, telemetry
from weft.core.events import AttemptFailed
from weft.core.failure import Failure
from weft.errors import RunFailed, UnencodableValue
from weft.policy import Value
from weft.runner import WorkerHooks

LARGE = 10_000
"""Number of items that is encoded in slices."""


class Odd:
    """Makes a value that is not data, until it was called so often."""

    def __init__(self, times: int = 1_000, size: int = 1) -> None:
        self.calls, self._times, self._size = 0, times, size

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return [x] * self._size + ([object()] if self.calls <= self._times else [])


def odd_flow(odd: Odd, policy: Policy) -> Workflow:
    return Workflow("w", step(odd, name="odd") >> step(len, name="after")).with_policies([("odd", policy)])


@pytest.fixture(params=["thread", "inline"])
def executor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def told() -> Iterator[list[str]]:
    heard: list[str] = []

    def note(event: str, _: dict[str, Any], metadata: dict[str, Any]) -> None:
        if metadata["component"] == "odd":
            heard.append(event.removeprefix("weft.runner.runnable."))

    telemetry.attach("t", [f"weft.runner.runnable.{name}" for name in ("stop", "exception", "retry", "skip")], note)
    yield heard
    telemetry.detach("t")


@pytest.mark.parametrize("size", [1, LARGE])
def test_its_retries_count(runner: Runner, executor: str, size: int) -> None:
    odd = Odd(times=1, size=size)

    run = runner.start(odd_flow(odd, Policy(max_retries=2)), 1, executor=executor).wait()

    assert (odd.calls, run.value("after"), run.failures) == (2, size, {})
    (failed,) = [event for event in run.log() if isinstance(event, AttemptFailed)]
    assert failed.error.type == "weft.errors.UnencodableValue"


@pytest.mark.parametrize("size", [1, LARGE])
def test_its_fallback_is_asked(runner: Runner, executor: str, size: int) -> None:
    asked: list[BaseException] = []

    def instead(_: Runnable, error: BaseException) -> Value:
        asked.append(error)
        return Value([1, 2, 3])

    run = runner.start(odd_flow(Odd(size=size), Policy(fallback=instead)), 1, executor=executor).wait()

    assert run.value("after") == 3
    (error,) = asked
    assert isinstance(error, UnencodableValue)
    assert (error.component, error.path) == ("odd", f"value[{size}]")


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_fallback_whose_value_cannot_be_written_either_fails_and_is_not_asked_again(
    runner: Runner, executor: str, size: int
) -> None:
    asked: list[BaseException] = []

    def instead(_: Runnable, error: BaseException) -> Value:
        asked.append(error)
        return Value([1] * size + [object()])

    def down(_: object) -> None:
        raise OSError("down")

    policy = Policy(fallback=instead, on_failure="dead_letter")
    workflow = Workflow("w", step(down, name="down")).with_policies([("down", policy)])
    run = runner.start(workflow, 1, executor=executor).wait()

    assert len(asked) == 1
    (letter,) = run.dead_letters
    assert letter.error.type == "weft.errors.UnencodableValue"


def test_a_function_that_a_fallback_names_is_held_to_the_same(runner: Runner) -> None:
    def instead(runnable: Runnable, _: BaseException) -> Runnable:
        return runnable.using(hands_out_an_object)

    run = runner.start(odd_flow(Odd(), Policy(fallback=instead)), 1).wait()

    assert isinstance(run.failures["odd"].__cause__, UnencodableValue)


def test_it_can_be_skipped(runner: Runner, executor: str) -> None:
    run = runner.start(odd_flow(Odd(), Policy(on_failure="skip")), 1, executor=executor).wait()

    assert (run.skipped, run.failures) == (["odd"], {})


def test_it_can_be_a_dead_letter(runner: Runner, executor: str) -> None:
    odd = Odd(times=1)
    handle = runner.start(odd_flow(odd, Policy(on_failure="dead_letter")), 1, executor=executor)
    assert len(handle.wait().dead_letters) == 1

    runner.retry(handle.id)

    assert handle.wait().value("after") == 1


def test_its_error_route_gets_it(runner: Runner, executor: str) -> None:
    handled: list[Failure] = []
    route = step(Odd(), name="odd").on_error(UnencodableValue, then=step(handled.append, name="handle"))

    run = runner.start(Workflow("w", route), 1, executor=executor).wait()

    assert run.failures == {}
    assert [(each.component, each.input) for each in handled] == [("odd", 1)]


def test_in_a_worker_process_it_fails_the_attempt_too() -> None:
    policy = Policy(executor="process", fallback=lambda *_: Value("instead"))
    workflow = Workflow("w", step(hands_out_an_object, name="odd")).with_policies([("odd", policy)])

    with Runner(processes=1) as runner:
        assert runner.start(workflow, 1).result() == "instead"


def test_in_a_coroutine_it_fails_the_attempt_too(runner: Runner) -> None:
    async def odd(_: int) -> object:
        return object()

    workflow = Workflow("w", step(odd)).with_policies([("odd", Policy(fallback=lambda *_: Value("instead")))])

    assert runner.start(workflow, 1).result() == "instead"


def test_without_a_policy_it_fails_the_run(runner: Runner, executor: str) -> None:
    handle = runner.start(Workflow("w", step(Odd(), name="odd")), 1, executor=executor)

    with pytest.raises(RunFailed, match="what 'odd' made cannot be written"):
        handle.result()


@pytest.mark.parametrize("size", [1, LARGE])
def test_telemetry_reports_no_success(runner: Runner, executor: str, told: list[str], size: int) -> None:
    policy = Policy(max_retries=1, on_failure="skip")

    runner.start(odd_flow(Odd(size=size), policy), 1, executor=executor).wait()

    assert told == ["exception", "retry", "exception", "skip"]


def test_hooks_are_told_of_a_failure(runner: Runner, executor: str) -> None:
    heard: list[object] = []
    hooks = WorkerHooks(
        on_complete=lambda runnable, _: heard.append(runnable.component),
        on_failed=lambda _, error: heard.append(type(error)),
    )

    runner.start(Workflow("w", step(Odd(), name="odd")), 1, executor=executor, hooks=hooks).wait()

    assert heard == [UnencodableValue]


def test_a_condition_is_asked_only_whether_it_holds(runner: Runner, executor: str) -> None:
    holds = condition(hands_out_an_object, name="holds")

    run = runner.start(Workflow("w", holds >> step(abs, name="then")), -1, executor=executor).wait()

    assert run.value("then") == 1
