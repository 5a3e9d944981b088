"""
The present load of the open runners in this process: the runs that they hold, and the runnables of these.

Nothing is counted while steps run.  The numbers are read from the runners when they are asked for, from any thread, at
a cost that grows with the number of runs that are held (about a microsecond for each).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol
from weakref import WeakSet


class Levels:
    """
    The load of all open runners, by workflow.

    >>> found = Levels()
    >>> found.add_runs({("orders", "running"): 1})
    >>> found.add_runnables("orders", in_flight=2, queued=0, waiting=1)
    >>> found, found.runs, found.waiting
    (Levels(1 runs, 2 in flight, 0 queued, 1 waiting), {('orders', 'running'): 1}, {'orders': 1})
    """

    __slots__ = ("in_flight", "queued", "resident_bytes", "runs", "waiting")

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], int] = {}
        """By workflow and status: how many runs are held."""
        self.in_flight: dict[str, int] = {}
        """How many runnables have a slot of their run: they are with an executor, or queued for one."""
        self.queued: dict[str, int] = {}
        """How many runnables wait for a slot of their run, or for the store."""
        self.waiting: dict[str, int] = {}
        """How many runnables wait for time or a limit."""
        self.resident_bytes = 0
        """How many bytes the values in memory take, by estimate, of the runners with a ``memory_budget``."""

    def add_resident_bytes(self, size: int) -> None:
        """Count the values of a runner."""
        self.resident_bytes += size

    def add_runs(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Count runs, by workflow and status."""
        for key, count in counts.items():
            self.runs[key] = self.runs.get(key, 0) + count

    def add_runnables(self, workflow: str, *, in_flight: int, queued: int, waiting: int) -> None:
        """Count the runnables of a run of *workflow*."""
        for level, count in ((self.in_flight, in_flight), (self.queued, queued), (self.waiting, waiting)):
            level[workflow] = level.get(workflow, 0) + count

    def __repr__(self) -> str:
        counts = (sum(level.values()) for level in (self.runs, self.in_flight, self.queued, self.waiting))
        return "Levels({} runs, {} in flight, {} queued, {} waiting)".format(*counts)


class Source(Protocol):
    """A runner, as it is asked for its load."""

    def add_levels(self, levels: Levels) -> None:
        """Add its runs; called from any thread."""
        ...


_lock = threading.Lock()
_sources: WeakSet[Source] = WeakSet()


def watch(source: Source) -> None:
    """Include *source*, which has opened."""
    with _lock:
        _sources.add(source)


def forget(source: Source) -> None:
    """Leave *source* out, since it has closed."""
    with _lock:
        _sources.discard(source)


def levels() -> Levels:
    """Return the present load of all open runners in this process."""
    with _lock:
        sources = list(_sources)
    found = Levels()
    for source in sources:
        source.add_levels(found)
    return found
