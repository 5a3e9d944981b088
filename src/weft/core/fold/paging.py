"""
Takes the beginning of the log of a live run out of memory: afterwards it is a run as a snapshot restores it (ADR 43).

    mark: a position, and how long the lists of the fold are there
      │   the events up to the mark become durable, more may happen
      ▼
    page_out: the log and the lists have a cold beginning up to the mark

Activations, scopes, joins and batches stay the same objects, so work in flight is not affected.  A frozen run
that was made before keeps the lists that it has; nothing that it may share is changed in place.

Invariants: the events that the future needs, and those behind the mark, stay in memory; what was cold stays cold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from weft.core import events as ev
from weft.core.fold.memory import Memory
from weft.core.lineage.history import ColdList, Edited, History, Load, PagedLog
from weft.core.plan.plan import Plan

T = TypeVar("T")


class Mark(NamedTuple):
    """A position of a log, and how long the lists of the fold were there."""

    position: int
    produced: Mapping[str, int]
    keyed: Mapping[str, int]
    absent: int
    plan: Plan
    void: frozenset[int]

    def holds(self, memory: Memory) -> bool:
        """Whether the run has neither been revised nor got another graph since: then its lists are others."""
        return self.plan is memory.plan and self.void is memory.lineage.void


class Needed(Protocol):
    """The part of a memory that the future needs."""

    def events(self) -> Mapping[int, Any]:
        """Return the events of the log, by number."""
        ...

    def absent(self) -> Mapping[int, Any]:
        """Return the facts without an event, by place."""
        ...

    def produced(self, name: str, count: int) -> Iterable[int]:
        """Return which of the *count* facts that *name* has made can be read, by place."""
        ...

    def keyed(self, name: str, count: int) -> Iterable[int]:
        """Return which of their *count* orders are needed, by place."""
        ...


def mark(memory: Memory) -> Mark:
    """Return where *memory* is now."""
    return Mark(
        len(memory.log),
        {name: len(made) for name, made in memory.produced.items()},
        {name: len(places) for name, places in (memory.keyed or {}).items()},
        len(memory.lineage.absent or ()),
        memory.plan,
        memory.lineage.void,
    )


def page_out(
    memory: Memory, at: Mark, needed: Needed, load: Load, rebuild: Callable[[Sequence[ev.AnyEvent]], Any]
) -> list[ev.AnyEvent] | None:
    """
    Leave the events of *memory* up to the mark in the store, except for those that are *needed*; return the others.

    Nothing happens, and None is returned, if the mark does not hold any more or lies in the part that is cold already.

    Args:
        load: loads them again.
        rebuild: returns the memory that they fold to.
    """
    lineage, position = memory.lineage, at.position
    edits = lineage.edits
    kept = {seq: event for seq, event in needed.events().items() if seq <= position}
    paged = lineage.paged
    if not at.holds(memory) or (paged is not None and position <= paged.cold):
        return None
    history = History(position, load, rebuild)
    if paged is None:
        log = PagedLog(history, kept, memory.log[position:])
        left = [event for event in memory.log[:position] if event.seq not in kept]
    else:
        log = paged.cut(history, kept)
        left = [event for seq, event in paged.known.items() if seq not in kept]
        left += [event for event in paged.tail[: position - paged.cold] if event.seq not in kept]
    memory.log = cast("list[ev.AnyEvent]", log)
    lineage.log = Edited(log, edits) if edits else log
    memory.produced = {
        name: _cut(made, at.produced.get(name, 0), needed.produced(name, len(made)), history, "produced", name)
        for name, made in memory.produced.items()
    }
    if memory.keyed is not None:
        memory.keyed = {
            name: _cut(places, at.keyed.get(name, 0), needed.keyed(name, len(places)), history, "keyed", name)
            for name, places in memory.keyed.items()
        }
    if lineage.absent is not None and at.absent:
        places = [place for place in needed.absent() if place < at.absent]
        known = {place: needed.absent()[place] for place in places}
        lineage.absent = _cold(lineage.absent, at.absent, known, history.absent)
        lineage.absent_since = _cold(lineage.absent_since or [], at.absent, {}, history.absent_since)
    lineage.gathered = _behind(lineage.gathered, position)
    lineage.read = _behind(lineage.read, position)
    lineage.forget_index()
    return left


def _behind(table: dict[int, T] | None, position: int) -> dict[int, T] | None:
    """Return the part of *table* that is about events behind *position*."""
    return None if not table else {seq: noted for seq, noted in table.items() if seq > position} or None


def _cut(items: Any, count: int, places: Iterable[int], history: History, table: str, name: str) -> Any:
    if not count:
        return items
    known = {place: items[place] for place in places if place < count}
    return _cold(items, count, known, partial(history.items, table, name))


def _cold(items: Any, count: int, known: Mapping[int, Any], find: Callable[[], Sequence[Any]]) -> Any:
    """Return *items* with *count* items that are not in memory, except for the *known* ones."""
    same: Any = items
    return same.cut(count, known, find) if isinstance(items, ColdList) else ColdList(count, known, find, same[count:])
