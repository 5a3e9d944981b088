"""Runs in which everything happens that a metric counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from weft import Policy, Runnable, Runner, Workflow, step
from weft.errors import RunFailed, RunNotFound, RunParked
from weft.executors import ThreadExecutor
from weft.policy import Value
from weft.stores import SQLiteStore


def fails(_: object) -> int:
    raise OSError("no")


class Flaky:
    """Fails *count* times."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, x: int) -> int:
        self.left -= 1
        if self.left >= 0:
            raise OSError("not yet")
        return x


class Crashing(ThreadExecutor):
    """Crashes the worker of a run as often as its input says."""

    def __init__(self) -> None:
        super().__init__(1)
        self.crashes: dict[str, int] = {}

    def submit(self, ticket: int, runnable: Runnable) -> None:
        self.crashes[runnable.run_id] = self.crashes.get(runnable.run_id, 0) + 1
        if self.crashes[runnable.run_id] <= runnable.args[0]:
            raise RuntimeError("a bug")
        super().submit(ticket, runnable)


def handled(runner: Runner) -> None:
    """One run in which attempts fail and are retried, replaced, skipped and kept."""
    flow = Workflow(
        "orders",
        step(lambda x: x, name="works"),
        step(Flaky(2), name="flaky"),
        step(fails, name="replaced"),
        step(fails, name="skipped"),
        step(fails, name="kept"),
    )
    policies: list[tuple[str, Policy]] = [
        ("flaky", Policy(max_retries=2)),
        ("replaced", Policy(fallback=lambda runnable, error: Value(5))),
        ("skipped", Policy(on_failure="skip")),
        ("kept", Policy(on_failure="dead_letter")),
    ]
    with pytest.raises(RunFailed):
        runner.start(flow, 1, policies=policies).result(20)


def timed_out(runner: Runner) -> None:
    """One run with an attempt that is stopped."""
    gate = threading.Event()
    slow = Workflow("slow", step(lambda _: gate.wait(20), name="hangs"))
    with pytest.raises(RunFailed):
        runner.start(slow, 1, policies=[("hangs", Policy(timeout=0.01))]).result(20)
    gate.set()


def left(runner: Runner, leave: Callable[[str], None]) -> None:
    """One run that is left while a step of it is running."""
    reached, gate = threading.Event(), threading.Event()

    def hangs(_: object) -> None:
        reached.set()
        gate.wait(20)

    runner.start(Workflow("left", step(hangs)), 1, id="left")
    assert reached.wait(20)
    leave("left")
    gate.set()


def everything(path: Path) -> None:
    """Let everything happen that a metric counts."""
    crashing = Crashing()
    with Runner(SQLiteStore(path), executors={"crashing": crashing}) as runner:
        handled(runner)
        timed_out(runner)
        left(runner, runner.cancel)
        fragile = Workflow("fragile", step(lambda x: x, name="fragile"))
        assert runner.start(fragile, 1, executor="crashing").result(20) == 1
        with pytest.raises(RunParked):
            runner.start(fragile, 100, executor="crashing").wait(20)
        runner.start(Workflow("open", step(abs, name="size")), id="open")
        runner.send("open", -1).wait(20)
        with pytest.raises(RunNotFound):
            runner.find("nowhere")
    with Runner(SQLiteStore(path)) as runner:
        runner.resume("open")
