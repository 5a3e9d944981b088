"""
Wall and CPU time of pieces of work that are taken in turns.

The median of the samples is the figure, and the smallest and the largest stand beside it: on shared cores the spread
says how much the neighbours have to do with it.  Every sample starts after a full collection, with the garbage
collector on, as it is for users; what is alive before the first one (modules of all that is compared) is frozen, so
that none of them pays for the objects of another.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple, Self, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Seen(NamedTuple):
    """A figure: the median of the rounds, the smallest and the largest."""

    figure: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Sequence[float], scale: float = 1.0) -> Self:
        """Return what was *found* in the rounds, times *scale*."""
        return cls(median(found) * scale, min(found) * scale, max(found) * scale)


class Unavailable(Exception):
    """An alternative cannot do the work here; the text says why."""


@dataclass(slots=True)
class Samples:
    """Seconds that the same work took, several times: what is inside of ``with samples``."""

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    failure: str = ""
    """Why there are no more of them."""

    @property
    def median(self) -> float:
        return median(self.wall)

    @property
    def median_cpu(self) -> float:
        return median(self.cpu)

    @property
    def least_cpu(self) -> float:
        return min(self.cpu)

    def per_second(self, units: int) -> Seen:
        """Return how many of *units* were done in a second."""
        return Seen.of([units / seconds for seconds in self.wall])

    def each(self, units: int, scale: float = 1.0) -> Seen:
        """Return the seconds, times *scale*, for each of *units*."""
        return Seen.of(self.wall, scale / units)

    def __enter__(self) -> None:
        gc.collect()
        self.wall.append(-perf_counter())
        self.cpu.append(-process_time())

    def __exit__(self, *_: object) -> None:
        self.cpu[-1] += process_time()
        self.wall[-1] += perf_counter()


def in_turns(works: Mapping[Key, Callable[[Samples], object]], rounds: int) -> dict[Key, Samples]:
    """Do every piece of work *rounds* times; each says what of it is measured.  One that is unavailable is left out."""
    samples = {key: Samples() for key in works}
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            for key, work in works.items():
                if not samples[key].failure:
                    try:
                        work(samples[key])
                    except Unavailable as error:
                        samples[key].failure = str(error)
    finally:
        gc.unfreeze()
    return samples


def ratios(of: Samples, to: Samples) -> Seen:
    """Return how many times as long *of* took as *to*, round by round."""
    return Seen.of([one / other for one, other in zip(of.wall, to.wall, strict=True)])
