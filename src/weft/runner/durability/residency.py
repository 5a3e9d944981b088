"""
Counts the values of live runs that are in memory, and evicts cold ones: under a budget, after a time, or when asked.

    resident ──over the budget, too old, evict()──► marked ──durable up to the mark──► cold

The only owner of the number of bytes is :class:`Residency`: each event is counted once, when the store has it, and
subtracted once, with the same number (ADR 43).  Nothing is counted without a budget.

Invariants:

1. An event that the store does not have, or that the future of its run needs, is not evicted.
2. ``Residency.bytes`` is the sum of all runs that were admitted and have not been forgotten.
3. Evicting is one step of the event loop, and waits for nothing.
4. Between two passes over a run its log has grown by an eighth of what the first one looked at.
"""

from __future__ import annotations

import asyncio
import logging
import re
from array import array
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from weft.core.fold.memory import Memory
from weft.core.fold.paging import Mark, mark
from weft.core.fold.scope import Key
from weft.core.lineage.history import FACTS
from weft.core.lineage.sizes import size_of
from weft.core.run.run import Run
from weft.errors import HistoryNotLoaded, InvalidOption
from weft.log import Decoder
from weft.log.eviction import evict
from weft.log.snapshot import SnapshotWriter
from weft.ports.store import LogStore, SnapshotStore
from weft.runner.durability.rehydration import HistoryLoader
from weft.runner.durability.unsaved import MOST_OPEN

AT_ONCE: Final = 16
"""How many runs are evicted before other work of the event loop runs."""
AGAIN: Final = 8
"""A run is evicted again when its log has grown by this part of what the last pass looked at."""
FINISHED_SHARE: Final = 4096
"""A finished run that takes more than this part of the budget is evicted at once."""
MARKS: Final = 8
"""How many marks a run sets at most while its values are kept for a time."""
PRECISION: Final = 0.001
"""How many seconds before its time a mark counts as old enough."""

_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_log = logging.getLogger("weft.runner")


def as_bytes(name: str, value: object) -> int | None:
    """
    Return a number of bytes, which is a number or a text such as ``"512 MB"``; None for none.

    >>> as_bytes("memory_budget", "1.5 GB"), as_bytes("memory_budget", "64MiB")
    (1500000000, 67108864)

    Raises:
        InvalidOption: it is something else.
    """
    if value is None:
        return None
    count: float | None = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)) is not None:
        unit = _UNITS.get(found[2].upper())
        count = None if unit is None else float(found[1]) * unit
    if count is None or not 1 <= count < 2**60:
        raise InvalidOption(f'{name}={value!r:.80}: use a number of bytes, or a text such as "512 MB" or "2 GiB"')
    return int(count)


def in_words(size: int) -> str:
    """
    Return a number of bytes as a person would say it.

    >>> in_words(999), in_words(1_500_000)
    ('999 B', '1.5 MB')
    """
    for unit, width in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= width:
            return f"{size / width:.1f} {unit}"
    return f"{size} B"


class Evicted(msgspec.Struct, frozen=True):
    """The values that have left memory."""

    runs: int = 0
    """Of how many runs."""
    facts: int = 0
    """How many facts; they are read from the store when they are asked for."""
    bytes: int = 0
    """How many bytes they took, by estimate."""

    def __add__(self, other: Evicted) -> Evicted:
        return Evicted(self.runs + other.runs, self.facts + other.facts, self.bytes + other.bytes)


class Resident(Protocol):
    """A worker, as its values are counted."""

    run: Run
    values: RunValues | None

    @property
    def acknowledged(self) -> int:
        """How many events are durable."""
        ...

    @property
    def snapshots(self) -> SnapshotWriter:
        """The writer of the snapshots of the run, which knows what the future needs."""
        ...

    def evicted(self, freed: Evicted) -> None:
        """Values of the run have left memory."""
        ...


class Timers(Protocol):
    """The timers of a runner."""

    def add(self, sleeper: Any, key: Key, due: float, *, is_relative: bool) -> None:
        """Tell *sleeper* when it is *due*."""
        ...


class _Aged(NamedTuple):
    """A mark, and when its values are too old."""

    due: float
    mark: Mark


