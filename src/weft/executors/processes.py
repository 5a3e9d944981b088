"""
Execution in worker processes: isolated, and the only place where a step can really be stopped.

A cancelled step is killed with its process.  A step that ends its process, by a segmentation fault, ``os._exit`` or
because the system is out of memory, fails one attempt with :class:`~weft.errors.WorkerDied`, and the next one gets a
new process.  Processes are reused, so a module that a step imports is imported once.

Each process has a thread of the pool that feeds it, waits for its answer and reaps it, and a separate pipe: no shared
lock exists that a dying process could hold.  They are spawned.  A plain fork would copy locks in whatever state they
are; a fork server starts them no faster (both take 0.2 s, to import Weft), and stands between parent and child, so that
a worker in native code would outlive a parent that was killed.  As always with spawned processes, the worker imports
the main module of the program: put its actions under ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import atexit
import contextvars
import multiprocessing
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic, perf_counter_ns
from typing import Any

from weft.calling import failed
from weft.core.run.runnable import Outcome
from weft.errors import WorkerDied
from weft.executors.child import HELD_BACK, serve
from weft.executors.pool import Pool, Work
from weft.executors.reports import pass_on
from weft.executors.transfer import is_sign_of_life, pack, report_in, ticket_of, unpack_outcome

CAPACITY = 1_000
EXIT_GRACE = 1.0
"""Seconds that a process gets for cleanup after its pipe was closed."""


class ProcessExecutor(Pool):
    """
    Runs functions in up to *max_workers* processes.

    Args:
        max_workers: by default as many as there are processors.
        capacity: how many tickets may be inside, waiting ones and uncollected ones included.
    """

    def __init__(self, max_workers: int | None = None, *, capacity: int = CAPACITY) -> None:
        self._children: dict[_Child, None] = {}

        def make() -> _Child:
            child = _Child()
            self._children[child] = None
            return child

        workers = (os.cpu_count() or 1) if max_workers is None else max_workers
        super().__init__(make, workers=workers, capacity=capacity, stoppable=True)

    def open(self, wake: Callable[[], None]) -> None:
        """Open it; processes are started when there is work for them."""
        super().open(wake)
        # Runs before multiprocessing's own handler, which would wait for the processes to end by themselves.
        atexit.register(self._kill)

    async def close(self, grace: float) -> list[int]:
        """Drop waiting work, let running work end within *grace* seconds, and end all processes."""
        given_up = await super().close(grace)
        self._kill()
        atexit.unregister(self._kill)
        return given_up

    def _kill(self) -> None:
        for child in list(self._children):
            child.kill()


_SPAWN = multiprocessing.get_context("spawn")
_FAMILY = threading.Lock()
"""Held while a process is started and while an exit code is read: multiprocessing does both for all processes."""


class _Child:
    """One process, from the outside.  All but ``stop`` and ``kill`` is called by the thread that feeds it."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._watch: _Watch | None = None
        self._lock = threading.Lock()
        """Held to change the present work, and to stop it, so that the next work is never stopped in its place."""
        self._work: Work | None = None
        self._is_spent = False
        """Whether the process was killed, and must not get more work."""
        self._is_over = False
        """Whether the executor has closed, or the program is about to exit, which waits for processes."""

    def run(self, work: Work, context: contextvars.Context) -> Outcome:
        """Run *work* in the process, which is started if necessary; *context* is not sent."""
        del context
        began = perf_counter_ns()
        with self._lock:
            self._work = work
        try:
            if work.runnable.broken is not None:
                return failed(work.runnable, work.runnable.broken, began)
            return unpack_outcome(work.runnable, self._ask(work, pack(work.ticket, work.runnable)))
        except BaseException as error:  # noqa: BLE001 - a process that cannot be started fails one attempt too
            return failed(work.runnable, error, began)
        finally:
            with self._lock:
                self._work = None

    def stop(self, work: Work) -> None:
        """Kill the process if it is running *work*."""
        with self._lock:
            work.is_stopped = True
            if self._work is work:
                self._kill()

    def kill(self) -> None:
        """Kill the process, whatever it is doing, and start no other."""
        with self._lock:
            self._is_over = True
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._is_spent = True
            self._process.kill()

    def close(self) -> None:
        """Let the process end by itself, or else kill it."""
        if self._pipe is not None:
            self._pipe.close()
        self._reap()

    # -- talking ---------------------------------------------------------------------------------

    def _ask(self, work: Work, question: bytes) -> bytes:
        """Return the answer; heartbeats that come before it are passed on."""
        pipe = self._ready(work)
        try:
            pipe.send_bytes(question)
        except OSError:
            raise self._died(work) from None
        while True:
            frame = self._receive(work)
            if ticket_of(frame) != work.ticket:  # a late heartbeat of a thread that an earlier step has left
                continue
            report = report_in(frame)
            if report is not None:
                self._pass_on(work, report)
                continue
            if not is_sign_of_life(frame):
                return frame
            if work.runnable.on_heartbeat is not None:
                work.runnable.on_heartbeat()

    def _pass_on(self, work: Work, report: tuple[Any, ...]) -> None:
        """Pass on what the step reports; if that is refused, the attempt has failed, and its process is of no use."""
        try:
            pass_on(work.runnable, report)
        except BaseException:
            with self._lock:
                self._kill()
            raise

    def _receive(self, work: Work) -> bytes:
        assert self._pipe is not None  # noqa: S101
        assert self._watch is not None  # noqa: S101
        if self._watch.can_read():
            try:
                return self._pipe.recv_bytes()
            except (EOFError, OSError):
                pass
        raise self._died(work)

    # -- life and death --------------------------------------------------------------------------

    def _ready(self, work: Work) -> Connection[Any, Any]:
        """Return the pipe to a process that waits for work; the time of *work* counts from here."""
        if self._is_spent or (self._watch is not None and self._watch.has_news()):
            self._reap()  # killed, or died while idle: either way this is not an attempt of this work
        if self._pipe is None:
            self._start(work)
            self._receive(work)  # the frame READY
        assert self._pipe is not None  # noqa: S101
        work.started = monotonic()
        return self._pipe

    def _start(self, work: Work) -> None:
        if self._is_over:
            raise self._died(work)
        here, there = _SPAWN.Pipe()
        # With sys.path as it is: multiprocessing takes "" for the folder in which it was first imported.
        process = _SPAWN.Process(target=serve, args=(there, sys.path), name="weft-worker")
        try:
            with _FAMILY, _signals_held_back():
                process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        with self._lock:
            self._pipe, self._process, self._watch = here, process, _Watch(here, process)
            if work.is_stopped or self._is_over:  # while the process was being started
                self._kill()

    def _died(self, work: Work) -> WorkerDied:
        """Reap the process, and return the error about it."""
        code, component = self._reap(), work.runnable.component
        if work.is_stopped or code is None:
            return WorkerDied(component, code, "has ended", "it was cancelled, or the executor was closed")
        if code < 0:
            return WorkerDied(component, code, f"was killed by {_signal(-code)}", _BY_SIGNAL)
        return WorkerDied(component, code, f"exited with code {code}", _BY_EXIT)

    def _reap(self) -> int | None:
        """Make sure that the process has ended, forget it, and return its exit code."""
        with self._lock:
            process, pipe, watch = self._process, self._pipe, self._watch
            self._process = self._pipe = self._watch = None
            self._is_spent = False
        if process is None or pipe is None or watch is None:
            return None
        pipe.close()
        if not watch.has_ended(EXIT_GRACE):
            process.kill()
        with _FAMILY:
            process.join()
            code = process.exitcode
            process.close()
        watch.close()
        return code


