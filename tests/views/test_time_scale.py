"""A scale of time with idle stretches folded away."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from weft.views.time_scale import FOLD, time_scale

times = st.floats(0, 1_000_000, allow_nan=False)
stretches = st.lists(st.tuples(times, times).map(lambda pair: (min(pair), max(pair))), max_size=8)


def test_a_run_without_idle_stretches_is_linear() -> None:
    scale = time_scale(0.0, 10.0, [(0.0, 10.0)])

    assert [scale.place(at) for at in (0.0, 2.5, 10.0)] == [0.0, 0.25, 1.0]


def test_a_long_idle_stretch_takes_a_narrow_strip() -> None:
    scale = time_scale(0.0, 1_002.0, [(0.0, 1.0), (1_001.0, 1_002.0)])

    (folded,) = scale.folded
    assert (folded.start, folded.end) == (1.0, 1_001.0)
    assert round(folded.right - folded.left, 6) == FOLD


def test_a_shorter_idle_stretch_is_folded_once_the_longer_ones_are() -> None:
    week, hour = 604_800.0, 3_600.0
    scale = time_scale(0.0, week + hour + 3, [(0, 1), (week + 1, week + 2), (week + hour + 2, week + hour + 3)])

    assert len(scale.folded) == 2


def test_a_run_that_only_waits_is_linear() -> None:
    scale = time_scale(0.0, 10.0, [])

    assert scale.folded == ()
    assert scale.place(5.0) == 0.5


@given(times, times, stretches)
def test_a_later_time_never_stands_before_an_earlier_one(
    one: float, other: float, busy: list[tuple[float, float]]
) -> None:
    scale = time_scale(0.0, 1_000_000.0, busy)

    left, right = scale.place(min(one, other)), scale.place(max(one, other))

    assert -1e-9 <= left <= right + 1e-9 <= 1 + 2e-9


@given(stretches)
def test_the_pieces_cover_the_whole_without_gaps(busy: list[tuple[float, float]]) -> None:
    pieces = time_scale(0.0, 1_000_000.0, busy).pieces

    assert pieces[0].start == 0.0
    assert pieces[-1].end == 1_000_000.0
    assert abs(pieces[-1].right - 1.0) < 1e-9
    assert all(
        left.end == right.start and abs(left.right - right.left) < 1e-9 for left, right in itertools.pairwise(pieces)
    )
