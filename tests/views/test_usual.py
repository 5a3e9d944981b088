"""How long components usually take, and which take longer."""

from __future__ import annotations

from weft.views.usual import FEWEST, Usual, gathered, overdue, usual_times
from weft.views.waterfall import Bar, Row, Waterfall


def falls(end: float, *rows: Row) -> Waterfall:
    return Waterfall(0.0, end, rows, {})


def waiting(start: float, end: float) -> Row:
    return Row("approved", "waiting", (Bar("waiting", start, end, "waiting"),), {}, 1)


def test_a_wait_is_overdue_when_it_is_longer_than_99_of_100_before() -> None:
    usual = {"approved": Usual(10.0, 50.0, 60.0, 100)}

    assert overdue(falls(59.0, waiting(0.0, 59.0)), usual) == []
    (found,) = overdue(falls(61.0, waiting(0.0, 61.0)), usual)
    assert (found.component, found.seconds) == ("approved", 61.0)


def test_nothing_is_said_of_few_runs_of_short_stays_or_of_what_is_done() -> None:
    few = {"approved": Usual(1.0, 1.0, 1.0, FEWEST - 1)}
    quick = {"approved": Usual(0.001, 0.001, 0.001, 100)}
    done = Row("approved", "done", (Bar("waiting", 0.0, 99.0),), {}, 1)

    assert overdue(falls(99.0, waiting(0.0, 99.0)), few) == []
    assert overdue(falls(0.9, waiting(0.0, 0.9)), quick) == []
    assert overdue(falls(99.0, done), quick) == []


def test_history_is_what_was_done_from_ready_to_the_end() -> None:
    done = Row("charge", "done", (Bar("queued", 1.0, 2.0), Bar("running", 2.0, 5.0)), {}, 1)

    history = gathered([falls(9.0, done, waiting(0.0, 9.0)), falls(9.0, done)])

    assert history == {"charge": [4.0, 4.0]}
    assert usual_times(history)["charge"] == Usual(4.0, 4.0, 4.0, 2)
