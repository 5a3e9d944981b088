"""
A scale of time with idle stretches folded away.

A run may work for a second, wait nine minutes for a person, and work for another second.  On a linear scale both
seconds would be invisible: stretches in which nothing runs, and which are longer than a tenth of the whole, are folded
to a narrow strip, and one linear scale holds for everything else.

    >>> scale = time_scale(0.0, 600.0, [(0.0, 1.0), (599.0, 600.0)])
    >>> [(piece.is_folded, piece.start, piece.end) for piece in scale.pieces]
    [(False, 0.0, 1.0), (True, 1.0, 599.0), (False, 599.0, 600.0)]
    >>> round(scale.place(1.0), 2), round(scale.place(599.0), 2)
    (0.48, 0.52)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec

from weft.core import events as ev
from weft.views.waterfall import Waterfall

FOLD: Final = 0.04
"""The share of the width that a folded stretch takes."""
_SHARE: Final = 0.1
"""A stretch in which nothing runs is folded if it is longer than this share of what is left of the whole."""

_FINEST: Final = ev.PRECISION
"""Seconds; nothing is folded for less work than that, which the times of a log do not tell from none."""


class Piece(msgspec.Struct, frozen=True):
    """A part of the scale: *start* and *end* in seconds, *left* and *right* between 0 and 1."""

    start: float
    end: float
    left: float
    right: float
    is_folded: bool = False


class TimeScale(msgspec.Struct, frozen=True):
    """Places times between 0 and 1."""

    pieces: tuple[Piece, ...]

    def place(self, at: float) -> float:
        """Return the place of the time *at*, between 0 and 1."""
        index = max(0, bisect_right([piece.start for piece in self.pieces], at) - 1)
        piece = self.pieces[index]
        length = piece.end - piece.start
        share = (min(max(at, piece.start), piece.end) - piece.start) / length if length > 0 else 0.0
        return piece.left + share * (piece.right - piece.left)

    @property
    def folded(self) -> tuple[Piece, ...]:
        """The stretches that are folded."""
        return tuple(piece for piece in self.pieces if piece.is_folded)


def time_scale(start: float, end: float, busy: Iterable[tuple[float, float]]) -> TimeScale:
    """
    Return the scale from *start* to *end*.

    Args:
        busy: stretches in which something runs, in any order.
    """
    if end <= start:
        return TimeScale((Piece(start, start, 0.0, 1.0),))
    folded = _folded(_idle(start, end, busy), end - start)
    edges = [start, *(at for stretch in folded for at in stretch), end]
    linear = sum(right - left for left, right in zip(edges[::2], edges[1::2], strict=True))
    if linear < _FINEST:  # it only waits: there is nothing to fold that away for
        folded, linear = [], end - start
    per_second = (1.0 - FOLD * len(folded)) / linear
    pieces: list[Piece] = []
    at, place = start, 0.0
    for left, right in folded:
        if left > at:
            width = (left - at) * per_second
            pieces.append(Piece(at, left, place, place + width))
            place += width
        pieces.append(Piece(left, right, place, place + FOLD, is_folded=True))
        at, place = right, place + FOLD
    if at < end or not pieces:
        pieces.append(Piece(at, end, place, 1.0))
    return TimeScale(tuple(pieces))


def scale_of(waterfall: Waterfall) -> TimeScale:
    """Return the scale of *waterfall*, on which stretches without work are folded."""
    working = ("running", "queued", "limited")
    busy = [(bar.start, bar.end) for row in waterfall.rows for bar in row.bars if bar.reason in working]
    return time_scale(waterfall.start, waterfall.end, busy)


def _idle(start: float, end: float, busy: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the stretches between *start* and *end* that no *busy* one covers."""
    gaps: list[tuple[float, float]] = []
    at = start
    for left, right in sorted(busy):
        if left > at:
            gaps.append((at, min(left, end)))
        at = max(at, right)
    if at < end:
        gaps.append((at, end))
    return gaps


def _folded(gaps: list[tuple[float, float]], whole: float) -> list[tuple[float, float]]:
    """
    Return the *gaps* to fold, in order.

    The longest is tested first, and what was folded no longer counts for the whole: in a run that works for a second
    and is idle for a week and for an hour, both gaps are folded.
    """
    folded: list[tuple[float, float]] = []
    left = whole
    for gap in sorted(gaps, key=lambda gap: gap[0] - gap[1]):
        length = gap[1] - gap[0]
        if length <= left * _SHARE or FOLD * (len(folded) + 1) > 0.5:
            break
        folded.append(gap)
        left -= length
    return sorted(folded)
