"""
The log of a run that was restored from a snapshot: a cold beginning, which is loaded when it is asked for, and a tail.

    events 1 .. cold                       cold+1 .. len
    ├── known: hot events, resident ──┤    ├── tail: a list ──┤
    └── all others: loaded in blocks, of which a few are kept

What the fold keeps in lists (:class:`ColdList`) has a cold beginning too; its items are found by folding the cold
beginning of the log again.  Loading is a function that is handed in: nothing here reads a store.

Invariants: an event that was loaded equals the one that was stored; the tail only grows; a cold item that is asked for
is loaded or an error is raised, and never taken for missing.

The log of a run may have been truncated: then its first events are nowhere.  An iteration over such a log yields
``LogTruncated``, the removed events that are known nevertheless, and the others; asking for one by its number raises
``HistoryTruncated``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast, overload

from weft.core import events as ev
from weft.core.lineage.sizes import size_of
from weft.errors import HistoryTruncated

T = TypeVar("T")

BLOCK: Final = 512
"""How many events are loaded at once, at most."""
FIRST: Final = 32
"""How many of them are loaded the first time: how large the values are is not known before."""
KEPT: Final = 16
"""How many blocks are kept."""
KEPT_BYTES: Final = 8 << 20
"""How many bytes they take together, by estimate; the last one is kept whatever its size."""

Load = Callable[[int, int], Sequence[ev.AnyEvent]]
"""
Returns the events from one number to another, both included; raises HistoryNotLoaded where it must not wait.

