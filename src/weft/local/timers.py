"""
The timers of a run in memory: what sleeps, and which waits for a signal have a timeout.

A loop waits until sleeps are over.  It does not wait for signals, which only its caller can send: when all that is left
waits for signals, with or without a timeout, the loop returns and the run is ``waiting``.  A timeout that is due while
the loop runs, or sleeps for something else, counts.
"""

from __future__ import annotations

from heapq import heappop, heappush

from weft.core.fold.scope import Key
from weft.core.run.run import Run
from weft.core.run.waits import begin_waits, fire_timer, timers
from weft.local.clock import SystemClock
from weft.ports.clock import Clock

LONGEST = 1e8
"""How many seconds a loop sleeps at once: systems refuse to sleep for hundreds of years."""

_SYSTEM = SystemClock()


class Timers:
    """The timers of one run that a loop drives, in the order in which they are due."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.clock: Clock = _SYSTEM if run.known_policies is None else run.known_policies.clock
        self._heap: list[tuple[float, int, Key]] = []
        self._number = 0
        self._awaited: tuple[float, int, Key] | None = None
        """The timer that the loop sleeps for."""
        for key, due, _ in timers(run.memory):
            self._push(key, due)

    def look(self) -> None:
        """Begin the waits that are new since the last call, and end what is due now."""
        now = self.clock.time()
        if self._run.memory.newly_waiting:
            self._begin(now)
        self._fire(now)

    @property
    def pause(self) -> float | None:
        """Seconds until the next timer is due; None if nothing sleeps."""
        if not self._is_something_asleep():
            return None
        self._awaited = self._heap[0]
        return min(max(0.0, self._heap[0][0] - self.clock.time()), LONGEST)

    def slept(self, seconds: float) -> None:
        """End what is due after a sleep of *seconds*, even if the clock was set back meanwhile."""
        now, waiting = self.clock.time(), self._run.memory.waiting or {}
        if self._awaited is not None and self._heap and self._heap[0] is self._awaited and seconds < LONGEST:
            due, _, key = self._awaited
            if key in waiting and waiting[key].is_relative:
                now = max(now, due)
        self._fire(now)

    def _begin(self, now: float) -> None:
        for key in begin_waits(self._run, now):
            due = (self._run.memory.waiting or {})[key].next_at
            if due is not None:
                self._push(key, due)

    def _fire(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heappop(self._heap)
            fire_timer(self._run, key, now)

    def _push(self, key: Key, due: float) -> None:
        self._number += 1
        heappush(self._heap, (due, self._number, key))

    def _is_something_asleep(self) -> bool:
        """Whether something sleeps; drops the timers of waits that are over from the top of the heap."""
        waiting = self._run.memory.waiting or {}
        while self._heap and self._heap[0][2] not in waiting:
            heappop(self._heap)
        waits = (each.activation.node.wait for each in waiting.values())
        return bool(self._heap) and any(wait is not None and wait.signal is None for wait in waits)
