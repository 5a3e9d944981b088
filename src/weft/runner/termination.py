"""
Handles SIGTERM in a program with a blocking runner, so that the runner is closed before the program ends.

By default SIGTERM ends a process at once, and unwritten events of its runner are lost.  If a blocking runner was opened
in the main thread, ``SystemExit(143)`` is raised there instead while it is open, so that ``with`` closes the runner.
Shells report 143 for a process that SIGTERM has ended.

- A program that has its own handler for SIGTERM keeps it, whether it was installed before or after.
- A close is not interrupted: a SIGTERM that arrives meanwhile, even a second one, is raised when the close is done.
  The grace time limits how long that takes, and SIGKILL ends the process at any time.
- The last runner that is closed restores the previous handler.  If it is closed in another thread, where that is not
  possible, the next SIGTERM ends the process as it would have without a runner.
- A thread that waits for a lock is woken by a signal only if the kernel hands the signal to this very thread while it
  waits.  So the main thread looks once a second (:func:`result_of`): then it takes a SIGTERM or Ctrl-C that came just
  before the wait, or to another thread.
- A forked process has no handler: the runner belongs to its parent.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Final, NoReturn, TypeVar
from weakref import WeakSet

T = TypeVar("T")

EXIT_CODE: Final = 128 + signal.SIGTERM
_PERIOD: Final = 1.0
"""Seconds after which the main thread looks whether a signal came that has not woken it."""

_runners: WeakSet[object] = WeakSet()
"""The open runners that were opened in the main thread."""


class _Close:
    """The state of the main thread: whether it is closing runners."""

    depth = 0
    """How many runners it is closing, one inside of the other."""
    is_due = False
    """Whether a SIGTERM came meanwhile."""


def watch(runner: object) -> None:
    """Install the handler while *runner* is open, unless the program has its own."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGTERM)
    if handler is signal.SIG_DFL:
        try:
            signal.signal(signal.SIGTERM, _terminate)
        except ValueError:  # the main thread of an interpreter that is not the main one
            return
    elif handler is not _terminate:
        return
    _runners.add(runner)


def result_of(future: Future[T]) -> T:
    """Return the result of *future*; in the main thread, take signals while waiting for it."""
    if threading.current_thread() is threading.main_thread():
        while not future.done():
            with suppress(TimeoutError):
                future.exception(_PERIOD)
    return future.result()


@contextmanager
def closing(runner: object) -> Generator[None, None, None]:
    """
    Let a SIGTERM wait while *runner* is closed in the main thread; afterwards it no longer counts as open.

    Raises:
        SystemExit: a SIGTERM came meanwhile.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        _Close.depth += 1
    try:
        yield
    finally:
        _runners.discard(runner)
        if is_main:
            if not _runners and signal.getsignal(signal.SIGTERM) is _terminate:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _Close.depth -= 1
            if _Close.is_due and not _Close.depth:
                _Close.is_due = False
                _exit()


def _terminate(number: int, frame: object) -> None:
    """Take a SIGTERM; Python calls this in the main thread."""
    del number, frame
    if _Close.depth:
        _Close.is_due = True
    elif _runners:
        _exit()
    else:  # what was open was closed in another thread
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _exit() -> NoReturn:
    raise SystemExit(EXIT_CODE)


def _forked() -> None:
    """Forget, in a forked process, what its parent does."""
    _runners.clear()
    _Close.depth, _Close.is_due = 0, False
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
