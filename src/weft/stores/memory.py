"""
The reference store: dicts in this process.

It is the executable specification of :mod:`weft.ports.store`: where another store and this file
disagree, the other store is wrong.  Its runs survive closing and opening it again, as in a
restart, and are lost when the process ends.

    >>> import asyncio
    >>> async def two_appends():
    ...     async with MemoryStore() as store:
    ...         placed = Append(run="order-1", workflow="orders", create=True, expected=0, count=1,
    ...                         body=b"placed", chain=b"1", at=0.0)
    ...         paid = Append(run="order-1", expected=1, count=1, body=b"paid", chain=b"2", at=1.0)
    ...         refused = await store.append([placed, paid, paid])
    ...         return refused, (await store.load_since("order-1", 1)).segments
    >>> asyncio.run(two_appends())
    ([None, None, ConcurrentAppend("run 'order-1' is at 2, not 1: ...")], [Segment(first=2, count=1, body=b'paid')])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from operator import attrgetter
from typing import Final, NamedTuple, Self

from msgspec import structs

from weft.errors import (
    BrokenChain,
    ConcurrentAppend,
    InvalidAppend,
    InvalidStoreOption,
    MissingContent,
    OwnershipLost,
    RunExists,
    RunNotFound,
    StoreClosed,
    StoreError,
    UniqueKeyTaken,
)
from weft.ports.deadlines import Endangered
from weft.ports.jobs import DueJobs, StoredJob
from weft.ports.schedules import DueSchedules, StoredSchedule
from weft.ports.store import (
    AT_REST,
    DUE,
    FINISHED,
    NEVER,
    Append,
    ContentHash,
    LoadedRun,
    Message,
    RunRecord,
    RunStatus,
    Segment,
    StoredSnapshot,
    wake_order,
)
from weft.ports.streams import Chunk
from weft.ports.truncation import check_truncation, too_old_snapshot
from weft.stores.memory_jobs import JobRows
from weft.stores.memory_schedules import ScheduleRows
from weft.stores.memory_streams import StreamsOfRun
from weft.typing import RunId

_OWNER = "this process"
_IDLE: Final[tuple[RunStatus, ...]] = ("idle",)


class _Death(NamedTuple):
    """The death of an owner: its epoch, and the head of the run at that time."""

    epoch: int
    head: int


class _Stored:
    """One run: its record as it was last changed, and how far its log has come since."""

    __slots__ = (
        "_record",
        "chain",
        "died",
        "due",
        "epoch",
        "facts",
        "head",
        "inbox",
        "is_reported",
        "link",
        "segments",
        "snapshot",
        "streams",
        "successor",
        "unique",
        "updated_at",
    )

    def __init__(self, record: RunRecord) -> None:
        self.segments: list[Segment] = []
        self.link = b""
        """The hash of the log before its first segment, if it was truncated."""
        self.facts: dict[ContentHash, bytes] | None = None
        self.inbox: dict[int, Message] = {}
        self.streams: StreamsOfRun | None = None
        self.snapshot: StoredSnapshot | None = None
        self.successor: RunId | None = None
        self.due: tuple[float, float] | None = None
        """When its deadline is in danger, and when it is past."""
        self.is_reported = False
        """Whether it was reported that this deadline is in danger."""
        self.unique = ""
        """The unique key of the run, if it has one."""
        self.died: _Death | None = None
        """The first owner that died since the last event."""
        self._set(record)

    def _set(self, record: RunRecord) -> None:
        self._record = record
        self.epoch, self.head, self.chain, self.updated_at = record.epoch, record.head, record.chain, record.updated_at

    @property
    def record(self) -> RunRecord:
        """The record of the run, as of its last append."""
        known = self._record
        if known.head != self.head or known.chain != self.chain or known.updated_at != self.updated_at:
            known = self._record = structs.replace(known, head=self.head, chain=self.chain, updated_at=self.updated_at)
        return known

    @record.setter
    def record(self, record: RunRecord) -> None:
        self._set(record)

    @property
    def order(self) -> tuple[float, RunId]:
        """The place of the run among all: neither part of it ever changes."""
        return _order(self._record)

    def is_free(self, statuses: Collection[RunStatus]) -> bool:
        """Whether the run is in one of *statuses* and has no owner."""
        return self._record.owner is None and self._record.status in statuses

    def holds(self, append: Append) -> bool:
        """Whether *append* was written before: in an epoch one owner writes, so its events are there or nowhere."""
        if self.epoch != append.epoch or (append.create and self._record.created_at != append.at):
            return False
        if not append.count:
            return append.create or self.head > append.expected
        if Segment(append.expected + 1, append.count, append.body) in self.segments:
            return True
        return self._record.first == append.head + 1 and self.link == append.chain  # removed since

    def add(self, append: Append) -> None:
        """Write *append*."""
        self.updated_at = append.at
        if append.count:
            self.segments.append(Segment(append.expected + 1, append.count, append.body))
            self.head, self.chain = append.expected + append.count, append.chain
        elif append.create:
            self.chain = append.chain
        if not append.create and append.changes_record:  # the record of a new run was made of the append
            self._change(append)
        if append.facts:
            self.keep(append.facts)
        if append.snapshot:
            self.snapshot = StoredSnapshot(self.head, append.snapshot)
        if append.due is not None:
            self._due_by(*append.due)

    def _due_by(self, danger_at: float, deadline: float) -> None:
        """The earliest deadline of what is open is this one."""
        if self.due is not None and self.due[1] == deadline:
            self.due = min(self.due[0], danger_at), deadline
        else:
            self.due, self.is_reported = None if deadline == NEVER else (danger_at, deadline), False

    def endangered(self, now: float) -> Endangered | None:
        """Return the danger in which its deadline is at this time, if it is in one."""
        if self.due is None or self.due[0] > now or self._record.status in FINISHED:
            return None
        danger_at, deadline = self.due
        there = self._record
        return Endangered(there.id, there.workflow, there.status, deadline, danger_at, there.owner is not None)

    def _change(self, append: Append) -> None:
        """Change the record as *append* says."""
        there = self._record
        has_status = append.status is not None
        self._record = structs.replace(
            there,
            workflow=there.workflow if append.workflow is None else append.workflow,
            version=there.version if append.version is None else append.version,
            status=append.status or there.status,
            reason=append.reason if has_status else there.reason,
            failures=append.failures if has_status else there.failures,
            dead_letters=append.dead_letters if has_status else there.dead_letters,
            outcome=append.outcome if has_status else there.outcome,
            finished_at=(append.at if append.status in FINISHED else None) if has_status else there.finished_at,
            wake_at={None: there.wake_at, NEVER: None}.get(append.wake_at, append.wake_at),
            owner=None if append.release else there.owner,
        )
        for number in append.taken:
            self.inbox.pop(number, None)

    def keep(self, facts: Mapping[ContentHash, bytes]) -> None:
        """Keep large values; what is there already stays."""
        if self.facts is None:
            self.facts = {}
        _keep(facts, self.facts)


class MemoryStore:
    """
    Keeps runs in this process.

    Its only owner is the process that has it open, so no run is ever held by another owner;
    closing it frees all runs.  Runners that share it ask each other, and take nothing from each other.
    """

    is_durable = False
    """Whether its runs outlive the process."""

    def __init__(self) -> None:
        self._runs: dict[RunId, _Stored] = {}
        self._definitions: dict[ContentHash, bytes] = {}
        self._abandoned: set[RunId] = set()
        """Runs whose owner died, as :meth:`crash` says, and that have had none since."""
        self._is_open = False
        self._posted = 0
        """The number of the last message."""
        self._mailed: dict[RunId, _Stored] = {}
        """The runs that have had a message since this was last looked through."""
        self._listeners: dict[object, Callable[[], object]] = {}
        self._schedules = ScheduleRows()
        self._jobs = JobRows()
        self._keyed: dict[tuple[str, str], RunId] = {}
        """By workflow and unique key: the run that had it last, which may have finished since."""

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._runs)} runs)"

    # -- Store -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._is_open

    async def open(self) -> None:
        """Make it ready."""
        self._is_open = True

    async def close(self) -> None:
        """Free all runs, and keep them."""
        self._is_open = False
        self._listeners.clear()
        for stored in self._runs.values():
            stored.record = structs.replace(stored.record, owner=None)

    def crash(self) -> None:
        """
        Close as the death of a process does, for tests: all runs are free, and none of them was released.

        >>> store = MemoryStore()
        >>> store.crash()
        >>> store.is_open
        False
        """
        self._is_open = False
        for run, stored in self._runs.items():
            if stored.record.owner is not None:
                stored.record = structs.replace(stored.record, owner=None)
                self._abandoned.add(run)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def save(self, record: RunRecord, body: bytes) -> None:
        """Replace the whole log of a run."""
        self._check()
        stored = self._runs.get(record.id)
        if stored is None:
            stored = self._runs[record.id] = _Stored(structs.replace(record, owner=_OWNER))
        elif stored.epoch != record.epoch:
            raise OwnershipLost(record.id, record.epoch, stored.epoch)
        stored.record = structs.replace(record, owner=stored.record.owner, created_at=stored.record.created_at)
        stored.record = structs.replace(stored.record, first=1)
        stored.segments = [Segment(1, record.head, body)] if record.head else []
        stored.snapshot, stored.link = None, b""

    async def load(self, run: RunId) -> LoadedRun:
        """Return the whole log."""
        return await self.load_since(run, 0)

    # -- LogStore --------------------------------------------------------------------------------

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write the batch; return, for each of it, None or why it was refused."""
        self._check()
        groups = {each.group for each in batch if each.group}
        if not groups:
            return [self._take(each) for each in batch]
        refused = {group: self._refused_group(group, batch) for group in groups}
        return [refused.get(each.group) or self._take(each) for each in batch]

    def _refused_group(self, group: str, batch: Sequence[Append]) -> StoreError | None:
        """Return why a group of appends, each of which is about another run, is not written; None if it is."""
        found = (self._refusal(self._runs.get(each.run), each) for each in batch if each.group == group)
        return next((error for error in found if error is not None), None)

    def _take(self, append: Append) -> StoreError | None:
        stored = self._runs.get(append.run)
        is_next = (
            stored is not None
            and stored.head == append.expected
            and stored.chain == append.previous
            and stored.epoch == append.epoch
        )
        if not is_next or append.create or append.again or (append.status and stored and stored.unique):  # seldom
            error = self._refusal(stored, append)
            if error is not None:
                return error
        if stored is None:
            self._runs[append.run] = stored = _Stored(_first(append))
            stored.unique = append.unique
        elif append.again and stored.holds(append):
            return None
        stored.add(append)
        if append.definitions:
            _keep(append.definitions, self._definitions)
        if append.continues:
            self._pass_on(append.continues, stored, append.run)
        if stored.unique and stored.record.status not in FINISHED:
            self._keyed[stored.record.workflow, stored.unique] = append.run
        return None

    def _refusal(self, stored: _Stored | None, append: Append) -> StoreError | None:
        """Return why *append* to a run, which is *stored* unless it is new, is not written; None if it is."""
        error = _refusal(stored, append)
        if error is not None or (append.status or "running") in FINISHED:
            return error
        unique = append.unique if stored is None else stored.unique
        if not unique or (stored is not None and append.status is None):
            return None
        workflow = append.workflow or ("" if stored is None else stored.record.workflow)
        holder = self._holder(workflow, unique)
        return None if holder in (None, append.run) else UniqueKeyTaken(append.run, workflow, unique, holder)

    def _holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the unfinished run of *workflow* that has the key *unique*."""
        run = self._keyed.get((workflow, unique))
        known = None if run is None else self._runs.get(run)
        if known is None or known.unique != unique or known.record.status in FINISHED:
            self._keyed.pop((workflow, unique), None)
            return None
        return run

    # -- UniqueStore -----------------------------------------------------------------------------

    async def key_holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the unfinished run of *workflow* that has the key *unique*."""
        self._check()
        return self._holder(workflow, unique)

    async def key_rival(self, run: RunId) -> tuple[str, str, RunId] | None:
        """Return the workflow and the key of *run*, and the other run that has that key now."""
        stored = self._stored(run)
        holder = self._holder(stored.record.workflow, stored.unique) if stored.unique else None
        return None if holder in (None, run) else (stored.record.workflow, stored.unique, holder)

    # --------------------------------------------------------------------------------------------

    def _pass_on(self, continued: RunId, stored: _Stored, run: RunId) -> None:
        """Pass the messages of a run on to the run that continues it."""
        old = self._runs.get(continued)
        if old is not None:
            old.successor, messages, old.inbox = run, old.inbox, {}
            stored.unique = old.unique
            stored.inbox = {number: structs.replace(each, run=run) for number, each in messages.items()}
            self._mailed[run] = stored

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """Return the segments that hold what came after *position*."""
        stored = self._stored(run)
        return LoadedRun(stored.record, [each for each in stored.segments if each.last > position], link=stored.link)

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """Return the whole logs of *runs*, or why one cannot be read."""
        self._check()
        return {run: await self.load_since(run, 0) if run in self._runs else RunNotFound(run) for run in runs}

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the definitions."""
        self._check()
        return _pick("definition", self._definitions, hashes)

    # -- FactStore -------------------------------------------------------------------------------

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """Store *facts*; those that are stored already stay."""
        self._stored(run).keep(facts)

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the values."""
        return _pick("fact", self._stored(run).facts or {}, hashes, run)

    # -- SnapshotStore ---------------------------------------------------------------------------

    async def save_snapshot(self, run: RunId, snapshot: StoredSnapshot, *, epoch: int) -> None:
        """Replace the snapshot of a run."""
        stored = self._stored(run)
        if stored.epoch != epoch:
            raise OwnershipLost(run, epoch, stored.epoch)
        if snapshot.position > stored.head:
            raise InvalidAppend(
                f"a snapshot of {snapshot.position} events of run {run!r}, which has {stored.head}; append them first"
            )
        if snapshot.position < stored.record.first - 1:
            raise InvalidAppend(too_old_snapshot(run, snapshot.position, stored.record.first))
        stored.snapshot = snapshot

    async def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """Return the snapshot of a run."""
        return self._stored(run).snapshot

    async def load_between(self, run: RunId, first: int, last: int) -> Sequence[Segment]:
        """Return the segments that hold these events."""
        return [each for each in self._stored(run).segments if each.last >= first and each.first <= last]

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
        """Remove the events before number *first*."""
        stored = self._stored(run)
        if stored.epoch != epoch:
            raise OwnershipLost(run, epoch, stored.epoch)
        if stored.head != expected:
            raise ConcurrentAppend(run, expected, stored.head)
        record = stored.record
        if first > record.first:
            check_truncation(run, first, stored.head, stored.snapshot, {each.first for each in stored.segments})
            stored.segments = [each for each in stored.segments if each.first >= first]
            stored.record, stored.link = structs.replace(record, first=first), link
        for content in facts:
            (stored.facts or {}).pop(content, None)

    # -- OwnedStore ------------------------------------------------------------------------------

    async def acquire(self, run: RunId) -> RunRecord:
        """Own the run, in a new epoch."""
        return self._own(self._stored(run))

    async def acquire_many(self, runs: Collection[RunId]) -> Mapping[RunId, RunRecord | StoreError]:
        """Own each of *runs*, in a new epoch."""
        self._check()
        there = self._runs
        return {run: self._own(there[run]) if run in there else RunNotFound(run) for run in dict.fromkeys(runs)}

    async def list_free(
        self, *, statuses: Collection[RunStatus] = DUE, after: RunRecord | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """Return a page of the runs in one of *statuses* that have no owner; for that, not all runs are sorted."""
        self._check()
        free = (each for each in self._runs.values() if each.is_free(statuses))
        if after is not None:
            last = _order(after)
            free = (each for each in free if each.order > last)
        return [
            each.record for each in nsmallest(limit, free, key=attrgetter("order"))
        ]  # a page does not sort all runs

    def _own(self, stored: _Stored) -> RunRecord:
        stored.record = record = structs.replace(stored.record, owner=_OWNER, epoch=stored.record.epoch + 1)
        if record.id in self._abandoned:
            self._abandoned.remove(record.id)
            if stored.died is None or stored.died.head != record.head:
                stored.died = _Death(record.epoch - 1, record.head)
        if stored.died is None or stored.died.head != record.head:
            return record
        return structs.replace(record, died_in=stored.died.epoch)

    async def release(self, runs: Iterable[RunId]) -> None:
        """Release these runs."""
        self._check()
        for stored in (self._runs[run] for run in runs if run in self._runs):
            stored.record = structs.replace(stored.record, owner=None)

    # -- ListableStore ---------------------------------------------------------------------------

    async def exists(self, run: RunId) -> bool:
        """Whether something is stored under this id."""
        self._check()
        return run in self._runs

    async def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        return self._public_record(self._stored(run).record)

    def _public_record(self, record: RunRecord) -> RunRecord:
        return structs.replace(record, owner_died=True) if record.id in self._abandoned else record

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
        """Return a page of runs, newest first; for that, not all runs are sorted."""
        self._check()
        asked = self._asked(statuses, workflow, failed, since)
        if after is not None:
            last = _order(after)
            asked = (each for each in asked if each.order < last)
        return [self._public_record(each.record) for each in nlargest(limit, asked, key=attrgetter("order"))]

    async def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        self._check()
        return sum(1 for _ in self._asked(statuses, workflow, failed, since))

    async def list_waiting(
        self,
        *,
        workflow: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """Return a page of the waiting runs, by when they are woken."""
        self._check()
        asked = (each.record for each in self._asked(["waiting"], workflow, None, since))
        if until is not None:
            asked = (each for each in asked if each.created_at < until)
        if after is not None:
            last = wake_order(after)
            asked = (each for each in asked if wake_order(each) > last)
        return [self._public_record(each) for each in nsmallest(limit, asked, key=wake_order)]

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status."""
        self._check()
        return Counter((each.record.workflow, each.record.status) for each in self._runs.values())

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of a workflow there are, by version."""
        self._check()
        return Counter(each.record.version for each in self._asked(None, workflow, None, None))

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """Return how many runs were created in each period, by its number and status."""
        self._check()
        records = (stored.record for stored in self._asked(None, workflow, None, since))
        return Counter((int((record.created_at - since) // width), record.status) for record in records)

    async def delete(self, run: RunId) -> None:
        """Delete a run, its log and its facts."""
        self._stored(run)
        self._forget(run)

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """Delete finished runs that have no owner and were last written before a time; return how many."""
        self._check()
        if unfinished := sorted(set(statuses) - AT_REST):
            raise InvalidStoreOption(f"runs that are {', '.join(unfinished)} have work left; delete them one by one")
        old = [
            each.record.id
            for each in self._in_order()
            if each.record.status in statuses and each.record.updated_at < before and each.record.owner is None
        ][:limit]
        for run in old:
            self._forget(run)
        return len(old)

    def _forget(self, run: RunId) -> None:
        del self._runs[run]
        self._abandoned.discard(run)

    # -- DeadlineStore ---------------------------------------------------------------------------

    async def endangered(self, now: float, *, limit: int = 100) -> Sequence[Endangered]:
        """Return the runs whose deadline is in danger, or past."""
        self._check()
        found = (danger for each in self._runs.values() if (danger := each.endangered(now)) is not None)
        return nsmallest(limit, found, key=attrgetter("deadline", "run"))

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        """Mark all unreported dangers as reported; return them and the time of the next one."""
        self._check()
        open_ = [each for each in self._runs.values() if each.endangered(NEVER) is not None and not each.is_reported]
        found = [danger for each in open_ if (danger := each.endangered(now)) is not None][:limit]
        for danger in found:
            self._runs[danger.run].is_reported = True
        left = (each.due[0] for each in open_ if each.due is not None and not each.is_reported)
        return found, min((at for at in left), default=None)

    async def tell_danger(self, run: RunId, deadline: float, now: float) -> Endangered | None:
        """Mark one danger as reported and return it; None if there is none."""
        self._check()
        stored = self._runs.get(run)
        if stored is None or stored.is_reported or stored.due is None or stored.due[1] != deadline:
            return None
        stored.due, stored.is_reported = (min(stored.due[0], now), deadline), True
        return stored.endangered(now)

    # -- InboxStore ------------------------------------------------------------------------------

    async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
        """Store *messages*, and tell the listeners."""
        self._check()
        answers: list[int | StoreError] = []
        is_owned = False
        for each in messages:
            run, stored = each.run, self._runs.get(each.run)
            while stored is not None and stored.successor is not None:
                run, stored = stored.successor, self._runs.get(stored.successor)
            if stored is None:
                answers.append(RunNotFound(run))
                continue
            self._posted += 1
            stored.inbox[self._posted] = structs.replace(each, number=self._posted, run=run)
            answers.append(self._posted)
            self._mailed[run] = stored
            is_owned = is_owned or stored.record.owner is not None
        for notify in list(self._listeners.values()) if is_owned else ():
            notify()
        return answers

    async def messages(
        self, runs: Collection[RunId] | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Message]:
        """Return the messages of *runs*, or of all runs that have an owner."""
        self._check()
        if runs is None:
            self._mailed = {
                run: each for run, each in self._mailed.items() if each.inbox and self._runs.get(run) is each
            }
            asked = [each for each in self._mailed.values() if each.record.owner is not None]
        else:
            asked = [self._runs[run] for run in dict.fromkeys(runs) if run in self._runs]
        found = (message for stored in asked for message in stored.inbox.values() if message.number > after)
        return nsmallest(limit, found, key=attrgetter("number"))

    async def addressed(self, *, after: RunId = "", limit: int = 100) -> Sequence[RunId]:
        """Return the ids of idle runs that have messages and no owner."""
        self._check()
        found = (
            run
            for run, each in self._mailed.items()
            if run > after and each.inbox and self._runs.get(run) is each and each.is_free(_IDLE)
        )
        return nsmallest(limit, found)

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* when something was posted for a run that has an owner."""
        self._check()
        me = object()
        self._listeners[me] = notify

        def end() -> None:
            self._listeners.pop(me, None)

        return end

    # -- StreamStore -----------------------------------------------------------------------------

    async def write_chunks(self, chunks: Sequence[Chunk]) -> Sequence[int | StoreError]:
        """Store *chunks*."""
        self._check()
        there = self._runs
        return [self._streams(each.run).add(each) if each.run in there else RunNotFound(each.run) for each in chunks]

    async def read_chunks(self, run: RunId, stream: str, *, start: int = 0, limit: int = 100) -> Sequence[Chunk]:
        """Return chunks, from the one that holds the item at *start*."""
        self._check()
        return self._streams(run).read(stream, start, limit) if run in self._runs else []

    async def save_progress(self, run: RunId, body: bytes) -> None:
        """Keep the progress of a run."""
        self._check()
        if run in self._runs:
            self._streams(run).progress = body

    async def load_progress(self, run: RunId) -> bytes | None:
        """Return the progress of a run that was last kept."""
        self._check()
        return self._streams(run).progress if run in self._runs else None

    def _streams(self, run: RunId) -> StreamsOfRun:
        stored = self._runs[run]
        if stored.streams is None:
            stored.streams = StreamsOfRun()
        return stored.streams

    # --------------------------------------------------------------------------------------------

    # -- ScheduleStore ---------------------------------------------------------------------------

    async def put_schedule(self, row: StoredSchedule) -> bool:
        """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
        self._check()
        return self._schedules.put(row)

    async def list_schedules(self, name: str | None = None) -> Sequence[StoredSchedule]:
        """Return all rows of schedules, or the one of this *name*."""
        self._check()
        return self._schedules.listed(name)

    async def due_schedules(self, workflows: Collection[str], now: float, *, limit: int = 100) -> DueSchedules:
        """Return the schedules that are due."""
        self._check()
        return self._schedules.due(workflows, now, limit)

    async def delete_schedule(self, name: str) -> bool:
        """Delete the row of a schedule; return whether it was there."""
        self._check()
        return self._schedules.delete(name)

    # -- JobStore --------------------------------------------------------------------------------

    async def put_job(self, row: StoredJob, messages: Sequence[Message] = ()) -> Sequence[int | StoreError] | None:
        """Write *row* in place of the one with its revision, or as a new one, and post *messages*; else None."""
        self._check()
        return await self.post(messages) if self._jobs.put(row) else None

    async def list_jobs(self, id: str | None = None, *, limit: int = 100) -> Sequence[StoredJob]:
        """Return the newest rows of jobs, or the one of this *id*."""
        self._check()
        return self._jobs.listed(id, limit)

    async def due_jobs(self, now: float, *, limit: int = 10) -> DueJobs:
        """Return the jobs that are due."""
        self._check()
        return self._jobs.due(now, limit)

    async def delete_job(self, id: str) -> bool:
        """Delete the row of a job; return whether it was there."""
        self._check()
        return self._jobs.delete(id)

    # --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self._is_open:
            raise StoreClosed("the memory store")

    def _stored(self, run: RunId) -> _Stored:
        self._check()
        try:
            return self._runs[run]
        except KeyError:
            raise RunNotFound(run) from None

    def _asked(
        self,
        statuses: Collection[RunStatus] | None,
        workflow: str | None,
        failed: bool | None,
        since: float | None,
    ) -> Iterator[_Stored]:
        """Return the runs that a caller asks for, in no order."""
        return (
            each
            for each in self._runs.values()
            if (statuses is None or each.record.status in statuses)
            and (workflow is None or each.record.workflow == workflow)
            and (failed is None or failed == (each.record.failures > 0))
            and (since is None or each.record.created_at >= since)
        )

    def _in_order(self) -> Sequence[_Stored]:
        return sorted(self._runs.values(), key=lambda each: _order(each.record))


def _order(record: RunRecord) -> tuple[float, RunId]:
    return record.created_at, record.id


def _refusal(stored: _Stored | None, append: Append) -> StoreError | None:
    """Return why *append* to a run, which is *stored* unless it is new, is not written; None if it is."""
    if stored is None:
        return None if append.create else RunNotFound(append.run)
    if append.again and stored.holds(append):
        return None
    if append.create:
        return RunExists(append.run)
    if stored.epoch != append.epoch:
        return OwnershipLost(append.run, append.epoch, stored.epoch)
    if stored.head != append.expected:
        return ConcurrentAppend(append.run, append.expected, stored.head)
    if append.previous is not None and append.previous != stored.chain:
        return BrokenChain(append.run, append.expected)
    return None


def _first(append: Append) -> RunRecord:
    has_status = append.status is not None
    return RunRecord(
        id=append.run,
        workflow=append.workflow or "",
        version=append.version or "",
        status=append.status or "running",
        reason=append.reason if has_status else "",
        failures=append.failures if has_status else 0,
        dead_letters=append.dead_letters if has_status else 0,
        outcome=append.outcome if has_status else b"",
        wake_at=None if append.wake_at == NEVER else append.wake_at,
        created_at=append.at,
        updated_at=append.at,
        finished_at=append.at if append.status in FINISHED else None,
        owner=None if append.release else _OWNER,
    )


def _keep(contents: Mapping[ContentHash, bytes], there: dict[ContentHash, bytes]) -> None:
    for key, content in contents.items():
        there.setdefault(key, content)


def _pick(
    kind: str, there: Mapping[ContentHash, bytes], hashes: Collection[ContentHash], run: RunId | None = None
) -> dict[ContentHash, bytes]:
    if missing := [each for each in hashes if each not in there]:
        raise MissingContent(kind, missing, run)
    return {each: there[each] for each in hashes}
