"""
Decides how many runnables are sent to a worker together.

A message to a cluster costs about a millisecond.  Runnables that take less are sent together, as a parcel that lasts
about :data:`LASTS`; longer ones are sent one by one, so that every worker has something to do and a lost worker has
little to repeat.  How long a component takes is known from its last attempts; the first one is sent alone.

    >>> times = Times()
    >>> times.parcel(["price"] * 1000, workers=4)
    1
    >>> times.note("price", 0.0001)
    >>> times.parcel(["price"] * 1000, workers=4)
    250
    >>> times.note("render", 2.0)
    >>> times.parcel(["render"] * 1000, workers=4)
    1
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Final, Protocol

LASTS: Final = 0.05
"""How many seconds a parcel should take, judged by earlier attempts of its components."""
MOST: Final = 256
"""How many runnables a parcel may have."""
_WEIGHT: Final = 0.2
"""How much the latest attempt counts in the mean."""
_OVERHEAD: Final = 50e-6
"""Seconds that a runnable takes in any case."""
_KNOWN: Final = 4096
"""The number of components whose times are kept."""


class Queue(Sized, Iterable[str], Protocol):
    """The components of the runnables that wait, in order."""


class Times:
    """How long the components took, and so how many runnables fit into a parcel."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def note(self, component: str, seconds: float) -> None:
        """Note that an attempt of *component* took this long."""
        known = self._means.get(component)
        if known is None and len(self._means) >= _KNOWN:
            del self._means[next(iter(self._means))]
        self._means[component] = seconds if known is None else known + _WEIGHT * (seconds - known)

    def parcel(self, waiting: Queue, *, workers: int) -> int:
        """
        Return how many of the first that wait are sent together now.

        That is at least one, and never more than the fair share of each of the free *workers*.
        """
        fair = max(1, -(-len(waiting) // workers))
        left, size = LASTS, 0
        for component in waiting:
            mean = self._means.get(component)
            left -= LASTS if mean is None else mean + _OVERHEAD
            if size and (left < 0 or size >= min(fair, MOST)):
                break
            size += 1
        return size
