"""
Evicts the cold values of a live run: it no longer holds those that a snapshot would leave in the store (ADR 43).

    >>> import operator
    >>> from weft import Workflow, accumulator
    >>> run = Workflow("sum", accumulator(operator.add, init=0, name="total")).run(5).run(7)
    >>> stored = run.log()
    >>> left = evict(run.memory, mark(run.memory), SnapshotWriter(), lambda first, last: stored[first - 1 : last])
    >>> run.resident_facts, [event.seq for event in left.events]
    (1, [2, 3, 4])
    >>> run.run(1).state_of("total"), run.values("total")
    (13, [5, 12, 13])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weft.core import events as ev
from weft.core.fold.memory import Memory
from weft.core.fold.paging import Mark, mark, page_out
from weft.core.lineage.history import Load
from weft.log.snapshot import SnapshotWriter, Writer, folded

__all__ = ["Left", "Mark", "SnapshotWriter", "evict", "mark"]


class Left(NamedTuple):
    """The events that are not in memory any more."""

    events: list[ev.AnyEvent]
    looked_at: int
    """How many facts and scopes were looked at to find out which are needed."""


class _Needed:
    """The part of a memory that a snapshot would hold."""

    __slots__ = ("_definitions", "_mark", "_writer")

    def __init__(self, writer: Writer, definitions: Sequence[Any], mark: Mark) -> None:
        self._writer, self._definitions, self._mark = writer, definitions, mark

    def events(self) -> Mapping[int, Any]:
        """Return the events of the log, by number."""
        events = (*self._writer.known_records(), *self._definitions, *self._writer.facts)
        return {event.seq: event for event in events}

    def absent(self) -> Mapping[int, Any]:
        """Return the facts without an event, by place."""
        return self._writer.absent_facts()

    def produced(self, name: str, count: int) -> Iterable[int]:
        """Return which of the *count* facts that *name* has made can be read, by place."""
        return self._writer.read(name, count)

    def keyed(self, name: str, count: int) -> Iterable[int]:
        """Return which of their *count* orders are needed, by place."""
        needed = self._writer.orders(name, count)
        # The last one that becomes cold tells that those which are needed are there.
        return {max(0, self._mark.keyed.get(name, 0) - 1), *needed} if needed else needed


def evict(memory: Memory, at: Mark, snapshots: SnapshotWriter, load: Load) -> Left:
    """
    Leave the cold values of *memory* up to the mark, which is durable, in the store.

    Args:
        snapshots: writes the snapshots of this run; there must be no other one.
        load: loads events from the store.

    Raises:
        HistoryNotLoaded: something that the future needs is not in memory; then nothing has changed.
    """
    writer = snapshots.collected(memory)
    left = page_out(memory, at, _Needed(writer, snapshots.definitions, at), load, folded)
    if left is None:
        return Left([], writer.looked_at)
    log: Any = memory.log
    log.latest, log.ordinals = dict(snapshots.latest), dict(snapshots.ordinals)
    return Left(left, writer.looked_at)
