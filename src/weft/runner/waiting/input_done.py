"""
A caller that waits for one input of an open run: until nothing that follows from it is left to do, and that is durable.

An open run may never be idle, because other callers send inputs too.  So the waiter watches its own input: it remembers
one open activation of it, and searches for another one, the youngest first, only when that one has ended.
"""

from __future__ import annotations

from itertools import chain

from weft.core.fold.memory import Memory
from weft.core.fold.scope import Activation
from weft.errors import RunClosed, RunParked
from weft.runner.execution.worker import Worker


class InputDone:
    """Waits for the input *ordinal*."""

    __slots__ = ("_done_at", "_ordinal", "_witness")

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._witness: Activation | None = None
        """An activation that follows from the input, and was open when it was looked for."""
        self._done_at: int | None = None
        """How many events there were when nothing was left to do; all of them must be durable."""

    def answer(self, worker: Worker) -> bool | Exception | None:
        """Return True if the input is done, or the error why it never will be; None if it is not done yet."""
        if worker.is_settled and worker.state == "parked":
            return RunParked(worker.id, worker.reason)
        if worker.is_settled and worker.state == "cancelled":
            return RunClosed(worker.id, worker.reason)
        memory = worker.run.memory
        if self._done_at is None and not self._is_open(memory):
            self._done_at = len(memory.log)
        if self._done_at is None:
            return None
        is_durable = worker.acknowledged >= self._done_at or worker.options.checkpoints.lag is None
        return True if is_durable or worker.is_settled else None

    def _is_open(self, memory: Memory) -> bool:
        """Whether something that follows from the input is ready, in flight, blocked or waiting."""
        if memory.unopened is not None:  # more elements of a collection become ready
            return True
        blocked, waiting = memory.blocked or {}, memory.waiting or {}
        known = self._witness
        if known is not None:
            waits = waiting.get(known.key)
            if memory.ready.get(known.key) is known or blocked.get(known.key) is known:
                return True
            if waits is not None and waits.activation is known:
                return True
        at_rest = (each.activation for each in reversed(waiting.values()))
        pending = chain(reversed(memory.ready.values()), reversed(blocked.values()), at_rest)
        self._witness = next((each for each in pending if each.scope.root.index == self._ordinal), None)
        return self._witness is not None
