"""The attempts of a run, as handlers of telemetry see them: one handle each, causes, and calls where they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from weft import Policy, Runner, Workflow, condition, each, reduce, step, telemetry
from weft.events import RunnableSkipped
from weft.policy import Value
from weft.stores import SQLiteStore

PREFIX = "weft.runner."
SEEN: ContextVar[str] = ContextVar("seen", default="nothing")

Told = tuple[str, dict[str, Any]]


@pytest.fixture
def told() -> Iterator[list[Told]]:
    found: list[Told] = []

    def handler(event: str, _measured: dict[str, Any], metadata: dict[str, Any]) -> None:
        found.append((event.removeprefix(PREFIX), metadata))

    names = [name for name in telemetry.EVENTS if "runnable" in name]
    telemetry.attach("test", names, handler)
    yield found
    telemetry.detach("test")


@pytest.fixture
def entering() -> Iterator[None]:
    """Every attempt begins with a call that sets a context variable."""

    def handler(_event: str, _measured: object, metadata: dict[str, Any]) -> None:
        name = f"{metadata['component']} {metadata['attempt']}"
        metadata["handle"].enter_with(lambda: SEEN.set(name))

    telemetry.attach("entering", "weft.runner.runnable.start", handler)
    yield
    telemetry.detach("entering")


def handles(told: list[Told], component: str) -> list[tuple[str, Any]]:
    return [(event, metadata["handle"]) for event, metadata in told if metadata["component"] == component]


def seen(_: object) -> str:
    return SEEN.get()


async def seen_later(_: object) -> str:
    return SEEN.get()


# -- handles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_events_of_an_attempt_have_one_handle_and_other_attempts_have_others(
    told: list[Told], executor: str
) -> None:
    tries: list[int] = []

    def flaky(x: int) -> int:
        tries.append(x)
        if len(tries) == 1:
            raise OSError("not yet")
        return x

    with Runner(executor=executor) as runner:
        runner.start(Workflow("w", step(flaky)), 1, policies=[("flaky", Policy(max_retries=1))]).wait(20)

    found = [(event, metadata.get("handle")) for event, metadata in told]
    assert [event for event, _ in found] == [
        *("runnable.start", "runnable.exception", "runnable.retry"),
        *("runnable.start", "runnable.stop"),
    ]
    first, second = found[0][1], found[3][1]
    assert first is found[1][1]
    assert second is found[4][1]
    assert first is not second
    assert first.key == second.key
    assert first.idempotency_key == second.idempotency_key != ""


def test_a_handle_knows_the_key_that_the_step_reads(told: list[Told]) -> None:
    import weft

    with Runner() as runner:
        key = runner.start(Workflow("w", step(lambda _: weft.current().idempotency_key, name="key")), 1).result(20)

    assert {handle.idempotency_key for _, handle in handles(told, "key")} == {key}


def test_runs_of_the_same_id_in_two_runners_are_distinguished(told: list[Told]) -> None:
    for _ in range(2):
        with Runner() as runner:
            runner.start(Workflow("w", step(seen)), 1, id="a").wait(20)

    starts = [handle for event, handle in handles(told, "seen") if event == "runnable.start"]
    assert starts[0].run != starts[1].run
    assert [handle.run[1] for handle in starts] == ["a", "a"]


def test_an_attempt_that_is_refused_before_it_starts_has_a_handle_too(told: list[Told]) -> None:
    gate = threading.Event()
    held, late = step(lambda _: gate.wait(20), name="held"), step(seen, name="late")
    with Runner(threads=1) as runner:
        policies = [("held", Policy(priority=1)), ("late", Policy(queue_timeout=0.01, on_failure="skip"))]
        handle = runner.start(Workflow("w", held, late), 1, policies=policies)
        runner.wait_until(handle, lambda run: any(isinstance(event, RunnableSkipped) for event in run.log()), 20)
        gate.set()
        handle.wait(20)

    assert [event for event, _ in handles([each for each in told if "handle" in each[1]], "late")] == [
        "runnable.exception"
    ]


# -- causes --------------------------------------------------------------------------------------


def causes(told: list[Told], component: str) -> list[list[str]]:
    return [
        [name for name, _ in metadata["handle"].causes()]
        for event, metadata in told
        if event == "runnable.start" and metadata["component"] == component
    ]


def run(workflow: Workflow, *values: Any) -> None:
    with Runner() as runner:
        handle = runner.start(workflow, values[0], open=True)
        for value in values[1:]:
            handle.send(value)
        handle.wait(20)


def test_the_first_step_follows_from_no_other(told: list[Told]) -> None:
    run(Workflow("w", step(seen)), 1)

    assert causes(told, "seen") == [[]]


def test_a_join_follows_from_its_branches(told: list[Told]) -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")
    run(Workflow("w", [a, b] >> step(lambda x, y: x + y, name="sum")), 1)

    assert causes(told, "sum") == [["a", "b"]]


def test_an_element_follows_from_its_map_and_a_reduce_from_all_elements(told: list[Told]) -> None:
    double = step(lambda x: x * 2, name="double")
    run(Workflow("w", each(double, name="items") >> reduce(lambda acc, x: acc + x, init=0, name="total")), [1, 2, 3])

    assert causes(told, "double") == [["items"]] * 3
    assert causes(told, "total") == [["double"] * 3]


def test_a_gated_step_follows_from_what_made_its_value(told: list[Told]) -> None:
    make = step(lambda x: x, name="make")
    run(Workflow("w", make >> condition(lambda x: x > 0, name="positive") >> step(seen)), 1)

    assert causes(told, "seen") == [["make"]]


def test_a_dead_letter_that_is_retried_with_another_value_has_the_same_causes(told: list[Told]) -> None:
    invert = step(lambda x: 1 // x, name="invert")
    with Runner() as runner:
        policies = [("invert", Policy(on_failure="dead_letter"))]
        handle = runner.start(Workflow("w", step(lambda x: x, name="make") >> invert), 0, policies=policies)
        handle.wait(20)
        runner.retry(handle.id, input=1).wait(20)

    assert causes(told, "invert") == [["make"], ["make"]]


# -- how attempts end ----------------------------------------------------------------------------


def fails(_: object) -> int:
    raise OSError("no")


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [
        (Policy(max_retries=1), ["retried", "failed"]),
        (Policy(fallback=lambda runnable, error: Value(5)), ["fell_back"]),
        (Policy(on_failure="skip"), ["skipped"]),
        (Policy(on_failure="dead_letter"), ["failed"]),
    ],
)
def test_a_failed_attempt_says_what_followed(told: list[Told], policy: Policy, outcomes: list[str]) -> None:
    with Runner() as runner:
        runner.start(Workflow("w", step(fails)), 1, policies=[("fails", policy)]).wait(20)

    assert [about["outcome"] for event, about in told if event == "runnable.exception"] == outcomes


def test_a_dead_letter_is_told_unless_the_failure_is_handled(told: list[Told]) -> None:
    handled = step(fails, name="handled").on_error(OSError, then=step(seen))
    with Runner() as runner:
        policies = [("fails", Policy(on_failure="dead_letter")), ("handled", Policy(on_failure="dead_letter"))]
        runner.start(Workflow("w", step(fails), handled), 1, policies=policies).wait(20)

    assert [about["component"] for event, about in told if event == "runnable.dead_letter"] == ["fails"]


def test_a_dead_letter_is_told_where_failures_are_not_logged(told: list[Told]) -> None:
    import logging

    log = logging.getLogger("weft.runner")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with Runner() as runner:
            policies = [("fails", Policy(on_failure="dead_letter"))]
            runner.start(Workflow("w", step(fails)), 1, policies=policies).wait(20)
    finally:
        log.setLevel(before)

    assert "runnable.dead_letter" in [event for event, _ in told]


def stop(runner: Runner, run: str) -> None:
    runner.stop(run, grace=0)


def cancel(runner: Runner, run: str) -> None:
    runner.cancel(run)


@pytest.mark.parametrize("leave", [stop, cancel])
def test_an_attempt_that_is_given_up_is_told_with_its_handle(
    told: list[Told], leave: Callable[[Runner, str], None]
) -> None:
    reached, gate = threading.Event(), threading.Event()

    def waits(_: object) -> None:
        reached.set()
        gate.wait(20)

    with Runner() as runner:
        runner.start(Workflow("w", step(waits)), 1, id="a")
        assert reached.wait(20)
        leave(runner, "a")
        gate.set()

    assert [event for event, _ in told] == ["runnable.start", "runnable.abandon"]
    assert told[0][1]["handle"] is told[1][1]["handle"]


def test_closing_a_runner_gives_attempts_up_that_do_not_end(told: list[Told]) -> None:
    reached, gate = threading.Event(), threading.Event()

    def waits(_: object) -> None:
        reached.set()
        gate.wait(20)

    with Runner(grace=0) as runner:
        runner.start(Workflow("w", step(waits)), 1, id="a")
        assert reached.wait(20)
    gate.set()

    assert [event for event, _ in told] == ["runnable.start", "runnable.abandon"]


def test_an_attempt_that_has_ended_is_not_given_up_with_its_run(told: list[Told]) -> None:
    with Runner() as runner:
        policies = [("fails", Policy(max_retries=1, backoff="linear", base_delay=1000))]
        handle = runner.start(Workflow("w", step(seen), step(fails)), 1, policies=policies)
        runner.wait_until(handle, lambda run: len(run.log()) >= 5, 20)  # both have ended
        handle.cancel()

    assert "runnable.abandon" not in [event for event, _ in told]


# -- calls where the attempt runs ----------------------------------------------------------------


@pytest.mark.usefixtures("entering")
@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_a_plain_step_runs_in_the_context_that_was_entered(executor: str) -> None:
    with Runner(executor=executor) as runner:
        assert runner.start(Workflow("w", step(seen)), 1).result(20) == "seen 1"


@pytest.mark.usefixtures("entering")
def test_a_coroutine_runs_in_the_context_that_was_entered() -> None:
    with Runner() as runner:
        assert runner.start(Workflow("w", step(seen_later)), 1).result(20) == "seen_later 1"


@pytest.mark.usefixtures("entering")
def test_every_attempt_has_its_own_context() -> None:
    tries: list[str] = []

    def flaky(_: object) -> str:
        tries.append(SEEN.get())
        if len(tries) < 3:
            raise OSError("not yet")
        return SEEN.get()

    with Runner() as runner:
        runner.start(Workflow("w", step(flaky)), 1, policies=[("flaky", Policy(max_retries=3))]).wait(20)

    assert tries == ["flaky 1", "flaky 2", "flaky 3"]


@pytest.mark.usefixtures("entering")
def test_a_fallback_runs_in_the_context_of_the_attempt_that_failed() -> None:
    with Runner() as runner:
        policies = [("fails", Policy(fallback=lambda runnable, error: Value(SEEN.get())))]
        assert runner.start(Workflow("w", step(fails)), 1, policies=policies).result(20) == "fails 1"


@pytest.mark.usefixtures("entering")
def test_arguments_can_be_checked_in_a_context_that_was_entered() -> None:
    with Runner(check_arguments=True) as runner:
        assert runner.start(Workflow("w", step(seen)), [1]).result(20) == "seen 1"


@pytest.mark.usefixtures("entering")
def test_a_step_that_waits_for_a_child_is_found_although_its_context_was_entered() -> None:
    import weft

    child = Workflow("child", step(seen))
    parent = Workflow("parent", step(lambda x: weft.current().start_child(child, x).result(20), name="parent"))
    with Runner() as runner:
        assert runner.start(parent, 1).result(20) == "seen 1"


def test_the_next_step_does_not_see_the_context_of_the_last(told: list[Told]) -> None:
    def handler(_event: str, _measured: object, metadata: dict[str, Any]) -> None:
        if metadata["component"] == "first":
            metadata["handle"].enter_with(lambda: SEEN.set("first"))

    telemetry.attach("first", "weft.runner.runnable.start", handler)
    try:
        with Runner(executor="inline") as runner:
            flow = Workflow("w", step(seen, name="first") >> step(lambda x: [x, SEEN.get()], name="second"))
            assert runner.start(flow, 1).result(20) == ["first", "nothing"]
    finally:
        telemetry.detach("first")


def test_resuming_continues_with_a_new_handle_of_the_same_input(told: list[Told], tmp_path: Path) -> None:
    path, reached, gate = tmp_path / "runs.db", threading.Event(), threading.Event()

    def waits(x: int) -> int:
        reached.set()
        gate.wait(20)
        return x

    flow = Workflow("w", step(waits))
    telemetry.attach(
        "noting", "weft.runner.input.receive", lambda _event, _measured, about: about["carrier"].update(c="web")
    )
    try:
        with Runner(SQLiteStore(path)) as runner:
            runner.start(flow, 1, id="a")
            assert reached.wait(20)
            runner.stop("a", grace=0)
    finally:
        telemetry.detach("noting")
    gate.set()
    with Runner(SQLiteStore(path)) as runner:
        runner.resume("a", workflow=flow).wait(20)

    found = [about["handle"] for event, about in told if event == "runnable.start"]
    assert len(found) == 2
    assert [(dict(each.carrier), each.ordinal) for each in found] == [({"c": "web"}, 1)] * 2
