"""
A worker of a cluster, from the inside: run the frames of a parcel one after the other, and send what they report.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from time import monotonic, perf_counter_ns
from typing import Any, Final

from weft.calling import attempt, failed
from weft.core.run.runnable import Outcome
from weft.errors import NotTransferable
from weft.executors.cluster.frames import pack_outcome, report_frame, unpack
from weft.executors.reports import SentReports
from weft.executors.transfer import sign_of_life, ticket_of

Send = Callable[[list[bytes]], object]
Put = Callable[[bytes], object]

APART: Final = 0.05
"""The minimum number of seconds between two heartbeats."""
TOGETHER: Final = 0.003
"""Seconds for which messages of a step wait for more of them."""


def extend_path(path: Sequence[str]) -> None:
    """Find modules also where the runner finds them, which helps if both are on one machine."""
    sys.path.extend(place for place in path if place not in sys.path)


def serve(frames: Sequence[bytes], send: Send) -> None:
    """Run what the *frames* say, and send the outcome of each, and before it what it reports, within moments."""
    outbox = _Outbox(send)
    try:
        for frame in frames:
            outbox.put(_answer(frame, outbox.put))
    finally:
        outbox.close()


def stream(frames: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield what :func:`serve` sends, as it is sent."""
    sent: SimpleQueue[list[bytes] | None] = SimpleQueue()

    def work() -> None:
        try:
            serve(frames, sent.put)
        finally:
            sent.put(None)

    threading.Thread(target=work, name="weft-step", daemon=True).start()
    while (found := sent.get()) is not None:
        yield found


class _Outbox:
    """
    Sends frames together that come within :data:`TOGETHER`: a message costs more than a short step.

    A thread sends what waits, so that a step that hangs does not hold back the outcomes of those before it.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._frames: list[bytes] = []
        self._lock = threading.Lock()
        self._some, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._flush_often, name="weft-outbox", daemon=True)
        self._thread.start()

    def put(self, frame: bytes) -> None:
        """Send *frame* soon."""
        with self._lock:
            self._frames.append(frame)
        self._some.set()

    def close(self) -> None:
        """Send what is left."""
        self._closed.set()
        self._some.set()
        self._thread.join()
        self._flush()

    def _flush_often(self) -> None:
        while not self._closed.is_set():
            self._some.wait()
            self._some.clear()
            self._closed.wait(TOGETHER)
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            found, self._frames = self._frames, []
            if found:
                self._send(found)


def _answer(frame: bytes, put: Put) -> bytes:
    began, ticket = perf_counter_ns(), ticket_of(frame)
    reports = _Reports(ticket, put)
    try:
        runnable = unpack(frame, reports.beat, partial(SentReports, reports.report, ticket))
    except NotTransferable as error:
        return pack_outcome(ticket, Outcome("", (), "failed", None, error, 1, perf_counter_ns() - began))
    try:
        outcome = contextvars.copy_context().run(attempt, runnable)
    except KeyboardInterrupt as error:  # raised by the step
        outcome = failed(runnable, error, began)
    finally:
        reports.end()
    return pack_outcome(ticket, outcome)


class _Reports:
    """Sends the reports of one attempt while it runs, and nothing after its end."""

    def __init__(self, ticket: int, put: Put) -> None:
        self._ticket, self._put = ticket, put
        self._lock = threading.Lock()
        self._next = 0.0
        self._has_ended = False

    def beat(self) -> None:
        """Send a heartbeat, unless one was just sent."""
        with self._lock:
            if not self._has_ended and monotonic() >= self._next:
                self._next = monotonic() + APART
                self._put(sign_of_life(self._ticket))

    def report(self, ticket: int, *report: Any) -> None:
        """Send what the attempt reports."""
        with self._lock:
            if not self._has_ended:
                self._put(report_frame(ticket, *report))

    def end(self) -> None:
        """Drop what threads of the attempt report from now on."""
        with self._lock:
            self._has_ended = True
