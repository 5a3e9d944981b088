"""
Reads a stored run from its file, without importing or calling code of the application.

A run whose log was truncated is restored from its snapshot, as a runner does it: its events begin with
``LogTruncated``, and a question about what was removed raises ``HistoryTruncated``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from weft.core.events import AnyEvent, InputReceived, LogTruncated
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import CorruptLog, HistoryTruncated, InvalidEvent
from weft.log import Decoder, references, verify
from weft.ports.store import LoadedRun, RunRecord, StoredSnapshot
from weft.stores import SQLiteView
from weft.typing import RunId

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory
    from weft.log.snapshot import Snapshot

Restore = Callable[[Sequence[AnyEvent]], Run]
"""Returns the run that the events of a truncated log lead to, from its snapshot."""

_TRIES: Final = 20
"""How often a run is read again that is truncated meanwhile."""


class Stored(msgspec.Struct, frozen=True, eq=False):
    """One run as its file has it."""

    record: RunRecord
    events: list[AnyEvent]
    owner: str | None
    """The process that owns it, if that is alive."""
    written: Sequence[tuple[int, float]]
    """For each segment: the number of its first event, and when it was written."""
    restore: Restore | None = None
    """Makes a run of *events*, if they begin with ``LogTruncated``."""

    def run(self) -> Run:
        """Return the run as it was when its last event was stored."""
        return Run.from_log(self.events) if self.restore is None else self.restore(self.events)

    def after(self, before: Stored | None) -> Stored:
        """Return this run with the events that were read *before*, unless some events in between were removed."""
        if before is None or self.restore is not None:
            return self
        return msgspec.structs.replace(self, events=[*before.events, *self.events], restore=before.restore)

    def time_of(self, event: AnyEvent) -> float | None:
        """Return when *event* arrived or was written, in seconds since the epoch; None if unknown."""
        if isinstance(event, InputReceived) and event.at is not None:
            return event.at
        place = bisect_right(self.written, (event.seq, float("inf")))
        return self.written[place - 1][1] if place else None


class RunReader(Protocol):
    """Reads a run as it grows."""

    def more(self) -> Stored:
        """Return the events since the last call."""
        ...


def times_of(events: Iterable[AnyEvent]) -> list[tuple[int, float]]:
    """Return the times that *events* carry, as :attr:`Stored.written` has them."""
    found: list[tuple[int, float]] = []
    for event in events:
        timing: Any = getattr(event, "timing", None)
        at = timing.at if timing is not None else getattr(event, "at", None)
        if at:
            found.append((event.seq, at))
    return found


class Reader:
    """
    Reads *run* as it grows, from a file.

    Args:
        workflow: provides the functions that cannot be found by name.
    """

    def __init__(self, view: SQLiteView, run: RunId, workflow: Workflow | None = None) -> None:
        self._view, self._run = view, run
        self._decoder = Decoder(workflow=workflow)
        self._definitions: dict[bytes, bytes] = {}
        self._position, self._first = 0, 1

    def more(self) -> Stored:
        """
        Return the events since the last call; if some of them were removed, the first one says so.

        Raises:
            RunNotFound: nothing is stored under this id.
            CorruptLog: its log cannot be read.
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._more()
            except CorruptLog as error:
                if not left or self._view.find(self._run).first == self._first:
                    raise error.of(self._run) from error
        raise AssertionError  # the last try returns or raises

    def _more(self) -> Stored:
        view, run = self._view, self._run
        loaded, snapshot = view.load_since(run, self._position), None
        self._first = loaded.record.first
        if is_cut := self._position < self._first - 1:
            snapshot = view.load_snapshot(run)
            loaded = view.load_since(run, self._position)  # again: it must not be older than the snapshot
        if not loaded.record.head:
            raise CorruptLog("none of its events are there")
        bodies = [segment.body for segment in loaded.segments]
        events = self._decoder.segments(
            bodies, definitions=self._defined(references(bodies).definitions), facts=view.facts(run)
        )
        restore = self._restoring(loaded, snapshot) if is_cut else None
        if is_cut:
            events.insert(0, LogTruncated(loaded.record.first - 1))
        self._position = loaded.record.head
        written = [(each.first, each.at) for each in view.times(run)] if bodies else []
        return Stored(loaded.record, events, view.owners(run).get(run), written, restore)

    def _defined(self, keys: AbstractSet[bytes]) -> Mapping[bytes, bytes]:
        """Return the definitions with these *keys*, and those of before."""
        stored = self._view.definitions()
        for key in keys - self._definitions.keys():
            body = stored.get(key)
            if body is None:
                raise CorruptLog(f"the definition {key.hex()} that it refers to is missing")
            self._definitions[key] = body
        return self._definitions

    def _restoring(self, loaded: LoadedRun, stored: StoredSnapshot | None) -> Restore:
        """Return what restores the run; all that it needs is read now, since it may be removed later."""
        snapshot, facts = snapshot_of(loaded, stored), self._view.facts(self._run)
        needed = snapshot.references()
        definitions = dict(self._defined(needed.definitions))
        kept = {key: body for key in needed.facts if (body := facts.get(key)) is not None}
        restore = Restoring(self._run, snapshot, self._decoder, definitions, kept)
        restore.memory()  # what is missing or damaged is found now
        return restore


