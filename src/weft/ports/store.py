"""
Where runs outlive their process.

A store keeps, per run, one append-only log and a record of where that log stands.
It knows bytes and positions and nothing of workflows: what a body means is the
business of :mod:`weft.log`.  Events are numbered 1, 2, 3, ...; the *head* of a run is
the number of its last event, and what one append wrote comes back as one segment.

The one idea: **an append is a compare-and-set** on the head and the epoch of its run.
Who takes a run over gets a new epoch (:class:`OwnedStore`), so a writer that was left
behind cannot write, whatever it believes.  A store that returns from ``append`` has
promised that the batch survives the process.

Protocols are small, one per ability; a store *is* what it implements.  To write one,
subclass nothing: match the protocols, then run the suites of
:mod:`weft.testing.contracts.store` against it.

**One open store belongs to one event loop**, the one that it was opened on.  Several
tasks of that loop may call it at once.  Other loops, threads and processes open a
store of their own on the same data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from weft.errors import InvalidAppend, StoreError
from weft.typing import RunId

RunStatus: TypeAlias = Literal["running", "waiting", "idle", "parked", "completed", "failed", "cancelled"]
"""The states of a stored run; the last three are closed, and closed is absorbing."""

CLOSED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})
"""Nothing will ever happen to such a run again."""

DUE: frozenset[RunStatus] = frozenset({"running", "waiting"})
"""Such a run has something to do, now or later: somebody should own it."""

FINISHED: frozenset[RunStatus] = frozenset({"idle", "completed", "failed", "cancelled"})
"""Such a run has done all it was asked for: it may be purged."""

FIRST_EPOCH = 1
"""The epoch of whoever created a run."""

ContentHash: TypeAlias = bytes
"""What a large value or a definition is addressed by."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows of a run without reading its log."""

    id: RunId
    workflow: str
    """The name of its workflow."""
    version: str = ""
    """Which definition of that name."""
    status: RunStatus = "running"
    reason: str = ""
    """Why it is parked, failed or cancelled; empty otherwise."""
    head: int = 0
    """The number of its last event."""
    chain: bytes = b""
    """The hash of the log up to its head."""
    epoch: int = FIRST_EPOCH
    """How often it changed hands; only who knows it can append."""
    created_at: float
    updated_at: float
    owner: str | None = None
    """Who took it, in words.  It may have died since: only :meth:`OwnedStore.acquire` finds out."""


class Segment(msgspec.Struct, frozen=True):
    """*count* consecutive events, of which the first has the number *first*, as one *body*."""

    first: int
    count: int
    body: bytes

    @property
    def last(self) -> int:
        """The number of its last event."""
        return self.first + self.count - 1


class LoadedRun(msgspec.Struct, frozen=True):
    """A run and, in order, the segments that were asked for."""

    record: RunRecord
    segments: Sequence[Segment]
    known: bytes = b""
    """
    A link that the whole log has, kept apart from it: a log without it was cut off.  A store whose head
    is kept apart from the segments need not say one, since ``record.chain`` tells.
    """


_NOTHING: Mapping[ContentHash, bytes] = {}


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # thousands wait in a batch, none in a cycle
    """
    The next events of one run, and what becomes of its record.

    It is refused unless the run stands at *expected* in *epoch*, after *previous* if that is said.
    Without events (*count* 0) it changes the record alone.  None leaves a field of the record as it is:
    saying the same status again costs more than saying nothing.

    >>> Append(run="r", expected=0, count=1, body=b"", chain=b"h", at=0.0)
    Traceback (most recent call last):
        ...
    weft.errors.InvalidAppend: the append to run 'r' counts 1 events in 0 bytes; encode the events it counts
    """

    run: RunId
    expected: int
    """The head that the events come after."""
    epoch: int = FIRST_EPOCH
    count: int
    body: bytes
    chain: bytes
    """The hash of the log up to the new head."""
    previous: bytes | None = None
    """
    The hash of the log up to *expected*, as the writer knows it: ``b""`` for a log without events.
    A run whose last hash is another one is refused.  None: the writer does not say.
    """
    at: float
    """When, in seconds since the epoch: a store has no clock, and relies on that the times of a run do not go back."""
    status: RunStatus | None = None
    reason: str = ""
    """Goes with *status*."""
    create: bool = False
    """The run must not exist yet.  Whoever creates it owns it, in the first epoch."""
    workflow: str | None = None
    """Required with *create*."""
    version: str | None = None
    release: bool = False
    """Give the run up in the same transaction."""
    again: bool = False
    """
    It may have been written already (an earlier try ended in doubt): if it was, that is no refusal.
    What another owner created and holds is never taken for one's own, nor what was created at another time.
    """
    facts: Mapping[ContentHash, bytes] = _NOTHING
    """Large values, stored once per run."""
    definitions: Mapping[ContentHash, bytes] = _NOTHING
    """Definitions, stored once per store."""

    def __post_init__(self) -> None:
        if self.count < 0 or self.expected < 0 or (self.count > 0) != bool(self.body):
            raise InvalidAppend(
                f"the append to run {self.run!r} counts {self.count} events in {len(self.body)} bytes; "
                "encode the events it counts"
            )
        if self.create and (self.workflow is None or self.expected or self.epoch != FIRST_EPOCH or not self.run):
            raise InvalidAppend(
                f"the append that creates run {self.run!r} needs an id, a workflow, expected=0 and the first epoch"
            )
        if self.create and self.previous:
            raise InvalidAppend(
                f"the append that creates run {self.run!r} says that a log precedes it; leave previous empty"
            )

    @property
    def head(self) -> int:
        """The number of the run's last event once this is written."""
        return self.expected + self.count

    @property
    def changes_record(self) -> bool:
        """Whether it says more of the run than what comes next in its log, as few appends do."""
        return (
            self.status is not None
            or self.create
            or self.release
            or self.workflow is not None
            or self.version is not None
        )


