"""
Wall and CPU time of pieces of work that are taken in turns.

The best of the samples is what the code needs; on shared cores the others measure the
neighbours.  Every sample starts after a full collection, with the garbage collector on, as
it is for users; what is alive before the first one (modules of all that is compared) is
frozen, so that nobody pays for the objects of another.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class Samples:
    """Seconds that the same work took, several times: what is inside of ``with samples``."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.wall)

    @property
    def least_cpu(self) -> float:
        return min(self.cpu)

    def __enter__(self) -> None:
        gc.collect()
        self.wall.append(-perf_counter())
        self.cpu.append(-process_time())

    def __exit__(self, *_: object) -> None:
        self.cpu[-1] += process_time()
        self.wall[-1] += perf_counter()


def in_turns(works: Mapping[Key, Callable[[Samples], object]], rounds: int) -> dict[Key, Samples]:
    """Do every piece of work *rounds* times; each says what of it is measured."""
    samples = {key: Samples() for key in works}
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for key, work in works.items():
            work(samples[key])
    gc.unfreeze()
    return samples
