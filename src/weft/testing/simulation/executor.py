"""
An executor in which every attempt takes a drawn time, in virtual time.

A submitted runnable is called at once, and its outcome is held back until its time has passed: a crash in between
loses an outcome whose effects have happened, which is the important case.

    >>> from weft import AsyncRunner, Workflow, step
    >>> from weft.testing.loop import run_virtually
    >>> async def main():
    ...     slow = SimulatedExecutor(lambda runnable: 3600.0)
    ...     async with AsyncRunner(executors={"thread": slow}) as runner:
    ...         handle = await runner.start(Workflow("w", step(lambda x: x * 2, name="double")), 21)
    ...         return await handle.result(), asyncio.get_running_loop().time()
    >>> run_virtually(main())
    (42, 3600.0)
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol, cast

from msgspec.structs import replace

from weft.calling import aattempt, attempt, failed
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import ExecutorClosed, ExecutorFull, ThreadsExhausted
from weft.testing.loop import VirtualLoop

Lasts = Callable[[Runnable], float]
"""Returns how many seconds an attempt takes."""
Ending = Literal["completed", "failed", "skipped", "open", "cancelled"]


class Late(Exception):
    """The error of an attempt that fails after it has done its work."""


class Watcher(Protocol):
    """Observes what is executed."""

    def begins(self, runnable: Runnable) -> BaseException | None:
        """Note that an attempt begins; a returned error is raised instead of the call, a Late after it."""
        ...

    def ends(self, runnable: Runnable, ending: Ending) -> None:
        """Note that the attempt has ended."""
        ...


class SimulatedExecutor:
    """
    Runs up to *max_workers* at once and lets as many wait; *lasts* returns how long an attempt takes.

    If the runner wants heartbeats, an attempt sends one each time the seconds that *beats* returns have passed; 0 means
    never.  If *refuses* returns true, it behaves as if all its threads hung.  A plain function that *blocks*, because
    it waits for other runs, needs a thread, and a loop on virtual time.
    """

    def __init__(
        self,
        lasts: Lasts,
        *,
        max_workers: int = 2,
        watcher: Watcher | None = None,
        refuses: Callable[[Runnable], bool] | None = None,
        beats: Lasts | None = None,
        blocks: Callable[[Runnable], bool] | None = None,
    ) -> None:
        self._refuses, self._beats, self._blocks = refuses, beats, blocks
        self.max_workers, self.capacity = max_workers, 2 * max_workers
        self._lasts, self._watcher = lasts, watcher
        self._wake: Callable[[], None] | None = None
        self._context = contextvars.Context()
        self._waiting: deque[tuple[int, Runnable]] = deque()
        self._running: dict[int, tuple[float, Runnable, asyncio.Task[None]]] = {}
        self._begun: set[int] = set()
        """The running tickets that have had their first turn."""
        self._lent: set[int] = set()
        """The running tickets that only wait."""
        self._ended: dict[int, Outcome] = {}
        self._is_told = False
        self._is_open = False

    @property
    def free(self) -> int:
        """How many more tickets it accepts."""
        inside = len(self._waiting) + len(self._running) - len(self._lent) + len(self._ended)
        return self.capacity - inside if self._is_open else 0

    def open(self, wake: Callable[[], None]) -> None:
        """Open it, in the running event loop."""
        if self._wake is not None:
            raise ExecutorClosed("SimulatedExecutor", "was open before")
        self._loop = asyncio.get_running_loop()
        self._wake, self._context, self._is_open = wake, contextvars.copy_context(), True

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Run *runnable* as soon as a worker is free."""
        if not self._is_open:
            raise ExecutorClosed("SimulatedExecutor", "is not open")
        if self.free <= 0:
            raise ExecutorFull("SimulatedExecutor", self.capacity)
        if self._refuses is not None and self._refuses(runnable):
            raise ThreadsExhausted(self.max_workers)
        self._waiting.append((ticket, runnable))
        self._start()

    def _start(self) -> None:
        while self._waiting and len(self._running) - len(self._lent) < self.max_workers:
            ticket, runnable = self._waiting.popleft()
            task = self._loop.create_task(self._run(ticket, runnable), context=self._context.copy())
            self._running[ticket] = (self._loop.time(), runnable, task)

    async def _run(self, ticket: int, runnable: Runnable) -> None:
        self._begun.add(ticket)
        lasts = self._lasts(runnable)
        raised = None if self._watcher is None else self._watcher.begins(runnable)
        if raised is not None and not isinstance(raised, Late):
            outcome = failed(runnable, raised, 0)
        else:
            outcome = await self._attempted(runnable)
            outcome = outcome if raised is None else failed(runnable, raised, 0)
        await self._spend(lasts, runnable)
        self._end(ticket, outcome.status)
        self._ended[ticket] = replace(outcome, duration_ns=max(1, int(lasts * 1e9)))
        self._tell()

    async def _attempted(self, runnable: Runnable) -> Outcome:
        if runnable.node.is_async:
            return await aattempt(runnable)
        if self._blocks is not None and self._blocks(runnable):
            return await cast("VirtualLoop", self._loop).in_thread(partial(attempt, runnable))
        return attempt(runnable)

    async def _spend(self, seconds: float, runnable: Runnable) -> None:
        beat = 0.0 if self._beats is None else self._beats(runnable)
        while runnable.on_heartbeat is not None and 0 < beat < seconds:
            await asyncio.sleep(beat)
            seconds -= beat
            runnable.on_heartbeat()
        await asyncio.sleep(seconds)

    def _end(self, ticket: int, ending: Ending) -> None:
        _, runnable, task = self._running.pop(ticket)
        self._lent.discard(ticket)
        if ticket in self._begun:
            self._begun.remove(ticket)
            if self._watcher is not None:
                self._watcher.ends(runnable, ending)
        if ending == "cancelled":
            task.cancel()
        self._start()

    def _tell(self) -> None:
        if self._wake is not None and self._is_open and not self._is_told:
            self._is_told = True
            self._wake()

    def started(self, ticket: int) -> float | None:
        """Return when *ticket* began to run, by the time of the loop."""
        found = self._running.get(ticket)
        return None if found is None else found[0]

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return the outcomes that were not collected yet."""
        self._is_told = False
        ended, self._ended = list(self._ended.items()), {}
        return ended

    def cancel(self, ticket: int) -> None:
        """Drop *ticket*."""
        had_room = self.free > 0
        self._ended.pop(ticket, None)
        self._waiting = deque(item for item in self._waiting if item[0] != ticket)
        if ticket in self._running:
            self._end(ticket, "cancelled")
        if not had_room:
            self._tell()

    def lend(self, ticket: int) -> None:
        """Let another one run while *ticket* waits."""
        if ticket in self._running:
            self._lent.add(ticket)
            self._start()

    def reclaim(self, ticket: int) -> None:
        """Count *ticket* again."""
        self._lent.discard(ticket)

    async def close(self, grace: float) -> list[int]:
        """Wait up to *grace* seconds for running tickets, then cancel them."""
        self._is_open = False
        given_up = [ticket for ticket, _ in self._waiting]
        self._waiting.clear()
        if tasks := [task for _, _, task in self._running.values()]:
            await asyncio.wait(tasks, timeout=max(grace, 0))
        given_up += self._running
        for ticket in list(self._running):
            self._end(ticket, "cancelled")
        return given_up


class ImmediateSimulatedExecutor(SimulatedExecutor):
    """Runs runnables without a ticket at once, in no virtual time."""

    def run(self, runnable: Runnable) -> Outcome:
        """Run *runnable*, and return its outcome."""
        if not self._is_open:
            raise ExecutorClosed("ImmediateSimulatedExecutor", "is not open")
        if self._refuses is not None and self._refuses(runnable):
            raise ThreadsExhausted(self.max_workers)
        raised = None if self._watcher is None else self._watcher.begins(runnable)
        outcome = None if raised is None else failed(runnable, raised, 0)
        if raised is None or isinstance(raised, Late):
            made = self._context.copy().run(attempt, runnable)
            outcome = outcome or made
        assert outcome is not None  # noqa: S101
        if self._watcher is not None:
            self._watcher.ends(runnable, outcome.status)
        return replace(outcome, duration_ns=1)
