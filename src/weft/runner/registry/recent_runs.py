"""
The runs that have finished in a runner lately, for callers that ask by id right after a start.

There are at most :data:`RUNS` of them, with at most :data:`EVENTS` events together; the oldest are dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions

RUNS: Final = 1024
"""How many finished runs a runner keeps at most."""

EVENTS: Final = 1 << 16
"""How many events these have together at most."""


class RecentRuns:
    """Finished runs, by id, the oldest first."""

    __slots__ = ("_dropped", "_events", "_workers")

    def __init__(self, dropped: Callable[[Worker], object]) -> None:
        """Keep none yet; call *dropped* with each that is not kept any more."""
        self._workers: dict[str, Worker] = {}
        self._events = 0
        self._dropped = dropped

    def add(self, worker: Worker) -> None:
        """Keep *worker*, whose run has finished."""
        self.forget(worker.id)
        self._workers[worker.id] = worker
        self._events += len(worker.run.memory.log)
        while len(self._workers) > RUNS or self._events > EVENTS:
            self.forget(next(iter(self._workers)))

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def get(self, run: str) -> Worker | None:
        """Return the worker that *run* has finished with, if it is kept."""
        return self._workers.get(run)

    def options_of(self, run: str, usual: RunOptions) -> RunOptions:
        """Return the options with which *run* has finished, if it is kept; else the *usual* ones."""
        worker = self._workers.get(run)
        return usual if worker is None else worker.options

    def clear(self) -> None:
        """Keep none: some of them were deleted."""
        while self.drop_oldest():
            pass

    def drop_oldest(self) -> bool:
        """Forget the run that finished first; return False if there is none."""
        if not self._workers:
            return False
        self.forget(next(iter(self._workers)))
        return True

    def forget(self, run: str) -> None:
        """Forget *run*: it goes on, or is deleted."""
        worker = self._workers.pop(run, None)
        if worker is not None:
            self._events -= len(worker.run.memory.log)
            self._dropped(worker)
