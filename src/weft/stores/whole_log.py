"""
An adapter that lets a runner use a store that only knows whole logs.

The simplest store can only save and load a log by its id.  The adapter turns that into a log that grows: it keeps the
events in memory until the run has finished, and every append saves the whole log again.  The cost grows with the
length of the log, so it is for short runs.

A store that can list its runs can do so behind the adapter too.  Runners that share a store share its adapter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from weft.errors import BrokenChain, ConcurrentAppend, CorruptLog, MissingContent, RunExists, RunNotFound, StoreError
from weft.ports.store import (
    FINISHED,
    FIRST_EPOCH,
    Append,
    ContentHash,
    ListableStore,
    LoadedRun,
    RunRecord,
    RunStatus,
    Segment,
    Store,
)
from weft.typing import RunId


class _Whole(msgspec.Struct, frozen=True):
    """The content of the body that such a store keeps."""

    segments: list[tuple[int, bytes]]
    """How many events, and their bytes."""
    facts: dict[bytes, bytes]
    definitions: dict[bytes, bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Whole).decode


def as_log_store(store: Store) -> WholeLogAdapter:
    """Return the adapter of *store*: the same one as long as a runner has it."""
    known = _adapters.get(id(store))
    if known is None:
        kind = ListableWholeLogAdapter if isinstance(store, ListableStore) else WholeLogAdapter
        known = _adapters[id(store)] = kind(store)
    return known


class WholeLogAdapter:
    """*store*, as one whose logs grow."""

    writes_groups = False
    """Whether several logs are written together: they are saved one after the other."""

    def __init__(self, store: Store) -> None:
        self._store = self.adapted = store
        self._known: dict[RunId, tuple[RunRecord, _Whole]] = {}
        self._definitions: dict[ContentHash, bytes] = {}

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._store.is_open

    async def open(self) -> None:
        """Open the store."""
        await self._store.open()

    async def close(self) -> None:
        """Close the store."""
        self._known.clear()
        await self._store.close()

    async def save(self, record: RunRecord, body: bytes) -> None:
        """Save a whole log."""
        await self._store.save(record, body)

    async def load(self, run: RunId) -> LoadedRun:
        """Return the whole log."""
        return await self.load_since(run, 0)

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Save the log of every run of *batch* again; a run that is refused is left out."""
        return [await self._put(append) for append in batch]

    async def _put(self, append: Append) -> StoreError | None:
        try:
            record, whole = await self._find(append.run)
        except RunNotFound as missing:
            if not append.create:
                return missing
            name, version = append.workflow or "", append.version or ""
            record = RunRecord(
                id=append.run, workflow=name, version=version, created_at=append.at, updated_at=append.at
            )
            whole = _Whole([], {}, {})
        else:
            is_mine = not append.create or record.created_at == append.at
            if append.again and is_mine and (record.head, record.chain) == (append.head, append.chain):
                return None
            if append.create:
                return RunExists(append.run)
            if record.head != append.expected:
                return ConcurrentAppend(append.run, append.expected, record.head)
            if append.previous is not None and append.previous != record.chain:
                return BrokenChain(append.run, append.expected)
        changed = replace(
            record,
            head=append.head,
            chain=append.chain,
            epoch=FIRST_EPOCH,
            updated_at=append.at,
        )
        if append.status is not None:
            changed = replace(
                changed,
                status=append.status,
                reason=append.reason,
                failures=append.failures,
                dead_letters=append.dead_letters,
                outcome=append.outcome,
                finished_at=append.at if append.status in FINISHED else None,
            )
        segments = [*whole.segments, (append.count, append.body)] if append.count else whole.segments
        grown = _Whole(segments, {**whole.facts, **append.facts}, {**whole.definitions, **append.definitions})
        await self._store.save(changed, _encode(grown))
        self._keep(changed, grown)
        if append.release:
            del self._known[append.run]
        return None

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """Return what came after *position*, in whole segments."""
        record, whole = await self._find(run)
        found: list[Segment] = []
        first = 1
        for count, body in whole.segments:
            if first + count - 1 > position:
                found.append(Segment(first, count, body))
            first += count
        return LoadedRun(record, found)

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """Return the whole logs of *runs*, or why one cannot be read; one after the other."""
        return {run: await self._loaded(run) for run in runs}

    async def _loaded(self, run: RunId) -> LoadedRun | StoreError:
        try:
            return await self.load_since(run, 0)
        except RunNotFound as missing:
            return missing

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return definitions of runs that were loaded here."""
        missing = [key for key in hashes if key not in self._definitions]
        if missing:
            raise MissingContent("definition", missing)
        return {key: self._definitions[key] for key in hashes}

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """Keep *facts* with the log of *run*."""
        record, whole = await self._find(run)
        grown = replace(whole, facts={**whole.facts, **facts})
        await self._store.save(record, _encode(grown))
        self._keep(record, grown)

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return large values of *run*."""
        _, whole = await self._find(run)
        missing = [key for key in hashes if key not in whole.facts]
        if missing:
            raise MissingContent("fact", missing, run)
        return {key: whole.facts[key] for key in hashes}

    async def _find(self, run: RunId) -> tuple[RunRecord, _Whole]:
        known = self._known.get(run)
        if known is None:
            loaded = await self._store.load(run)
            try:
                whole = _decode(b"".join(segment.body for segment in loaded.segments))
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                raise CorruptLog(f"what is stored of run {run!r} is not a log: {error}") from error
            known = self._keep(loaded.record, whole)
        return known

    def _keep(self, record: RunRecord, whole: _Whole) -> tuple[RunRecord, _Whole]:
        self._definitions.update(whole.definitions)
        known = self._known[record.id] = (record, whole)
        return known


class ListableWholeLogAdapter(WholeLogAdapter):
    """*store*, which can list its runs, as one whose logs grow."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        assert isinstance(store, ListableStore)  # noqa: S101 - the factory has looked
        self._list: ListableStore = store

    async def exists(self, run: RunId) -> bool:
        """Whether something is stored under this id."""
        return await self._list.exists(run)

    async def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        return await self._list.find(run)

    async def list(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """Return a page of runs."""
        return await self._list.list(
            statuses=statuses, workflow=workflow, failed=failed, since=since, after=after, limit=limit
        )

    async def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        return await self._list.count(statuses=statuses, workflow=workflow, failed=failed, since=since)

    async def delete(self, run: RunId) -> None:
        """Delete a run."""
        await self._list.delete(run)
        self._known.pop(run, None)

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """Delete old runs."""
        gone = await self._list.purge(before=before, statuses=statuses, limit=limit)
        for run in [run for run, (record, _) in self._known.items() if record.status in statuses]:
            del self._known[run]  # perhaps it is still there: then it is read again
        return gone


_adapters: Final[WeakValueDictionary[int, WholeLogAdapter]] = WeakValueDictionary()
"""By id of the store; the adapter keeps the store, so no other one gets its id."""
