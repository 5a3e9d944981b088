"""
Execution inside ``submit``: without a hand-over, while nothing else happens.

It is for steps that only compute for microseconds: a thread costs more than they do.  A coroutine is run to its end in
a separate event loop, with the same result as elsewhere, but the loop of the runner stands still until then; a
runner sends coroutine functions to :class:`~weft.executors.tasks.TaskExecutor` instead.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable

from weft.calling import attempt
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import ExecutorClosed, ExecutorFull
from weft.executors.outbox import Outbox

CAPACITY = 1_000


class InlineExecutor:
    """Runs each runnable inside ``submit``; up to *capacity* outcomes wait to be collected."""

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r}: use a number of at least 1")
        self.capacity = capacity
        self._outbox: Outbox[tuple[int, Outcome]] | None = None
        self._context = contextvars.Context()
        self._ended: dict[int, None] = {}
        """The tickets inside: all have ended."""
        self._is_open = False

    @property
    def free(self) -> int:
        """How many more outcomes fit."""
        return self.capacity - len(self._ended) if self._is_open else 0

    def open(self, wake: Callable[[], None]) -> None:
        """Open it; *wake* is called inside ``submit``."""
        if self._outbox is not None:
            raise ExecutorClosed("InlineExecutor", "was open before")
        self._outbox, self._context, self._is_open = Outbox(wake), contextvars.copy_context(), True

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Run *runnable*; its outcome can be collected when this returns."""
        if len(self._ended) >= self.capacity:
            raise ExecutorFull("InlineExecutor", self.capacity)
        outcome = self.run(runnable)
        assert self._outbox is not None  # noqa: S101
        self._ended[ticket] = None
        self._outbox.put((ticket, outcome))

    def run(self, runnable: Runnable) -> Outcome:
        """Run *runnable*, and return its outcome."""
        if not self._is_open:
            raise ExecutorClosed("InlineExecutor", "is not open")
        return self._context.copy().run(attempt, runnable)

    def started(self, ticket: int) -> None:
        """Return None: no call is possible while something runs."""

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return the outcomes that were not collected yet."""
        if self._outbox is None:
            return []
        ended = self._ended
        return [item for item in self._outbox.take() if ended.pop(item[0], 0) is None]

    def cancel(self, ticket: int) -> None:
        """Drop *ticket*, which has ended."""
        self._ended.pop(ticket, None)

    async def close(self, grace: float) -> list[int]:  # noqa: ARG002 - there is nothing to wait for
        """Accept nothing more."""
        self._is_open = False
        if self._outbox is not None:
            self._outbox.mute()
        return []
