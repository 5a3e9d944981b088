"""
A worker process, from the inside: read, run, answer, until nobody asks any more.

It ends when its pipe is closed, and dies with its parent, however that ends: a thread waits for it to be gone, and on
Linux the kernel is asked besides, since a thread gets no turn while native code holds the interpreter.  To the kernel
the parent is the thread that has spawned this process, which never ends before it.
"""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection, wait
from time import perf_counter_ns
from typing import Any

from weft.core.runnable import Outcome
from weft.errors import NotTransferable
from weft.execution import attempt, failed
from weft.executors.transfer import pack_outcome, unpack

READY = b"ready"


def serve(pipe: Connection[Any, Any]) -> None:
    """Answer every parcel that comes through *pipe*."""
    _die_with_the_parent()
    signal.signal(signal.SIGINT, _ignore)
    pipe.send_bytes(READY)
    while True:
        try:
            parcel = pipe.recv_bytes()
        except (EOFError, ConnectionError):
            return
        pipe.send_bytes(answer(parcel))


def answer(parcel: bytes) -> bytes:
    """Run what is in *parcel*, and return what came of it."""
    began = perf_counter_ns()
    try:
        runnable = unpack(parcel)
    except NotTransferable as error:
        return pack_outcome(Outcome("", (), "failed", None, error, 1, perf_counter_ns() - began))
    try:
        outcome = contextvars.copy_context().run(attempt, runnable)
    except KeyboardInterrupt as error:  # raised by the step: the signal is ignored
        outcome = failed(runnable, error, began)
    return pack_outcome(outcome)


def _ignore(*_: object) -> None:
    """Leave it to the parent what a Ctrl-C means.  A function, since what the step starts would inherit SIG_IGN."""


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
