"""
A store over several databases: each run is in one of them, found by its id.

It is what a client needs of a store: it creates runs for workers, reads them and posts messages, and it owns none.  So
:class:`AsyncClient` and all its queries work on it unchanged.  See docs/adr/0054.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NoReturn, TypeVar

from weft.errors import (
    InvalidOption,
    InvalidStoreOption,
    MissingContent,
    RunExists,
    RunNotFound,
    StoreError,
    StoreUnavailable,
    UniqueKeyTaken,
)
from weft.fleet.shards import Shards
from weft.ports.deadlines import Endangered
from weft.ports.limits import LimitRow
from weft.ports.queue import Placement, QueueStatus
from weft.ports.schedules import DueSchedules, StoredSchedule
from weft.ports.store import (
    FINISHED,
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
from weft.ports.workers import Waiting, WorkerRecord
from weft.runner.schedules.timing import firing_id
from weft.stores.postgres import PostgresStore
from weft.stores.postgres.server_clock import ServerClock
from weft.typing import RunId

_log = logging.getLogger("weft.fleet")
T = TypeVar("T")
K = TypeVar("K")

_MOST_REMEMBERED: Final = 10_000
"""How many definitions, and how many places of runs that are not in their first home, are remembered."""

Changed = Callable[[Collection[RunId] | None], object]


class ShardedStore:
    """Runs in the databases of *shards*."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        shards.on_admitted = self._watch_admitted
        self._at_home: dict[RunId, None] = {}
        """Runs with several homes that are in the first of them."""
        self._definitions: dict[ContentHash, bytes] = {}
        self._watchers: dict[object, Changed] = {}
        self._ends: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"ShardedStore({self._shards.names!r})"

    @property
    def clock(self) -> ServerClock:
        """The clock of the first database that has answered."""
        return self._shards.clock

    # -- Store -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._shards.is_open

    async def open(self) -> None:
        """Connect to all databases that answer, and agree on the list of them."""
        await self._shards.open()

    async def close(self) -> None:
        """Disconnect."""
        self._watchers.clear()
        self._ends.clear()
        await self._shards.close()

    async def save(self, record: RunRecord, body: bytes) -> NoReturn:  # noqa: ARG002
        """Refuse: a client drives no runs."""
        self._refuse("save")

    async def load(self, run: RunId) -> LoadedRun:
        """Return the whole log."""
        return await (await self._of(run)).load(run)

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidStoreOption(f"a store on several databases owns no runs and does not {what}; workers do")

    # -- where runs are --------------------------------------------------------------------------

    async def _of(self, run: RunId) -> PostgresStore:
        """Return the database of *run*: the first of its homes that has it, or the last one."""
        homes = self._shards.known.homes(run)
        if run in self._at_home:
            return await self._shards.at(homes[0])
        for shard in homes[:-1]:
            store = await self._shards.at(shard)
            if await store.existing([run]):
                if shard == homes[0]:
                    self._remember([run])
                return store
        return await self._shards.at(homes[-1])

    async def home_of(self, run: RunId) -> PostgresStore:
        """Return the database of *run*."""
        return await self._of(run)

    def _remember(self, runs: Collection[RunId]) -> None:
        """Remember that *runs*, which have several homes, are in the first: later runs with these ids are there too."""
        if len(self._at_home) + len(runs) > _MOST_REMEMBERED:
            self._at_home.clear()
        self._at_home.update(dict.fromkeys(runs))

    async def _by_store(self, runs: Collection[RunId]) -> dict[PostgresStore, list[RunId]]:
        found: dict[PostgresStore, list[RunId]] = {}
        for run in dict.fromkeys(runs):
            found.setdefault(await self._of(run), []).append(run)
        return found

    async def _in_all(self, call: Callable[[PostgresStore], Awaitable[T]]) -> list[T]:
        """Return the answers of all databases, in no particular order."""
        return await _together([call(store) for store in await self._shards.all()])

    async def _in_any(self, call: Callable[[PostgresStore], Awaitable[T]]) -> T:
        """Return the answer of the first database that has one, or raise an error, if possible one that may pass."""
        failed: StoreError | None = None
        for store in self._shards.usable:
            try:
                return await call(store)
            except StoreUnavailable as error:
                failed = error
            except MissingContent as error:
                failed = failed or error
        await self._shards.all()
        assert failed is not None  # noqa: S101
        raise failed

    # -- QueueStore, as far as a client needs it -------------------------------------------------

    async def enqueue(self, batch: Sequence[Append], placement: Placement) -> Sequence[StoreError | None]:
        """
        Create runs that no process owns, each in its first home, unless another of its homes has it.

        All of a database are created in one transaction.
        """
        homes = {each.run: self._shards.known.homes(each.run) for each in batch}
        others: dict[str, list[RunId]] = {}
        for run, (_, *older) in homes.items():
            for shard in older:
                others.setdefault(shard, []).append(run)
        exists: set[RunId] = set()
        for shard, runs in others.items():
            exists |= await (await self._shards.at(shard)).existing(runs)
        new: dict[str, list[int]] = {}
        for place, each in enumerate(batch):
            if each.run not in exists:
                new.setdefault(homes[each.run][0], []).append(place)
        answers: list[StoreError | None] = [RunExists(each.run) for each in batch]
        for place, each in enumerate(batch):
            if each.unique and (holder := await self._older_holder(each)) is not None and each.run not in exists:
                new[homes[each.run][0]].remove(place)
                answers[place] = UniqueKeyTaken(each.run, each.workflow or "", each.unique, holder)

        async def create(shard: str, places: list[int]) -> None:
            store = await self._shards.at(shard)
            answered = await store.enqueue([batch[place] for place in places], placement)
            for place, answer in zip(places, answered, strict=True):
                answers[place] = answer
            self._remember([batch[place].run for place in places if len(homes[batch[place].run]) > 1])

        await _together([create(shard, places) for shard, places in new.items()])
        return answers

    async def databases(self) -> Sequence[PostgresStore]:
        """Return all databases: each has its own rows of jobs."""
        return await self._shards.all()

    # -- UniqueStore -----------------------------------------------------------------------------

    def _homes_of_key(self, workflow: str, unique: str) -> tuple[str, ...]:
        """Return the shards that may have the run with a unique key, in the order in which to ask them."""
        return self._shards.known.homes(f"{workflow} {unique}")

    def id_for_key(self, workflow: str, unique: str) -> RunId:
        """Return a new id of a run that belongs to the database of its unique key."""
        home = self._homes_of_key(workflow, unique)[0]
        while True:
            id = uuid.uuid4().hex
            if self._shards.known.homes(id)[0] == home:
                return id

    async def _older_holder(self, append: Append) -> RunId | None:
        """Return the run that has the unique key of *append* in another database than the one of new runs."""
        workflow = append.workflow or ""
        home, *older = self._homes_of_key(workflow, append.unique)
        if self._shards.known.homes(append.run)[0] != home:
            raise InvalidOption(
                f"unique={append.unique!r} with id={append.run!r}: a run lives in the database that its id names, and "
                "its unique key belongs to another one; leave the id out"
            )
        for shard in older:
            holder = await (await self._shards.at(shard)).key_holder(workflow, append.unique)
            if holder is not None:
                return holder
        return None

    async def key_holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the unfinished run of *workflow* that has the key *unique*."""
        for shard in self._homes_of_key(workflow, unique):
            holder = await (await self._shards.at(shard)).key_holder(workflow, unique)
            if holder is not None:
                return holder
        return None

    async def key_rival(self, run: RunId) -> tuple[str, str, RunId] | None:
        """Return the workflow and the key of *run*, and the other run that has that key now, in the same database."""
        return await (await self._of(run)).key_rival(run)

    # --------------------------------------------------------------------------------------------

    def asking_shard(self) -> tuple[str, Sequence[Any]]:
        """Return the statement that says which database a connection is to, and its values."""
        return self._shards.usable[0].asking_shard()

    def id_in(self, shard: str) -> RunId:
        """
        Return a new id of a run that belongs to the database *shard*.

        Raises:
            InvalidOption: this is none of the databases.
        """
        if shard not in self._shards.known.shards:
            raise InvalidOption("within=: this connection is to a database that the client was not told of")
        while True:
            id = uuid.uuid4().hex
            if self._shards.known.homes(id)[0] == shard:
                return id

    async def enqueueing(self, append: Append, placement: Placement, shard: str) -> tuple[str, Sequence[Any]] | None:
        """
        Return the statement that creates a run over a connection to the database *shard*; None if it is elsewhere.

        Raises:
            InvalidOption: the run, or its unique key, belongs to another database.
        """
        home, *older = self._shards.known.homes(append.run)
        if home != shard:
            raise InvalidOption(
                f"within=: run {append.run!r} belongs to the database that its id names, and this transaction is in "
                "another one; leave the id out, or let it begin with the part before the / of a run that is there"
            )
        for each in older:
            if await (await self._shards.at(each)).existing([append.run]):
                return None
        if append.unique and await self._older_holder(append) is not None:
            return None
        return (await self._shards.at(home)).enqueueing(append, placement)

    async def check_fence_of(self, shard: str) -> None:
        """
        Check that the list of databases is still the one that the database *shard* knows.

        Raises:
            ShardsChanged: it is not.
        """
        await (await self._shards.at(shard)).check_fence()

    async def check_fence(self) -> None:
        """Nothing: a start that would be wrong is refused."""

    async def queue_depth(self, queue: str | None = None) -> int:
        """Return how many runs have something to do, now or later, in one *queue* or in all."""
        return sum(await self._in_all(lambda store: store.queue_depth(queue)))

    async def queues(self) -> Sequence[QueueStatus]:
        """Return the queues that have runs, as they are in all databases together."""
        found: dict[str, QueueStatus] = {}
        for each in [each for part in await self._in_all(lambda store: store.queues()) for each in part]:
            other = found.get(each.queue, QueueStatus(each.queue, 0, 0.0, 0, 0, 0))
            found[each.queue] = QueueStatus(
                each.queue,
                each.waiting + other.waiting,
                max(each.oldest, other.oldest),
                each.later + other.later,
                each.held + other.held,
                max(each.keys, other.keys),
            )
        return [found[name] for name in sorted(found)]

    async def workers(self) -> Sequence[WorkerRecord]:
        """Return the workers that are alive, oldest first; a process that serves several databases is several."""
        found = await self._in_all(lambda store: store.workers())
        return sorted((each for part in found for each in part), key=lambda each: (each.started_at, each.id))

    async def waiting(self) -> Sequence[Waiting]:
        """Return the runs that are due and have no worker, by workflow, version and queue."""
        found: dict[tuple[str, str, str], Waiting] = {}
        for each in [each for part in await self._in_all(lambda store: store.waiting()) for each in part]:
            key = (each.workflow, each.version, each.queue)
            other = found.get(key, Waiting(*key, 0, 0.0))
            found[key] = Waiting(*key, each.runs + other.runs, max(each.oldest, other.oldest))
        return [found[key] for key in sorted(found)]

    async def want(self, worker: str, wanted: str) -> bool:
        """Store the wish of an operator for *worker*; return False if no such worker is alive."""
        return any(await self._in_all(lambda store: store.want(worker, wanted)))

    async def list_limits(self) -> Sequence[LimitRow]:
        """Return the limits of all databases; each database has its own."""
        return [each for part in await self._in_all(lambda store: store.list_limits()) for each in part]

    async def migrate(self, *, worker: str | None = None, reader: str | None = None) -> None:
        """Bring the tables of all databases to the version of this Weft."""
        await self._shards.migrate(worker=worker, reader=reader)

    # -- LogStore --------------------------------------------------------------------------------

    async def append(self, batch: Sequence[Append]) -> NoReturn:  # noqa: ARG002
        """Refuse: a client drives no runs."""
        self._refuse("append")

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """Return the segments that hold what came after *position*."""
        return await (await self._of(run)).load_since(run, position)

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """Return the whole logs of *runs*, or why one cannot be read."""
        parts = await _together([store.load_many(some) for store, some in (await self._by_store(runs)).items()])
        return {run: loaded for part in parts for run, loaded in part.items()}

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the definitions, each from a database that has it; they are the same everywhere."""
        for content in hashes:
            if content not in self._definitions:
                found = await self._definition(content)
                if len(self._definitions) >= _MOST_REMEMBERED:
                    self._definitions.clear()
                self._definitions[content] = found
        return {content: self._definitions[content] for content in hashes}

    async def _definition(self, content: ContentHash) -> bytes:
        return (await self._in_any(lambda store: store.load_definitions([content])))[content]

    # -- FactStore, SnapshotStore ----------------------------------------------------------------

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> NoReturn:  # noqa: ARG002
        """Refuse: a client drives no runs."""
        self._refuse("save values")

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the values."""
        return await (await self._of(run)).load_facts(run, hashes)

    async def save_snapshot(self, run: RunId, snapshot: StoredSnapshot, *, epoch: int) -> NoReturn:  # noqa: ARG002
        """Refuse: a client drives no runs."""
        self._refuse("save snapshots")

    async def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """Return the snapshot of a run; None if it has none."""
        return await (await self._of(run)).load_snapshot(run)

    async def load_between(self, run: RunId, first: int, last: int) -> Sequence[Segment]:
        """Return the events from number *first* to *last*, in whole segments."""
        return await (await self._of(run)).load_between(run, first, last)

    # -- ListableStore, StatisticsStore ----------------------------------------------------------

    async def exists(self, run: RunId) -> bool:
        """Return whether a run is stored under this id."""
        return await (await self._of(run)).exists(run)

    async def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        return await (await self._of(run)).find(run)

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
        """Return a page of the runs of all databases, newest first."""
        pages = await self._in_all(
            lambda store: store.list(
                statuses=statuses, workflow=workflow, failed=failed, since=since, after=after, limit=limit
            )
        )
        return list(islice(heapq.merge(*pages, key=lambda each: (each.created_at, each.id), reverse=True), limit))

    async def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        return sum(
            await self._in_all(
                lambda store: store.count(statuses=statuses, workflow=workflow, failed=failed, since=since)
            )
        )

    async def list_waiting(
        self,
        *,
        workflow: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
    ) -> Sequence[RunRecord]:
        """Return a page of the waiting runs of all databases, by when they are woken."""
        pages = await self._in_all(
            lambda store: store.list_waiting(workflow=workflow, since=since, until=until, after=after, limit=limit)
        )
        return list(islice(heapq.merge(*pages, key=wake_order), limit))

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status."""
        return _summed(await self._in_all(lambda store: store.tally()))

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of a workflow there are, by version."""
        return _summed(await self._in_all(lambda store: store.count_versions(workflow)))

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """Return how many runs were created in each period, by its number and status."""
        return _summed(await self._in_all(lambda store: store.histogram(since=since, width=width, workflow=workflow)))

    async def endangered(self, now: float, *, limit: int = 100) -> Sequence[Endangered]:
        """Return the runs of all databases whose deadline is in danger, or past, the earliest deadline first."""
        pages = await self._in_all(lambda store: store.endangered(now, limit=limit))
        return list(islice(heapq.merge(*pages, key=lambda each: (each.deadline, each.run)), limit))

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        """Mark all unreported dangers of all databases as reported; return them and the time of the next one."""
        found = await self._in_all(lambda store: store.tell_dangers(now, limit=limit))
        told = [each for some, _ in found for each in some]
        return told, min((at for _, at in found if at is not None), default=None)

    async def tell_danger(self, run: RunId, deadline: float, now: float) -> Endangered | None:
        """Mark one danger as reported and return it; None if there is none."""
        return await (await self._of(run)).tell_danger(run, deadline, now)

    async def delete(self, run: RunId) -> None:
        """Delete a run, its log and its facts."""
        await (await self._of(run)).delete(run)

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """Delete runs that have no living owner and were last written before a time; return how many."""
        gone = 0
        for store in await self._shards.all():
            most = None if limit is None else limit - gone
            if most != 0:
                gone += await store.purge(before=before, statuses=statuses, limit=most)
        return gone

    # -- InboxStore ------------------------------------------------------------------------------

    async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
        """Store *messages*, those of a database in one transaction, and notify the owners of their runs."""
        places: dict[PostgresStore, list[int]] = {}
        for place, each in enumerate(messages):
            places.setdefault(await self._of(each.run), []).append(place)
        answers: list[int | StoreError] = [RunNotFound(each.run) for each in messages]

        async def post(store: PostgresStore, some: list[int]) -> None:
            answered = await store.post([messages[place] for place in some])
            for place, answer in zip(some, answered, strict=True):
                answers[place] = answer

        await _together([post(store, some) for store, some in places.items()])
        return answers

    async def messages(
        self, runs: Collection[RunId] | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Message]:
        """Return the messages of *runs*, those of a run in the order of their numbers; without *runs*, none."""
        asked = await self._by_store(runs or ())
        parts = await _together([store.messages(some, after=after, limit=limit) for store, some in asked.items()])
        return [message for part in parts for message in part][:limit]

    async def addressed(self, *, after: RunId = "", limit: int = 100) -> Sequence[RunId]:
        """Return the ids of idle runs that have messages and no living owner."""
        pages = await self._in_all(lambda store: store.addressed(after=after, limit=limit))
        return sorted(run for page in pages for run in page)[:limit]

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:  # noqa: ARG002
        """Nothing is posted for a run of this store, since it owns none."""
        return lambda: None

    # -- ChangeStore -----------------------------------------------------------------------------

    @property
    def hears_changes(self) -> bool:
        """Whether all databases announce the changes of other processes now."""
        return all(store.hears_changes for store in self._shards.usable)

    async def watch_runs(self, notify: Changed) -> Callable[[], None]:
        """Call *notify* with the ids of runs that have changed; with None if any may have."""
        me = object()
        self._watchers[me] = notify
        if len(self._watchers) == 1 and not self._ends:
            for store in self._shards.usable:
                await self._watch(store)

        def end() -> None:
            self._watchers.pop(me, None)

        return end

    async def _watch_admitted(self, store: PostgresStore) -> None:
        if self._ends:
            await self._watch(store)

    async def _watch(self, store: PostgresStore) -> None:
        try:
            self._ends.append(await store.watch_runs(self._notify))
        except StoreError as error:
            _log.debug("%s cannot be asked to notify of changes, so it is polled: %s", store.name, error)

    def _notify(self, runs: Collection[RunId] | None) -> None:
        for notify in list(self._watchers.values()):
            notify(runs)

    async def follow(self, run: RunId) -> None:
        """Ask the process that drives *run* to tell, for a minute, also of all events and streams."""
        await (await self._of(run)).follow(run)

    # -- StreamStore -----------------------------------------------------------------------------

    async def write_chunks(self, chunks: Sequence[Chunk]) -> NoReturn:  # noqa: ARG002
        """Refuse: a client drives no runs."""
        self._refuse("write streams")

    async def read_chunks(self, run: RunId, stream: str, *, start: int = 0, limit: int = 100) -> Sequence[Chunk]:
        """Return chunks in order, from the one that holds the item at the offset *start*."""
        return await (await self._of(run)).read_chunks(run, stream, start=start, limit=limit)

    async def save_progress(self, run: RunId, body: bytes) -> NoReturn:  # noqa: ARG002
        """Refuse: a client drives no runs."""
        self._refuse("save progress")

    async def load_progress(self, run: RunId) -> bytes | None:
        """Return what was kept last for the run; None if nothing was."""
        return await (await self._of(run)).load_progress(run)

    # -- ScheduleStore ---------------------------------------------------------------------------

    async def _of_schedule(self, name: str) -> PostgresStore:
        """Return the database that has the schedule *name*, or that would have a new one."""
        homes = [await self._shards.at(shard) for shard in self._shards.known.homes(firing_id(name, 0.0))]
        for store in homes:
            if len(homes) > 1 and await store.list_schedules(name):
                return store
        return homes[0]

    async def put_schedule(self, row: StoredSchedule) -> bool:
        """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
        return await (await self._of_schedule(row.name)).put_schedule(row)

    async def list_schedules(self, name: str | None = None) -> Sequence[StoredSchedule]:
        """Return all rows of schedules, or the one of this *name*."""
        if name is not None:
            return await (await self._of_schedule(name)).list_schedules(name)
        found = await self._in_all(lambda store: store.list_schedules())
        return sorted((row for rows in found for row in rows), key=lambda row: row.name)

    async def due_schedules(self, workflows: Collection[str], now: float, *, limit: int = 100) -> DueSchedules:
        """Return the schedules that are due, each by the clock of its database; without *workflows*, only a time."""
        if not workflows:
            return await self._in_any(lambda store: store.due_schedules((), now))
        found = await self._in_all(lambda store: store.due_schedules(workflows, now, limit=limit))
        rows = sorted((row for each in found for row in each.found), key=lambda row: row.look_at)
        return DueSchedules(max(each.now for each in found), tuple(rows[:limit]), min(each.next_at for each in found))

    async def delete_schedule(self, name: str) -> bool:
        """Delete the row of a schedule; return whether it was there."""
        return await (await self._of_schedule(name)).delete_schedule(name)


def _summed(parts: Sequence[Mapping[K, int]]) -> Mapping[K, int]:
    found: Counter[K] = Counter()
    for part in parts:
        found.update(part)
    return found


async def _together(calls: Sequence[Awaitable[T]]) -> list[T]:
    """Await all *calls* at once; when all have ended, return their answers, or raise the first error."""
    answers: Any = await asyncio.gather(*calls, return_exceptions=True)
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return answers  # type: ignore[no-any-return]
