"""
The timers of all runs of a runner: one heap, and one timer of the event loop for the earliest of them.

    added ──time──► due ──► its worker is notified, unless what waited has ended meanwhile

A length of time is measured on the monotonic clock, so that a clock which is set does not change it.  A time of day
follows the clock of the system: while such a timer is in the heap, that clock is looked at once a second at least.

Invariants:

1. A worker is notified of a timer once, and not before it is due.
2. A timer whose wait has ended is dropped when it is due, or when the heap has doubled: so the heap is at most about
   twice as long as the number of timers that count.
3. Timers that are due at the same time are processed in slices, and other work of the event loop runs in between.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from weft.core.fold.scope import Key

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher

SLICE: Final = 256
"""Timers that are processed before other work runs."""
NAP: Final = 1.0
"""How many seconds pass at most between two looks at the clock of the system, while it matters."""
EARLY: Final = 0.0005
"""How many seconds before its time a timer counts as due: clocks are not more precise than that."""
_FEW: Final = 1024
"""How long the heap may become before it is looked through."""


class Sleeper(Protocol):
    """A worker, as its timers see it."""

    def has_timer(self, key: Key) -> bool:
        """Whether what waits at *key* still waits."""
        ...

    def time_is_up(self, key: Key, due: float) -> None:
        """Notify it that what waits at *key* became *due* some moments ago."""
        ...


class Timer(NamedTuple):
    """One timer, ordered by the clock that it follows."""

    at: float
    """When it is due, by the monotonic clock or, for a time of day, by that of the system."""
    number: int
    sleeper: Sleeper
    key: Key
    due: float
    """When it is due, by the clock of the system."""


class Timers:
    """The timers of one runner."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lengths: list[Timer] = []
        """A heap, by the monotonic clock."""
        self._moments: list[Timer] = []
        """A heap, by the clock of the system."""
        self._limit = _FEW
        """How many timers there may be before those that do not count any more are dropped."""
        self.nap = NAP
        """How long the clock of the system is not looked at, while it matters; on virtual time that need not be."""
        self._number = count()
        self._handle: asyncio.TimerHandle | asyncio.Handle | None = None
        self._armed_for = 0.0
        """When that fires, by the monotonic clock."""

    def __len__(self) -> int:
        return len(self._lengths) + len(self._moments)

    def add(self, sleeper: Sleeper, key: Key, due: float, *, is_relative: bool) -> None:
        """Notify *sleeper* when it is *due*, in seconds since the epoch."""
        if len(self) >= self._limit:
            self._tidy()
        number = next(self._number)
        if is_relative:
            at = self._dispatcher.monotonic() + due - self._dispatcher.clock.time()
            heappush(self._lengths, Timer(at, number, sleeper, key, due))
        else:
            heappush(self._moments, Timer(due, number, sleeper, key, due))
        self._arm()

    def close(self) -> None:
        """Notify no sleeper any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._lengths.clear()
        self._moments.clear()

    def _tidy(self) -> None:
        """Drop the timers whose waits have ended."""
        for heap in (self._lengths, self._moments):
            heap[:] = [timer for timer in heap if timer.sleeper.has_timer(timer.key)]
            heapify(heap)
        self._limit = max(_FEW, 2 * len(self))

    def _arm(self) -> None:
        """Set the timer of the event loop to the earliest one."""
        now = self._dispatcher.monotonic()
        wait = self._lengths[0].at - now if self._lengths else None
        if self._moments:
            until = min(self.nap, self._moments[0].at - self._dispatcher.clock.time())
            wait = until if wait is None else min(wait, until)
        if wait is None:
            return
        if self._handle is not None:
            if self._armed_for <= now + wait:
                return
            self._handle.cancel()
        self._armed_for = now + max(0.0, wait)
        self._handle = self._dispatcher.loop.call_at(self._armed_for, self._fire)

    def _fire(self) -> None:
        """Notify the workers of the timers that are due, a slice of them."""
        self._handle = None
        dispatcher = self._dispatcher
        for heap, now in ((self._lengths, dispatcher.monotonic()), (self._moments, dispatcher.clock.time())):
            for _ in range(SLICE):
                if not heap or heap[0].at > now + EARLY:
                    break
                timer = heappop(heap)
                if timer.sleeper.has_timer(timer.key):
                    timer.sleeper.time_is_up(timer.key, timer.due)
        if len(self):
            self._arm()
