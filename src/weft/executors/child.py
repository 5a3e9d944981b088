"""
A worker process, from the inside: read a frame, run it, answer, until the pipe is closed.

It ends when its pipe is closed, and dies with its parent, however that ends: a thread waits for the parent to end, and
on Linux the kernel is asked too, since a thread cannot run while native code holds the interpreter.  For the
kernel, the parent is the thread that has spawned this process; that thread outlives the process.

The parent decides what to do about a Ctrl-C, or a SIGTERM that a service manager sends to every process of a service:
its steps may get time to end.  This process ignores both from the start, since it is spawned with both blocked.
"""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from time import monotonic, perf_counter_ns
from typing import Any

from weft.calling import attempt, failed
from weft.core.run.runnable import Outcome
from weft.errors import NotTransferable
from weft.executors.reports import SentReports
from weft.executors.transfer import pack_outcome, report_frame, sign_of_life, ticket_of, unpack

READY = b"ready"
HELD_BACK = (signal.SIGINT, signal.SIGTERM)
"""The signals that are left to the parent."""
APART = 0.005
"""The minimum number of seconds between two heartbeats; more would only keep the parent busy."""


def serve(pipe: Connection[Any, Any], path: list[str]) -> None:
    """Answer every frame that comes through *pipe*; *path* is where the parent finds modules."""
    sys.path[:] = path
    _die_with_the_parent()
    _leave_signals_to_the_parent()
    sender, own = _Sender(pipe), os.getpid()
    pipe.send_bytes(READY)
    while True:
        try:
            frame = pipe.recv_bytes()
        except (EOFError, ConnectionError):
            return
        answer = _answer(frame, sender)
        if os.getpid() != own:  # the step has forked, and returned twice: only one may answer
            os._exit(0)
        sender.answer(answer)


def _answer(frame: bytes, sender: _Sender) -> bytes:
    """Run the work in *frame*, and return its outcome as a frame."""
    began, ticket = perf_counter_ns(), ticket_of(frame)
    sender.begin(ticket)
    try:
        runnable = unpack(frame, partial(sender.beat, ticket), partial(SentReports, sender.report, ticket))
    except NotTransferable as error:
        return pack_outcome(ticket, Outcome("", (), "failed", None, error, 1, perf_counter_ns() - began))
    try:
        outcome = contextvars.copy_context().run(attempt, runnable)
    except KeyboardInterrupt as error:  # raised by the step: the signal is ignored
        outcome = failed(runnable, error, began)
    return pack_outcome(ticket, outcome)


class _Sender:
    """Sends the frames of this process: heartbeats, from any thread of the running step, and then the answer."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._ticket: int | None = None
        self._next = 0.0

    def begin(self, ticket: int) -> None:
        """Accept heartbeats of *ticket* from now on."""
        with self._lock:
            self._ticket, self._next = ticket, 0.0

    def beat(self, ticket: int) -> None:
        """Send a heartbeat of *ticket*, unless its work is over, or one was just sent."""
        now = monotonic()
        with self._lock, suppress(OSError):  # if the pipe is closed, this process is about to end
            if ticket == self._ticket and now >= self._next:
                self._next = now + APART
                self._pipe.send_bytes(sign_of_life(ticket))

    def report(self, ticket: int, *report: Any) -> None:
        """Send what the work of *ticket* reports, unless that is over."""
        frame = report_frame(ticket, *report)
        with self._lock, suppress(OSError):
            if ticket == self._ticket:
                self._pipe.send_bytes(frame)

    def answer(self, frame: bytes) -> None:
        """Send the answer; later heartbeats of that work are dropped."""
        with self._lock:
            self._ticket = None
            self._pipe.send_bytes(frame)


def _leave_signals_to_the_parent() -> None:
    own = os.getpid()

    def leave(number: int, _: object) -> None:
        if number == signal.SIGTERM and os.getpid() != own:  # a process that the step has forked, and that should end
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in HELD_BACK:  # by a function, since programs that the step starts would inherit SIG_IGN
        signal.signal(number, leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)


def _die_with_the_parent() -> None:
    if sys.platform == "linux":
        import ctypes  # only here: the parent imports this module too

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), name="weft-parent", daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