class RunValues:
    """The values of one live run that are in memory."""

    __slots__ = (
        "_aged",
        "_due",
        "_growth",
        "_is_told",
        "_is_unmarked",
        "_keep",
        "_kept",
        "_load",
        "_looked_at",
        "_marked_at",
        "_owner",
        "_pending",
        "_sizes",
        "_start",
        "_worker",
        "bytes",
    )

    def __init__(self, owner: Residency, worker: Resident, keep: float | None) -> None:
        self._owner, self._worker, self._keep = owner, worker, keep
        self.bytes = 0
        """How many bytes the durable events of the run take that are in memory."""
        self._start = 0
        """How many events at the beginning of the log were cold when it was last looked at."""
        self._kept: dict[int, int] = {}
        """By cold event that is in memory all the same: its size."""
        self._sizes = array("Q")
        """The sizes of the events that follow the cold beginning, as far as they are durable."""
        self._pending: Mark | None = None
        """Values up to this event are evicted once it is durable."""
        self._growth = 0
        """How many events were counted since the last pass."""
        self._looked_at = 0
        """How much the last pass looked at."""
        self._aged: deque[_Aged] = deque()
        self._due: float | None = None
        """When the timer of this run fires, if it has one."""
        self._load: tuple[int, HistoryLoader] | None = None
        """The number of definitions that it knows, and what loads the history."""
        self._is_told = False
        self._is_unmarked = False
        """Whether there are durable events behind the last mark."""
        self._marked_at = 0.0

    # -- what the worker tells -------------------------------------------------------------------

    def stored(self) -> None:
        """More events are durable."""
        if self._owner.limit is not None:
            self._count()
        if self._pending is not None and self._pending.position <= self._worker.acknowledged:
            self.evict()
            self.warn()
        if self._keep is not None and not self._is_unmarked:
            self._is_unmarked = True
            if self._due is None:
                self._set_mark(self._keep, self._owner.time())
            self._arm()

    def _count(self) -> None:
        """Count the events that have become durable."""
        memory: Memory = self._worker.run.memory
        paged = memory.lineage.paged
        cold = 0 if paged is None else paged.cold
        if cold != self._start:  # it was restored, or was made whole
            self._start, self._sizes = cold, array("Q")
            self._kept = {} if paged is None else {seq: size_of(event) for seq, event in paged.known.items()}
            self._add(sum(self._kept.values()) - self.bytes)
        resident = memory.log if paged is None else paged.tail
        known = len(self._sizes)
        added = [size_of(event) for event in resident[known : self._worker.acknowledged - cold]]
        if added:
            self._sizes.extend(added)
            self._growth += len(added)
            self._add(sum(added))
            self._owner.grown(self)

    def _add(self, size: int) -> None:
        self.bytes += size
        self._owner.bytes += size

    # -- leaving memory --------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether another pass is worth its cost."""
        return self._growth > 0 and self._growth * AGAIN >= self._looked_at

    @property
    def is_pending(self) -> bool:
        """Whether it is evicted as soon as its events are durable."""
        return self._pending is not None

    def evict(self) -> Evicted:
        """
        Evict what is cold and durable; what is not durable yet follows when it is.

        Returns:
            What has left memory now.
        """
        worker, memory = self._worker, self._worker.run.memory
        at, self._pending = self._pending, None
        if at is None or not at.holds(memory):
            at = mark(memory)
        if at.position > worker.acknowledged:
            self._pending = at
            return Evicted()
        return self._evict(at)

    def _evict(self, at: Mark) -> Evicted:
        worker, memory = self._worker, self._worker.run.memory
        pending = len(memory.ready) + len(memory.blocked or ()) + len(memory.waiting or ())
        self._growth = 0
        if self._owner.is_held(worker.run.id):
            return Evicted()
        if pending > MOST_OPEN:
            self._looked_at = pending
            return Evicted()
        try:
            left = evict(memory, at, worker.snapshots, self._loader())
        except HistoryNotLoaded:  # the run was restored without its values, and has not gone on since
            return Evicted()
        self._looked_at = left.looked_at
        if self._owner.limit is not None:
            self._subtract(memory)
        if not left.events:
            return Evicted()
        facts = sum(isinstance(event, FACTS) for event in left.events)
        freed = Evicted(1, facts, sum(map(size_of, left.events)))
        worker.evicted(freed)
        return freed

    def _subtract(self, memory: Memory) -> None:
        """Subtract the events that are not in memory any more."""
        paged = memory.lineage.paged
        if paged is None or paged.cold <= self._start:
            return
        gone, start = paged.cold - self._start, self._start
        before = sum(self._kept.values()) + sum(self._sizes[:gone])
        sizes = self._sizes
        self._kept = {
            seq: self._kept[seq] if seq in self._kept else sizes[seq - start - 1]
            for seq in paged.known
            if seq in self._kept or start < seq <= start + len(sizes)
        }
        self._start, self._sizes = paged.cold, sizes[gone:]
        self._add(sum(self._kept.values()) - before)

    def _loader(self) -> HistoryLoader:
        """Return what loads the history, which knows the definitions that the run has had."""
        worker = self._worker
        count = len(worker.snapshots.definitions)
        if self._load is None or self._load[0] != count:
            worker.snapshots.scan(worker.run.memory)
            decoder = Decoder(workflow=worker.run.workflow).knowing(worker.snapshots.workflows())
            removed = worker.run.memory.lineage.removed
            loader = HistoryLoader(self._owner.store, worker.run.id, decoder, removed)
            loader.is_told = self._load is not None and self._load[1].is_told
            self._load = len(worker.snapshots.definitions), loader
        return self._load[1]

    def warn(self) -> None:
        """Log, once, that the run needs more than its share of the budget."""
        limit = self._owner.limit
        if limit is not None and self.bytes > limit // 2 and not self._is_told:
            self._is_told = True
            _log.warning(
                "run %r needs %s of values for its next steps, and memory_budget is %s: these are not evicted; let it "
                "hold fewer at once, for instance smaller collections in an each, or raise memory_budget",
                *(self._worker.run.id, in_words(self.bytes), in_words(limit)),
                extra={"run_id": self._worker.run.id},
            )

    # -- values that become too old --------------------------------------------------------------

    def _set_mark(self, keep: float, now: float) -> None:
        """Note that the values that are there now are too old after *seconds*."""
        self._is_unmarked, self._marked_at = False, now
        self._aged.append(_Aged(now + keep, mark(self._worker.run.memory)))

    def _arm(self) -> None:
        """Set the timer to when the next values are too old, or to when the next mark may be set."""
        dues = [self._aged[0].due] if self._aged else []
        if self._is_unmarked and self._keep is not None:
            dues.append(self._marked_at + self._keep / MARKS)
        due, self._due = self._due, min(dues, default=None)
        if self._due is not None and self._due != due:
            self._owner.timers.add(self, (self._worker.run.id, ()), self._due, is_relative=True)

    def has_timer(self, key: Key) -> bool:  # noqa: ARG002 - as the timers call it
        """Whether some values of the run become too old."""
        return self._due is not None and self._worker.values is self

    def time_is_up(self, key: Key, due: float) -> None:  # noqa: ARG002 - as the timers call it
        """Some values of the run are too old, or a mark may be set."""
        now, latest, keep = max(due, self._owner.time()), None, self._keep
        if due != self._due or keep is None:  # an earlier timer was set since
            return
        while self._aged and self._aged[0].due <= now + PRECISION:
            latest = self._aged.popleft().mark
        if latest is not None:
            self._leave(latest)
        if self._is_unmarked and self._marked_at + keep / MARKS <= now + PRECISION:
            self._set_mark(keep, now)
        self._due = None
        self._arm()

    def _leave(self, at: Mark) -> None:
        """Evict what is too old; what is not durable yet follows when it is."""
        if not at.holds(self._worker.run.memory):
            at = mark(self._worker.run.memory)
        if at.position <= self._worker.acknowledged:
            self._evict(at)
        else:
            self._pending = at


