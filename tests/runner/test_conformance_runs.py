"""CONFORMANCE I, case by case: runs that a runner starts, stops, resumes, drives and reports."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from weft import Policy, Run, Runner, Workflow, step, telemetry
from weft.core import events as ev
from weft.errors import RunExists, RunNotFound
from weft.ports.store import LogStore
from weft.runner import WorkerHooks

PATIENCE = 20.0


def add_one(x: int) -> int:
    """Return the next number."""
    return x + 1


def twice(x: int) -> int:
    """Return twice *x*."""
    return x * 2


def failing(x: int) -> int:
    """Fail."""
    raise ConnectionError("down")


chain = Workflow("chain", step(add_one) >> step(twice))


def test_87_a_run_is_started_found_listed_and_stopped(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, id="a")
        assert runner.start(chain, id="a").id == "a"  # the same start is the same run
        with pytest.raises(RunExists):
            runner.start(chain, id="a", if_exists="error")
        assert runner.send("a", 1).result(PATIENCE) == 4
        assert runner.results("a") == {"twice": 4}
        assert [record.id for record in runner.runs()] == ["a"]
        assert "a" in runner
        runner.stop("a")
        assert "a" not in runner
        unknown: list[Callable[[], object]] = [
            lambda: runner.get("b"),
            lambda: runner.results("b"),
            lambda: runner.send("b", 1),
            lambda: runner.wait("b", 1),
            lambda: runner.resume("b"),
            lambda: runner.checkpoint("b"),
        ]
        for call in unknown:
            with pytest.raises(RunNotFound):
                call()


def test_88_a_run_that_is_stopped_and_resumed_has_what_it_had(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, id="a")
        runner.send("a", 1).result(PATIENCE)
        before, head = runner.results("a"), runner.find("a").head
        runner.stop("a")
        runner.resume("a", workflow=chain)
        assert runner.results("a") == before

        runner.start(chain, id="b", checkpoint="manual")
        stored = runner.find("b").head
        runner.send("b", 1)
        runner.stop("b", persist=False)
        assert (runner.find("a").head, runner.find("b").head) == (head, stored)


def test_90_inputs_that_come_at_once_are_all_run_and_on_complete_is_called_per_busy_period(store: LogStore) -> None:
    told: list[tuple[str, list[int]]] = []

    def tell(id: str, run: Run) -> None:
        told.append((id, run.values("twice")))

    with Runner(store) as runner:
        runner.start(Workflow("doubled", step(twice)), id="a", on_complete=tell)
        handles = [runner.send("a", value) for value in (3, 7)]
        assert [handle.result(PATIENCE) for handle in handles] == [6, 14]
        runner.wait("a", PATIENCE)
        periods = len(told)
        assert told[-1] == ("a", [6, 14])
        runner.send("a", 1).result(PATIENCE)
        runner.wait("a", PATIENCE)

    assert (len(told), told[-1]) == (periods + 1, ("a", [6, 14, 2]))


@pytest.mark.parametrize("limit", [1, 3])
def test_91_no_more_run_at_once_than_may_and_a_failure_disturbs_nothing(store: LogStore, limit: int) -> None:
    lock, active, most, all_in = threading.Lock(), 0, 0, threading.Barrier(limit)

    def counted(x: int) -> int:
        nonlocal active, most
        with lock:
            active, most = active + 1, max(most, active + 1)
        all_in.wait(PATIENCE)
        with lock:
            active -= 1
        return x

    steps = [step(counted, name=f"s{number}") for number in range(3)]
    told: list[str] = []
    with Runner(store) as runner:
        flow = Workflow("wide", *steps, step(failing))
        policies = [("failing", Policy(priority=5))]
        run = runner.start(
            flow, 1, id="a", max_concurrency=limit, policies=policies, on_complete=lambda id, run: told.append(id)
        ).wait(PATIENCE)
        assert (most, list(run.failures), len(run.results())) == (limit, ["failing"], 3)
        assert runner.start(chain, 1).result(PATIENCE) == 4

    assert told == ["a"]


def test_93_what_was_in_flight_runs_again_and_what_was_done_does_not(store: LogStore) -> None:
    calls, begun, first = Counter[str](), threading.Event(), threading.Event()

    def second(x: int) -> int:
        calls["second"] += 1
        begun.set()
        if calls["second"] == 1:
            first.wait(PATIENCE)
        return x + 1

    def counted(name: str) -> Callable[[int], int]:
        def call(x: int) -> int:
            calls[name] += 1
            return x + 1

        return call

    flow = Workflow("w", step(counted("one"), name="one") >> step(second) >> step(counted("three"), name="three"))
    with Runner(store, grace=0.0) as runner:
        runner.start(flow, 1, id="a")
        assert begun.wait(PATIENCE)
    first.set()

    with Runner(store) as runner:
        assert runner.resume("a", workflow=flow).result(PATIENCE) == 4
        defined = [event for event in runner.log("a") if isinstance(event, ev.WorkflowDefined)]

    assert calls == {"one": 1, "second": 2, "three": 1}
    assert len(defined) == 1


def test_95_hooks_and_telemetry_are_told_and_change_nothing(store: LogStore) -> None:
    hooked, emitted = list[tuple[str, Any]](), list[tuple[str, dict[str, Any], dict[str, Any]]]()

    def hook(name: str) -> Callable[..., Any]:
        def called(*given: Any) -> None:
            hooked.append((name, given))
            raise RuntimeError("a hook that fails")

        return called

    def take_all(runnables: list[Any]) -> list[Any]:
        hooked.append(("transform", len(runnables)))
        return runnables

    hooks = WorkerHooks(
        on_dispatch=hook("dispatch"),
        on_complete=hook("complete"),
        on_failed=hook("failed"),
        on_idle=hook("idle"),
        transform=take_all,
    )
    telemetry.attach("conformance", telemetry.EVENTS, lambda *event: emitted.append(event))
    try:
        chain.run(1)
        assert emitted == []  # nothing without a runner
        with Runner(store) as runner:
            handle = runner.start(Workflow("w", step(add_one), step(failing)), 1, hooks=hooks)
            assert handle.wait(PATIENCE).results() == {"add_one": 2}
    finally:
        telemetry.detach("conformance")

    assert {name for name, _ in hooked} == {"dispatch", "complete", "failed", "idle", "transform"}
    [(runnable, seconds)] = [given for name, given in hooked if name == "complete"]
    assert (runnable.component, seconds >= 0) == ("add_one", True)
    names = {name.removeprefix("weft.runner.") for name, _, _ in emitted}
    assert names >= {
        "workflow.start",
        "workflow.exception",
        "workflow.stop",
        "runnable.start",
        "runnable.stop",
        "runnable.exception",
        "store.start",
        "store.stop",
    }
    about = [metadata for name, _, metadata in emitted if ".runnable." in name]
    assert {(each["workflow_id"], each["component"]) for each in about} == {
        (handle.id, "add_one"),
        (handle.id, "failing"),
    }
