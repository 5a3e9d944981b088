"""
Notes that an owner of a run died before anything of the run starts, so that deaths can be counted (ADR 28).

    taken over ──► something is to start ──► noted ──► durable ──► it starts
        │
        └── the count has changed ──► noted at once, and again when something is to start
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.ports.store import FINISHED
from weft.runner.durability.takeover import Takeover
from weft.runner.execution.run_queue import UNNOTED

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


class TakenOver:
    """The run of *worker* was taken over: nothing starts before the log says that an owner died."""

    __slots__ = ("_is_noted", "_start", "_takeover", "_worker")

    def __init__(self, worker: Worker, takeover: Takeover) -> None:
        self._worker, self._takeover = worker, takeover
        self._is_noted = False
        self._start: Callable[[], object] | None = None
        """Called when it is durable."""
        worker.queue.barrier = UNNOTED

    def note_deaths(self) -> None:
        """Write how many owners have died, if the log says another number, although nothing has started yet."""
        worker = self._worker
        is_open = worker.lost is None and worker.accepts and worker.state not in FINISHED
        if not self._is_noted and self._takeover.is_news and is_open:
            self._record(worker.unsaved.epoch - 1, "")

    def note(self, component: str, start: Callable[[], object] | None = None) -> None:
        """Write that an owner of the run died and *component* is about to start; then *start* it."""
        assert not self._is_noted  # noqa: S101
        self._record(self._worker.unsaved.epoch, component)
        self._is_noted, self._start = True, start
        if start is None:  # the queue is held, and nothing else waits
            self._worker.taken_over = None
        self._worker.queue.hold(len(self._worker.run.memory.log))

    def _record(self, epoch: int, component: str) -> None:
        """Write how many owners have died, and that the one of this *epoch* was the last that started something."""
        memory, now = self._worker.run.memory, self._worker.dispatcher.clock.time()
        record(memory, ev.RunTakenOver(len(memory.log) + 1, self._takeover.deaths, epoch, component, now))
        self._worker.checkpoint()

    def stored(self) -> None:
        """Start what was waiting for the log to say that the run was taken over, if it does."""
        if self._is_noted and not self._worker.queue.barrier:
            self._worker.taken_over = None
            if self._start is not None:
                self._worker.dispatcher.guard(self._worker, self._start)
