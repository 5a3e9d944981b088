"""
Notices that an answer of the server is overdue, with one timer for many statements.

A timer for each statement costs a quarter of what a bare commit costs its process, and nearly all are cancelled.  So
there is one while statements are executed.  When it is up, and the statement is a later one than that it was started
for, it is started again for the rest of the time: an answer is never given up early or late.

    idle ──begin──► waiting ──end──► idle
                       │
                       └── no answer in time ──► over ──begin──► waiting
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Overdue:
    """Calls *give_up* when a statement has not ended *seconds* after it began; made in the loop."""

    def __init__(self, seconds: float, give_up: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        self._seconds, self._give_up, self._call_later = seconds, give_up, loop.call_later
        self.now = loop.time
        """Says the time by which it measures."""
        self._since: float | None = None
        """When the statement began that has not ended."""
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False
        """Whether the last statement was given up."""

    def begin(self, now: float) -> None:
        """A statement begins *now*."""
        self._since, self.is_over = now, False
        if self._timer is None:
            self._timer = self._call_later(self._seconds, self._look)

    def end(self) -> None:
        """It has ended, in whatever way."""
        self._since = None

    def stop(self) -> None:
        """There will be no further statement."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer, since = None, self._since
        if since is None:
            return
        left = since + self._seconds - self.now()
        if left > 0:
            self._timer = self._call_later(left, self._look)
        else:
            self.is_over = True
            self._give_up()
