"""The present load of the open runners, read when it is asked for."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from weft import Policy, Runner, Workflow, step
from weft.policy import ConcurrencyLimit
from weft.telemetry import Levels, levels


class Held:
    """Steps that wait until they are let go."""

    def __init__(self) -> None:
        self.gate, self.reached = threading.Event(), threading.Semaphore(0)

    def __call__(self, x: int) -> int:
        self.reached.release()
        assert self.gate.wait(20)
        return x

    def began(self, count: int) -> None:
        for _ in range(count):
            assert self.reached.acquire(timeout=20)


@pytest.fixture
def held() -> Iterator[Held]:
    waiting = Held()
    yield waiting
    waiting.gate.set()


def of(name: str, found: Levels) -> tuple[int, int, int]:
    """In flight, queued and waiting."""
    return found.in_flight[name], found.queued[name], found.waiting[name]


def test_runnables_with_a_slot_without_one_and_under_a_limit_are_told_apart(held: Held) -> None:
    slots = Workflow("slots", *(step(held, name=f"s{number}") for number in range(5)))
    limit = Policy(concurrency_limit=ConcurrencyLimit("test_levels", 1))
    limited = Workflow("limited", *(step(held, name=f"l{number}") for number in range(3)))
    with Runner(threads=8) as runner:
        handle = runner.start(slots, 1, max_concurrency=3)
        runner.start(limited, 1, policies=[(f"l{number}", limit) for number in range(3)])
        held.began(4)
        runner.status(handle)  # the loop of the runner has done what it was about to do
        found = levels()
        held.gate.set()

    assert of("slots", found) == (3, 2, 0)
    assert of("limited", found) == (1, 0, 2)


def test_runs_are_counted_by_workflow_and_status(held: Held) -> None:
    busy, quick = (
        Workflow("levels.busy", step(held, name="held")),
        Workflow("levels.quick", step(lambda x: x, name="s")),
    )
    with Runner() as runner:
        runner.start(busy, 1)
        for _ in range(2):
            runner.start(quick, 1, open=True).wait(20)
        held.began(1)
        found = levels()
        held.gate.set()

    assert {key: count for key, count in found.runs.items() if key[0].startswith("levels.")} == {
        ("levels.busy", "running"): 1,
        ("levels.quick", "idle"): 2,
    }


def test_the_runs_of_several_runners_are_added_up() -> None:
    flow = Workflow("levels.added", step(lambda x: x, name="s"))
    with Runner() as one, Runner() as other:
        one.start(flow)
        other.start(flow)
        both = levels().runs["levels.added", "idle"]
        other.close()
        left = levels().runs["levels.added", "idle"]

    assert (both, left) == (2, 1)
    assert ("levels.added", "idle") not in levels().runs


def test_a_runner_that_is_forgotten_without_being_closed_is_not_kept() -> None:
    from weft.telemetry import levels as module_function
    from weft.telemetry.levels import watch

    class Source:
        def add_levels(self, found: Levels) -> None:
            found.add_runs({("levels.lost", "idle"): 1})

    source = Source()
    watch(source)
    before = ("levels.lost", "idle") in module_function().runs
    del source
    gc.collect()

    assert (before, ("levels.lost", "idle") in module_function().runs) == (True, False)
