"""
The stretch of time that a list of runs shows: one that ends now, or one that was chosen in the histogram.

    >>> chosen = span_of({"since": "1000", "until": "4600"}, now=9_000.0)
    >>> chosen.begin, chosen.end, chosen.width, chosen.each
    (1000.0, 4600.0, 60.0, 'minute')
    >>> span_of({"since": "soon", "until": "4600"}, now=9_000.0).label
    'last 24 h'
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

WIDTHS: Final = {
    1.0: "second",
    5.0: "5 s",
    15.0: "15 s",
    60.0: "minute",
    300.0: "5 min",
    900.0: "15 min",
    3_600.0: "hour",
    7_200.0: "2 h",
    28_800.0: "8 h",
    86_400.0: "day",
    604_800.0: "week",
    2_592_000.0: "30 d",
}
"""The periods that a chosen stretch may be cut into, in seconds, and their names."""
MOST: Final = 120
"""How many periods a chosen stretch has at most, as long as a period of a month is enough for that."""
LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999: a later time cannot be written."""


class Span(NamedTuple):
    """A stretch of time, cut into periods of *width* seconds."""

    name: str
    """Its name in the address; empty if it was chosen."""
    label: str
    begin: float
    end: float
    width: float
    each: str
    """A period in words."""
    since: float | None
    """Runs that were created before are not shown; None if all are."""
    until: float | None = None
    """Runs that were created at this time or later are not shown."""

    @property
    def periods(self) -> int:
        """How many periods it has."""
        return max(1, math.ceil((self.end - self.begin) / self.width - 1e-9))

    @property
    def key(self) -> tuple[object, ...]:
        """The key under which answers about it are kept: one that ends now is the same question a moment later."""
        return (self.name, self.since, self.until) if not self.name else (self.name,)


DEFAULT: Final = "24h"
NAMED: Final = {
    "1h": ("last hour", 3_600.0, 60.0),
    "24h": ("last 24 h", 86_400.0, 900.0),
    "7d": ("last 7 d", 604_800.0, 7_200.0),
    "all": ("all", 30 * 86_400.0, 28_800.0),
}
"""The stretches that end now: by name their label, their length and that of a period."""


def span_of(query: Mapping[str, str], *, now: float) -> Span:
    """Return the stretch of time that the address asks for; without one, or with one that makes no sense, a day."""
    since, until = _time(query.get("since")), _time(query.get("until"))
    if query.get("span") not in NAMED and since is not None and until is not None and since < until:
        width = next((width for width in WIDTHS if (until - since) / width <= MOST), max(WIDTHS))
        width = max(width, (until - since) / MOST)  # of thousands of years, longer ones
        each = WIDTHS.get(width, "period")
        return Span("", f"{_clock(since)} to {_clock(until)}", since, until, width, each, since, until)
    return named_span(query.get("span", DEFAULT), now=now)


def named_span(name: str, *, now: float) -> Span:
    """Return a stretch of time that ends now."""
    name = name if name in NAMED else DEFAULT
    label, length, width = NAMED[name]
    each = WIDTHS[width] if name != "all" else f"{WIDTHS[width]}, last 30 days"
    return Span(name, label, now - length, now, width, each, None if name == "all" else now - length)


def _time(text: str | None) -> float | None:
    try:
        found = float(text or "nan")
    except ValueError:
        return None
    return found if 0 <= found <= LATEST else None


def _clock(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%d %b %H:%M:%S" if at % 60 else "%d %b %H:%M")
