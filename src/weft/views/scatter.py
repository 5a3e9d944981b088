"""
Runs as points: when each began and how long it took, the latter on a logarithmic scale.

    >>> points = scatter([("a", "completed", 0.0, 1.0), ("b", "failed", 50.0, 100.0)], begin=0.0, end=100.0)
    >>> [(point.id, point.x, point.y) for point in points.points]
    [('a', 0.0, 0.0), ('b', 50.0, 100.0)]
    >>> [label for _, label in points.ticks]
    ['1 s', '10 s', '1 min 40 s']
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from weft.core.draw.progress import duration

FINEST: Final = 0.001
"""Runs that took less than a millisecond are together at the bottom."""


class Point(msgspec.Struct, frozen=True):
    """One run: places between 0 and 100, from the left and from the bottom."""

    id: str
    status: str
    x: float
    y: float
    seconds: float


class Scatter(msgspec.Struct, frozen=True):
    """The points, and places of the scale of durations with their labels."""

    points: tuple[Point, ...]
    ticks: tuple[tuple[float, str], ...]


def scatter(runs: Iterable[tuple[str, str, float, float]], *, begin: float, end: float) -> Scatter:
    """
    Return the points of *runs*.

    Args:
        runs: of each its id, its status, when it began and how many seconds it took.
        begin: the time at the left.
        end: the time at the right.
    """
    found = [(id, status, at, max(FINEST, seconds)) for id, status, at, seconds in runs if begin <= at <= end]
    if not found:
        return Scatter((), ())
    low = math.floor(min(math.log10(seconds) for *_, seconds in found) + 1e-9)
    high = max(low + 1, math.ceil(max(math.log10(seconds) for *_, seconds in found) - 1e-9))
    width, height = max(end - begin, 1e-9), high - low
    points = tuple(
        Point(
            id,
            status,
            round(100 * (at - begin) / width, 3),
            round(100 * (math.log10(seconds) - low) / height, 3),
            seconds,
        )
        for id, status, at, seconds in found
    )
    ticks = tuple((round(100 * (power - low) / height, 3), duration(10.0**power)) for power in range(low, high + 1))
    return Scatter(points, ticks)
