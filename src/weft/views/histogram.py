"""
Runs over time, as bars: failed and parked runs are below the line, all others above it.

Three failures among ten thousand runs would be invisible in one stack.  So the bars below the line have a fixed height,
which says only that there are some; their number is in the title.

    >>> bars = histogram_bars({(0, "completed"): 10, (2, "failed"): 1}, periods=3)
    >>> [(bar.good, bar.bad) for bar in bars]
    [({'done': 1.0}, 0), ({}, 0), ({}, 1)]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from weft.ports.store import RunStatus

_GOOD: Final[dict[RunStatus, str]] = {
    "completed": "done",
    "idle": "done",
    "running": "running",
    "waiting": "waiting",
    "cancelled": "cancelled",
}
"""The colour of each status above the line, from the line upwards."""


class PeriodBar(msgspec.Struct, frozen=True):
    """One period: shares of the highest bar by colour, from the line upwards; how many runs failed or are parked."""

    good: dict[str, float]
    bad: int
    runs: int


def histogram_bars(found: Mapping[tuple[int, RunStatus], int], *, periods: int) -> list[PeriodBar]:
    """Return a bar for each of *periods*; *found* is what :meth:`weft.Runner.histogram` returns."""
    totals = [0] * periods
    for (period, status), number in found.items():
        if 0 <= period < periods and status in _GOOD:
            totals[period] += number
    highest = max(totals, default=0) or 1
    bars: list[PeriodBar] = []
    for period in range(periods):
        good: dict[str, float] = {}
        for status, colour in _GOOD.items():
            number = found.get((period, status), 0)
            if number:
                good[colour] = good.get(colour, 0.0) + number / highest
        bad = found.get((period, "failed"), 0) + found.get((period, "parked"), 0)
        bars.append(PeriodBar(good, bad, totals[period] + bad))
    return bars
