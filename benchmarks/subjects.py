"""
What is measured, in the order of the table, and the figure to reach.

A row asks for some measurements and makes one figure of them.  Where a library
is compared, it does work of the same size as Weft in that row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.harness import Timing, Weight


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: *figure* of *work*, measured at *sizes*."""

    label: str
    unit: str
    work: str
    sizes: tuple[int, ...]
    figure: Callable[..., float]
    target: float | None = None  # at most
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """Rows whose measurements are taken in turns, because they are compared."""

    name: str
    rows: tuple[Row, ...]


def per(work: str, size: int, unit: str, label: str, *, target: float | None = None, compared: bool = False) -> Row:
    """Microseconds per unit of work."""
    return Row(label, f"µs per {unit}", work, (size,), _micros, target, compared)


def seconds(work: str, size: int, label: str, *, target: float | None = None, compared: bool = False) -> Row:
    """Seconds for the whole."""
    return Row(label, "s", work, (size,), _seconds, target, compared)


def ratio(work: str, size: int, base: int, label: str, *, target: float | None = None) -> Row:
    """How much more a unit costs at *size* than at *base*."""
    return Row(label, "ratio", work, (size, base), _ratio, target)


def weight(work: str, size: int, label: str, *, target: float) -> Row:
    """Bytes of one among many."""
    return Row(label, "bytes", work, (size,), _bytes, target)


def growth(work: str, size: int, label: str, *, times: int = 4, target: float = 1.15) -> Row:
    """The exponent of the time from *size* to *times* that; 1 is linear."""
    large = times * size
    return Row(
        f"growth of {label}, {size:,} to {large:,}", "exponent", work, (large, size), partial(_exponent, times), target
    )


def _micros(timing: Timing) -> float:
    return timing.per_unit * 1e6


def _seconds(timing: Timing) -> float:
    return timing.median


def _ratio(large: Timing, small: Timing) -> float:
    return large.least_per_unit / small.least_per_unit


def _bytes(weight: Weight) -> float:
    return weight.each


def _exponent(times: int, large: Timing, small: Timing) -> float:
    return math.log(large.minimum / small.minimum, times)


SUBJECTS = (
    Subject(
        "chain",
        (
            per("chain", 100, "step", "chain of 100 steps", target=5, compared=True),
            per("chain", 1_000, "step", "chain of 1,000 steps", target=5, compared=True),
            per("chain", 10_000, "step", "chain of 10,000 steps", target=5),
            ratio("chain", 10_000, 100, "chain of 10,000 to chain of 100, per step", target=1.3),
        ),
    ),
    Subject(
        "policies",
        (
            per("chain", 1_000, "step", "chain of 1,000 steps, no policy"),
            per("chain_with_policy", 1_000, "step", "the same under a policy that never triggers"),
            per("chain_with_rules", 1_000, "step", "the same under 100 rules"),
        ),
    ),
    Subject(
        "leaves",
        (per("leaves", 1_000, "leaf", "one root with 1,000 leaves", target=6, compared=True),),
    ),
    Subject(
        "map",
        (
            seconds("map_reduce", 1_000, "map over 1,000 elements and reduce", compared=True),
            seconds("map_reduce", 10_000, "map over 10,000 elements and reduce", target=0.2),
            seconds("map_reduce", 20_000, "map over 20,000 elements and reduce"),
            ratio("map_reduce", 20_000, 1_000, "map over 20,000 to map over 1,000, per element"),
        ),
    ),
    Subject(
        "rules",
        (
            per("rules_all_firing", 100, "rule", "100 rules on a fact, all firing", target=5),
            per("rules_one_firing", 100, "rule", "100 rules on a fact, one firing", target=5),
        ),
    ),
    Subject(
        "inputs",
        (
            per("inputs", 10_000, "input", "accumulator over 10,000 inputs", target=8),
            per("inputs_planned", 10_000, "input", "the same, all planned first", target=8),
        ),
    ),
    Subject(
        "fold",
        (
            per("fold_of_chain", 1_000, "event", "fold of the log of a chain of 1,000", target=3),
            per("fold_of_map", 10_000, "event", "fold of the log of a map over 10,000", target=3),
        ),
    ),
    Subject(
        "log",
        (
            per("log_to_bytes", 1_000, "event", "1,000 reactions to bytes", target=1),
            per("log_from_bytes", 1_000, "event", "1,000 reactions from bytes", target=1),
            per("lone_event_to_bytes", 1_000, "event", "reactions to bytes, one by one"),
            per("definition_to_bytes", 100, "component", "definition of 100 steps as data"),
            per("definition_from_bytes", 100, "component", "definition of 100 steps from bytes"),
        ),
    ),
    Subject(
        "idle",
        (weight("idle_run", 10_000, "idle run of a shared definition", target=1024),),
    ),
    Subject(
        "join",
        (
            per("wide_join", 1_000, "parent", "join of 1,000 parents"),
            per("diamonds", 100, "step", "100 diamonds in a chain"),
            per("state_readers", 1_000, "input", "accumulator and a rule that reads it, 1,000 inputs"),
        ),
    ),
    Subject(
        "drawing",
        (
            seconds("drawing", 1_000, "1,000 components drawn as SVG", target=0.75),
            growth("drawing", 500, "a drawing"),
        ),
    ),
    Subject(
        "growth",
        (
            growth("chain", 1_000, "chain"),
            growth("leaves", 500, "leaves"),
            growth("map_reduce", 2_500, "map"),
            growth("map_reduce", 2_500, "map", times=16, target=1.1),
            growth("inputs", 2_500, "inputs"),
            growth("rules_all_firing", 100, "rules"),
        ),
    ),
)
