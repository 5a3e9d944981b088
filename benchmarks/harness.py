"""
How long a piece of work takes, and how much a kept object weighs.

A figure is CPU time of the whole process: on shared cores, wall time measures
the neighbours.  Threads that a library starts are counted, time spent waiting
for them is not, which flatters the libraries that hand work over.  Wall time is
kept beside it in the results.

The pieces of work of one subject are sampled in turns, so that a slow minute of
the machine falls on all of them.  A figure is the median of the samples; the
smallest and the largest say how noisy the machine was.  What compares one size
with another is made of the smallest, since noise only adds.

The garbage collector is on, as it is for users.  What is alive before the first
sample (modules, graphs) is frozen, so that no library pays for the objects of
another, and every sample starts after a full collection.

    >>> work = Work(lambda: sum(range(10)), expected=45, units=10)
    >>> timing = measure({"sum": lambda: work}, QUICK)["sum"]
    >>> isinstance(timing, Timing) and timing.minimum <= timing.median
    True
    >>> measure({"sum": lambda: Work(lambda: 1, expected=2, units=1)}, QUICK)["sum"]
    Failure(reason='WrongResult: 1 instead of 2')
"""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

_SAMPLE = 0.005  # seconds; below this the clock itself would be measured
_MOST_SAMPLES = 25


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to measure one piece of work: about *seconds*, and at least *samples* times."""

    seconds: float
    samples: int


FULL = Effort(seconds=1.0, samples=3)
QUICK = Effort(seconds=0.1, samples=1)


@dataclass(frozen=True, slots=True)
class Work:
    """Something to time: *call* does *units* pieces of it and returns *expected*."""

    call: Callable[[], object]
    expected: object
    units: int


@dataclass(frozen=True, slots=True)
class Stock:
    """Something to weigh: *make* returns one, *count* of them are kept."""

    make: Callable[[], object]
    count: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one call takes."""

    minimum: float
    median: float
    maximum: float
    wall: float  # median
    samples: int
    units: int

    @property
    def per_unit(self) -> float:
        return self.median / self.units

    @property
    def least_per_unit(self) -> float:
        return self.minimum / self.units


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes that one of the kept objects takes."""

    each: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no figure."""

    reason: str


class WrongResult(Exception):
    """The work ran and returned something else than it should."""


Build = Callable[[], Work | Stock]
Measured = Timing | Weight | Failure


def measure(builds: Mapping[Key, Build], effort: Effort) -> dict[Key, Measured]:
    """Build every piece of work, outside of the measured time, then measure all of them in turns."""
    measured: dict[Key, Measured] = {}
    series: dict[Key, _Series] = {}
    for key, build in builds.items():
        # Whatever is raised, by any library: one row says so and the others go on.
        try:
            built = build()
            if isinstance(built, Stock):
                measured[key] = Weight(_weigh(built))
            else:
                series[key] = _Series.of(built, effort)
        except Exception as error:  # noqa: BLE001
            measured[key] = Failure(f"{type(error).__name__}: {error}")
    gc.collect()
    gc.freeze()
    while pending := [one for one in series.values() if len(one.cpu) < one.samples]:
        for one in pending:
            one.sample()
    gc.unfreeze()
    return measured | {key: one.timing() for key, one in series.items()}


@dataclass(slots=True)
class _Series:
    """The samples of one piece of work; each calls it *loops* times."""

    work: Work
    loops: int
    samples: int
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, work: Work, effort: Effort) -> _Series:
        """Call *work* to check its result, then once more to see how often it fits."""
        result = work.call()  # also builds what a library builds at first use
        if result != work.expected:
            raise WrongResult(f"{result!r} instead of {work.expected!r}")
        start = process_time()
        work.call()
        once = max(process_time() - start, 1e-9)
        loops = math.ceil(_SAMPLE / once)
        samples = min(_MOST_SAMPLES, int(effort.seconds / (loops * once)))
        return cls(work, loops, max(effort.samples, samples))

    def sample(self) -> None:
        call, loops = self.work.call, range(self.loops)
        gc.collect()
        wall, cpu = perf_counter(), process_time()
        for _ in loops:
            call()
        self.cpu.append((process_time() - cpu) / self.loops)
        self.wall.append((perf_counter() - wall) / self.loops)

    def timing(self) -> Timing:
        cpu = self.cpu
        return Timing(min(cpu), median(cpu), max(cpu), median(self.wall), len(cpu), self.work.units)


def _weigh(stock: Stock) -> float:
    stock.make()  # what all of them share is not theirs
    kept: list[object] = [None] * stock.count
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for index in range(stock.count):
        kept[index] = stock.make()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / stock.count
