"""A saga whose compensation fails is stuck, until it is retried or discarded."""

from __future__ import annotations

from typing import Any

import pytest
from booking import Booking, stuck

from weft import Run, Saga, SagaOutcome, Workflow, each, reduce
from weft.errors import StepFailed


def test_a_compensation_that_fails_for_good_leaves_the_saga_stuck_with_what_is_left() -> None:
    booking, run = stuck()

    assert booking.calls == ["a", "b", "c", "undo b"]
    assert run.state_of("trip") == SagaOutcome(
        "stuck", {"a": "a of r", "b": "b of r"}, "c", "ValueError: c failed", [], ["b", "a"]
    )
    assert run.values("trip") == []
    assert not run.is_complete("trip")
    assert [letter.component for letter in run.dead_letters] == ["trip.undo_b"]
    assert set(run.failures) == {"trip.undo_b"}


def test_a_stuck_saga_is_a_failure_that_can_be_raised() -> None:
    booking = Booking("a", "b", fails="b", undo_fails="a")

    with pytest.raises(StepFailed, match="cannot undo a"):
        booking.run(raise_on_failure=True)


def test_a_stuck_saga_goes_on_when_its_compensation_is_retried() -> None:
    booking, run = stuck()
    booking.undo_fails.clear()

    run.retry("trip.undo_b")
    during = run.state_of("trip")
    run.react_until_satisfied()

    assert (during.status, during.remaining) == ("compensating", ["b", "a"])
    assert booking.calls[4:] == ["undo b", "undo a"]
    assert run.state_of("trip").compensated == ["b", "a"]
    assert not run.failed


def test_a_stuck_saga_can_be_retried_with_another_input() -> None:
    booking, run = stuck()
    booking.undo_fails.clear()
    failure = run.dead_letters[0]

    run.retry(failure, input=("other", "A", "B", run.memory.lineage.cell(failure.inputs[3]).value))
    run.react_until_satisfied()

    assert run.values("trip.undo_b") == ["undone B"]
    assert run.state_of("trip").compensated == ["b", "a"]


def test_a_stuck_saga_goes_on_without_what_is_discarded() -> None:
    _, run = stuck()

    run.discard("trip.undo_b").react_until_satisfied()

    assert run.state_of("trip").status == "aborted"
    assert run.state_of("trip").compensated == ["a"]
    assert not run.failed


def test_a_stuck_saga_is_stuck_after_a_restore_too() -> None:
    booking, run = stuck()
    booking.undo_fails.clear()

    restored = Run.from_log(run.log())
    restored.retry().react_until_satisfied()

    assert restored.state_of("trip").compensated == ["b", "a"]


def test_what_waits_for_a_stuck_saga_waits_until_it_is_over() -> None:
    booking = Booking("a", "b", fails="b", undo_fails="a")
    statuses = reduce(lambda acc, outcome: [*acc, outcome.status], init=list, name="statuses")
    run = Workflow("w", each(booking.saga) >> statuses).run([1])
    before = run.values("statuses")

    run.discard().react_until_satisfied()

    assert (before, run.value("statuses")) == ([], ["aborted"])


def test_of_several_undertakings_the_one_that_is_stuck_is_told_of() -> None:
    trip = Saga("trip")

    @trip.transaction
    def book(request: int, results: dict[str, Any]) -> str:
        return f"flight {request}"

    @book.compensate
    def cancel(request: int, results: dict[str, Any]) -> None:
        raise ConnectionError

    @trip.transaction(compensate=None)
    def pay(request: int, results: dict[str, Any]) -> str:
        return str(1 // request)

    mapped = Workflow("w", each(trip)).run([0, 1])
    one_by_one = Workflow("w", trip).run(0).run(1)

    for run in (mapped, one_by_one):
        assert (run.state_of("trip").status, run.state_of("trip").remaining) == ("stuck", ["book"])
        assert not run.is_complete("trip")
        run.discard().react_until_satisfied()
        assert run.is_complete("trip")
