"""When a deadline is in danger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.core.run.danger import SHARE, danger_at, usual_after

times = st.floats(0, 1e10)
lengths = st.floats(0, 1e8)


@given(times, lengths, st.none() | lengths)
def test_a_danger_lies_between_the_beginning_and_the_deadline(began: float, length: float, usual: float | None) -> None:
    assert began <= danger_at(began, began + length, usual) <= began + length


@given(times, lengths, lengths, lengths)
def test_what_takes_longer_is_never_in_danger_later(began: float, length: float, one: float, other: float) -> None:
    short, long = sorted((one, other))

    assert danger_at(began, began + length, long) <= danger_at(began, began + length, short)
    assert danger_at(began, began + length, short) <= danger_at(began, began + length)


@given(st.floats(0, 1e6), st.floats(1, 1e6))
def test_a_fifth_of_the_time_is_left_at_least(began: float, length: float) -> None:
    deadline = began + length

    assert deadline - danger_at(began, deadline) >= length * SHARE - 1e-6


def test_a_deadline_in_the_past_is_in_danger_at_its_end() -> None:
    assert danger_at(100.0, 90.0) == 90.0


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e6), min_size=1))
def test_the_usual_time_lies_between_what_was_seen(first: float, others: list[float]) -> None:
    usual = usual_after(None, first)
    for seconds in others:
        usual = usual_after(usual, seconds)

    assert min(first, *others) - 1e-6 <= usual <= max(first, *others) + 1e-6
