"""
Brings a run back from its snapshot and the tail of its log, and loads the rest of its history when it is asked for.

    stored ──full──► whole: every event is in memory
       │
       ├──hybrid──► awake: what the future needs, and the tail
       └──lazy────► asleep: references alone ──something to do──► awake

The log has everything, so a damaged snapshot does no harm: :class:`Unusable` says why the log is read instead.  The
chain of hashes is followed from the snapshot to the head, so a tail that was altered or cut off is found as in a whole
log; cold history that is loaded later is checked only by the checksums of its segments.

Invariant: the event loop of the runner never waits for the history synchronously.  A question that needs it there
raises ``HistoryNotLoaded``, and the caller loads it and asks again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from weft.core import events as ev
from weft.core.fold.fold import fold
from weft.core.fold.memory import PAGE, Memory
from weft.core.lineage.history import BLOCK, KEPT, PagedLog
from weft.core.run.run import Run
from weft.errors import (
    CorruptLog,
    HistoryNotLoaded,
    HistoryTruncated,
    InvalidEvent,
    MissingContent,
    StoreClosed,
)
from weft.log import Decoder, chain
from weft.log.hash_chain import GENESIS, References, may_refer, references
from weft.log.snapshot import Snapshot, SnapshotWriter
from weft.ports.store import FactStore, LoadedRun, LogStore, SnapshotStore, StoredSnapshot
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.durability.store_spans import spanned
from weft.runner.options import Rehydration
from weft.runner.slices import Pace

T = TypeVar("T")
Again = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]

MANY: Final = 4096
"""Reading the whole history of a run with more events than this is worth a warning."""

SHORT: Final = 2_000
"""The events of a tail with at most this many stay in memory as they are, if none of them brings a large value."""

_log = logging.getLogger("weft.runner")

CHANGES: Final = (ev.ComponentAdded, ev.ComponentRemoved, *ev.REVISIONS)
"""The events after which the history is needed; one that says that code has changed keeps the graph."""


class Unusable(Exception):
    """A snapshot cannot be used, for the reason that it names: the whole log has to be read."""


class HistoryLoader:
    """Loads events of one run that are in the store and not in memory."""

    __slots__ = ("_decoder", "_loop", "_read", "_run", "_store", "is_told", "removed")

    def __init__(self, store: LogStore, run: str, decoder: Decoder, removed: int = 0) -> None:
        self._store, self._run, self._decoder = store, run, decoder
        self.removed = removed
        """How many events were removed from the log, the first ones, as far as that is known."""
        self._loop = asyncio.get_running_loop()
        self._read = 0
        """How many events were read."""
        self.is_told = False
        """Whether a warning has said that questions about the run read its whole history."""

    @property
    def run(self) -> str:
        """The id of the run."""
        return self._run

    def __call__(self, first: int, last: int) -> Sequence[ev.AnyEvent]:
        """
        Return the events from number *first* to *last*, for a caller on another thread, who waits.

        Raises:
            HistoryTruncated: some of them were removed.
            HistoryNotLoaded: the caller is in the event loop of the runner.
            StoreClosed: the runner or its store is closed.
        """
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            raise HistoryNotLoaded(self._run, first, last)
        work = self.load(first, last)
        if not self._loop.is_running() and not self._loop.is_closed():  # it runs when its runner is called, as in tests
            return self._loop.run_until_complete(work)
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise StoreClosed(f"the store of run {self._run!r}") from None
        return future.result()

    async def load(self, first: int, last: int) -> list[ev.AnyEvent]:
        """Return the events from number *first* to *last*; an unavailable store is tried again while it is open."""
        store = self._store
        self._read += last - first + 1
        if self._read >= last and last > MANY and not self.is_told:
            self._warn(last)
        return await retry_while_unavailable(lambda: self._load(first, last), while_=lambda: store.is_open)

    def _warn(self, events: int) -> None:
        """Log, once, that the whole history is read."""
        self.is_told = True
        _log.warning(
            "questions about run %r have read its whole history of %d events from the store; ask for less: the value "
            "or the state of a component, explain(which, depth=...), lineage(fact, depth=...), or events(from_=...)",
            *(self._run, events),
            extra={"run_id": self._run},
        )

    async def _load(self, first: int, last: int) -> list[ev.AnyEvent]:
        store = self._store
        assert isinstance(store, SnapshotStore)  # noqa: S101
        found = await spanned(
            store, "load_between", [self._run], time.time, lambda: store.load_between(self._run, first, last)
        )
        bodies = [segment.body for segment in found]
        definitions, facts = await referred(store, self._run, references(bodies))
        events: list[ev.AnyEvent] = []
        pace = Pace()
        for some in self._decoder.batches(bodies, definitions=definitions, facts=facts):
            events += some
            await pace.keep(len(some))
        events = [event for event in events if first <= event.seq <= last]
        if len(events) != last - first + 1:
            await self._check_removed(first)
            raise CorruptLog(f"{last - first + 1 - len(events)} events of run {self._run!r} are missing", first)
        return events

    async def _check_removed(self, first: int) -> None:
        """
        See whether events were removed since this was made.

        Raises:
            HistoryTruncated: the one with the number *first* was.
        """
        record = (await self._store.load_since(self._run, self.removed)).record
        self.removed = max(self.removed, record.first - 1)
        if first <= self.removed:
            raise HistoryTruncated(self._run, record.first)


async def referred(store: LogStore, run: str, found: References) -> tuple[Mapping[bytes, bytes], Mapping[bytes, bytes]]:
    """Return the definitions and large values that were *found* to be referred to."""
    try:
        definitions = await spanned(
            store, "load_definitions", [run], time.time, lambda: store.load_definitions(found.definitions)
        )
    except MissingContent as error:  # a definition is that of many runs, and here it is this one that needs it
        raise MissingContent("definition", error.hashes, run) from error
    if not found.facts or not isinstance(store, FactStore):
        return definitions, {}
    facts_of = store.load_facts
    return definitions, await spanned(store, "load_facts", [run], time.time, lambda: facts_of(run, found.facts))


class Sleeping:
    """Loads the values that a run needs before it can go on, if it was restored without them."""

    __slots__ = ("_decoder", "_definitions", "_memory", "_snapshot", "_store")

    def __init__(
        self,
        store: LogStore,
        memory: Memory,
        snapshot: Snapshot,
        decoder: Decoder,
        definitions: Mapping[bytes, bytes],
    ) -> None:
        self._store, self._memory, self._snapshot = store, memory, snapshot
        self._decoder, self._definitions = decoder, definitions

    async def wake(self) -> None:
        """Load the facts that the future needs."""
        memory = self._memory
        _, facts = await referred(self._store, memory.run_id, self._snapshot.references_of_facts())
        log: Any = memory.log
        hot = self._snapshot.facts(self._decoder, self._definitions, facts)
        log.known.update({event.seq: event for event in hot})


async def rehydrate(
    store: LogStore,
    loaded: LoadedRun,
    stored: StoredSnapshot,
    decoder: Decoder,
    rehydration: Rehydration,
    *,
    context: Mapping[str, Any],
    pause: Callable[[], Awaitable[object]],
    unknown: dict[str, None],
) -> tuple[Run, Sleeping | None]:
    """
    Return the run of the *stored* snapshot and of the tail that was *loaded*.

    Returns:
        The run and, if it is asleep, what wakes it.

    Raises:
        Unusable: the whole log has to be read.
        ResolutionError: as a recovery from the log.
    """
    run_id, sleeping = loaded.record.id, None
    try:
        snapshot = opened(loaded, stored)
        bodies = [segment.body for segment in loaded.segments]
        found, tail = snapshot.references(), references(filter(may_refer, bodies))
        wanted = References(found.definitions | tail.definitions, found.facts | tail.facts)
        definitions, facts = await referred(store, run_id, wanted)
        loader, pace = HistoryLoader(store, run_id, decoder, loaded.record.first - 1), Pace(pause)
        memory = snapshot.restore(decoder, definitions, facts, loader, unknown=unknown)
        memory.page = PAGE
        for count in folded(memory, decoder.batches(bodies, definitions=definitions, facts=facts, unknown=unknown)):
            await pace.keep(count)
        is_long = loaded.record.head - stored.position > SHORT
        if tail.facts or is_long or rehydration == "lazy":
            memory, sleeping = _settled(store, memory, loaded, decoder, facts, loader, lazy=rehydration == "lazy")
    except (CorruptLog, InvalidEvent, MissingContent, HistoryNotLoaded, HistoryTruncated) as error:
        raise Unusable(str(error)) from error
    return Run.from_memory(memory, context=context), sleeping


def opened(loaded: LoadedRun, stored: StoredSnapshot) -> Snapshot:
    """
    Return the *stored* snapshot, if the tail that was *loaded* follows it to the head of the log.

    Raises:
        Unusable: it does not.
        CorruptLog: it cannot be read.
    """
    snapshot = Snapshot.opened(stored.body)
    _check_tail(loaded, stored, snapshot)
    return snapshot


def folded(memory: Memory, tail: Iterable[Sequence[ev.AnyEvent]]) -> Iterator[int]:
    """
    Fold the events of the *tail* into *memory*, which was restored, and yield how many they were, batch by batch.

    Raises:
        Unusable: one of them needs the history.
    """
    for events in tail:
        if any(isinstance(event, CHANGES) for event in events):
            raise Unusable("the run was changed or revised after it, and that needs the history")
        fold(memory, events)
        yield len(events)
    memory.newly_ready.clear()


def _settled(
    store: LogStore,
    memory: Memory,
    loaded: LoadedRun,
    decoder: Decoder,
    facts: Mapping[bytes, bytes],
    loader: HistoryLoader,
    *,
    lazy: bool,
) -> tuple[Memory, Sleeping | None]:
    """Return *memory* without values of the tail that the future does not need, or without any, and what wakes it."""
    writer = SnapshotWriter()
    written = writer.write(memory, loaded.record.chain)
    snapshot, known = Snapshot.opened(written.body), {**facts, **written.facts}
    knowing = decoder.knowing(writer.workflows())  # also that their code has changed
    try:
        still = snapshot.restore(knowing, written.definitions, known, loader, lazy=lazy)
    except (HistoryNotLoaded, HistoryTruncated):  # it cannot do without
        return memory, None
    still.page = PAGE
    return still, Sleeping(store, still, snapshot, knowing, written.definitions) if lazy else None


def _check_tail(loaded: LoadedRun, stored: StoredSnapshot, snapshot: Snapshot) -> None:
    """Follow the hashes from the snapshot to the head of the log."""
    if snapshot.position != stored.position:
        raise Unusable(f"it is of {snapshot.position} events, and is kept as one of {stored.position}")
    following, link, links = stored.position + 1, snapshot.link, {GENESIS, snapshot.link}
    for segment in loaded.segments:
        if segment.first != following:
            raise Unusable(f"a segment begins at {segment.first}, and not at {following}")
        following, link = segment.last + 1, chain(link, segment.body)
        links.add(link)
    if link != loaded.record.chain or following != loaded.record.head + 1:
        raise Unusable("its hash does not lead to the head of the log")
    if loaded.known not in links:
        raise Unusable("the log was longer before, or has another beginning")


async def answered(run: Run, question: Callable[[Run], T], again: Again) -> T:
    """
    Return the answer to *question* about *run*, whose history is loaded as far as it asks for it, and not kept.

    A question about the recent past needs a few blocks; one that needs more gets everything.

    Args:
        again: calls a function of the store, again and again while that is unavailable.
    """
    try:
        return question(run)
    except HistoryNotLoaded:
        run = run.frozen_copy()  # what is loaded for one question is not kept in the run, which may lose more meanwhile
    history = run.memory.lineage.history
    for _ in range(KEPT // 2):
        try:
            return question(run)
        except HistoryNotLoaded as missing:
            first, last = missing.first, missing.last
        if history is None or first is None or last is None or last - first >= BLOCK:
            break
        removed = history.removed
        try:
            await again(partial(history.fetch, last))
        except HistoryTruncated:
            if history.removed == removed:
                raise
    await again(run.load)
    return question(run)


async def events_between(run: Run, position: int, head: int) -> AsyncGenerator[ev.AnyEvent, None]:
    """
    Yield the events of *run* after *position* up to *head*; those that are not in memory are loaded in blocks.

    If some of them were removed, the first one says so.
    """
    paged = run.memory.lineage.paged  # it stays as it is, whatever is evicted meanwhile
    removed = 0 if paged is None else paged.removed
    if position < removed:
        yield ev.LogTruncated(removed)
        position = removed
    if paged is None or position >= paged.cold:
        for event in run.memory.log[position:head]:
            yield event
        return
    cold, history, tail = paged.cold, paged.history.twin(), paged.tail[: head - paged.cold]
    for seq in range(position + 1, min(cold, head) + 1):
        await history.fetch(seq)
        yield history.event(seq)
    for event in tail:
        yield event


def is_partial(run: Run) -> bool:
    """Whether the beginning of the log of *run* is not in memory."""
    log: Any = run.memory.log
    return isinstance(log, PagedLog) and not log.history.is_loaded
