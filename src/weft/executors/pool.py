"""
A pool of threads that take work from one queue, shared by the executors on threads and on processes.

The hand-over is one ``SimpleQueue``, whose waiters are woken one after the other and only while there is work, and
an :class:`~weft.executors.outbox.Outbox` on the way back.  All counters belong to the thread of the owner; workers
change nothing but two dicts, where ``pop`` decides, atomically, whether a worker or the owner was first:

- ``_waiting``: if a worker pops the work, it starts; if the owner pops it, it was cancelled before;
- ``_running``: if its worker pops the work, it has ended; if the owner pops it, it was cancelled meanwhile.

A worker whose work was cancelled either can be stopped and continues to serve (a process is killed and replaced), or
is abandoned: it ends when its work ends, and is replaced by another one, up to a bound.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, Final, Literal, Protocol

from weft.core.run.runnable import Outcome, Runnable
from weft.errors import ExecutorClosed, ExecutorFull, ThreadsExhausted
from weft.executors.outbox import Outbox

_log = logging.getLogger(__name__)
_numbers = count(1)

GONE: Final = "gone"
"""In place of an outcome: the work was cancelled while it waited, and has now left the queue."""
LEFT: Final = "left"
"""In place of an outcome: the work was cancelled while it ran; it has ended, and its thread with it."""


class Work:
    """One ticket inside a pool."""

    __slots__ = ("is_stopped", "runnable", "started", "ticket", "worker")

    def __init__(self, ticket: int, runnable: Runnable) -> None:
        self.ticket, self.runnable = ticket, runnable
        self.started: float | None = None
        """When it began, by ``time.monotonic``; set by the worker."""
        self.worker: Any = None
        self.is_stopped = False
        """Whether it was cancelled after a worker that can be stopped had taken it."""


class Worker(Protocol):
    """Executes the work of one thread of a pool; created, used and closed by that thread."""

    def run(self, work: Work, context: contextvars.Context) -> Outcome:
        """Execute *work*, and raise nothing."""
        ...

    def stop(self, work: Work) -> None:
        """End *work*, if it still runs here and that is possible; called by the owner's thread."""
        ...

    def close(self) -> None:
        """Free its resources."""
        ...


