"""The history of a saga says what is done, and what is left to undo."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft import Absent, Failure
from weft.core.components.saga_outcome import retrace

STEPS = {name: f"trip.{name}" for name in "abcde"}


@given(
    st.integers(0, 5),
    st.sets(st.sampled_from("abcde")),
    st.sets(st.sampled_from("abcde")),
    st.integers(0, 5),
)
def test_a_history_says_what_is_done_and_what_is_left(at: int, undos: set[str], skipped: set[str], back: int) -> None:
    """The model: results up to the failure, then those that can be undone, last first."""
    names = list(STEPS)
    made: list[Any] = [Absent(STEPS[n], "skipped") if n in skipped else n.upper() for n in names[:at]]
    ways_back = [n for n in reversed(names[:at]) if n in undos] if at < 5 else []
    if at < 5:
        made.append(Failure(STEPS[names[at]], "ValueError", (), "no"))
        made.extend(None for _ in ways_back[:back])

    history = retrace(STEPS, undos, ("request", *made))
    outcome = history.outcome(over=False)

    assert history.given() == ("request", {n: n.upper() for n in names[:at] if n not in skipped})
    assert outcome.failed_step == (names[at] if at < 5 else None)
    assert outcome.compensated == [n for n in ways_back[:back] if n not in skipped]
    assert outcome.remaining == [n for n in ways_back[back:] if n not in skipped]