@contextmanager
def _signals_held_back() -> Generator[None, None, None]:
    """Block the signals while a process is started: it inherits the mask, and so ignores a Ctrl-C from the start."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, and that unblocks all signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Watch:
    """
    Waits for a process to answer, or to end.

    The end of the pipe is not enough: a process that the step has forked may hold it, and the sentinel of
    multiprocessing too.  Where the system supports it, the process itself is watched.
    """

    def __init__(self, pipe: Connection[Any, Any], process: SpawnProcess) -> None:
        self._pipe = pipe
        self._own = os.pidfd_open(process.pid or 0) if hasattr(os, "pidfd_open") else None
        self._end = process.sentinel if self._own is None else self._own
        self._poll: Callable[[int | None], list[tuple[int, int]]] | None = None
        if hasattr(select, "poll"):  # `wait` creates such an object each time, which costs 7 us; this takes 1
            poll, self._fileno = select.poll(), pipe.fileno()
            poll.register(self._fileno, select.POLLIN)
            poll.register(self._end, select.POLLIN)
            self._poll = poll.poll

    def can_read(self) -> bool:
        """Block until there is an answer or the process has ended; return whether there may be an answer."""
        if self._poll is None:
            return self._pipe in wait([self._pipe, self._end])
        return any(ready == self._fileno for ready, _ in self._poll(None))

    def has_news(self) -> bool:
        """Return whether an idle process has sent something, or has ended."""
        return bool(wait([self._pipe, self._end], 0) if self._poll is None else self._poll(0))

    def has_ended(self, seconds: float) -> bool:
        """Return whether the process ends within *seconds*."""
        return bool(wait([self._end], seconds))

    def close(self) -> None:
        """Free the handle of the process, which has ended."""
        if self._own is not None:
            os.close(self._own)


_BY_SIGNAL = (
    "if it was SIGKILL, the system may have run out of memory; otherwise check the native code that the step calls"
)
_BY_EXIT = (
    'does the step call os._exit()? Before its first step: does the program start under if __name__ == "__main__"?'
)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
