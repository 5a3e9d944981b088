"""
Tracks the earliest deadline of the open inputs of a run, without searching all open work at every question.

    input with a deadline ──► in the heap ──► first, with a witness that it is open ──► dropped when it is done

A witness is an open activation that follows from the input.  When it has ended, another one is searched for, the
latest first, since those end last.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

from weft.core.events import InputReceived
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Activation
from weft.core.run.danger import danger_at
from weft.errors import HistoryNotLoaded, HistoryTruncated


class Deadline(NamedTuple):
    """The deadline of an input, in the order of a heap."""

    at: float
    """When everything must be done, in seconds since the epoch."""
    ordinal: int
    began: float
    """When the input came."""

    @property
    def due(self) -> tuple[float, float]:
        """When it is in danger, and when it is past."""
        return danger_at(self.began, self.at), self.at


class OpenDeadlines:
    """The deadlines of one run."""

    __slots__ = ("_heap", "_seen", "_witness")

    def __init__(self) -> None:
        self._heap: list[Deadline] = []
        self._seen: int | None = None
        """How many events were looked at; None before the first look."""
        self._witness: Activation | None = None

    def earliest(self, memory: Memory, now: float) -> Deadline | None:
        """Return the earliest deadline of the inputs that are open; *now* stands for a time that is not known."""
        if self._seen is None:
            self._heap = open_deadlines(memory, now)
        else:
            for event in memory.log[self._seen :]:
                if isinstance(event, InputReceived) and event.deadline is not None:
                    began = now if event.at is None else event.at
                    heappush(self._heap, Deadline(event.deadline, event.ordinal, began))
        self._seen = len(memory.log)
        while self._heap:
            if self._is_open(memory, self._heap[0].ordinal):
                return self._heap[0]
            heappop(self._heap)
            self._witness = None
        return None

    def _is_open(self, memory: Memory, ordinal: int) -> bool:
        """Whether something that follows from the input *ordinal* is ready, in flight, blocked or waiting."""
        if memory.unopened is not None:  # more elements of a collection become ready
            return True
        known = self._witness
        if known is not None and known.scope.root.index == ordinal and _is_pending(memory, known):
            return True
        self._witness = next((each for each in _pending(memory) if each.scope.root.index == ordinal), None)
        return self._witness is not None


def open_deadlines(memory: Memory, now: float) -> list[Deadline]:
    """Return the deadlines of all inputs that are open, the earliest first; *now* stands for a time not known."""
    found: dict[int, Deadline] = {}
    for activation in _pending(memory):
        scope = activation.scope.root
        if scope.deadline is not None and scope.index not in found:
            found[scope.index] = Deadline(scope.deadline, scope.index, _came(memory, scope.address, now))
    return sorted(found.values())


def _pending(memory: Memory) -> chain[Activation]:
    """Return the activations that are open, the latest first."""
    at_rest = (each.activation for each in reversed((memory.waiting or {}).values()))
    return chain(reversed(memory.ready.values()), reversed((memory.blocked or {}).values()), at_rest)


def _is_pending(memory: Memory, known: Activation) -> bool:
    if memory.ready.get(known.key) is known or (memory.blocked or {}).get(known.key) is known:
        return True
    waits = (memory.waiting or {}).get(known.key)
    return waits is not None and waits.activation is known


def _came(memory: Memory, address: object, now: float) -> float:
    """Return when the input at *address* came; *now* if its event is not in memory."""
    try:
        event = memory.log[address - 1] if isinstance(address, int) else None
    except (HistoryNotLoaded, HistoryTruncated, IndexError):
        return now
    return event.at if isinstance(event, InputReceived) and event.at is not None else now
