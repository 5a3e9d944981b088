"""Runs over time, as bars."""

from __future__ import annotations

from weft.views import histogram_bars


def test_the_highest_period_is_the_measure() -> None:
    bars = histogram_bars({(0, "completed"): 5, (1, "completed"): 8, (1, "waiting"): 2}, periods=2)

    assert [bar.good for bar in bars] == [{"done": 0.5}, {"done": 0.8, "waiting": 0.2}]


def test_what_failed_or_is_parked_does_not_stand_on_the_line() -> None:
    (bar,) = histogram_bars({(0, "completed"): 9_999, (0, "failed"): 2, (0, "parked"): 1}, periods=1)

    assert (bar.good, bar.bad, bar.runs) == ({"done": 1.0}, 3, 10_002)


def test_a_run_that_was_created_just_now_may_lie_behind_the_last_period() -> None:
    assert histogram_bars({(5, "running"): 1}, periods=2) == histogram_bars({}, periods=2)
