"""
Wall and CPU time of pieces of work that are taken in turns.

The best of the samples is what the code needs; on shared cores the others measure the
neighbours.  Every sample starts after a full collection, with the garbage collector on, as
it is for users.
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
    """Seconds that the same work took, several times."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.wall)

    @property
    def least_cpu(self) -> float:
        return min(self.cpu)


def in_turns(works: Mapping[Key, Callable[[], Callable[[], object]]], rounds: int) -> dict[Key, Samples]:
    """Do every piece of work *rounds* times; each is prepared outside of the measured time."""
    samples = {key: Samples() for key in works}
    for _ in range(rounds):
        for key, prepare in works.items():
            work = prepare()
            gc.collect()
            wall, cpu = perf_counter(), process_time()
            work()
            samples[key].cpu.append(process_time() - cpu)
            samples[key].wall.append(perf_counter() - wall)
    return samples