class Restoring:
    """Restores a run whose log was truncated, from its *snapshot* and its events."""

    def __init__(
        self,
        run: RunId,
        snapshot: Snapshot,
        decoder: Decoder,
        definitions: Mapping[bytes, bytes],
        facts: Mapping[bytes, bytes],
    ) -> None:
        self._run, self._snapshot, self._decoder = run, snapshot, decoder
        self._definitions, self._facts = definitions, facts

    def memory(self, events: Sequence[AnyEvent] = ()) -> Memory:
        """Return the memory of the snapshot, whose history are the *events* before it that are left."""
        load = _Left(self._run, self._snapshot.position, events)
        return self._snapshot.restore(self._decoder, self._definitions, self._facts, load)

    def __call__(self, events: Sequence[AnyEvent]) -> Run:
        """
        Return the run that *events* lead to.

        Raises:
            CorruptLog: they do not follow the snapshot.
        """
        from weft.runner.durability.rehydration import Unusable, folded

        memory, position = self.memory(events), self._snapshot.position
        tail = [event for event in events if event.seq > position]
        try:
            for _ in folded(memory, [tail]):
                pass
        except (Unusable, InvalidEvent) as why:
            raise _lost(self._run, str(why)) from why
        return Run.from_memory(memory)


class _Left:
    """Loads those of *events* that are asked for, up to *position*; the first one says which ones were removed."""

    def __init__(self, run: RunId, position: int, events: Sequence[AnyEvent]) -> None:
        self.run, self.removed = run, events[0].seq if events else position
        self._events = {event.seq: event for event in events[1:] if event.seq <= position}

    def __call__(self, first: int, last: int) -> Sequence[AnyEvent]:
        """
        Return the events from number *first* to *last*.

        Raises:
            HistoryTruncated: some of them were removed.
        """
        if first <= self.removed:
            raise HistoryTruncated(self.run, self.removed + 1)
        return [self._events[seq] for seq in range(first, last + 1)]


def snapshot_of(loaded: LoadedRun, stored: StoredSnapshot | None) -> Snapshot:
    """
    Return the *stored* snapshot of a run whose log was truncated: what was removed is in it alone.

    Raises:
        CorruptLog: there is none, or the rest of the log does not follow it.
    """
    from weft.runner.durability.rehydration import Unusable, opened

    if stored is None:
        raise _lost(loaded.record.id, "it has none")
    tail = [segment for segment in loaded.segments if segment.first > stored.position]
    try:
        return opened(msgspec.structs.replace(loaded, segments=tail), stored)
    except Unusable as why:
        raise _lost(loaded.record.id, str(why)) from why


def _lost(run: RunId, why: str) -> CorruptLog:
    return CorruptLog(
        f"the log of run {run!r} was truncated, and its snapshot, which alone has what was removed, cannot be used: "
        f"{why}; a copy of the store may still have it"
    )


def read(view: SQLiteView, run: RunId, *, workflow: Workflow | None = None) -> Stored:
    """
    Return *run* as *view* shows it; functions that cannot be found by name are taken from *workflow*.

    Raises:
        RunNotFound: nothing was ever stored under this id.
        CorruptLog: its log cannot be read.
    """
    return Reader(view, run, workflow).more()


class Checked(NamedTuple):
    """The log of a run that is as it was written."""

    events: int
    segments: int
    first: int
    """The number of its first event: 1, unless it was truncated."""


def check(view: SQLiteView, run: RunId) -> Checked:
    """
    Check that all events of *run* are as they were written and, if its log was truncated, that its snapshot is there.

    Raises:
        RunNotFound: nothing was ever stored under this id.
        CorruptLog: they are not.
    """
    for left in reversed(range(_TRIES)):
        loaded = view.load(run)
        snapshot = view.load_snapshot(run) if loaded.record.first > 1 else None
        if snapshot is not None and snapshot.position > loaded.record.head:  # it has gone on meanwhile
            continue
        try:
            return _checked(loaded, snapshot, view.facts(run), view.definitions())
        except CorruptLog as error:
            if not left or view.find(run).first == loaded.record.first:
                raise error.of(run) from error
    raise AssertionError


async def check_stored(store: Any, run: RunId) -> Checked:
    """Like :func:`check`, for a run in *store*, an open log store."""
    loaded = await store.load(run)
    snapshot = await store.load_snapshot(run) if loaded.record.first > 1 else None
    needed = references(segment.body for segment in loaded.segments)
    facts = await store.load_facts(run, needed.facts)
    try:
        return _checked(loaded, snapshot, facts, await store.load_definitions(needed.definitions))
    except CorruptLog as error:
        raise error.of(run) from error


def _checked(
    loaded: LoadedRun,
    snapshot: StoredSnapshot | None,
    facts: Mapping[bytes, bytes],
    definitions: Mapping[bytes, bytes],
) -> Checked:
    record = loaded.record
    count = verify(
        [segment.body for segment in loaded.segments],
        facts=facts,
        definitions=definitions,
        head=record.chain,
        position=record.head,
        known=loaded.known,
        first=record.first,
        link=loaded.link,
    )
    if record.first > 1:
        snapshot_of(loaded, snapshot)
    return Checked(count, len(loaded.segments), record.first)
