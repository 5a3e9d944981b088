"""
The reports of a step in a worker process: sent through the pipe, and passed on to the runner.

A report is ``("progress", done, total, note)`` or ``("item", stream, item)``.  The thread that reads the pipe waits
while a stream is full; then the pipe fills, and the step waits too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from weft.core.run.runnable import Runnable
from weft.errors import NoStreams

APART: Final = 0.02
"""The minimum number of seconds between two reports of progress; the last one of several is sent."""


class SentReports:
    """Takes the reports of a step in a worker process."""

    def __init__(self, send: Callable[..., None], ticket: int, keeps_streams: bool) -> None:
        self._send, self._ticket, self.keeps_streams = send, ticket, keeps_streams
        self._lock = threading.Lock()
        self._next = 0.0
        self._held: tuple[Any, ...] | None = None
        """The last progress, if it is sent later."""

    def report(self, runnable: Any, done: float, total: float | None, note: str) -> None:  # noqa: ARG002
        """Send how far the step has come; soon, if it has just said so."""
        now = monotonic()
        with self._lock:
            is_waiting, self._held = self._held is not None, ("progress", done, total, note)
            if is_waiting:
                return
            pause = self._next - now
        if pause <= 0:
            self._send_held()
        else:
            timer = threading.Timer(pause, self._send_held)
            timer.daemon = True
            timer.start()

    def _send_held(self) -> None:
        with self._lock:
            held, self._held, self._next = self._held, None, monotonic() + APART
        if held is not None:
            self._send(self._ticket, *held)

    def answer(self, run: str, question: bytes) -> None:
        """Do nothing: only the runner is asked."""

    def stream(self, runnable: Any, name: str) -> SentStream:  # noqa: ARG002 - as the runner has it
        """
        Return the writer of a stream.

        Raises:
            NoStreams: the store of the runner keeps none.
        """
        if not self.keeps_streams:
            raise NoStreams("the store of the runner")
        return SentStream(self._send, self._ticket, name)


class SentStream:
    """Writes to a stream through the pipe."""

    def __init__(self, send: Callable[..., None], ticket: int, name: str) -> None:
        self._send, self._ticket, self._name = send, ticket, name

    def write(self, item: Any) -> None:
        """Send *item*; wait while the pipe is full."""
        self._send(self._ticket, "item", self._name, item)

    async def drain(self) -> None:
        """Return at once: :meth:`write` waits."""


def pass_on(runnable: Runnable, report: tuple[Any, ...]) -> None:
    """
    Pass a *report* on to the runner of *runnable*.

    Raises:
        UnencodableValue: an item cannot be stored.
    """
    reporter = runnable.reporter or (None if runnable.runner is None else runnable.runner.reporter)
    if reporter is None:
        return
    match report:
        case ("progress", done, total, note):
            reporter.report(runnable, done, total, note)
        case ("item", name, item):
            if runnable.streams is None:
                runnable.streams = {}
            key = (name, runnable.attempt)
            if key not in runnable.streams:
                runnable.streams[key] = reporter.stream(runnable, name)
            runnable.streams[key].write(item)
        case _:
            pass
