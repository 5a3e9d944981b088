"""Waits for signals: which signal goes to which wait, and what becomes of the value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from weft import Run, Workflow, each, reduce, repeat, step, wait_for, workflow
from weft.errors import InvalidComponent, InvalidJoin, PortMismatch, SignalTimeout
from weft.testing import VirtualClock

if TYPE_CHECKING:
    from weft import WaitFor

double = step(lambda x: x * 2, name="double")
approved = wait_for("approved")


def finished(run: Run) -> Run:
    return run.react_until_satisfied()


def test_it_is_named_after_its_signal() -> None:
    run = Workflow("w", approved >> double).run("order")

    assert (run.status, run.waiting_for) == ("waiting", ["approved"])
    assert finished(run.signal("approved", 4)).output == 8


def test_it_can_have_another_name_and_so_wait_twice_for_one_signal() -> None:
    flow = Workflow("w", approved.named("first") >> approved.named("second"), wait_for("approved", name="third"))
    run = flow.run(1)

    assert run.waiting_for == ["first", "third"]
    run.signal("approved", "a").signal("approved", "b").signal("approved", "c")

    assert (run.value("first"), run.value("third"), run.value("second")) == ("a", "b", "c")


def test_its_value_is_that_of_the_signal_and_what_arrived_is_a_cause() -> None:
    run = Workflow("w", double >> approved).run(4).signal("approved", "yes", by="Ada")

    fact = run.fact("approved")
    assert fact.value == "yes"
    assert [(each.producer, each.signal, each.by, each.value) for each in fact.parents] == [
        ("double", None, None, 8),
        (None, "approved", "Ada", "yes"),
    ]
    assert str(run.explain("approved")).splitlines() == [
        "approved = 'yes'",
        "├─ double = 8",
        "│  └─ input 1 = 4",
        "└─ signal 'approved' by Ada = 'yes'",
    ]


def test_a_match_of_the_value_chooses_the_wait() -> None:
    small = wait_for("amount", match=lambda x: x < 10, name="small")
    large = wait_for("amount", match=lambda x: x >= 10, name="large")
    run = Workflow("w", small, large).run("go")

    run.signal("amount", 50)

    assert (run.values("small"), run.values("large"), run.waiting_for) == ([], [50], ["small"])


def test_a_match_sees_what_waits() -> None:
    paid = wait_for("paid", match=lambda said, order: said["order"] == order)
    run = Workflow("w", each(paid) >> reduce(lambda acc, x: [*acc, x["sum"]], init=list, name="sums")).run([1, 2, 3])

    run.signal("paid", {"order": 3, "sum": 30}).signal("paid", {"order": 1, "sum": 10})
    assert run.waiting_for == ["paid"]
    run.signal("paid", {"order": 2, "sum": 20})

    assert finished(run).output == [10, 20, 30]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: wait_for(""), "needs a name"),
        (lambda: wait_for("x", timeout=-1), "not negative"),
        (lambda: wait_for("x", timeout="1"), "timeout='1'"),
        (lambda: wait_for("x", match=lambda: True), "one to 2 values"),
        (lambda: wait_for("x", match=lambda a, b, c: True), "one to 2 values"),
        (lambda: wait_for("x", match=5), "expected a function"),
        (lambda: approved.before(print), "cannot have hooks"),
        (lambda: approved.after(print), "cannot have hooks"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidComponent, match=said):
        make()


def test_a_join_is_refused() -> None:
    with pytest.raises(InvalidJoin):
        Workflow("w", [double, double.named("other")] >> approved)


def test_the_type_of_its_schema_is_that_of_its_value() -> None:
    def ship(by: str) -> str:
        return by

    with pytest.raises(PortMismatch, match="'approved' produces int, and 'ship' takes str"):
        Workflow("w", wait_for("approved", schema=int) >> step(ship))


@pytest.mark.parametrize("timeout", [60, dt.timedelta(minutes=1)])
def test_a_signal_that_does_not_come_is_a_failure_with_an_error_route(timeout: float | dt.timedelta) -> None:
    clock = VirtualClock()
    late = step(lambda failure: (failure.is_a(SignalTimeout), failure.input), name="late")
    run = Workflow("w", wait_for("approved", timeout=timeout).on_error(SignalTimeout, then=late)).run(4, clock=clock)

    clock.advance(59.9)
    assert finished(run).status == "waiting"
    clock.advance(0.1)

    assert finished(run).value("late") == (True, 4)
    assert not run.failed


def test_it_stands_in_a_loop() -> None:
    ask = repeat(approved >> double, until=lambda x: x > 10, at_most=9, name="ask")
    run = Workflow("w", ask).run(0)

    for answer in (1, 2, 6):
        assert run.waiting_for == ["ask.approved"]
        finished(run.signal("approved", answer))

    assert run.output == 12


def test_its_signal_keeps_its_name_in_a_nested_workflow() -> None:
    inner = Workflow("inner", approved)
    run = Workflow("w", inner >> double).run(1)

    assert run.waiting_for == ["inner.approved"]
    assert finished(run.signal("approved", 4)).output == 8


def test_it_is_drawn_inside_a_traced_workflow() -> None:
    @workflow
    def order(x: int) -> int:
        return double(approved(double(x)))

    run = order.run(1)

    assert finished(run.signal("approved", 5)).output == 10


def test_what_it_waits_for_belongs_to_its_identity() -> None:
    def is_big(x: int) -> bool:
        return x > 5

    waits: list[WaitFor] = [
        wait_for("a", name="n"),
        wait_for("b", name="n"),
        wait_for("a", name="n", timeout=1),
        wait_for("a", name="n", match=is_big),
        wait_for("a", name="n", schema=int),
        wait_for("a", name="n", schema=list[int]),
    ]

    assert len({Workflow("w", wait).hash for wait in waits}) == len(waits)
