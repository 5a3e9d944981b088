"""
The queues of breakers and concurrency limits: runnables wait by priority, then in order, and are woken one by one.

A change of a limit wakes the first runnable, which asks again.  If it is admitted, or its run has no free slot for it,
the next one is woken; if it is refused, it stays first and the others keep waiting.  So the cost of a change depends on
how many runnables it admits, not on how many wait.

Invariant: a runnable asks once more after it has subscribed to changes, so it misses none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol

from weft.ports.counters import CounterKey
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.soon import SoonCall

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher
    from weft.runner.execution.worker import Worker


Resumed = Callable[[InFlight], object]
"""Lets a runnable ask again."""


class LimitQueues:
    """The waits for limits of one runner, by limit."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._by_key: dict[CounterKey, _LimitQueue] = {}

    def wait(self, key: CounterKey, worker: Worker, inflight: InFlight, call: Resumed) -> Place:
        """Call *call* when *inflight*, of *worker*, should ask for the limit at *key* again."""
        queue = self._by_key.get(key)
        if queue is None:
            queue = self._by_key[key] = _LimitQueue(self._dispatcher, key, lambda: self._by_key.pop(key, None))
        return queue.add(worker, inflight, call)


class Leavable(Protocol):
    """A queue of places."""

    def remove(self, place: Place) -> None:
        """Remove *place* from the queue."""
        ...


class Place:
    """One wait for a limit."""

    __slots__ = ("_queue", "call", "inflight", "is_offered", "number", "worker")

    def __init__(self, queue: Leavable, number: int, worker: Worker, inflight: InFlight, call: Resumed) -> None:
        self._queue, self.number, self.worker, self.inflight, self.call = queue, number, worker, inflight, call
        self.is_offered = False
        """Whether it is in the heap of the first places of all runs, in a queue that has one."""

    def __lt__(self, other: Place) -> bool:
        return (-self.inflight.priority, self.number) < (-other.inflight.priority, other.number)

    def cancel(self) -> None:
        """Stop waiting."""
        self._queue.remove(self)


class _LimitQueue:
    """The runnables that wait for one limit."""

    def __init__(self, dispatcher: Dispatcher, key: CounterKey, on_empty: Callable[[], object]) -> None:
        self._dispatcher, self._on_empty = dispatcher, on_empty
        self._line: list[Place] = []
        """A heap, in which those that have left stay until they come first or are too many."""
        self._waiting: dict[InFlight, Place] = {}
        self._numbers = count()
        self._asking: Place | None = None
        """The place that was woken, and may be taken again in a moment."""
        self._is_closed = False
        soon = SoonCall(dispatcher, self._serve)
        self._stop = dispatcher.counters.on_change(key, soon.ask)
        soon.ask()  # it may have changed since the first one was refused

    def add(self, worker: Worker, inflight: InFlight, call: Resumed) -> Place:
        """Queue *inflight*."""
        asking = self._asking
        number = asking.number if asking is not None and asking.inflight is inflight else next(self._numbers)
        place = self._waiting[inflight] = Place(self, number, worker, inflight, call)
        heapq.heappush(self._line, place)
        return place

    def remove(self, place: Place) -> None:
        """Remove *place* from the queue."""
        if self._waiting.get(place.inflight) is not place:
            return
        del self._waiting[place.inflight]
        if len(self._line) > 64 and len(self._line) > 2 * len(self._waiting):
            self._line = sorted(self._waiting.values())
        self._close_if_empty()

    def _close_if_empty(self) -> None:
        if not self._waiting and self._asking is None and not self._is_closed:
            self._is_closed = True
            self._line.clear()
            self._stop()
            self._on_empty()

    def _serve(self) -> None:
        """Wake the runnables one after the other, until one is refused."""
        while self._line:
            place = heapq.heappop(self._line)
            if self._wake(place) and place.inflight in self._waiting:
                break
        self._close_if_empty()

    def _wake(self, place: Place) -> bool:
        """Let the runnable at *place* ask again; return whether it was still there."""
        if self._waiting.get(place.inflight) is not place:
            return False
        del self._waiting[place.inflight]
        self._asking = place
        try:
            self._dispatcher.guard(place.worker, place.call, place.inflight)
        finally:
            self._asking = None
        return True
