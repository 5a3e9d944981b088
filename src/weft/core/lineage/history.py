"""
The log of a run that was restored from a snapshot: a cold beginning, which is loaded when it is asked for, and a tail.

    events 1 .. cold                       cold+1 .. len
    ├── known: hot events, resident ──┤    ├── tail: a list ──┤
    └── all others: loaded in blocks, of which a few are kept

What the fold keeps in lists (:class:`ColdList`) has a cold beginning too; its items are found by folding the cold
beginning of the log again.  Loading is a function that is handed in: nothing here reads a store.

Invariants: an event that was loaded equals the one that was stored; the tail only grows; a cold item that is asked for
is loaded or an error is raised, and never taken for missing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast, overload

from weft.core import events as ev

T = TypeVar("T")

BLOCK: Final = 512
"""How many events are loaded at once."""
KEPT: Final = 16
"""How many blocks are kept."""

Load = Callable[[int, int], Sequence[ev.AnyEvent]]
"""Returns the events from one number to another, both included; raises HistoryNotLoaded where it must not wait."""

FACTS: Final = (ev.InputReceived, ev.SignalReceived, *ev.PRODUCTIONS, ev.FannedOut, ev.StateChanged, ev.StateCarried)
"""The events that bring a value."""


class History:
    """
    The first *count* events of a run, which are not in memory.

    Args:
        load: loads some of them.
        rebuild: returns the memory that they fold to.
    """

    __slots__ = ("_all", "_blocks", "_load", "_memory", "_rebuild", "count")

    def __init__(self, count: int, load: Load, rebuild: Callable[[Sequence[ev.AnyEvent]], Any]) -> None:
        self.count, self._load, self._rebuild = count, load, rebuild
        self._blocks: OrderedDict[int, Sequence[ev.AnyEvent]] = OrderedDict()
        self._all: Sequence[ev.AnyEvent] | None = None
        self._memory: Any = None

    def twin(self) -> History:
        """Return the same history, which has loaded nothing so far: what one reader loads is not kept for others."""
        found = History(self.count, self._load, self._rebuild)
        found._all = self._all
        return found

    def none(self) -> History:
        """Return a history without events, which is loaded."""
        found = History(0, self._load, self._rebuild)
        found.keep(())
        return found

    @property
    def is_loaded(self) -> bool:
        """Whether all events are in memory."""
        return self._all is not None

    def keep(self, events: Sequence[ev.AnyEvent]) -> None:
        """Keep *events*, which are all of them, in memory."""
        self._all = events
        self._blocks.clear()

    async def load(self) -> None:
        """Load all events and keep them; where the function that loads has an awaitable form, that is awaited."""
        if self._all is None:
            later = getattr(self._load, "load", None)
            self.keep(self._load(1, self.count) if later is None else await later(1, self.count))

    def event(self, seq: int) -> ev.AnyEvent:
        """Return the event with this number."""
        if self._all is not None:
            return self._all[seq - 1]
        number, place = divmod(seq - 1, BLOCK)
        block = self._blocks.get(number)
        if block is None:
            first = number * BLOCK + 1
            block = self._blocks[number] = self._load(first, min(first + BLOCK - 1, self.count))
            if len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block[place]

    def events(self, first: int, last: int) -> Sequence[ev.AnyEvent]:
        """Return the events from number *first* to *last*; a long part is not kept."""
        if self._all is not None:
            return self._all[first - 1 : last]
        if last - first < BLOCK:
            return [self.event(seq) for seq in range(first, last + 1)]
        return self._load(first, last)

    def memory(self) -> Any:
        """Return the memory that these events fold to; all of them are loaded for that."""
        if self._memory is None:
            if self._all is None:
                self._all = self._load(1, self.count)
            self._memory = self._rebuild(self._all)
        return self._memory

    def items(self, table: str, name: str) -> Sequence[Any]:
        """Return what the *table* of that memory has for *name*."""
        found: dict[str, Sequence[Any]] = getattr(self.memory(), table) or {}
        return found.get(name, ())

    def absent(self) -> Sequence[Any]:
        """Return the facts without an event of that memory."""
        return cast("Sequence[Any]", self.memory().lineage.absent or ())

    def absent_since(self) -> Sequence[int]:
        """Return, for each of these facts, the event that it follows from."""
        return cast("Sequence[int]", self.memory().lineage.absent_since or ())

    def resident(self) -> int:
        """Return how many events with a value are in memory."""
        blocks = [self._all] if self._all is not None else self._blocks.values()
        return sum(isinstance(event, FACTS) for block in blocks for event in block)


class PagedLog(Sequence[ev.AnyEvent]):
    """A log whose first events are not in memory."""

    __slots__ = ("cold", "history", "known", "latest", "tail")

    def __init__(
        self, history: History, known: dict[int, ev.AnyEvent], tail: Sequence[ev.AnyEvent] | None = None
    ) -> None:
        self.history, self.cold = history, history.count
        self.known = known
        """Cold events that are in memory nevertheless, by number: those that the future needs."""
        self.latest: dict[str, int] = {}
        """By leaf of the workflow: the last of the cold events with a fact of it."""
        self.tail: list[ev.AnyEvent] = cast("list[ev.AnyEvent]", [] if tail is None else tail)

    def append(self, event: ev.AnyEvent) -> None:
        """Add an event."""
        self.tail.append(event)

    def absorb(self) -> None:
        """Keep all events in memory from now on; the history was loaded before, or is now."""
        if self.cold:
            self.tail = [*self.history.events(1, self.cold), *self.tail]
            self.cold, self.known, self.latest = 0, {}, {}
            self.history = self.history.none()

    def known_events(self) -> list[ev.AnyEvent]:
        """Return the events that the future needs and those of the tail, in order."""
        return [*(self.known[seq] for seq in sorted(self.known)), *self.tail]

    def frozen(self) -> PagedLog:
        """Return this log as it is now, with another history, which has loaded nothing."""
        return PagedLog(self.history.twin(), self.known, Beginning(self.tail))

    def __len__(self) -> int:
        return self.cold + len(self.tail)

    def __iter__(self) -> Iterator[ev.AnyEvent]:
        for first in range(1, self.cold + 1, BLOCK):
            yield from self._part(first, min(first + BLOCK - 1, self.cold))
        yield from self.tail

    def __reversed__(self) -> Iterator[ev.AnyEvent]:
        yield from reversed(self.tail)
        for seq in range(self.cold, 0, -1):
            yield self._at(seq)

    @overload
    def __getitem__(self, index: int) -> ev.AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[ev.AnyEvent]: ...
    def __getitem__(self, index: int | slice) -> ev.AnyEvent | list[ev.AnyEvent]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[at] for at in range(start, stop, step)]
            cold = self._part(start + 1, min(stop, self.cold)) if start < min(stop, self.cold) else ()
            return [*cold, *self.tail[max(start - self.cold, 0) : max(stop - self.cold, 0)]]
        at = index + len(self) if index < 0 else index
        if at >= self.cold:
            return self.tail[at - self.cold]
        if at < 0:
            raise IndexError(index)
        return self._at(at + 1)

    def _at(self, seq: int) -> ev.AnyEvent:
        return self.known.get(seq) or self.history.event(seq)

    def _part(self, first: int, last: int) -> Sequence[ev.AnyEvent]:
        known = [self.known.get(seq) for seq in range(first, last + 1)] if last - first < BLOCK else [None]
        if None in known:
            return self.history.events(first, last)
        return cast("list[ev.AnyEvent]", known)

    @property
    def resident(self) -> int:
        """How many events with a value are in memory."""
        hot = sum(isinstance(event, FACTS) for event in list(self.known.values()))
        return hot + sum(isinstance(event, FACTS) for event in self.tail) + self.history.resident()

    def __reduce__(self) -> tuple[type[list[ev.AnyEvent]], tuple[list[ev.AnyEvent]]]:
        """Copy and pickle it as a plain list."""
        return list, (list(self),)


class Edited(Sequence[ev.AnyEvent]):
    """A *log* with other events in some places, the *edits*; it grows with the log."""

    __slots__ = ("edits", "log")

    def __init__(self, log: Sequence[ev.AnyEvent], edits: Mapping[int, ev.AnyEvent]) -> None:
        self.log, self.edits = log, edits

    def __len__(self) -> int:
        return len(self.log)

    def __iter__(self) -> Iterator[ev.AnyEvent]:
        edits = self.edits
        return (edits.get(event.seq, event) for event in self.log)

    @overload
    def __getitem__(self, index: int) -> ev.AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[ev.AnyEvent]: ...
    def __getitem__(self, index: int | slice) -> ev.AnyEvent | list[ev.AnyEvent]:
        if isinstance(index, slice):
            return [self.edits.get(event.seq, event) for event in self.log[index]]
        seq = (index + len(self.log) if index < 0 else index) + 1
        return self.edits[seq] if seq in self.edits else self.log[index]


class ColdList(Sequence[T]):
    """
    A list that grows, and whose first *cold* items are not in memory.

    Args:
        known: some of them that are, by place.
        find: returns all of them.
    """

    __slots__ = ("_find", "_known", "_tail", "cold")

    def __init__(
        self, cold: int, known: Mapping[int, T], find: Callable[[], Sequence[T]], tail: Sequence[T] = ()
    ) -> None:
        self.cold, self._known, self._find, self._tail = cold, known, find, tail or []

    def append(self, item: T) -> None:
        """Add an item."""
        cast("list[T]", self._tail).append(item)

    def frozen(self, find: Callable[[], Sequence[T]], moved: Callable[[T], T]) -> ColdList[T]:
        """Return this list as it is now; *find* returns the items that are not in memory, *moved* those that are."""
        known = {at: moved(item) for at, item in self._known.items()}
        return ColdList(self.cold, known, find, Beginning(self._tail))

    def known(self) -> Iterator[tuple[int, T]]:
        """Yield the items that are in memory, with their places."""
        yield from sorted(self._known.items())
        yield from enumerate(self._tail, self.cold)

    def __len__(self) -> int:
        return self.cold + len(self._tail)

    def __iter__(self) -> Iterator[T]:
        yield from self._cold(self.cold)
        yield from self._tail

    def _cold(self, end: int) -> Sequence[T]:
        if all(at in self._known for at in range(end)):
            return [self._known[at] for at in range(end)]
        return self._find()[:end]

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1 or start < self.cold:
                return list(islice(iter(self), start, stop)) if step == 1 else list(self)[index]
            return list(self._tail[start - self.cold : max(stop - self.cold, 0)])
        at = index + len(self) if index < 0 else index
        if at >= self.cold:
            return self._tail[at - self.cold]
        if at < 0:
            raise IndexError(index)
        return self._known[at] if at in self._known else self._find()[at]


class Beginning(Sequence[T]):
    """The items that a list has now, and none of those that are appended to it later."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Sequence[T]) -> None:
        self._items: Sequence[T] = items._items if isinstance(items, Beginning) else items  # noqa: SLF001
        self._length = len(items)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return list(self._items[start : max(start, stop)])
            return [self._items[at] for at in range(start, stop, step)]
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(index)
        return self._items[at]

    def __reduce__(self) -> tuple[type[list[T]], tuple[list[T]]]:
        """Copy and pickle it as a plain list."""
        return list, (list(self),)


def last_takeover(log: Sequence[ev.AnyEvent]) -> ev.RunTakenOver | None:
    """
    Return the event of *log* that says that owners of the run have died, unless there was progress since.

    A snapshot keeps that event as long as there is none, so the history is not asked.
    """
    for event in reversed(log.known_events() if isinstance(log, PagedLog) else log):
        if isinstance(event, ev.RunTakenOver):
            return event
        if not isinstance(event, ev.NO_PROGRESS):
            break
    return None
