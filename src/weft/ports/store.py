"""
The protocols of stores, which keep runs beyond their process.

A store keeps one append-only log per run, and a record of its status.  It knows bytes and positions and nothing
about workflows: :mod:`weft.log` encodes and decodes the bodies.  Events are numbered 1, 2, 3, ...; the *head* of a
run is the number of its last event, and the events of one append come back as one segment.

The central idea: **an append is a compare-and-set** on the head and the epoch of its run.  A process that takes a run
over gets a new epoch (:class:`OwnedStore`), so an outdated writer cannot write, whatever it believes.  A store that
returns from ``append`` has promised that the batch survives the process.

Protocols are small, one per ability; a store *is* what it implements.  To write one, implement the protocols without
subclassing them, then run the suites of :mod:`weft.testing.contracts.store` against it.

**One open store belongs to one event loop**, the one that it was opened on.  Several tasks of that loop may call it at
once.  Other loops, threads and processes open another store on the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from weft.errors import InvalidAppend, StoreError
from weft.typing import RunId

RunStatus: TypeAlias = Literal["running", "waiting", "idle", "parked", "completed", "failed", "cancelled"]
"""The states of a stored run; the last three are finished.  Only a failed run can be retried, and then goes on."""

FINISHED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})
"""The statuses of finished runs: they accept no input, and nothing happens in them unless a failed one is retried."""

DUE: frozenset[RunStatus] = frozenset({"running", "waiting"})
"""The statuses of runs that have something to do, now or later: a process should own them."""

AT_REST: frozenset[RunStatus] = frozenset({"idle", *FINISHED})
"""The statuses of runs that have nothing left to do: they may be purged."""

NEVER: float = math.inf
"""The time at which a run is woken that no timer wakes."""
NO_DEADLINE: tuple[float, float] = (NEVER, NEVER)
"""The due times of a run without an open deadline."""

FIRST_EPOCH = 1
"""The epoch in which a run is created."""

ContentHash: TypeAlias = bytes
"""The address of a large value or a definition."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a run, readable without its log."""

    id: RunId
    workflow: str
    """The name of its workflow."""
    version: str = ""
    """The version of the definition of that name."""
    status: RunStatus = "running"
    reason: str = ""
    """Why it is parked, failed, cancelled, or being undone after that; empty otherwise."""
    failures: int = 0
    """How many failures there are that nothing has handled."""
    dead_letters: int = 0
    """How many of them are kept to be retried."""
    outcome: bytes = b""
    """
    The result or the failures of a finished run, as :mod:`weft.log.outcome` writes them.  It is empty if the run has
    not finished, or if its log has to be read for that.
    """
    head: int = 0
    """The number of its last event."""
    first: int = 1
    """The number of the first event that its log still has: more than 1 if it was truncated."""
    chain: bytes = b""
    """The hash of the log up to its head."""
    epoch: int = FIRST_EPOCH
    """How often it was acquired; only a writer that knows it can append."""
    created_at: float
    updated_at: float
    finished_at: float | None = None
    """When it was last finished; None if it is not."""
    wake_at: float | None = None
    """When a run that only waits has to be woken, in seconds since the epoch; None if time alone does not wake it."""
    owner: str | None = None
    """
    The process that drives it, in words; None if none does.  In the answers of :meth:`ListableStore.find` and ``list``
    it is alive, as far as the store can tell: one with leases may name a dead process until its lease has expired.
    """
    owner_died: bool = False
    """
    Whether the last owner died without releasing the run, which is free then.  A store that cannot tell says False.
    """
    died_in: int | None = None
    """
    In the answer of :meth:`OwnedStore.acquire`: the epoch of the first owner that died without releasing the run, of
    those since its last event; None if all have released it.  A store that cannot tell says None; then a run that keeps
    killing its process is not noticed.
    """
    unread: int = 0
    """In the answer of :meth:`~weft.ports.queue.QueueStore.claim`: how many messages there were for it."""


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
    A hash link that the whole log contains, stored separately: a log without it was cut off.  A store whose head
    is stored separately from the segments need not set it, since ``record.chain`` is enough.
    """
    link: bytes = b""
    """The hash of the log before its first event, ``record.first``; empty unless it was truncated."""


_NOTHING: Mapping[ContentHash, bytes] = {}


class Append(msgspec.Struct, frozen=True, gc=False):  # thousands wait in a batch, none in a cycle
    """
    The next events of one run, and the changes of its record.

    It is refused unless the head of the run is *expected* in *epoch*, and its last hash is *previous* if that is set.
    Without events (*count* 0) it changes only the record.  None leaves a field of the record as it is; writing the
    same status again costs more than leaving it out.

    >>> Append(run="r", expected=0, count=1, body=b"", chain=b"h", at=0.0)
    Traceback (most recent call last):
        ...
    weft.errors.InvalidAppend: the append to run 'r' counts 1 events in 0 bytes; encode the events it counts
    """

    run: RunId
    expected: int
    """The head after which the events come."""
    count: int
    body: bytes
    chain: bytes
    """The hash of the log up to the new head."""
    at: float
    """The time, in seconds since the epoch: a store has no clock, and relies on times of a run that never decrease."""
    epoch: int = FIRST_EPOCH
    previous: bytes | None = None
    """
    The hash of the log up to *expected*, as the writer knows it: ``b""`` for a log without events.
    A run with another last hash is refused.  None: not checked.
    """
    status: RunStatus | None = None
    reason: str = ""
    """Goes with *status*, as do the next three: they replace what the record says."""
    failures: int = 0
    dead_letters: int = 0
    outcome: bytes = b""
    wake_at: float | None = None
    """When the run has to be woken from now on; NEVER: time alone does not wake it; None: as it is."""
    due: tuple[float, float] | None = None
    """
    The earliest deadline of its open inputs: when it is in danger, and when it is past, for a ``DeadlineStore``;
    :data:`NO_DEADLINE`: there is none; None: as it is.
    """
    taken: tuple[int, ...] = ()
    """The numbers of the messages that its events come from: they leave the inbox in the same transaction."""
    tasks: tuple[tuple[int, int], ...] = ()
    """The tasks (ADR 53) whose outcomes are among its events, as their receipts say: they are over with it."""
    create: bool = False
    """The run must not exist yet.  Its creator owns it, in the first epoch."""
    workflow: str | None = None
    """Required with *create*."""
    version: str | None = None
    unique: str = ""
    """
    With *create*: the unique key of the run (:class:`UniqueStore`), which it has until it has finished.  The run that
    continues another one has the key of that one.
    """
    release: bool = False
    """Release the run in the same transaction."""
    again: bool = False
    """
    It may have been written already (an earlier attempt ended in doubt): if it was, it is not refused.
    A run that another owner created and owns, or that was created at another time, is never mistaken for this one.
    """
    facts: Mapping[ContentHash, bytes] = _NOTHING
    """Large values, stored once per run."""
    definitions: Mapping[ContentHash, bytes] = _NOTHING
    """Definitions, stored once per store."""
    snapshot: bytes = b""
    """
    A snapshot of the run at its new head, in place of the one before, for a :class:`SnapshotStore`: it is written in
    the same transaction as the events, or not at all.
    """

    group: str = ""
    """Appends of one batch with the same group, which is not empty, are written all together or not at all."""
    continues: RunId = ""
    """
    With *create*: the run that this one continues.  Its messages are messages for the new run from then on, also those
    that are posted later.
    """
    only_events: bool = False
    """
    Its maker says that it has nothing but events: every field after *previous* has its default, or is *again*.  Nearly
    all appends are of this kind, and the other fields need not be looked at then.  :attr:`has_only_events` is the
    answer for every append.
    """

    def __post_init__(self) -> None:
        if self.only_events and self.body and self.count > 0 and self.expected >= 0:  # the usual case
            return
        if self.expected < 0 or (self.count <= 0 if self.body else self.count):
            raise InvalidAppend(
                f"the append to run {self.run!r} counts {self.count} events in {len(self.body)} bytes; "
                "encode the events it counts"
            )
        if self.create:
            self._check_create()

    def _check_create(self) -> None:
        if self.workflow is None or self.expected or self.epoch != FIRST_EPOCH or not self.run:
            raise InvalidAppend(
                f"the append that creates run {self.run!r} needs an id, a workflow, expected=0 and the first epoch"
            )
        if self.previous:
            raise InvalidAppend(f"the append that creates run {self.run!r} names a previous log; leave previous empty")

    @property
    def head(self) -> int:
        """The number of the run's last event once this is written."""
        return self.expected + self.count

    @property
    def has_only_events(self) -> bool:
        """Whether it writes events and nothing else, even if its maker does not say so."""
        if self.only_events:
            return True
        has_more = self.changes_record or self.facts or self.definitions or self.snapshot or self.tasks
        return bool(self.count) and not has_more

    @property
    def changes_record(self) -> bool:
        """Whether it changes more than the log of the run, which few appends do."""
        if self.status is not None or self.create or self.release:
            return True
        if self.wake_at is not None or self.due is not None:
            return True
        return self.workflow is not None or self.version is not None or self.taken != ()