class Pool:
    """
    An executor of up to *workers* threads, started when there is work for them.

    Args:
        make: creates the worker of each thread.
        stoppable: whether cancelled work ends at once, so that its thread can continue to serve.
        spare: how many threads may be abandoned in cancelled work before there are fewer than *workers*.
    """

    def __init__(
        self, make: Callable[[], Worker], *, workers: int, capacity: int, spare: int = 0, stoppable: bool = False
    ) -> None:
        for name, value, least in (("max_workers", workers, 1), ("capacity", capacity, 1), ("max_left", spare, 0)):
            if value < least:
                raise ValueError(f"{name}={value!r}: use a number of at least {least}")
        self.max_workers, self.capacity, self._spare = workers, capacity, spare
        self._most_left = workers + spare
        """How many threads may be abandoned before none serves."""
        self._make, self._stoppable = make, stoppable
        self._name = type(self).__name__
        self._outbox: Outbox[tuple[int, Outcome | Literal["gone", "left"]]] | None = None
        self._context = contextvars.Context()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._waiting: dict[int, Work] = {}
        self._running: dict[int, Work] = {}
        self._live: dict[int, None] = {}
        """The tickets that are to be collected."""
        self._gone = 0
        """How many entries of the queue were cancelled."""
        self._serving = 0
        """How many threads take work, or will when their present work has ended."""
        self._left = 0
        """How many threads are abandoned."""
        self._lent: set[int] = set()
        """The tickets whose threads only wait: they do not serve now, and will again."""
        self._threads: dict[threading.Thread, None] = {}
        """The serving threads, each until it ends."""
        self._is_open = False
        self._on_end: Callable[[], None] | None = None
        """Called, while closing, when some work or a thread has ended."""

    # -- the protocol ----------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many more tickets fit; 0 while every thread hangs in cancelled work."""
        if not self._is_open or self._left >= self._most_left:
            return 0
        return self.capacity - len(self._live) - self._gone + len(self._lent)

    @property
    def left_behind(self) -> int:
        """How many threads hang in cancelled work."""
        return self._left

    def open(self, wake: Callable[[], None]) -> None:
        """Open it; threads are started when there is work for them."""
        if self._outbox is not None:
            raise ExecutorClosed(self._name, "was open before")
        self._outbox, self._context, self._is_open = Outbox(wake), contextvars.copy_context(), True

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Queue *runnable* for the next free thread, and start one if all are busy."""
        if not self._is_open:
            raise ExecutorClosed(self._name, "is not open")
        if len(self._live) + self._gone - len(self._lent) >= self.capacity:
            raise ExecutorFull(self._name, self.capacity)
        if self._left >= self._most_left:
            raise ThreadsExhausted(self._left)
        work = Work(ticket, runnable)
        self._live[ticket] = None
        self._waiting[ticket] = work
        self._queue.put(work)
        if self._serving < self.max_workers:
            try:
                self._start_thread()
            except RuntimeError:
                if self._serving == 0:
                    self.cancel(ticket)
                    raise
                self._warn_of_few_threads()

    def started(self, ticket: int) -> float | None:
        """Return when *ticket* began to run."""
        work = self._running.get(ticket)
        return None if work is None else work.started

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return the outcomes that were not collected yet."""
        if self._outbox is None:
            return []
        live, found = self._live, list[tuple[int, Outcome]]()
        for ticket, outcome in self._outbox.take():
            if self._lent:
                self.reclaim(ticket)  # it has ended in the middle of a wait
            if isinstance(outcome, Outcome):
                if live.pop(ticket, 0) is None:
                    found.append((ticket, outcome))
            elif outcome == GONE:
                self._gone -= 1
            else:
                self._left -= 1
                self._return()
        return found

    def cancel(self, ticket: int) -> None:
        """Drop *ticket*, and stop its work or abandon its thread."""
        if self._live.pop(ticket, 0) is not None:
            return
        if self._waiting.pop(ticket, None) is not None:
            self._gone += 1
        elif (work := self._running.pop(ticket, None)) is not None:
            self._take_back(ticket)
            if self._stoppable:
                work.worker.stop(work)
            else:
                self._leave()
            if self._on_end is not None:  # closing does not wait for work that is cancelled meanwhile
                self._on_end()

    def lend(self, ticket: int) -> None:
        """Let another thread serve in place of the one that runs *ticket*."""
        if ticket in self._running and ticket not in self._lent:
            self._lent.add(ticket)
            self._serving -= 1
            try:
                self._start_thread()
            except RuntimeError:
                self._warn_of_few_threads()

    def reclaim(self, ticket: int) -> None:
        """Count the thread of *ticket* again; if there are then too many, the next free one ends."""
        if self._take_back(ticket) and self._is_open and self._serving > self._most():
            self._serving -= 1
            self._queue.put(None)

    def _take_back(self, ticket: int) -> bool:
        is_lent = ticket in self._lent
        if is_lent:
            self._lent.remove(ticket)
            self._serving += 1
        return is_lent

    async def close(self, grace: float) -> list[int]:
        """Drop waiting work, let running work end within *grace* seconds, and end the threads."""
        if not self._is_open:
            return []
        self._is_open = False
        given_up = [ticket for ticket in list(self._waiting) if self._waiting.pop(ticket, None) is not None]
        self._gone += len(given_up)
        for ticket in given_up:
            del self._live[ticket]
        for _ in range(self._serving + len(self._lent)):
            self._queue.put(None)
        await self._until(lambda: not self._running, grace)
        unfinished = list(self._running)
        for ticket in unfinished:
            self.cancel(ticket)
        if self._stoppable:
            await self._until(lambda: not self._threads, REAPING)
        if self._outbox is not None:
            self._outbox.mute()
        return given_up + unfinished

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait until *done* returns true, checked whenever something ends, for at most *seconds*."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._on_end = partial(_set, loop, ended)
        try:
            async with asyncio.timeout(max(seconds, 0)):
                while not done():
                    await ended.wait()
                    ended.clear()
        except TimeoutError:
            pass
        finally:
            self._on_end = None

    # -- threads ---------------------------------------------------------------------------------

    def _most(self) -> int:
        """Return how many threads may serve: all, until more are abandoned than there are to spare."""
        return min(self.max_workers, self.max_workers + self._spare - self._left)

    @property
    def _busy(self) -> int:
        return len(self._waiting) + len(self._running) - len(self._lent)

    def _start_thread(self) -> None:
        """Start a thread if there is work and no thread is free."""
        if self._is_open and self._serving < self._most() and self._busy > self._serving:
            name = f"weft-worker-{next(_numbers)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads[thread] = None
            self._serving += 1
            try:
                thread.start()
            except BaseException:
                self._serving -= 1
                del self._threads[thread]
                raise

    def _leave(self) -> None:
        """Abandon a thread, and start another one if allowed; otherwise waiting work continues when one comes back."""
        self._serving -= 1
        self._left += 1
        if self._most() > 0:
            self._start_thread()
        elif self._is_open:
            _log.error("%s; waiting steps continue when one of them ends", ThreadsExhausted(self._left))

    def _return(self) -> None:
        """Start a thread for waiting work, in place of one that hung until now."""
        try:
            self._start_thread()
        except RuntimeError:
            self._warn_of_few_threads()

    def _warn_of_few_threads(self) -> None:
        _log.warning("%s continues with %d threads: no more can be started", self._name, self._serving)

    def _serve(self) -> None:
        """Take work until told to end, or until abandoned."""
        assert self._outbox is not None  # noqa: S101
        take, put, context = self._queue.get, self._outbox.put, self._context
        waiting, running = self._waiting, self._running
        worker = self._make()
        run = worker.run
        try:
            while (work := take()) is not None:
                ticket = work.ticket
                work.worker = worker
                running[ticket] = work  # before it leaves `waiting`, so that the owner finds it in one of them
                if waiting.pop(ticket, None) is None:
                    running.pop(ticket, None)
                    put((ticket, GONE))
                    continue
                outcome = run(work, context)
                if running.pop(ticket, None) is not None:
                    put((ticket, outcome))
                elif not self._stoppable:
                    put((ticket, LEFT))
                    return
                del work, outcome  # an idle thread keeps no values alive
                if (tell := self._on_end) is not None:
                    tell()
        finally:
            worker.close()
            self._threads.pop(threading.current_thread(), None)
            if (tell := self._on_end) is not None:
                tell()


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set *event* from another thread."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        if not loop.is_closed():  # otherwise nothing waits any more
            raise


REAPING = 5.0
"""Longest time that ``close`` waits for killed processes to end, in seconds."""
