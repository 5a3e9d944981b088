"""
The runs that are in a runner: their workers by run, and those that are asleep.

It is made before all other parts and knows none of them, so that each can be given it, or a method of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from weft.core.fold.scope import Key
from weft.core.workflow import Workflow
from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions


class Asleep(msgspec.Struct, frozen=True, eq=False, gc=False):  # there are very many, and none in a cycle
    """A run that is here and not in memory, as far as it is known; runs of which the same is known share one."""

    options: RunOptions
    workflow: Workflow | None
    """Its live definition, if it was in memory before: that keeps it from being forgotten."""
    epoch: int | None = None
    """The epoch in which it is owned; None if it is to be acquired again, since deaths of owners are to be noted."""
    head: int = 0
    """The number of its last event, if *epoch* is known."""


class RunTable:
    """The runs of one runner.  Only the registry changes *workers*, and only the sleepers change *asleep*."""

    __slots__ = ("asleep", "workers")

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.asleep: dict[str, Asleep] = {}

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self.workers.values()))

    def get(self, run: str) -> Worker | None:
        """Return the worker of *run*, if it is in memory."""
        return self.workers.get(run)

    def has(self, run: str) -> bool:
        """Whether *run* is here, in memory or asleep."""
        return run in self.workers or run in self.asleep

    def in_flight(self, run: str) -> list[Key]:
        """Return the runnables of *run* that are in flight here; called on any thread."""
        worker = self.workers.get(run)
        return [] if worker is None else list(worker.queue.by_key)
