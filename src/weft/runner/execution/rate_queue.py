"""
The queues of rate limits: runnables wait in them until a turn is free, by priority and then in order.

A turn is taken last, when the attempt starts (docs/adr/0027-a-turn-is-taken-last.md).  So a runnable that is woken
because a turn is free still needs a slot of its run, a place in its concurrency limit and a worker of its executor, and
another one may take the turn meanwhile: then it comes back, with its former number.

    ──► waiting here ──► woken: gets a slot, a place, a worker ──► takes the turn, and starts
             ▲                              │
             └──────── no turn any more ◄───┘

Invariants:

1. Of one run at most one runnable that was woken waits for a slot, so a run without slots keeps no turn from others.
2. At most ``_MOST`` that were woken wait for a place or a worker, so that few come back, however many wait.
   Runnables that need other places or workers are in another queue, and are not held up by them.
3. While runnables wait, the queue has a timer for the next turn, or one that was woken will take a turn, come back, or
   decline; all of these are changes of the limit, or calls of :meth:`_RateQueue.add`.
"""

from __future__ import annotations

import heapq
from asyncio import TimerHandle
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from weft.policy.driver import AwaitTurn
from weft.policy.limits import EARLY
from weft.ports.counters import CounterKey
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.limit_queue import Place, Resumed
from weft.runner.execution.soon import SoonCall

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher
    from weft.runner.execution.worker import Worker


_MOST: Final = 16

_Needs = tuple[CounterKey, str, str]
"""A turn, a worker of an executor, and a place in a concurrency limit (empty if there is none)."""


class RateQueues:
    """The waits for turns of one runner."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._queues: dict[_Needs, _RateQueue] = {}

    def wait(self, awaited: AwaitTurn, worker: Worker, inflight: InFlight, call: Resumed) -> Place:
        """Call *call* when *inflight*, of *worker*, should ask for a turn again."""
        limit = None if inflight.policy is None else inflight.policy.concurrency_limit
        needs = (awaited.key, inflight.executor, "" if limit is None else limit.name)
        queue = self._queues.get(needs)
        if queue is None:
            queue = _RateQueue(self._dispatcher, awaited.key, lambda: self._queues.pop(needs, None))
            self._queues[needs] = queue
        return queue.add(worker, inflight, call, awaited.wait())


class _Line:
    """The places of one run, as a heap in which those that have left stay until they come first."""

    __slots__ = ("count", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.count = 0
        """How many have not left."""


class _RateQueue:
    """The runnables that wait for a turn of one rate limit, and need the same otherwise."""

    def __init__(self, dispatcher: Dispatcher, key: CounterKey, on_empty: Callable[[], object]) -> None:
        self._dispatcher, self._on_empty = dispatcher, on_empty
        self._lines: dict[Worker, _Line] = {}
        self._heads: list[Place] = []
        """A heap with the first place of every run, and perhaps with places that have left."""
        self._waiting: dict[InFlight, Place] = {}
        self._woken: dict[InFlight, Place] = {}
        """Runnables that were woken but had not started at the last check."""
        self._numbers = count()
        self._timer: TimerHandle | None = None
        self._is_closed = self._is_serving = False
        self._stop = dispatcher.counters.on_change(key, SoonCall(dispatcher, self._serve).ask)

    def add(self, worker: Worker, inflight: InFlight, call: Resumed, wait: float) -> Place:
        """Queue *inflight*; the next turn is free in *wait* seconds."""
        before = self._woken.pop(inflight, None)
        place = Place(self, next(self._numbers) if before is None else before.number, worker, inflight, call)
        self._waiting[inflight] = place
        line = self._lines.setdefault(worker, _Line())
        heapq.heappush(line.places, place)
        line.count += 1
        self._offer(worker)
        self._arm(wait)
        return place

    def remove(self, place: Place) -> None:
        """Remove *place* from the queue."""
        if self._waiting.get(place.inflight) is place:
            self._take_out(place)
            self._close_if_empty()

    def _take_out(self, place: Place) -> None:
        del self._waiting[place.inflight]
        line = self._lines[place.worker]
        line.count -= 1
        if not line.count:
            del self._lines[place.worker]

    def _offer(self, worker: Worker) -> None:
        """Put the first place of *worker* among the first places of all runs, unless it is there."""
        line = self._lines.get(worker)
        if line is None:
            return
        while self._waiting.get(line.places[0].inflight) is not line.places[0]:
            heapq.heappop(line.places)
        if not line.places[0].is_offered:
            line.places[0].is_offered = True
            heapq.heappush(self._heads, line.places[0])

    def _close_if_empty(self) -> None:
        if self._waiting or self._is_serving or self._is_closed:
            return
        self._is_closed = True
        self._heads.clear()
        self._woken.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._stop()
        self._on_empty()

    def _arm(self, wait: float) -> None:
        """Serve in *wait* seconds, if not before."""
        loop = self._dispatcher.loop
        when = loop.time() + wait
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self._serve()

    def _serve(self) -> None:
        """Wake runnables while a turn is free."""
        if self._is_closed or self._is_serving:
            return
        self._is_serving = True
        try:
            self._wake_all()
        finally:
            self._is_serving = False
            self._close_if_empty()

    def _wake_all(self) -> None:
        without_slot = self._look_at_woken()
        aside: list[Place] = []
        while self._heads and len(self._woken) - len(without_slot) < _MOST:
            place = heapq.heappop(self._heads)
            place.is_offered = False
            inflight, worker = place.inflight, place.worker
            if self._waiting.get(inflight) is not place:
                self._offer(worker)
                continue
            awaited = inflight.awaited
            wait = awaited.wait() if isinstance(awaited, AwaitTurn) else 0.0
            if wait > EARLY or worker in without_slot:
                aside.append(place)
                if wait > EARLY:
                    self._arm(wait)
                    break
                continue
            self._take_out(place)
            self._woken[inflight] = inflight.called = place
            self._dispatcher.guard(worker, place.call, inflight)
            self._offer(worker)
            if not _is_on_its_way(place):
                self._woken.pop(inflight, None)
            elif inflight.state == "queued":
                without_slot.add(worker)
        for place in aside:
            if not place.is_offered:
                place.is_offered = True
                heapq.heappush(self._heads, place)

    def _look_at_woken(self) -> set[Worker]:
        """Forget those that were woken and have started or ended; return the runs of those that wait for a slot."""
        self._woken = {inflight: place for inflight, place in self._woken.items() if _is_on_its_way(place)}
        return {place.worker for inflight, place in self._woken.items() if inflight.state == "queued"}


def _is_on_its_way(place: Place) -> bool:
    """Whether the runnable that was woken at *place* has neither started nor ended, nor waits for a turn again."""
    return place.inflight.called is place and place.inflight.state != "done"
