"""
How long components usually take, from the waterfalls of earlier runs, and which of an open run take longer than that.

    >>> history = {"charge": [1.0] * 98 + [2.0, 9.0]}
    >>> usual = usual_times(history)
    >>> usual["charge"].p50, usual["charge"].p99, usual["charge"].runs
    (1.0, 2.0, 100)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from weft.views.elements import percentile
from weft.views.waterfall import Waterfall

FEWEST: Final = 10
"""From fewer runs nothing is said to be unusual."""
SHORTEST: Final = 1.0
"""A stay of less than a second is never a problem."""


class Usual(msgspec.Struct, frozen=True):
    """How long one component took in earlier runs, waits included, in seconds."""

    p50: float
    p95: float
    p99: float
    runs: int


class Overdue(msgspec.Struct, frozen=True):
    """A component of an open run that has taken longer than nearly all before it."""

    component: str
    since: float
    seconds: float
    usual: Usual


def times_of(falls: Waterfall) -> dict[str, float]:
    """Return how long each component took that is done, from when it was ready to its end."""
    return {
        row.component: row.end - row.start
        for row in falls.rows
        if row.state == "done" and row.start is not None and row.end is not None
    }


def usual_times(history: Mapping[str, list[float]]) -> dict[str, Usual]:
    """Return what is usual for each component of *history*."""
    found: dict[str, Usual] = {}
    for name, times in history.items():
        ordered = sorted(times)
        if ordered:
            p50, p95, p99 = (percentile(ordered, share) for share in (0.5, 0.95, 0.99))
            found[name] = Usual(p50, p95, p99, len(ordered))
    return found


def gathered(falls: Iterable[Waterfall]) -> dict[str, list[float]]:
    """Return how long each component took in each of several runs."""
    history: dict[str, list[float]] = {}
    for each in falls:
        for name, seconds in times_of(each).items():
            history.setdefault(name, []).append(seconds)
    return history


def overdue(falls: Waterfall, usual: Mapping[str, Usual]) -> list[Overdue]:
    """Return the components of an open run that have taken longer than 99 of 100 before, the longest first."""
    found: list[Overdue] = []
    for row in falls.rows:
        known = usual.get(row.component)
        if (
            known is None
            or known.runs < FEWEST
            or row.start is None
            or row.state not in ("waiting", "running", "ready")
        ):
            continue
        seconds = falls.end - row.start
        if seconds > max(known.p99, SHORTEST):
            found.append(Overdue(row.component, row.start, seconds, known))
    return sorted(found, key=lambda each: -each.seconds)