@runtime_checkable
class Store(Protocol):
    """The minimum that a runner needs: saving and loading whole logs."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used; a runner that receives it unopened opens and closes it."""
        ...

    async def open(self) -> None:
        """
        Open it for this event loop.

        Raises:
            StoreError: it cannot be used; the subclass says why.
        """
        ...

    async def close(self) -> None:
        """Write what was handed over, release every owned run, and free all resources; a second call does nothing."""
        ...

    async def save(self, record: RunRecord, body: bytes) -> None:
        """
        Replace the whole log of a run by ``record.head`` events in one *body*.

        A new run belongs to this store; ``record.owner`` is ignored.

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
        Write the whole *batch* in one transaction; return, for each append, None or the error that refused it.

        The errors are RunNotFound, RunExists, OwnershipLost (another epoch), ConcurrentAppend (another
        head), BrokenChain (another link at that head than ``previous``) and, of a :class:`UniqueStore`, UniqueKeyTaken.
        A refused append leaves nothing behind, and the others are written, except for those of its group: they are
        refused too, with the error of the one that was refused by itself.
        Several appends to one run are processed in their order.

        A cancelled caller does not learn whether its batch was written; it is written completely or not at all.

        Raises:
            StoreUnavailable: not now; the batch may have been written, so pass ``again=True`` next time.
            StoreError: the store itself failed, and nothing was written.
        """
        ...

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """
        Return the events after number *position*, in whole segments: the first may begin before it.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """
        Return the whole log of each of *runs*, or the error why it cannot be read, in one call of the store.

        All of them are in memory at once: ask for only as many as fit.

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
    """Large values, stored separately from the log, once per run."""

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """
        Store *facts*; values that are already stored stay.

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


class StoredSnapshot(msgspec.Struct, frozen=True):
    """The snapshot of a run after the event number *position*."""

    position: int
    body: bytes


@runtime_checkable
class SnapshotStore(Protocol):
    """
    Snapshots of runs, one for each, so that a resume need not read the whole log.

    Appends carry snapshots too (:attr:`Append.snapshot`).  A snapshot never removes events by itself.
    """

    async def save_snapshot(self, run: RunId, snapshot: StoredSnapshot, *, epoch: int) -> None:
        """
        Replace the snapshot of a run by one of events that are stored.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            OwnershipLost: the run is in another epoch.
            InvalidAppend: the log does not reach that position, or events after it were removed.
        """
        ...

    async def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """
        Return the snapshot of a run; None if there is none.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...

    async def load_between(self, run: RunId, first: int, last: int) -> Sequence[Segment]:
        """
        Return the events from number *first* to *last*, in whole segments, the outer ones of which may have more.

        Events that were removed (:meth:`TruncatingStore.truncate_before`) are left out.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...


@runtime_checkable
class TruncatingStore(Protocol):
    """Logs whose beginning can be removed, where a snapshot has what the future needs of it (ADR 44)."""

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
        """
        Remove the events before number *first*, of which the snapshot of the run has what the future needs.

        The head, the last hash and the record stay.  Events that were removed before are not missed.

        Args:
            link: the hash of the log up to the event before *first*.
            expected: the head of the run.
            epoch: its epoch.
            facts: large values that neither the snapshot nor the events that stay refer to; they are removed too, if
                the store is a :class:`FactStore`.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            OwnershipLost: the run is in another epoch.
            ConcurrentAppend: it has another head.
            InvalidAppend: the snapshot is older than that, or a segment begins before *first* and ends behind it.
        """
        ...


@runtime_checkable
class OwnedStore(Protocol):
    """
    Ownership of runs: which process may advance which run.

    An open store is one owner.  Its runs are free as soon as it is closed or its process is dead.
    """

    async def acquire(self, run: RunId) -> RunRecord:
        """
        Own the run, in a new epoch: earlier owners can no longer append, nor can earlier workers of this owner.

        The record says in which epoch an owner died without releasing the run (``died_in``): a store that was closed
        has released its runs, and an owner that acquires its own run again has not died.  It says so until the run has
        another event, so a call that is repeated, and an owner that leaves without a word, hide no death.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        ...

    async def acquire_many(self, runs: Collection[RunId]) -> Mapping[RunId, RunRecord | StoreError]:
        """
        Own each of *runs* as :meth:`acquire` does, in one transaction; return, for each, its record or an error.

        The errors are RunNotFound, RunOwned, and CorruptStore if only that run cannot be read.  The others are owned.

        Raises:
            StoreError: the store itself failed, and nothing was acquired.
        """
        ...

    async def list_free(
        self, *, statuses: Collection[RunStatus] = DUE, after: RunRecord | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """
        Return a page of the runs in one of *statuses* without a living owner, oldest first (then by id).

        None is acquired.  They were free when the store looked; :meth:`acquire_many` decides.

        Args:
            after: the last record of the page before.
        """
        ...

    async def release(self, runs: Iterable[RunId]) -> None:
        """Release these runs; runs that this store does not own are left alone."""
        ...


@runtime_checkable
class ListableStore(Protocol):
    """Finding, listing and deleting runs."""

    async def exists(self, run: RunId) -> bool:
        """Return whether a run is stored under this id."""
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
        failed: bool | None = None,
        since: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """
        Return a page of runs, newest first (then by id, the last one first).

        Args:
            statuses: only runs in one of these.
            workflow: only runs of the workflow with this name.
            failed: only runs with failures that nothing has handled, whatever their status; False: only those without.
            since: only runs that were created at this time or later.
            after: the last record of the page before.
            limit: how many of them at most.
        """
        ...

    async def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs :meth:`list` has on all of its pages together."""
        ...

    async def delete(self, run: RunId) -> None:
        """
        Delete a run, its log and its facts, whatever its status.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        ...

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """
        Delete runs that were last written before a time; return how many.

        Runs with a living owner stay, and so do definitions.

        Raises:
            InvalidStoreOption: *statuses* names one that is not at rest; such runs have work left.
        """
        ...


@runtime_checkable
class UniqueStore(Protocol):
    """
    Unique keys of runs: of the unfinished runs of a workflow, at most one has a certain key (ADR 56).

    A run is created with its key (:attr:`Append.unique`).  The append that finishes it frees the key, and one that lets
    it go on after a failure takes the key again; such an append is refused with UniqueKeyTaken if another run has it.
    """

    async def key_holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the id of the unfinished run of *workflow* that has the key *unique*; None if none has it."""
        ...

    async def key_rival(self, run: RunId) -> tuple[str, str, RunId] | None:
        """
        Return the workflow and the key of *run*, and the id of the other unfinished run that has that key.

        None if *run* has no key, or no other run has it.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...


@runtime_checkable
class WaitingStore(Protocol):
    """Runs that wait, in the order in which time wakes them."""

    async def list_waiting(
        self,
        *,
        workflow: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """
        Return a page of the waiting runs: the one that is woken first comes first, as :func:`wake_order` says.

        Args:
            workflow: only runs of the workflow with this name.
            since: only runs that were created at this time or later.
            until: only runs that were created before this time.
            after: the last record of the page before.
            limit: how many of them at most.
        """
        ...


def wake_order(record: RunRecord) -> tuple[float, float, RunId]:
    """
    Return the place of a waiting run among all: by when time wakes it, the oldest first, then by id.

    >>> record = RunRecord(id="r", workflow="w", created_at=1.0, updated_at=1.0)
    >>> wake_order(record)  # time alone does not wake it
    (inf, 1.0, 'r')
    """
    return NEVER if record.wake_at is None else record.wake_at, record.created_at, record.id


@runtime_checkable
class StatisticsStore(Protocol):
    """Numbers of runs, for lists and pictures of many: without reading the records."""

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs there are, by the name of their workflow and their status."""
        ...

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of the workflow with this name there are, by its version."""
        ...

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """
        Return how many runs were created in each period of *width* seconds, by the number of the period and status.

        Args:
            since: when the period 0 begins; earlier runs are left out.
            workflow: only runs of the workflow with this name.
        """
        ...


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a caller that does not own the run: its *kind*, and a *body* that :mod:`weft.log` has encoded."""

    run: RunId
    kind: str
    body: bytes
    at: float
    """When it was posted, in seconds since the epoch."""
    number: int = 0
    """Assigned by the store: later messages have higher numbers."""


@runtime_checkable
class InboxStore(Protocol):
    """
    Messages for runs, from callers that do not own them.

    A message is stored until an append of its run names it in ``taken``, or the run is deleted.
    """

    async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
        """
        Store *messages* in their order, in one transaction; return, for each, its number or the error that refused it.

        A message for a run that another one continues (``Append.continues``) is stored for that one.
        The error is RunNotFound.  The owners of the runs are notified soon (:meth:`listen`).
        """
        ...

    async def messages(
        self, runs: Collection[RunId] | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Message]:
        """
        Return the messages of *runs*, or of all runs that this store owns, in the order of their numbers.

        None is removed.

        Args:
            after: only messages with higher numbers.
            limit: how many of them at most.
        """
        ...

    async def addressed(self, *, after: RunId = "", limit: int = 100) -> Sequence[RunId]:
        """
        Return the ids of idle runs that have messages and no living owner, in the order of their ids.

        Such a run has something to do, although its status does not say so: a process should own it.

        Args:
            after: only ids behind this one.
            limit: how many of them at most.
        """
        ...

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:
        """
        Call *notify*, in the event loop, soon after something was posted for a run that this store owns.

        It may be called without reason.  Return a function that ends this; closing the store does too.
        """
        ...


@runtime_checkable
class CompactStore(Protocol):
    """A store that can keep old segments in less space."""

    async def compact(self, run: RunId) -> int:
        """
        Store old segments of a run in fewer rows; return how many segments were moved.

        What is read of the run is the same before and after.  Other writers get their turn in between.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        ...


@runtime_checkable
class CheckpointStore(Protocol):
    """A store that keeps recent writes in a separate file."""

    async def checkpoint(self) -> None:
        """Move recent writes into the main file, for instance before copying it."""
        ...