It may have the attributes ``removed``, how many events were removed as far as that is known, and ``run``, their run.
"""

FACTS: Final = (ev.InputReceived, ev.SignalReceived, *ev.PRODUCTIONS, ev.FannedOut, ev.StateChanged, ev.StateCarried)
"""The events that bring a value."""


class History:
    """
    The first *count* events of a run, which are not in memory.

    Args:
        load: loads some of them.
        rebuild: returns the memory that they fold to.
    """

    __slots__ = ("_all", "_blocks", "_bytes", "_grain", "_load", "_memory", "_rebuild", "count")

    def __init__(self, count: int, load: Load, rebuild: Callable[[Sequence[ev.AnyEvent]], Any]) -> None:
        self.count, self._load, self._rebuild = count, load, rebuild
        self._blocks: OrderedDict[tuple[int, int], tuple[Sequence[ev.AnyEvent], int]] = OrderedDict()
        """By length and number: blocks of events, and their sizes; those that were used last are last."""
        self._bytes = 0
        self._grain = FIRST
        """How many events the next block has."""
        self._all: Sequence[ev.AnyEvent] | None = None
        self._memory: Any = None

    def twin(self) -> History:
        """Return the same history, which has loaded nothing so far: what one reader loads is not kept for others."""
        found = History(self.count, self._load, self._rebuild)
        if self._all is not None:
            found.keep(self._all)
        return found

    def none(self) -> History:
        """Return a history without events, which is loaded."""
        found = History(0, self._load, self._rebuild)
        found.keep(())
        return found

    @property
    def removed(self) -> int:
        """How many of these events were removed from the log, the first ones."""
        return min(self.count, getattr(self._load, "removed", 0))

    def forget(self, position: int) -> None:
        """The events up to *position* were removed from the log; blocks of them that are in memory are dropped."""
        loader: Any = self._load
        loader.removed = max(getattr(loader, "removed", 0), position)
        self._blocks.clear()
        self._bytes = 0

    def check(self, seq: int) -> None:
        """
        Check that the event with this number was not removed.

        Raises:
            HistoryTruncated: it was.
        """
        if seq <= self.removed:
            raise HistoryTruncated(getattr(self._load, "run", ""), self.removed + 1)

    @property
    def is_loaded(self) -> bool:
        """Whether all events are in memory."""
        return self._all is not None

    def keep(self, events: Sequence[ev.AnyEvent]) -> None:
        """Keep *events*, which are all of them that were not removed, in memory."""
        self._all = events
        self._blocks.clear()
        self._bytes = 0

    async def load(self) -> None:
        """Load all events and keep them; where the function that loads has an awaitable form, that is awaited."""
        later = getattr(self._load, "load", None)
        while self._all is None:
            first = self.removed + 1
            try:
                self.keep(self._load(first, self.count) if later is None else await later(first, self.count))
            except HistoryTruncated:
                self._check_progress(first)

    async def fetch(self, seq: int) -> None:
        """Load the block with the event *seq*, for a caller that cannot wait for it in :meth:`event`."""
        later = getattr(self._load, "load", None)
        while self._all is None and self._known(seq) is None and later is not None:
            self.check(seq)
            first, last = self._bounds(seq)
            begin = max(first, self.removed + 1)
            try:
                self._keep_block(first, _padded(first, begin, await later(begin, last)))
            except HistoryTruncated:
                self._check_progress(begin)

    def _check_progress(self, first: int) -> None:
        """
        Check that the loader knows by now that the event *first* was removed, so that it is not asked for again.

        Call it while ``HistoryTruncated`` is handled, which is raised again otherwise.
        """
        if self.removed < first:
            raise  # noqa: PLE0704

    def event(self, seq: int) -> ev.AnyEvent:
        """Return the event with this number."""
        self.check(seq)
        if self._all is not None:
            return self._all[seq - 1 - self.count + len(self._all)]
        found = self._known(seq)
        while found is None:
            self.check(seq)
            first, last = self._bounds(seq)
            begin = max(first, self.removed + 1)
            try:
                block = _padded(first, begin, self._load(begin, last))
            except HistoryTruncated:
                self._check_progress(begin)
            else:
                self._keep_block(first, block)
                found = block[seq - first]
        return found

    def _known(self, seq: int) -> ev.AnyEvent | None:
        """Return the event with this number, if its block is kept."""
        grain = BLOCK
        while grain and self._blocks:  # their lengths are powers of two, and nearly always the same
            key = (grain, (seq - 1) // grain)
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key][0][(seq - 1) % grain]
            grain //= 2
        return None

    def _bounds(self, seq: int) -> tuple[int, int]:
        """Return the first and the last event of the block to load for the event *seq*."""
        first = (seq - 1) // self._grain * self._grain + 1
        return first, min(first + self._grain - 1, self.count)

    def _keep_block(self, first: int, block: Sequence[ev.AnyEvent]) -> None:
        """Keep *block*, forget others if there are too many, and adapt the length of the next one to its size."""
        size, grain = sum(map(size_of, block)), self._grain
        self._blocks[grain, (first - 1) // grain] = (block, size)
        self._bytes += size
        while len(self._blocks) > KEPT or (self._bytes > KEPT_BYTES and len(self._blocks) > 1):
            _, (_, freed) = self._blocks.popitem(last=False)
            self._bytes -= freed
        share = KEPT_BYTES // KEPT
        if size > share and grain > 1:
            self._grain = grain // 2
        elif size * 4 < share and grain < BLOCK:
            self._grain = grain * 2

    def events(self, first: int, last: int) -> Sequence[ev.AnyEvent]:
        """Return the events from number *first* to *last*; a long part is not kept."""
        self.check(first)
        if self._all is not None:
            before = self.count - len(self._all)
            return self._all[first - 1 - before : last - before]
        if last - first < BLOCK:
            return [self.event(seq) for seq in range(first, last + 1)]
        return self._load(first, last)

    def each(self, first: int, last: int) -> Iterator[ev.AnyEvent]:
        """Yield the events from number *first* to *last*, block by block, so that few of them are in memory."""
        return (self.event(seq) for seq in range(first, last + 1))

    def memory(self) -> Any:
        """Return the memory that these events fold to; all of them are loaded for that."""
        if self._memory is None:
            self.check(1)
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
        blocks = [self._all] if self._all is not None else [block for block, _ in self._blocks.values()]
        return sum(isinstance(event, FACTS) for block in blocks for event in block)


def _padded(first: int, begin: int, events: Sequence[ev.AnyEvent]) -> Sequence[ev.AnyEvent]:
    """Return *events*, of which the one with the number *begin* is the first, as a block that begins with *first*."""
    return [*[ev.LogTruncated(begin - 1)] * (begin - first), *events] if begin > first else events


class PagedLog(Sequence[ev.AnyEvent]):
    """A log whose first events are not in memory."""

    __slots__ = ("cold", "history", "known", "latest", "ordinals", "tail")

    def __init__(
        self, history: History, known: dict[int, ev.AnyEvent], tail: Sequence[ev.AnyEvent] | None = None
    ) -> None:
        self.history, self.cold = history, history.count
        self.known = known
        """Cold events that are in memory nevertheless, by number: those that the future needs."""
        self.latest: dict[str, int] = {}
        """By leaf of the workflow: the last event with a fact of it, when the log was cut."""
        self.ordinals: Mapping[int, int] = {}
        """By one of these events: the ordinal of its input, where that is known."""
        self.tail: list[ev.AnyEvent] = cast("list[ev.AnyEvent]", [] if tail is None else tail)

    def append(self, event: ev.AnyEvent) -> None:
        """Add an event."""
        self.tail.append(event)

    def absorb(self) -> None:
        """Keep all events in memory from now on; the history was loaded before, or is now."""
        if self.cold:
            self.tail = [*self.history.events(1, self.cold), *self.tail]
            self.cold, self.known, self.latest, self.ordinals = 0, {}, {}, {}
            self.history = self.history.none()

    def known_events(self) -> list[ev.AnyEvent]:
        """Return the events that the future needs and those of the tail, in order."""
        return [*(self.known[seq] for seq in sorted(self.known)), *self.tail]

    def frozen(self) -> PagedLog:
        """Return this log as it is now, with another history, which has loaded nothing."""
        found = PagedLog(self.history.twin(), self.known, Beginning(self.tail))
        found.latest, found.ordinals = self.latest, self.ordinals
        return found

    def cut(self, history: History, known: dict[int, ev.AnyEvent]) -> PagedLog:
        """Return this log with a longer *history*, of which only the *known* events are in memory."""
        return PagedLog(history, known, self.tail[history.count - self.cold :])

    def __len__(self) -> int:
        return self.cold + len(self.tail)

    @property
    def removed(self) -> int:
        """How many events were removed from the log, the first ones."""
        return self.history.removed

    def log(self) -> list[ev.AnyEvent]:
        """Return all events that were not removed; if some were, one comes first that says so."""
        removed = self.removed
        if not removed:
            return list(self)
        return [ev.LogTruncated(removed), *(event for event in self if event.seq > removed)]

    def _known_until(self, last: int) -> list[ev.AnyEvent]:
        """Return the events that were removed and are known nevertheless, up to number *last*."""
        return [self.known[seq] for seq in sorted(self.known) if seq <= last] if last else []

    def __iter__(self) -> Iterator[ev.AnyEvent]:
        return self.since(0)

    def since(self, position: int) -> Iterator[ev.AnyEvent]:
        """Yield the events after *position*, the cold ones block by block."""
        removed = self.removed
        if position < removed:
            yield ev.LogTruncated(removed)
            yield from (event for event in self._known_until(removed) if event.seq > position)
        for seq in range(max(position, removed) + 1, self.cold + 1):
            yield self._at(seq)
        yield from islice(self.tail, max(position - self.cold, 0), None)

    def __reversed__(self) -> Iterator[ev.AnyEvent]:
        yield from reversed(self.tail)
        removed = self.removed
        for seq in range(self.cold, removed, -1):
            yield self._at(seq)
        yield from reversed(self._known_until(removed))

    @overload
    def __getitem__(self, index: int) -> ev.AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[ev.AnyEvent]: ...
    def __getitem__(self, index: int | slice) -> ev.AnyEvent | list[ev.AnyEvent]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[at] for at in range(start, stop, step)]
            cold: Sequence[ev.AnyEvent] = ()
            if start < (end := min(stop, self.cold)):
                removed = self.removed
                before = [event for event in self._known_until(min(end, removed)) if event.seq > start]
                cold = [*before, *(self._part(max(start, removed) + 1, end) if end > removed else ())]
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

    def cut(self, count: int, known: Mapping[int, T], find: Callable[[], Sequence[T]]) -> ColdList[T]:
        """Return this list with *count* items that are not in memory, except for the *known* ones."""
        return ColdList(count, known, find, list(self._tail[max(count - self.cold, 0) :]))

    @property
    def begins(self) -> int:
        """The place from which on all items are in memory."""
        place = self.cold
        while place - 1 in self._known:
            place -= 1
        return place

    def holds(self, place: int) -> bool:
        """Whether the item at *place* is in memory."""
        return place >= self.cold or place in self._known

    def known(self) -> Iterator[tuple[int, T]]:
        """Yield the items that are in memory, with their places."""
        yield from sorted(self._known.items())
        yield from enumerate(self._tail, self.cold)

    def __len__(self) -> int:
        return self.cold + len(self._tail)

    def __iter__(self) -> Iterator[T]:
        yield from self._cold_part(0, self.cold)
        yield from self._tail

    def _cold_part(self, start: int, end: int) -> Sequence[T]:
        if all(at in self._known for at in range(start, end)):
            return [self._known[at] for at in range(start, end)]
        return self._find()[start:end]

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return list(self)[index]
            end = min(stop, self.cold)
            cold = self._cold_part(start, end) if start < end else ()
            return [*cold, *self._tail[max(start - self.cold, 0) : max(stop - self.cold, 0)]]
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
    # It is a list nearly always, and to ask for an abstract class costs more.
    kind = type(log)
    for event in reversed(log.known_events() if kind is not list and isinstance(log, PagedLog) else log):
        if isinstance(event, ev.RunTakenOver):
            return event
        if not isinstance(event, ev.NO_PROGRESS):
            break
    return None
