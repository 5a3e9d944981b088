"""How a saga is defined: what is refused, and what its identity covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from booking import Booking

from weft import Saga, Workflow, each, step
from weft.errors import InvalidComponent, InvalidJoin, WrongArity


def test_its_identity_covers_every_function_and_their_order() -> None:
    def make(*steps: tuple[str, Any, Any], **options: Any) -> bytes:
        saga = Saga("trip", **options)
        for name, do, undo in steps:
            saga.transaction(do, name=name, compensate=undo)
        return saga.identity

    a, b = ("a", max, lambda q, r: 1), ("b", max, lambda q, r: 2)
    others = [
        make(a),
        make(a, b),
        make(b, a),
        make(("a", min, a[2])),
        make(("a", max, None)),
        make(("a", max, b[2])),
        make(a, on_complete=len),
        make(a, on_abort=len),
    ]

    assert make(a, b) == make(a, b)
    assert len(set(others)) == len(others)


def test_a_transaction_without_a_compensation_is_refused() -> None:
    """E53."""
    trip = Saga("trip")
    trip.transaction(lambda q, r: 1, name="book")

    with pytest.raises(
        InvalidComponent, match=r"transaction 'book' of 'trip' has no compensation; declare it with @book"
    ):
        Workflow("w", trip)


def test_a_saga_of_nothing_is_refused() -> None:
    with pytest.raises(
        InvalidComponent, match=r"the saga 'trip' has no transactions; declare them: @trip\.transaction"
    ):
        Workflow("w", Saga("trip"))


def test_it_cannot_change_once_a_workflow_has_it() -> None:
    trip = Saga("trip")
    book = trip.transaction(lambda q, r: 1, name="book", compensate=None)
    Workflow("w", trip)

    with pytest.raises(InvalidComponent, match="'trip' is part of a workflow and cannot change any more"):
        trip.transaction(lambda q, r: 1, name="late", compensate=None)
    with pytest.raises(InvalidComponent, match="how 'book' of 'trip' is undone is declared already"):
        book.compensate(lambda q, r: 1)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda trip: trip.transaction(len, name="a"), "a transaction of 'trip' is declared twice: 'a'"),
        (lambda trip: trip.transaction(lambda q, r: 1), "a transaction of 'trip' needs a name"),
        (lambda trip: trip.undo("a", len), "how 'a' of 'trip' is undone is declared already"),
        (lambda trip: trip.on_error(ValueError, then=step(len)), r"'trip' is a saga: .* handle that: trip >> step"),
    ],
)
def test_what_makes_no_sense_is_refused(write: Callable[[Saga], Any], message: str) -> None:
    trip = Saga("trip")
    trip.transaction(lambda q, r: 1, name="a", compensate=lambda q, r: 1)

    with pytest.raises(InvalidComponent, match=message):
        write(trip)


def test_two_parts_of_one_name_are_refused() -> None:
    def cancel(request: Any, results: Any) -> None: ...

    trip = Saga("trip")
    trip.transaction(lambda q, r: 1, name="a", compensate=cancel)
    trip.transaction(lambda q, r: 1, name="b", compensate=cancel)

    with pytest.raises(InvalidComponent, match="two parts of 'trip' would be called 'cancel'"):
        Workflow("w", trip)


def test_one_function_can_undo_two_transactions_under_two_names() -> None:
    def cancel(request: Any, results: dict[str, Any]) -> list[str]:
        return list(results)

    trip = Saga("trip")
    trip.transaction(lambda q, r: 1, name="a", compensate=cancel)
    trip.transaction(lambda q, r: 1, name="b").compensate(cancel, name="cancel_b")
    trip.transaction(lambda q, r: 1 / 0, name="c", compensate=None)

    run = Workflow("w", trip).run(1)

    assert (run.value("trip.cancel_b"), run.value("trip.cancel")) == (["a", "b"], ["a", "b"])


def test_functions_take_the_request_and_the_results() -> None:
    trip = Saga("trip")
    trip.transaction(lambda q: 1, name="a", compensate=None)

    with pytest.raises(WrongArity, match=r"'trip\.a' must take \(request, results\); it takes \(q\)"):
        Workflow("w", trip)


def test_it_takes_no_join() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(InvalidJoin, match="takes no join"):
        Workflow("w", [a, b] >> Booking("x").saga)


def test_a_saga_is_complete_when_all_its_undertakings_are() -> None:
    trip = Saga("trip")

    @trip.transaction(compensate=None)
    def book(request: int, results: dict[str, Any]) -> int:
        return request

    run = Workflow("w", each(trip)).plan([1, 2]).react()  # takes the list apart
    first, _ = run.prepare()
    run.apply(first.execute())
    while later := [one for one in run.prepare() if one.component == "trip"]:
        run.apply(later[0].execute())

    assert run.state_of("trip").status == "completed"
    assert not run.is_complete("trip")
