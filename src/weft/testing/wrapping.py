"""
A store around a store, for subclasses that change one call and leave the others alone.

Every call of the protocols goes through one method, :meth:`WrappedStore.around`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

from weft.errors import StoreError
from weft.ports.deadlines import DeadlineStore, Endangered
from weft.ports.store import (
    DUE,
    FINISHED,
    Append,
    ContentHash,
    FactStore,
    InboxStore,
    ListableStore,
    LoadedRun,
    LogStore,
    Message,
    OwnedStore,
    RunRecord,
    RunStatus,
    Segment,
    SnapshotStore,
    StatisticsStore,
    StoredSnapshot,
    TruncatingStore,
    UniqueStore,
    WaitingStore,
)
from weft.ports.streams import Chunk, StreamStore
from weft.typing import RunId

T = TypeVar("T")


class FullStore(
    LogStore,
    FactStore,
    SnapshotStore,
    TruncatingStore,
    OwnedStore,
    ListableStore,
    StatisticsStore,
    UniqueStore,
    WaitingStore,
    InboxStore,
    StreamStore,
    DeadlineStore,
    Protocol,
):
    """All protocols that the stores of Weft implement."""


class WrappedStore:
    """Passes every call to *inner*."""

    sees_every_commit = True
    """Whether each step is written by itself, also in memory: what watches a store, or lets it fail, sees them all."""

    def __init__(self, inner: FullStore) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002 - for subclasses
        """Make the call with this name; subclasses override it to do something else too."""
        return await act()

    @property
    def is_open(self) -> bool:
        """Whether the inner store is open."""
        return self.inner.is_open

    @property
    def is_durable(self) -> bool:
        """Whether the runs of the inner store outlive the process."""
        return getattr(self.inner, "is_durable", True)

    async def open(self) -> None:
        """Open the inner store."""
        await self.around("open", self.inner.open)

    async def close(self) -> None:
        """Close the inner store."""
        await self.around("close", self.inner.close)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def save(self, record: RunRecord, body: bytes) -> None:
        """Save the whole log of a run."""
        await self.around("save", lambda: self.inner.save(record, body))

    async def load(self, run: RunId) -> LoadedRun:
        """Return the whole log."""
        return await self.around("load", lambda: self.inner.load(run))

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write the batch."""
        return await self.around("append", lambda: self.inner.append(batch))

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """Return the events after *position*."""
        return await self.around("load_since", lambda: self.inner.load_since(run, position))

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """Return whole logs."""
        return await self.around("load_many", lambda: self.inner.load_many(runs))

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return definitions."""
        return await self.around("load_definitions", lambda: self.inner.load_definitions(hashes))

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """Store facts."""
        await self.around("save_facts", lambda: self.inner.save_facts(run, facts))

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return facts."""
        return await self.around("load_facts", lambda: self.inner.load_facts(run, hashes))

    async def save_snapshot(self, run: RunId, snapshot: StoredSnapshot, *, epoch: int) -> None:
        """Store a snapshot."""
        await self.around("save_snapshot", lambda: self.inner.save_snapshot(run, snapshot, epoch=epoch))

    async def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """Return the snapshot of a run."""
        return await self.around("load_snapshot", lambda: self.inner.load_snapshot(run))

    async def load_between(self, run: RunId, first: int, last: int) -> Sequence[Segment]:
        """Return a part of a log."""
        return await self.around("load_between", lambda: self.inner.load_between(run, first, last))

    async def truncate_before(
        self,
        run: RunId,
        first: int,
        *,
        link: bytes,
        expected: int,
        epoch: int,
        facts: Collection[ContentHash] = (),
    ) -> None:
        """Remove the beginning of a log."""
        await self.around(
            "truncate_before",
            lambda: self.inner.truncate_before(run, first, link=link, expected=expected, epoch=epoch, facts=facts),
        )

    async def acquire(self, run: RunId) -> RunRecord:
        """Own the run."""
        return await self.around("acquire", lambda: self.inner.acquire(run))

    async def acquire_many(self, runs: Collection[RunId]) -> Mapping[RunId, RunRecord | StoreError]:
        """Own these runs."""
        return await self.around("acquire_many", lambda: self.inner.acquire_many(runs))

    async def list_free(
        self, *, statuses: Collection[RunStatus] = DUE, after: RunRecord | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """Return a page of free runs."""
        return await self.around("list_free", lambda: self.inner.list_free(statuses=statuses, after=after, limit=limit))

    async def release(self, runs: Iterable[RunId]) -> None:
        """Release runs."""
        await self.around("release", lambda: self.inner.release(runs))

    async def exists(self, run: RunId) -> bool:
        """Return whether a run is stored under this id."""
        return await self.around("exists", lambda: self.inner.exists(run))

    async def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        return await self.around("find", lambda: self.inner.find(run))

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
        return await self.around(
            "list",
            lambda: self.inner.list(
                statuses=statuses, workflow=workflow, failed=failed, since=since, after=after, limit=limit
            ),
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
        return await self.around(
            "count", lambda: self.inner.count(statuses=statuses, workflow=workflow, failed=failed, since=since)
        )

    async def key_holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the run that has a unique key."""
        return await self.around("key_holder", lambda: self.inner.key_holder(workflow, unique))

    async def key_rival(self, run: RunId) -> tuple[str, str, RunId] | None:
        """Return the other run that has the unique key of a run."""
        return await self.around("key_rival", lambda: self.inner.key_rival(run))

    async def list_waiting(
        self,
        *,
        workflow: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """Return a page of the waiting runs."""
        return await self.around(
            "list_waiting",
            lambda: self.inner.list_waiting(workflow=workflow, since=since, until=until, after=after, limit=limit),
        )

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs there are."""
        return await self.around("tally", self.inner.tally)

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of a workflow there are, by version."""
        return await self.around("count_versions", lambda: self.inner.count_versions(workflow))

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """Return how many runs were created when."""
        return await self.around("histogram", lambda: self.inner.histogram(since=since, width=width, workflow=workflow))

    async def endangered(self, now: float, *, limit: int = 100) -> Sequence[Endangered]:
        """Return runs whose deadline is in danger."""
        return await self.around("endangered", lambda: self.inner.endangered(now, limit=limit))

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        """Tell all dangers."""
        return await self.around("tell_dangers", lambda: self.inner.tell_dangers(now, limit=limit))

    async def tell_danger(self, run: RunId, deadline: float, now: float) -> Endangered | None:
        """Tell one danger."""
        return await self.around("tell_danger", lambda: self.inner.tell_danger(run, deadline, now))

    async def delete(self, run: RunId) -> None:
        """Delete a run."""
        await self.around("delete", lambda: self.inner.delete(run))

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """Delete old runs."""
        return await self.around("purge", lambda: self.inner.purge(before=before, statuses=statuses, limit=limit))

    async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
        """Store messages for runs."""
        return await self.around("post", lambda: self.inner.post(messages))

    async def messages(
        self, runs: Collection[RunId] | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Message]:
        """Return the messages for runs."""
        return await self.around("messages", lambda: self.inner.messages(runs, after=after, limit=limit))

    async def addressed(self, *, after: RunId = "", limit: int = 100) -> Sequence[RunId]:
        """Return idle runs with messages."""
        return await self.around("addressed", lambda: self.inner.addressed(after=after, limit=limit))

    async def write_chunks(self, chunks: Sequence[Chunk]) -> Sequence[int | StoreError]:
        """Write to streams."""
        return await self.around("write_chunks", lambda: self.inner.write_chunks(chunks))

    async def read_chunks(self, run: RunId, stream: str, *, start: int = 0, limit: int = 100) -> Sequence[Chunk]:
        """Read a stream."""
        return await self.around("read_chunks", lambda: self.inner.read_chunks(run, stream, start=start, limit=limit))

    async def save_progress(self, run: RunId, body: bytes) -> None:
        """Keep the progress of a run."""
        await self.around("save_progress", lambda: self.inner.save_progress(run, body))

    async def load_progress(self, run: RunId) -> bytes | None:
        """Read the progress of a run."""
        return await self.around("load_progress", lambda: self.inner.load_progress(run))

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Listen for messages."""
        return await self.around("listen", lambda: self.inner.listen(notify))
