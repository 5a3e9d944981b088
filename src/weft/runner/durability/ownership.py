"""
The stored runs that a runner owns: acquires, loads and releases them.

All of these calls are safe to repeat, so they are retried while the store is unavailable and the runner may wait.
A run that another runner holds, which shares the open store, is refused as one that another process holds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from heapq import nsmallest
from itertools import count
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import (
    CorruptLog,
    CorruptStore,
    HistoryTruncated,
    InvalidOption,
    OwnershipLost,
    RunnerClosed,
    RunNotFound,
    RunOwned,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    UniqueKeyTaken,
)
from weft.log import Decoder
from weft.ports.deadlines import DeadlineStore, Endangered
from weft.ports.store import (
    Append,
    InboxStore,
    ListableStore,
    LoadedRun,
    LogStore,
    OwnedStore,
    RunRecord,
    RunStatus,
    SnapshotStore,
    StatisticsStore,
    StoredSnapshot,
    UniqueStore,
    WaitingStore,
    wake_order,
)
from weft.runner.durability import neighbours
from weft.runner.durability.recovery import Recovered, recover, referred_by
from weft.runner.durability.rehydration import Sleeping, Unusable, rehydrate
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.durability.store_spans import spanned
from weft.runner.options import Rehydration
from weft.runner.slices import pause

T = TypeVar("T")
_log = logging.getLogger("weft.runner")

PAGE = 256
"""How many runs are taken over together."""
DECODERS = 64
"""How many definitions are kept in mind, about."""
LONG = 1_000
"""A run with more events than this is loaded from its snapshot, one with fewer together with others."""
EVENTS = 20_000
"""How many events are loaded together, unless one run has more."""


class AcquiredRun:
    """A run that was acquired and loaded, or why it could not be loaded."""

    __slots__ = ("_answer", "_ownership", "_rehydration", "_snapshot", "owned", "run")

    def __init__(
        self,
        ownership: Ownership,
        run: str,
        answer: LoadedRun | StoreError,
        owned: RunRecord | None,
        snapshot: StoredSnapshot | None = None,
        rehydration: Rehydration = "full",
    ) -> None:
        self._ownership, self.run, self._answer = ownership, run, answer
        self.owned = owned
        """Its record when it was acquired; None if it was not, or if the store does not know owners."""
        self._snapshot, self._rehydration = snapshot, rehydration

    @property
    def is_truncated(self) -> bool:
        """Whether its log was truncated, so that it cannot be folded."""
        return isinstance(self._answer, LoadedRun) and self._answer.record.first > 1

    async def recover(
        self,
        live: Callable[[RunRecord], Workflow | None],
        *,
        context: Mapping[str, Any],
        strict: bool,
        goes_on: bool = True,
    ) -> Recovered:
        """
        Return the run as it is stored; *live* finds its definition in this process.

        Raises:
            StoreError: it could not be loaded.
        """
        loaded = self._answer
        if isinstance(loaded, StoreError):
            raise loaded
        workflow = live(loaded.record)
        with self._ownership.decoder(loaded.record, workflow, strict=strict) as decoder:
            if self._snapshot is not None:
                try:
                    recovered = await self._rehydrate(loaded, self._snapshot, decoder, context)
                except Unusable as why:
                    if loaded.record.first > 1:
                        raise CorruptLog(
                            f"the log of run {self.run!r} was truncated, and the snapshot of what was removed cannot "
                            f"be used: {why}; a copy of the store may still have it"
                        ) from why
                    _log.warning("the snapshot of run %r cannot be used, and its log is read: %s", self.run, why)
                    loaded = await self._ownership.load_whole(loaded.record)
                else:
                    if goes_on:
                        recovered.check(workflow)
                    return recovered
            return await self._ownership.recover(
                loaded, workflow=workflow, context=context, strict=strict, goes_on=goes_on, decoder=decoder
            )

    async def _rehydrate(
        self,
        loaded: LoadedRun,
        stored: StoredSnapshot,
        decoder: Decoder,
        context: Mapping[str, Any],
    ) -> Recovered:
        unknown: dict[str, None] = {}
        run, sleeping = await self._ownership.rehydrate(
            loaded, stored, decoder, self._rehydration, context=context, unknown=unknown
        )
        return Recovered(run, loaded.record, unknown, sleeping)


class Ownership:
    """The runs of *store*.  While the runner *may_wait*, which outlasts being open, an unavailable store is retried."""

    def __init__(
        self,
        store: LogStore,
        is_open: Callable[[], bool],
        may_wait: Callable[[], bool],
        is_here: Callable[[str], bool],
        time: Callable[[], float] = time.time,
    ) -> None:
        """Own runs of *store*; *is_here* says whether a run is in the runner."""
        self._store, self._is_open, self._may_wait, self._time = store, is_open, may_wait, time
        self._is_here = is_here
        self._kept: dict[str, None] = {}
        """Runs this store may own that are not in the registry: loading, or release not confirmed."""
        self.deletions = 0
        """How often runs were deleted from here: what is known of a run that has left may be about one of them."""
        self._decoders: dict[tuple[str, str, int, bool], Decoder] = {}
        """By workflow, its version, the live one of them and whether they are strict: many runs share a definition."""

    @property
    def is_durable(self) -> bool:
        """Whether another process may continue the runs."""
        return getattr(self._store, "is_durable", True)

    @property
    def writes_in_a_thread(self) -> bool:
        """Whether an append needs a thread of this process, as one of a store that does not say probably does."""
        return getattr(self._store, "writes_in_a_thread", True)

    # -- runners that share the store ------------------------------------------------------------

    def open(self) -> None:
        """Register this runner with the others that share the store."""
        neighbours.join(self._store, self)

    def close(self) -> None:
        """All runs were released."""
        neighbours.leave(self._store, self)

    def holds(self, run: str) -> bool:
        """Whether *run* is here, or is being acquired or released."""
        return run in self._kept or self._is_here(run)

    def _check_neighbours(self, run: str) -> None:
        """
        Refuse *run* if another runner holds it.

        Raises:
            RunOwned: one that shares the store does.
        """
        if neighbours.held(self._store, [run], self):
            raise RunOwned(run, "another runner of this process")

    # -- acquiring and releasing -----------------------------------------------------------------

    async def acquire(self, run: str) -> RunRecord | None:
        """
        Acquire *run*, in a new epoch, and return its record; None if the store does not know owners.

        It is held from now on; after loading it, or if that fails, :meth:`freeing` has to follow.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        store = self._store
        self._check_neighbours(run)
        self._kept[run] = None
        if not isinstance(store, OwnedStore):
            return None
        try:
            return await self._retrying("acquire", [run], lambda: store.acquire(run))
        except (RunNotFound, RunOwned):
            self._kept.pop(run, None)
            raise

    async def free(self, statuses: Collection[RunStatus]) -> AsyncIterator[Sequence[RunRecord]]:
        """Yield pages of the runs in one of *statuses* that no owner that is alive holds, oldest first."""
        store = self._owned()
        last: RunRecord | None = None
        while True:
            page = await self._retrying(
                "list_free",
                [],
                lambda: store.list_free(statuses=statuses, after=last, limit=PAGE),  # noqa: B023
            )
            if not page:
                return
            last = page[-1]
            yield page

    async def addressed(self) -> AsyncIterator[Sequence[str]]:
        """Yield pages of the idle runs that have messages and that no owner that is alive holds."""
        store = self._store
        if not isinstance(store, InboxStore):
            return
        last = ""
        while True:
            page = await self._retrying("addressed", [], lambda: store.addressed(after=last, limit=PAGE))  # noqa: B023
            if not page:
                return
            last = page[-1]
            yield page

    async def acquire_many(
        self, runs: Collection[str], refused: Callable[[str, StoreError], object]
    ) -> list[RunRecord]:
        """Acquire *runs*, and return the records of those that were; runs that are deleted or owned are left out."""
        store = self._owned()
        others = neighbours.held(self._store, runs, self)
        asked = [run for run in runs if run not in others]
        if not asked:
            return []
        owned: list[RunRecord] = []
        self._kept.update(dict.fromkeys(asked))
        answers = await self._retrying("acquire_many", asked, lambda: store.acquire_many(asked))
        for run, answer in answers.items():
            if isinstance(answer, RunRecord):
                owned.append(answer)
                continue
            self._kept.pop(run, None)
            if not isinstance(answer, RunNotFound | RunOwned):
                refused(run, answer)
        return owned

    async def load(self, run: str, owned: RunRecord | None, rehydration: Rehydration = "full") -> AcquiredRun:
        """
        Load *run*, which was acquired: *owned* is its record since then.

        Unless *rehydration* is full, that is its snapshot and what came after it, if the store has one.  Of a run whose
        log was truncated it always is.
        """
        found = await self._load(run, owned, rehydration)
        if rehydration == "full" and found.is_truncated:
            return await self._load(run, owned, "hybrid")
        return found

    async def _load(self, run: str, owned: RunRecord | None, rehydration: Rehydration) -> AcquiredRun:
        store, snapshot = self._store, None
        if rehydration != "full" and isinstance(store, SnapshotStore):
            try:
                snapshot = await self._retrying("load_snapshot", [run], lambda: store.load_snapshot(run))
            except CorruptStore as error:
                _log.warning("the snapshot of run %r cannot be read, and its log is: %s", run, error)
        since = 0 if snapshot is None else snapshot.position
        loaded = await self._retrying("load_since", [run], lambda: store.load_since(run, since))
        return self._checked(run, loaded, owned, snapshot, rehydration)

    async def load_whole(self, record: RunRecord) -> LoadedRun:
        """
        Return the whole log of the run whose *record* was loaded.

        Raises:
            OwnershipLost: it was taken over meanwhile.
        """
        run = record.id
        loaded = await self._retrying("load_since", [run], lambda: self._store.load_since(run, 0))
        if loaded.record.epoch != record.epoch:
            raise OwnershipLost(run, record.epoch, loaded.record.epoch)
        return loaded

    async def rehydrate(self, *given: Any, **named: Any) -> tuple[Run, Sleeping | None]:
        """Restore a run from its snapshot; see :func:`weft.runner.durability.rehydration.rehydrate`."""
        return await self.again(lambda: rehydrate(self._store, *given, pause=self._pause, **named))

    async def load_many(
        self, owned: Iterable[RunRecord], rehydration: Rehydration = "full"
    ) -> AsyncIterator[AcquiredRun]:
        """Yield the runs whose records these are, loaded a few at a time; long ones from their snapshots."""
        short: list[RunRecord] = []
        for record in owned:
            if record.first == 1 and (rehydration == "full" or record.head <= LONG):
                short.append(record)
            else:
                yield await self._load_or_error(record, rehydration)
        for records in _groups(short):
            runs = [each.id for each in records]
            found = await self._retrying("load_many", runs, lambda: self._store.load_many(runs))  # noqa: B023
            for record in records:
                answer = self._checked(record.id, found[record.id], record)
                # Of a run that was asleep it is not known whether its log was truncated.
                yield await self._load_or_error(record, rehydration) if answer.is_truncated else answer

    async def _load_or_error(self, record: RunRecord, rehydration: Rehydration) -> AcquiredRun:
        """Load one of many runs; what is wrong with it is raised when it is recovered."""
        try:
            return await self.load(record.id, record, rehydration)
        except (StoreUnavailable, StoreClosed):
            raise
        except StoreError as error:
            return self._checked(record.id, error, record)

    def _checked(
        self,
        run: str,
        answer: LoadedRun | StoreError,
        owned: RunRecord | None,
        snapshot: StoredSnapshot | None = None,
        rehydration: Rehydration = "full",
    ) -> AcquiredRun:
        """A run that was taken over between acquiring and loading it has another epoch: it must not be driven here."""
        if owned is not None and isinstance(answer, LoadedRun) and answer.record.epoch != owned.epoch:
            answer = OwnershipLost(run, owned.epoch, answer.record.epoch)
        return AcquiredRun(self, run, answer, owned, snapshot, rehydration)

    @contextmanager
    def decoder(self, record: RunRecord, workflow: Workflow | None, *, strict: bool) -> Generator[Decoder, None, None]:
        """Yield a decoder for the definition that *record* names; it is kept if it has found all functions."""
        key = (record.workflow, record.version, id(workflow), strict)  # a decoder keeps its workflow, and so the id
        decoder = self._decoders.get(key)
        if decoder is None:
            if len(self._decoders) >= DECODERS:
                self._decoders.clear()
            decoder = self._decoders[key] = Decoder(workflow=workflow, strict=strict)
        try:
            yield decoder
        finally:
            if not decoder.is_complete:
                self._decoders.pop(key, None)

    async def recover(self, loaded: LoadedRun, **given: Any) -> Recovered:
        """Rebuild the run that was *loaded*; see :func:`weft.runner.durability.recovery.recover`."""
        return await self.again(lambda: recover(self._store, loaded, pause=self._pause, **given))

    async def _pause(self) -> None:
        """Let other work of the event loop run; raise if the runner was closed meanwhile."""
        await pause()
        if not self._is_open():
            raise RunnerClosed

    @asynccontextmanager
    async def freeing(self, runs: Iterable[str]) -> AsyncGenerator[set[str], None]:
        """Yield *runs*, which were acquired, as a set; release those that are left in it, also after an error."""
        acquired = list(runs)
        left = set(acquired)
        try:
            yield left
        except (Exception, asyncio.CancelledError):
            await self._free(acquired, left)
            raise
        await self._free(acquired, left)

    async def _free(self, acquired: Iterable[str], left: Collection[str]) -> None:
        """Release those of the *acquired* runs that are *left*; the others are here."""
        for run in acquired:
            if run not in left:
                self._kept.pop(run, None)
        await self.release(list(left))

    async def release(self, runs: Sequence[str]) -> None:
        """Release *runs*, except those that another runner holds, which shares the store."""
        store, others = self._store, neighbours.held(self._store, runs, self)
        runs = [run for run in runs if run not in others]
        if not runs:
            return
        if isinstance(store, OwnedStore):
            self._kept.update(dict.fromkeys(runs))
            await self._retrying("release", runs, lambda: store.release(runs))
        for run in runs:
            self._kept.pop(run, None)

    async def release_all(self, runs: Iterable[str]) -> None:
        """Release *runs*, and those that could not be released before, when the runner is closed."""
        await self.release(list({**self._kept, **dict.fromkeys(runs)}))

    def _owned(self) -> OwnedStore:
        if not isinstance(self._store, OwnedStore):
            raise InvalidOption(f"{self._name} does not know which runs are free; resume() them by id")
        return self._store

    async def content(self, run: str) -> tuple[RunRecord, list[bytes], Mapping[bytes, bytes], Mapping[bytes, bytes]]:
        """
        Return the record of *run*, the bodies of its segments, and the definitions and values that they refer to.

        Raises:
            RunNotFound: nothing is stored under this id.
            HistoryTruncated: its log was truncated, and what is left is not a run.
        """
        loaded, definitions, facts = await self.since(run, 0)
        if loaded.record.first > 1:
            raise HistoryTruncated(run, loaded.record.first)
        return loaded.record, [segment.body for segment in loaded.segments], definitions, facts

    async def since(self, run: str, position: int) -> tuple[LoadedRun, Mapping[bytes, bytes], Mapping[bytes, bytes]]:
        """
        Return what *run* has had since *position*, and the definitions and values that this refers to.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        loaded = await self._retrying("load_since", [run], lambda: self._store.load_since(run, position))
        definitions, facts = await self.again(lambda: referred_by(self._store, loaded, self._pause))
        return loaded, definitions, facts

    async def create(self, appends: Sequence[Append]) -> None:
        """
        Write *appends*, which create one run, in one transaction; the run belongs to this runner then.

        Raises:
            RunExists: there is a run with this id.
        """
        batch = appends

        async def write() -> Sequence[StoreError | None]:
            nonlocal batch
            written, batch = batch, [replace(append, again=True) for append in batch]  # the next try may be the second
            return await self._store.append(written)

        for refused in await self._retrying("append", [appends[0].run], write):
            if refused is not None:
                raise refused

    # -- what is stored --------------------------------------------------------------------------

    async def record(self, run: str) -> RunRecord:
        """
        Return the record of *run*.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        _check_id(run)
        store = self._store
        if isinstance(store, ListableStore):
            return await self._retrying("find", [run], lambda: store.find(run))
        return (await self._retrying("load_since", [run], lambda: store.load_since(run, 0))).record

    async def check_key(self, run: str) -> None:
        """
        Check that no other run has the unique key of *run*, which has failed, so that it may go on.

        Raises:
            UniqueKeyTaken: another one has.
        """
        store = self._store
        if isinstance(store, UniqueStore):
            rival = await self._retrying("key_rival", [run], lambda: store.key_rival(run))
            if rival is not None:
                raise UniqueKeyTaken(run, *rival)

    @property
    def has_keys(self) -> bool:
        """Whether runs can have unique keys."""
        return isinstance(self._store, UniqueStore)

    async def records(self, **asked: Any) -> list[RunRecord]:
        """Return a page of the records in the store, as its ``list`` does."""
        store = self._listed()
        return list(await self._retrying("list", [], lambda: store.list(**asked)))

    async def count(self, **asked: Any) -> int:
        """Return how many runs the store has, as its ``count`` does."""
        store = self._listed()
        return await self._retrying("count", [], lambda: store.count(**asked))

    async def waiting_records(self, *, limit: int, after: RunRecord | None, **asked: Any) -> list[RunRecord]:
        """Return a page of the records of waiting runs, by when they are woken."""
        store = self._store
        if isinstance(store, WaitingStore):
            return list(
                await self._retrying("list_waiting", [], lambda: store.list_waiting(after=after, limit=limit, **asked))
            )
        until, last = asked.pop("until"), None if after is None else wake_order(after)
        found = [
            record
            async for record in self._every_record(statuses=["waiting"], **asked)
            if (until is None or record.created_at < until) and (last is None or wake_order(record) > last)
        ]
        return nsmallest(limit, found, key=wake_order)

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs the store has, by workflow and status."""
        store = self._store
        if isinstance(store, StatisticsStore):
            return await self._retrying("tally", [], store.tally)
        return Counter([(record.workflow, record.status) async for record in self._every_record()])

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of *workflow* the store has, by version."""
        store = self._store
        if isinstance(store, StatisticsStore):
            return await self._retrying("count_versions", [], lambda: store.count_versions(workflow))
        return Counter([record.version async for record in self._every_record(workflow=workflow)])

    async def endangered(self, now: float, limit: int) -> Sequence[Endangered]:
        """Return the runs whose deadline is in danger, or past; none if the store does not know deadlines."""
        store = self._store
        if isinstance(store, DeadlineStore):
            return await self._retrying("endangered", [], lambda: store.endangered(now, limit=limit))
        return []

    async def histogram(
        self, *, since: float, width: float, workflow: str | None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """Return how many runs were created in each period of *width* seconds, by its number and status."""
        store = self._store
        if isinstance(store, StatisticsStore):
            return await self._retrying(
                "histogram", [], lambda: store.histogram(since=since, width=width, workflow=workflow)
            )
        found = self._every_record(since=since, workflow=workflow)
        return Counter([(int((record.created_at - since) // width), record.status) async for record in found])

    async def _every_record(self, **asked: Any) -> AsyncIterator[RunRecord]:
        """Yield the records of a store that does not count them."""
        last: RunRecord | None = None
        while page := await self.records(after=last, limit=PAGE, **asked):
            for record in page:
                yield record
            last = page[-1]

    async def append_together(self, appends: Sequence[Append]) -> None:
        """
        Write *appends*, which are one group.

        Raises:
            StoreError: the store refuses one of them; then none is written.
            InvalidOption: the store writes one run at a time.
        """
        if not getattr(self._store, "writes_groups", True):
            raise InvalidOption(f"{self._name} writes one run at a time; a store that can append writes two together")
        runs, tries = [each.run for each in appends], count()

        async def write() -> Sequence[StoreError | None]:
            again = next(tries) > 0  # it may have been written, and only the answer is missing
            return await self._store.append([replace(each, again=again) for each in appends])

        for error in await self._retrying("append", runs, write):
            if error is not None:
                raise error

    async def delete(self, run: str) -> None:
        """
        Delete *run*.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        _check_id(run)
        store = self._listed()
        self._check_neighbours(run)
        self.deletions += 1  # before, since a caller that is cancelled does not know what became of it
        await self._asked(self._spanned("delete", [run], lambda: store.delete(run)))

    async def purge(self, *, before: float, statuses: Collection[RunStatus], limit: int | None) -> int:
        """Delete closed runs that were last written *before* a time; return how many."""
        store = self._listed()
        self.deletions += 1
        return await self._asked(
            self._spanned("purge", [], lambda: store.purge(before=before, statuses=statuses, limit=limit))
        )

    def _listed(self) -> ListableStore:
        if not isinstance(self._store, ListableStore):
            raise InvalidOption(
                f"{self._name} cannot list its runs; a store that can has all methods of weft.ports.store.ListableStore"
            )
        return self._store

    @property
    def _name(self) -> str:
        """The class of the store that the application has passed."""
        return type(getattr(self._store, "adapted", self._store)).__name__

    # -- asking ----------------------------------------------------------------------------------

    async def _retrying(self, operation: str, runs: Sequence[str], call: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of *call*, an *operation* on *runs*, once the store is available."""
        return await self.again(lambda: self._spanned(operation, runs, call))

    async def again(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of *call*, which asks the store, once that is available."""
        return await self._asked(retry_while_unavailable(call, while_=self._may_wait))

    def _spanned(self, operation: str, runs: Sequence[str], call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return spanned(self._store, operation, runs, self._time, call)

    async def _asked(self, answer: Awaitable[T]) -> T:
        """Return *answer*; a store that was closed meanwhile is a runner that was."""
        try:
            return await answer
        except StoreClosed:
            if self._is_open():
                raise
            raise RunnerClosed from None


def _check_id(run: object) -> None:
    """Refuse what cannot be an id: a store that cannot look for it might report damage."""
    if not isinstance(run, str):
        raise RunNotFound(cast("str", run))


def _groups(records: Iterable[RunRecord]) -> Iterator[list[RunRecord]]:
    """Yield *records* in groups whose logs have not too many events together."""
    group: list[RunRecord] = []
    events = 0
    for record in records:
        if group and events + record.head > EVENTS:
            yield group
            group, events = [], 0
        group.append(record)
        events += record.head
    if group:
        yield group
