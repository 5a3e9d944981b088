"""
What a run has found, whatever measured it, as one list of figures.

    >>> found = Figure("Weft", "throughput", "1,000 runs", "sqlite, inline", 39_000.0, "steps/s", 44_000, at_least=True)
    >>> found.verdict, found.is_of("throughput", "sqlite, inline$")
    ('missed', True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.durable.line import number, spread

WEFT = "Weft"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one *library*: the median of what was measured."""

    library: str
    subject: str
    work: str
    how: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False
    low: float | None = None
    high: float | None = None
    beside: str = ""
    is_met_by_cpu: bool = False

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached; None if there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return {None: "", True: "met", False: "missed"}[self.is_met]

    @property
    def told(self) -> str:
        """The figure with its unit and its spread."""
        seen = spread(self.low, self.high)
        return f"{number(self.value)} {self.unit}".strip() + (f" ({seen})" if seen else "")

    @property
    def wanted(self) -> str:
        """The target."""
        return "" if self.target is None else f"{'≥' if self.at_least else '≤'} {number(self.target)}"

    def is_of(self, subject: str, pattern: str) -> bool:
        """Whether it is one of *subject* whose work or way matches *pattern*."""
        return self.subject == subject and re.search(pattern, f"{self.work}; {self.how}") is not None

    def times(self, weft: Figure) -> float:
        """Return how many times as fast, or as cheap, Weft is."""
        more_is_better = self.unit.endswith("/s")
        return weft.value / self.value if more_is_better else self.value / weft.value


def figures(document: Mapping[str, Any]) -> list[Figure]:
    """Return everything that *document* has, those in memory first."""
    return [*_in_memory(document), *_stored(document)]


def _in_memory(document: Mapping[str, Any]) -> Iterator[Figure]:
    for row in document["rows"]:
        for library, value in row["figures"].items():
            if isinstance(value, str):  # why there is none
                continue
            low, high = row["spreads"].get(library, (None, None))
            target = row["target"] if library == WEFT else None
            yield Figure(library, "core", row["work"], "memory", value, row["unit"], target, low=low, high=high)


def _stored(document: Mapping[str, Any]) -> Iterator[Figure]:
    for row in document["durable"]["rows"]:
        yield Figure(
            row["library"],
            row["subject"],
            row["work"],
            row["how"],
            row["figure"],
            row["unit"],
            row["target"],
            at_least=row["at_least"],
            low=row["low"],
            high=row["high"],
            beside=row["beside"],
            is_met_by_cpu=row["verdict"] == "by CPU",
        )
