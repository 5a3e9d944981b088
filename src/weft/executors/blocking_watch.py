"""
Notices steps that block the event loop, and logs which one it is and where it blocks.

A coroutine that computes or waits without ``await`` stops everything else in its event loop.  A daemon thread asks the
loop for an answer a few times per threshold, as long as coroutines are in flight, and looks at the stack of the loop
meanwhile.  While coroutines run as they should, that is all it costs.

Invariant: a step is blamed only if it was on the stack the whole time in which the loop did not answer.  A task takes
at most one step before the loop answers, so a step that is seen twice until then has not yielded in between.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Final

from weft.calling import aattempt, attempt
from weft.core.run.runnable import Runnable

_log = logging.getLogger("weft.runner")

LOOKS: Final = 4
"""How often it looks within the time of the threshold."""

REMEMBERED: Final = 1_000
"""How many places it remembers, to log each of them once."""

_CALLS: Final = {aattempt.__code__, attempt.__code__}
"""The code whose local variable ``runnable`` is what runs."""


_reading = threading.Lock()
"""Held while garbage is not collected: two threads would take each other's setting for that of the application."""


def frame_of(thread: int) -> FrameType | None:
    """
    Return the present frame of *thread*.

    No garbage is collected meanwhile.  The interpreter holds the lock of its list of threads then, and a collection can
    execute Python: another thread that gets its turn and starts a thread would wait for that lock for ever, as in
    CPython 3.11.7.
    """
    with _reading:
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
        finally:
            if is_collecting:
                gc.enable()


class BlockingWatch:
    """Watches one event loop while *is_needed* returns True, after it was woken."""

    def __init__(self, threshold: float, is_needed: Callable[[], object]) -> None:
        """Make one that logs a step that blocks for longer than *threshold* seconds; :meth:`wake` starts it."""
        self._threshold, self._is_needed = threshold, is_needed
        self._awake, self._closed = threading.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._has_answered = True
        """Whether the loop has answered since it was last asked."""
        self._seen: Runnable | None = None
        """The runnable on the stack of the loop, when that was last looked at."""
        self._since = 0.0
        """Since when it has been there."""
        self._reported: set[tuple[str, str, int]] = set()
        """The components and places that were logged."""
        self.is_awake = False
        """Whether it looks at the loop now."""

    def wake(self) -> None:
        """Begin to watch the running event loop, unless that is on virtual time."""
        self.is_awake = True
        if self._loop is None:
            self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
            if abs(self._loop.time() - monotonic()) > 1.0:
                return
            threading.Thread(target=self._watch, name="weft-blocking-watch", daemon=True).start()
        self._awake.set()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._awake.set()

    def _watch(self) -> None:
        while self._awake.wait() and not self._closed.is_set():
            try:
                self.look(frame_of(self._loop_thread), monotonic())
            except RuntimeError:  # the loop is closed
                return
            self._closed.wait(self._threshold / LOOKS)

    def look(self, frame: FrameType | None, now: float) -> None:
        """Look at the present *frame* of the loop; ask it for an answer, if it has answered the last time."""
        running, inside = _running(frame)
        if self._has_answered:
            if not self._is_needed():
                self._rest()
                return
            self._has_answered, self._seen, self._since = False, running, now
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self.answer)
        elif running is None or running is not self._seen:
            self._seen, self._since = running, now
        elif now - self._since >= self._threshold:
            self._report(running, inside)

    def _rest(self) -> None:
        """Stop watching until the next coroutine starts."""
        self._awake.clear()
        self.is_awake = False
        if self._is_needed():  # since just now: its start may have seen this awake
            self.is_awake = True
            self._awake.set()

    def answer(self) -> None:
        """Say that the loop goes on; called in the loop."""
        self._has_answered = True

    def _report(self, running: Runnable, inside: list[FrameType]) -> None:
        where = (running.component, inside[-1].f_code.co_filename, inside[-1].f_lineno)
        if where in self._reported or len(self._reported) >= REMEMBERED:
            return
        self._reported.add(where)
        places = [(frame, frame.f_lineno) for frame in inside]
        _log.warning(
            "%r of run %r blocks the event loop, for more than %g s by now, and nothing else in it continues: await "
            "what it waits for, hand it to asyncio.to_thread, or make the step a plain function, which runs on a "
            "thread. It is here:\n%s",
            running.component,
            running.run_id,
            self._threshold,
            "".join(traceback.StackSummary.extract(iter(places)).format()).rstrip(),
        )


def _running(frame: FrameType | None) -> tuple[Runnable | None, list[FrameType]]:
    """Return what runs at *frame*, and the frames inside it, outermost first; None if that is not a component."""
    inside: list[FrameType] = []
    while frame is not None:
        if frame.f_code in _CALLS:
            found = frame.f_locals.get("runnable")
            return (found, inside[::-1]) if inside and isinstance(found, Runnable) else (None, [])
        inside.append(frame)
        frame = frame.f_back
    return None, []
