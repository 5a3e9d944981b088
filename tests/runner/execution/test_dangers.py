"""A deadline in danger is reported once, before it is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from weft import Policy, Workflow, sleep, step, telemetry, wait_for
from weft.ports.deadlines import Endangered
from weft.stores import MemoryStore
from weft.testing import TestRunner

EVENT = "weft.runner.deadline.danger"
Told = list[tuple[dict[str, Any], dict[str, Any]]]

waits = Workflow("waits", step(abs, name="prepare") >> wait_for("go"))


@pytest.fixture
def told() -> Iterator[Told]:
    """The dangers that are reported while the test runs."""
    found: Told = []
    telemetry.attach("dangers", EVENT, lambda _, numbers, about: found.append((numbers, about)))
    yield found
    telemetry.detach("dangers")


def test_a_run_that_waits_is_told_of_when_a_fifth_of_its_time_is_left(told: Told) -> None:
    with TestRunner() as runner:
        runner.start(waits, 1, id="r", deadline=100.0)
        runner.advance(seconds=79.0)
        assert told == []
        runner.advance(seconds=2.0)

        ((numbers, about),) = told
        assert 18.0 < numbers["remaining"] <= 20.1
        assert about == {
            "workflow_id": "r",
            "workflow": "waits",
            "component": "go",
            "reason": "'go' waits for time or a signal",
        }
        assert [each.run for each in runner.endangered()] == ["r"]
        runner.advance(seconds=10.0)
        assert len(told) == 1


class CountingStore(MemoryStore):
    """Counts how often it is asked."""

    asked = 0

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        self.asked += 1
        return await super().tell_dangers(now, limit=limit)


def test_a_timer_that_fires_a_moment_too_early_asks_the_store_once(told: Told) -> None:
    store = CountingStore()
    with TestRunner(store) as runner:
        runner.start(waits, 1, id="r", deadline=100.0)
        due = store._runs["r"].due
        assert due is not None
        before = store.asked
        runner.advance(seconds=due[0] - runner.now - 5e-7)

        assert store.asked == before + 1
        assert len(told) == 1


def test_a_run_that_is_done_in_time_is_not_told_of(told: Told) -> None:
    with TestRunner() as runner:
        runner.start(waits, 1, id="r", deadline=100.0)
        runner.advance(seconds=50.0)
        runner.signal("r", "go")
        runner.advance(seconds=100.0)

        assert told == []
        assert runner.endangered() == []


def test_each_deadline_is_told_once_and_the_earliest_first(told: Told) -> None:
    with TestRunner() as runner:
        runner.start(Workflow("open", step(abs, name="prepare") >> wait_for("go")), id="r")
        runner.send("r", 1, deadline=1000.0)
        runner.send("r", 2, deadline=100.0)
        runner.advance(seconds=90.0)
        assert [round(numbers["remaining"]) for numbers, _ in told] == [20]
        runner.advance(seconds=800.0)

    assert [round(numbers["remaining"]) for numbers, _ in told] == [20, 200]


def test_a_deadline_that_was_told_is_not_told_again_after_a_restart(told: Told) -> None:
    store = MemoryStore()
    with TestRunner(store, start=1000.0) as runner:
        runner.start(waits, 1, id="told", deadline=100.0)
        runner.start(waits, 1, id="later", deadline=1000.0)
        runner.advance(seconds=85.0)
        assert [about["workflow_id"] for _, about in told] == ["told"]
    with TestRunner(store, start=1085.0) as runner:
        runner.register(waits)
        runner.resume_all()
        runner.advance(seconds=5.0)
        assert len(told) == 1
        runner.advance(seconds=800.0)

    assert [about["workflow_id"] for _, about in told] == ["told", "later"]


@step
async def nap(x: float) -> float:
    await asyncio.sleep(x)
    return x


def test_a_step_that_usually_takes_longer_than_what_is_left_is_told_of_when_it_starts(told: Told) -> None:
    flow = Workflow("slow", sleep(seconds=50, name="rest") >> nap)
    with TestRunner() as runner:
        runner.start(flow, 40.0, id="first", deadline=1000.0)
        runner.advance(seconds=100.0)
        assert told == []
        runner.start(flow, 40.0, id="r", deadline=80.0)
        runner.advance(seconds=51.0)

        ((numbers, about),) = told
        assert round(numbers["remaining"]) == 30
        assert (about["workflow_id"], about["component"], about["reason"]) == ("r", "nap", "'nap' is executed")
        runner.advance(seconds=30.0)
        assert len(told) == 1


def test_a_deadline_is_told_of_while_the_run_is_out_of_memory(told: Told) -> None:
    with TestRunner(resident=0) as runner:
        runner.start(waits, 1, id="r", deadline=100.0)
        runner.advance(seconds=85.0)

    ((_, about),) = told
    assert (about["workflow_id"], about["reason"]) == ("r", "the run is waiting")


def test_the_deadline_of_a_policy_is_told_of_while_the_step_runs(told: Told) -> None:
    flow = Workflow("w", nap, policies=[("nap", Policy(deadline=5.0))])
    with TestRunner() as runner:
        runner.start(flow, 4.5, id="r")
        runner.advance(seconds=3.9)
        assert told == []
        runner.advance(seconds=0.2)

        ((numbers, about),) = told
        assert 0.8 < numbers["remaining"] <= 1.01
        assert (about["component"], about["reason"]) == ("nap", "'nap' is executed")
        runner.advance(seconds=1.0)
        assert runner.result("r") == 4.5
        assert len(told) == 1
