"""
The queues of limits: runnables wait in them by priority, then in order, and are woken one after the other.

A change of a limit wakes the first runnable, which asks again.  If it is admitted, or its run has no free slot for it,
the next one is woken; if it is refused, it stays first and the others keep waiting.  So the cost of a change depends on
how many runnables it admits, not on how many wait.

A runnable that has a place in a rate limit waits for the time of that place, or for an earlier place that another
runnable returns.  An earlier place may be of use to some and not to others, so such a change, which is rare, wakes all
of them, in the same order.

Invariant: a runnable asks once more after it has subscribed to changes, so it misses none.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from weft.ports.counters import CounterKey
from weft.runner.execution.inflight import InFlight

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher
    from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")

Resumed = Callable[[InFlight], object]
"""Lets a runnable ask again."""


class LimitQueues:
    """The waits for limits of one runner, by limit."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._by_key: dict[CounterKey, _LimitQueue] = {}

    def wait(
        self, key: CounterKey, worker: Worker, inflight: InFlight, call: Resumed, *, one_by_one: bool = True
    ) -> Place:
        """
        Call *call* when *inflight*, of *worker*, should ask for the limit at *key* again.

        Args:
            one_by_one: whether the others need not ask if this one is refused; the same for all waits of one limit.
        """
        queue = self._by_key.get(key)
        if queue is None:
            queue = _LimitQueue(self._dispatcher, key, lambda: self._by_key.pop(key, None), one_by_one=one_by_one)
            self._by_key[key] = queue
        return queue.add(worker, inflight, call)


class Place:
    """One wait for a limit."""

    __slots__ = ("_queue", "call", "inflight", "number", "worker")

    def __init__(self, queue: _LimitQueue, number: int, worker: Worker, inflight: InFlight, call: Resumed) -> None:
        self._queue, self.number, self.worker, self.inflight, self.call = queue, number, worker, inflight, call

    def __lt__(self, other: Place) -> bool:
        return (-self.inflight.priority, self.number) < (-other.inflight.priority, other.number)

    def cancel(self) -> None:
        """Stop waiting."""
        self._queue.remove(self)


class _LimitQueue:
    """The runnables that wait for one limit."""

    def __init__(
        self, dispatcher: Dispatcher, key: CounterKey, on_empty: Callable[[], object], *, one_by_one: bool
    ) -> None:
        self._dispatcher, self._on_empty, self._one_by_one = dispatcher, on_empty, one_by_one
        self._line: list[Place] = []
        """A heap, in which those that have left stay until they come first or are too many."""
        self._waiting: dict[InFlight, Place] = {}
        self._numbers = count()
        self._asking: Place | None = None
        """The place that was woken, and may be taken again in a moment."""
        self._is_due = self._is_closed = self._asks_all = False
        self._stop = dispatcher.counters.on_change(key, self._changed)
        self._call()  # it may have changed since the first one was refused

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

    def _changed(self) -> None:
        """The limit may have changed; called from any thread."""
        self._asks_all = not self._one_by_one
        self._call()

    def _call(self) -> None:
        if self._is_due:
            return
        self._is_due = True
        try:
            self._dispatcher.loop.call_soon_threadsafe(self._serve)
        except RuntimeError:  # the loop is closed: there is nothing left to tell
            _log.debug("a limit changed after its runner had closed")

    def _serve(self) -> None:
        """Wake the runnables one after the other: until one is refused, or all of them."""
        self._is_due = False
        if self._asks_all:
            self._asks_all = False
            places, self._line = sorted(self._waiting.values()), []
            for place in places:
                self._wake(place)
        else:
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