class Residency:
    """The values of all live runs of one runner."""

    def __init__(
        self,
        store: LogStore,
        timers: Timers,
        time: Callable[[], float],
        limit: int | None,
        drop_finished: Callable[[], bool],
    ) -> None:
        """
        Count the values of runs in memory.

        Args:
            limit: how many bytes of them stay in memory where they need not be; None for any number.
            drop_finished: forgets the run that has finished first of those that are kept; returns False if there is
                none.
        """
        self.store, self.timers, self.time, self.limit = store, timers, time, limit
        self.bytes = 0
        """How many bytes the durable events take that are in memory, of all runs; 0 without a limit."""
        self._drop_finished = drop_finished
        self._grown: dict[RunValues, None] = {}
        """The runs that have grown since their last pass; those that have been quiet longest first."""
        self._sweep: asyncio.Handle | None = None
        self._is_told = False
        self._held: Counter[str] = Counter()
        """By run: how many callers ask about its past again and again, so that it stays in memory."""

    @contextmanager
    def held(self, run: str) -> Generator[None, None, None]:
        """Evict nothing of *run* as long as this context lasts."""
        self._held[run] += 1
        try:
            yield
        finally:
            self._held[run] -= 1
            if not self._held[run]:
                del self._held[run]

    def is_held(self, run: str) -> bool:
        """Whether nothing of *run* is to be evicted."""
        return run in self._held

    def check(self) -> None:
        """
        Refuse a budget that cannot be kept.

        Raises:
            InvalidOption: the store cannot load a part of a log.
        """
        if self.limit is not None and not self.can_evict:
            raise InvalidOption(
                f"memory_budget={self.limit}: {type(self.store).__name__} cannot load a part of a log, so nothing can "
                "leave memory; use MemoryStore, SQLiteStore or PostgresStore, or leave the budget out"
            )

    @property
    def can_evict(self) -> bool:
        """Whether the store can load what was evicted."""
        return isinstance(self.store, SnapshotStore)

    def admit(self, worker: Resident, keep: float | None) -> RunValues | None:
        """Count the values of *worker*, and *keep* them for that many seconds; None if there is nothing to do."""
        if (self.limit is None and keep is None) or not self.can_evict:
            return None
        return RunValues(self, worker, keep)

    def finished(self, worker: Resident) -> None:
        """The run of *worker* has finished, and all of it is stored: what its results do not need may leave at once."""
        if worker.values is not None and self.limit is not None and worker.values.bytes * FINISHED_SHARE > self.limit:
            worker.values.evict()

    def forget(self, worker: Resident) -> None:
        """Stop counting the values of *worker*: its run has left."""
        values, worker.values = worker.values, None
        if values is not None:
            self._grown.pop(values, None)
            self.bytes -= values.bytes

    def evict(self, worker: Resident) -> Evicted:
        """Evict what is cold and durable of *worker*."""
        if not self.can_evict:
            return Evicted()
        values = worker.values or RunValues(self, worker, None)
        freed = values.evict()
        if values.is_pending and worker.values is None:
            worker.values = values
        return freed

    def grown(self, values: RunValues) -> None:
        """*values* have become more: look whether they are too many."""
        self._grown.pop(values, None)
        self._grown[values] = None
        if self.limit is not None and self.bytes > self.limit and self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_soon(self._make_room)

    def _make_room(self) -> None:
        """Evict runs that have been quiet longest, until there is room again; a few of them now."""
        self._sweep, limit = None, self.limit
        assert limit is not None  # noqa: S101
        enough = limit - limit // 4
        while self.bytes > enough and self._drop_finished():
            pass
        passes, is_final = 0, True
        while self._grown and self.bytes > enough:
            values = next(iter(self._grown))
            del self._grown[values]
            if not values.is_due:  # it comes back when it has grown
                is_final = False
                continue
            values.evict()
            if values.is_pending:
                is_final = False
            else:
                values.warn()
            passes += 1
            if passes == AT_ONCE:
                self._sweep = asyncio.get_running_loop().call_soon(self._make_room)
                return
        if self.bytes > limit and is_final and not self._is_told:
            self._is_told = True
            _log.warning(
                "the values that runs need for their next steps take %s, and memory_budget is %s: they stay in memory; "
                "let fewer runs in at once, or raise memory_budget",
                *(in_words(self.bytes), in_words(limit)),
            )

    def close(self) -> None:
        """Evict nothing more."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
