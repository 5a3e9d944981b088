"""
One figure of a durable benchmark, how it was made, and the table of them.

    >>> line = Line("speed", "1,000 runs of 5 steps", "inline", 30_000, "steps/s", 25_000, at_least=True)
    >>> line.verdict
    'yes'

A figure is the median of its rounds, and *low* and *high* are the smallest and the largest of them, unless *how* or
*beside* says something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """*work*, done in this way (*how*), gave *figure*."""

    subject: str
    work: str
    how: str
    """What it depends on: store, executor, checkpoint strategy, synchronous setting."""
    figure: float
    unit: str
    target: float | None = None
    at_least: bool = False
    beside: str = ""
    """What else was seen."""
    by_cpu: float | None = None
    """
    The figure if nobody had kept the process from running: from its CPU time instead of wall time.

    Only for work that one process does alone: the CPU time of a client says nothing of the server that it waits for.
    """
    low: float | None = None
    high: float | None = None
    library: str = "Weft"
    """What did the work: Weft, an alternative, or the bare store."""

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached; None if there is none."""
        return None if self.target is None else self._reaches(self.figure, self.target)

    @property
    def verdict(self) -> str:
        """The same in a word: a target that is reached by CPU time alone was missed because of the neighbours."""
        if self.target is None:
            return ""
        if self._reaches(self.figure, self.target):
            return "yes"
        return "by CPU" if self.by_cpu is not None and self._reaches(self.by_cpu, self.target) else "NO"

    def _reaches(self, figure: float, target: float) -> bool:
        return figure >= target if self.at_least else figure <= target


@dataclass(frozen=True, slots=True)
class Note:
    """Why a *subject* has no figure for something."""

    subject: str
    text: str


def table(lines: Sequence[Line]) -> str:
    """Draw the lines in columns."""
    rows = [["work", "how", "median", "spread", "unit", "target", "met?", "beside"]]
    for line in lines:
        target = "" if line.target is None else f"{'>=' if line.at_least else '<='} {number(line.target)}"
        seen = spread(line.low, line.high)
        rows.append([line.work, line.how, number(line.figure), seen, line.unit, target, line.verdict, line.beside])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    aligned = ("  ".join(_aligned(row, widths)).rstrip() for row in rows)
    return "\n".join(aligned)


def number(value: float) -> str:
    """Three digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:#.3g}"


def spread(low: float | None, high: float | None) -> str:
    """
    Return the smallest and the largest figure.

        >>> spread(1234.5, 2000), spread(None, None)
        ('1,234 to 2,000', '')
    """
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = enumerate(zip(row, widths, strict=True))
    return [cell.rjust(width) if place in {2, 3, 5} else cell.ljust(width) for place, (cell, width) in cells]