@runtime_checkable
class Store(Protocol):
    """The least that a runner needs: whole logs, put and got."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used; who was given it unopened opens and closes it."""
        ...

    async def open(self) -> None:
        """
        Make it ready for this event loop.

        Raises:
            StoreError: it cannot be used; the case says why.
        """
        ...

    async def close(self) -> None:
        """Write what was handed over, give up every run that is owned, free what is held; again: nothing."""
        ...

    async def save(self, record: RunRecord, body: bytes) -> None:
        """
        Put the whole log of a run, ``record.head`` events in one *body*, in place of what was there.

        A run that is new belongs to who saved it; ``record.owner`` is not looked at.

        Raises:
            OwnershipLost: the run is in another epoch than the record.
        """
        ...

    async def load(self, run: RunId) -> LoadedRun:
        """
        Return the whole log.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...


@runtime_checkable
class LogStore(Store, Protocol):
    """Logs that grow, many of them in one transaction."""

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """
        Write the whole *batch* in one transaction; return, for each of it, None or why it was refused.

        Refused are RunNotFound, RunExists, OwnershipLost (another epoch), ConcurrentAppend (another
        head) and BrokenChain (another link at that head than ``previous``).
        What is refused leaves nothing behind and the others are written.
        Several appends to one run are taken in their order.

        A caller that is cancelled does not learn what became of its batch, which is
        written as a whole or not at all.

        Raises:
            StoreUnavailable: not now; whether it was written may be in doubt, so say ``again=True`` next time.
            StoreError: the store itself failed, and nothing was written.
        """
        ...

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """
        Return what came after the event number *position*, in whole segments: the first may begin before it.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """
        Return the whole logs of *runs*, in one question to the store; for each of them, or why it cannot be read.

        All of them are in memory at once: ask for as many as there is room for.

        Raises:
            StoreError: the store itself failed.
        """
        ...

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """
        Return the definitions.

        Raises:
            MissingContent: one of them was never stored.
        """
        ...


@runtime_checkable
class FactStore(Protocol):
    """Large values beside the log, once per run."""

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """
        Keep *facts*; what is there already stays.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """
        Return the values.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            MissingContent: one of them was never stored.
        """
        ...


@runtime_checkable
class OwnedStore(Protocol):
    """
    Who may advance which run.

    An open store is one owner.  Its runs are free the moment it is closed or its process is dead.
    """

    async def acquire(self, run: RunId) -> RunRecord:
        """
        Own the run, in a new epoch: whoever held it before can no longer append, this owner's past self included.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        ...

    async def acquire_many(self, runs: Collection[RunId]) -> Mapping[RunId, RunRecord | StoreError]:
        """
        Own each of *runs* as :meth:`acquire` does, in one transaction; return, for each of them, its record or why not.

        Why not: RunNotFound, RunOwned, or CorruptStore where a run alone cannot be read.  The others are owned.

        Raises:
            StoreError: the store itself failed, and nothing was taken.
        """
        ...

    async def list_free(
        self, *, statuses: Collection[RunStatus] = DUE, after: RunRecord | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """
        Return a page of the runs in one of *statuses* that nobody alive owns, oldest first (then by id), and take none.

        They were free when the store looked: :meth:`acquire_many` finds out.

        Args:
            after: the last record of the page before.
        """
        ...

    async def acquire_all(
        self, *, statuses: Collection[RunStatus] = DUE, limit: int | None = None
    ) -> Sequence[RunRecord]:
        """Own every run in one of *statuses* that nobody alive owns, oldest first, at most *limit* of them."""
        ...

    async def release(self, runs: Iterable[RunId]) -> None:
        """Give these runs up; what is not owned by this store is left alone."""
        ...


@runtime_checkable
class ListableStore(Protocol):
    """What is there, and what is kept of it."""

    async def exists(self, run: RunId) -> bool:
        """Whether something is stored under this id."""
        ...

    async def find(self, run: RunId) -> RunRecord:
        """
        Return the record of a run.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...

    async def list(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """Return a page of runs, oldest first (then by id); *after* is the last record of the page before."""
        ...

    async def delete(self, run: RunId) -> None:
        """
        Forget a run, its log and its facts, whatever its status.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        ...

    async def purge(self, *, before: float, statuses: Collection[RunStatus] = CLOSED, limit: int | None = None) -> int:
        """
        Forget runs that were last written before a time; return how many.

        What somebody alive owns stays, and so do definitions.

        Raises:
            InvalidStoreOption: *statuses* names one that is not finished: such a run has work left.
        """
        ...


@runtime_checkable
class CheckpointStore(Protocol):
    """A store that keeps recent writes apart."""

    async def checkpoint(self) -> None:
        """Fold what was written recently into the main file, as before copying it."""
        ...
