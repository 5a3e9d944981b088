"""
Runs in a PostgreSQL database, which many processes on many machines share.

An append that has returned is as durable as the server makes it (``fsync``, ``synchronous_commit``).  A batch is one
statement.  An open store is one owner: its lease, in the database, says until when, and a thread renews it.
See docs/adr/0040-a-fleet-on-postgresql.md.

    async with PostgresStore("postgresql://weft@localhost/runs") as store:
        await store.append([...])
"""

from __future__ import annotations

import asyncio
import os
import uuid
import warnings
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, Self, TypeVar

from weft.errors import (
    InvalidAppend,
    InvalidStoreOption,
    NewerStore,
    StoreError,
    StoreUnavailable,
)
from weft.ports.queue import QUEUE, Placement, QueueStatus
from weft.ports.store import (
    AT_REST,
    DUE,
    FINISHED,
    Append,
    ContentHash,
    LoadedRun,
    Message,
    RunRecord,
    RunStatus,
    Segment,
    StoredSnapshot,
)
from weft.ports.streams import Chunk
from weft.ports.workers import Waiting, WorkerRecord
from weft.stores.postgres import (
    appending,
    commands,
    driver,
    inbox,
    presence,
    reading,
    schema,
    streams,
    tasks,
)
from weft.stores.postgres.appending import Appender
from weft.stores.postgres.claims import Claims
from weft.stores.postgres.connection import Connection
from weft.stores.postgres.deadline_store import DeadlinePart
from weft.stores.postgres.error_mapping import problem
from weft.stores.postgres.hints import Hints, listening_check, notifier, runs_in
from weft.stores.postgres.lease import Lease, checked, monotonic
from weft.stores.postgres.limit_store import LimitPart
from weft.stores.postgres.presence import WANTED, Presence
from weft.stores.postgres.process import this_process
from weft.stores.postgres.queue_watch import QueueWatch
from weft.stores.postgres.schedule_store import SchedulePart
from weft.stores.postgres.server_clock import ServerClock
from weft.stores.postgres.statements import Statements
from weft.stores.postgres.store_base import Opened
from weft.stores.postgres.task_store import TaskPart
from weft.stores.postgres.transactions import SIZE, PostgresTransaction, TransactionPool
from weft.typing import RunId

P = ParamSpec("P")
T = TypeVar("T")

LEASE: Final = 10.0
"""Seconds after which the runs of a machine that died are free."""
_LARGE = 1 << 20
"""Bytes of values: an append with more does not hold up the others."""
_WRITTEN: Final = (None,)
"""The answer to a lone append that was written."""
_MOST_DEFINITIONS = 256
"""How many definitions are remembered."""


class PostgresStore(TaskPart, DeadlinePart, LimitPart, SchedulePart):
    """
    Keeps runs in the database at *dsn*; its tables are made if they are not there.

    It uses at most four connections: for appends, for everything else, for the lease, and to listen.  Steps that
    ask for a transaction (``transaction()``) have a pool of connections beside these.

    Args:
        dsn: ``postgresql://user:password@host:port/database``; ``?prepared=false`` and ``?schema=name``
            in it say the same as *prepared* and *schema*.
        schema: Where the tables are.  It is created if the role may create schemas.
        lease: After how many seconds without a sign of life the runs of this store are free for others.
        listen_dsn: A direct address of the same server, if *dsn* goes through a transaction pooler: messages then
            arrive at once, and without it after a second.
        prepared: False if *dsn* goes through a pooler that does not keep prepared statements.  It costs round trips.
        migrate: Whether opening it brings an older schema up to date.
        timeout: How many seconds to wait for an answer of the server.
        queue: The queue of the runs that this store has created as their owner, once it has released them.
        transactions: How many steps may have a transaction at once, each on a connection that is opened when needed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "public",
        lease: float = LEASE,
        listen_dsn: str | None = None,
        prepared: bool = True,
        migrate: bool = True,
        timeout: float = 60.0,
        queue: str = QUEUE,
        transactions: int = SIZE,
    ) -> None:
        driver.driver()
        if transactions < 1:
            raise InvalidStoreOption(f"transactions={transactions!r} leaves no connection for a step that asks for one")
        self._transactions = transactions
        self._dsn, is_prepared, schema = driver.read(dsn, schema)
        self._listen_dsn = self._dsn if listen_dsn is None else driver.read(listen_dsn).dsn
        self.schema, self._lease, self._is_prepared = schema, checked(lease), prepared and is_prepared
        self._statements = Statements(schema)
        self._has_to_migrate, self._timeout, self._queue = migrate, timeout, queue
        self._large = _LARGE
        self._opened: Opened | None = None
        self._opening = asyncio.Lock()
        self.clock = ServerClock()
        """The clock of the database, once it is open."""
        self.presence = Presence()
        """The report that each renewal of the lease sends, and its reply."""
        self._watch: QueueWatch | None = None
        self.fence: str | None = None
        """Where a client starts runs: the list of databases that it knows (ADR 54).  None: not checked."""
        self._definitions: dict[ContentHash, bytes] = {}
        """Definitions that were asked for since it was opened; they are never changed or removed."""

    def __repr__(self) -> str:
        return f"PostgresStore({driver.shown(self._dsn)!r})"

    # -- the schema ------------------------------------------------------------------------------

    async def migrate(self, *, worker: str | None = None, reader: str | None = None) -> None:
        """
        Bring the tables to the version of this Weft; several processes may do that at once.

        Args:
            worker: a role that may then read and write runs, and create nothing.
            reader: a role that may then read runs.

        Raises:
            NewerStore: a newer Weft has migrated them.
            ReadOnlyStore: this role may not create tables.
        """
        db = None
        try:
            db = await self._connect()
            await schema.migrate(db, self._statements, self._name, worker=worker, reader=reader)
        except Exception as error:
            raise problem(self._name, error) from error
        finally:
            if db is not None:
                db.terminate()

    async def _check_schema(self, db: Any) -> None:
        encoding = db.get_settings().server_encoding
        if encoding != "UTF8":
            raise InvalidStoreOption(
                f"{self._name} is encoded as {encoding}, and ids are any text; create the database with encoding 'UTF8'"
            )
        sent = monotonic()
        now: float = await db.fetchval("select extract(epoch from clock_timestamp())::double precision")
        self.clock.heard(sent, now, monotonic())
        if await schema.check(db, self._statements, self._name):
            return
        if not self._has_to_migrate:
            raise InvalidStoreOption(
                f"{self._name} has to be migrated first: await PostgresStore(...).migrate(), by a role that may"
            )
        await schema.migrate(db, self._statements, self._name)

    # -- Store -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it can be used: not in a forked child of the process that opened it."""
        return self._opened is not None and self._opened.pid == os.getpid()

    async def open(self) -> None:
        """Connect, and check that the tables are there; do nothing if it is open already."""
        async with self._opening:
            if not self.is_open:
                self._opened, self._definitions = await self._open(), {}

    async def _open(self) -> Opened:
        channel, process = f"weft_{uuid.uuid4().hex}", this_process()
        others = self._connection()
        try:
            await others.call(self._check_schema)
        except BaseException:
            others.abandon()
            raise
        listen = partial(driver.connect, self._listen_dsn, timeout=self._timeout, is_prepared=self._is_prepared)
        hints = Hints(listen, others, self._statements, self._name)
        lease = Lease(
            partial(driver.connect, self._dsn, timeout=min(self._timeout, self._lease), is_prepared=self._is_prepared),
            partial(driver.together, is_prepared=self._is_prepared),
            self._statements,
            self._name,
            self._lease,
            process,
            channel,
            notifier(hints, channel),
            listening_check(hints),
            self.presence,
            self.clock.heard,
        )
        appender = Appender(self._statements, self._name, self._queue)
        loop = asyncio.get_running_loop()
        pool = TransactionPool(
            self._dsn,
            self._name,
            self.schema,
            size=self._transactions,
            timeout=self._timeout,
            is_prepared=self._is_prepared,
        )
        return Opened(
            loop, os.getpid(), process, channel, lease, self._connection(), others, appender, hints, Claims(), pool
        )

    def _connection(self) -> Connection:
        return Connection(self._connect, self._name, is_prepared=self._is_prepared, timeout=self._timeout)

    @property
    def _connect(self) -> Callable[[], Awaitable[Any]]:
        return partial(driver.connect, self._dsn, timeout=self._timeout, is_prepared=self._is_prepared)

    async def close(self) -> None:
        """Write what was handed over, and free every run that is owned; do nothing if it is closed already."""
        opened, self._opened = self._opened, None
        if opened is None or opened.pid != os.getpid():
            return
        await opened.hints.close(self._timeout)
        try:
            await opened.transactions.close(self._timeout)
            await opened.appends.close(self._timeout)
            await opened.others.close(self._timeout)
        finally:
            await opened.lease.close(min(self._timeout, self._lease))

    def _abandon(self) -> None:
        """Break everything off, as the death of the process does; the lease expires."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.hints.abandon()
            opened.transactions.abandon()
            opened.lease.abandon()
            opened.appends.abandon()
            opened.others.abandon()

    def __del__(self) -> None:
        if getattr(self, "_opened", None) is not None and self.is_open:
            warnings.warn(f"{self!r} was never closed; use `async with`", ResourceWarning, source=self, stacklevel=2)
            self._abandon()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def save(self, record: RunRecord, body: bytes) -> None:
        """Replace the whole log of a run."""
        owner = await self._usable().lease.key()
        await self._ask(commands.save, record, body, owner, self._queue)

    async def load(self, run: RunId) -> LoadedRun:
        """Return the whole log."""
        return await self._ask(reading.load, run, 0)

    # -- LogStore --------------------------------------------------------------------------------

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write the whole *batch* in one transaction; return, for each of it, None or why it was refused."""
        opened = self._usable()
        if not batch:
            return []
        lone = batch[0]
        may_be_sent = lone.only_events and len(batch) == 1 and opened.lease.is_sure
        if may_be_sent and await opened.appender.append_lone(opened.appends, lone):  # the usual case
            followed = opened.hints.followed
            if followed and lone.run in followed:
                opened.hints.changed((lone.run,))
            return _WRITTEN
        owner, given = await opened.lease.key(), list(batch)
        is_large = sum(len(body) for each in given if each.facts for body in each.facts.values()) > self._large
        connection = opened.others if is_large else opened.appends
        answers = await connection.call(lambda db: opened.appender.append(db, given, owner))
        _written(opened, given, answers)
        return answers

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """Return the segments that hold what came after *position*."""
        return await self._ask(reading.load, run, position)

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """Return the whole logs of *runs*, or why one cannot be read."""
        return await self._ask(reading.load_many, list(runs))

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the definitions; those that were asked for lately are remembered, since many runs share them."""
        self._usable()
        missing = [content for content in hashes if content not in self._definitions]
        if missing:
            known = {**self._definitions, **await self._ask(reading.load_definitions, missing)}
            wanted = {content: known[content] for content in hashes}
            self._definitions = known if len(known) <= _MOST_DEFINITIONS else wanted
            return wanted
        return {content: self._definitions[content] for content in hashes}

    writes_in_a_thread = False
    """Whether a thread of this process has to run for an append to end: the database does the work."""

    # -- TransactionalStore ----------------------------------------------------------------------

    has_exclusive_transactions = False

    async def begin(self) -> PostgresTransaction:
        """Begin a transaction, on a connection of the pool for them."""
        opened = self._usable()
        return await opened.transactions.begin(_RunWriter(opened))

    async def has_committed(self, append: Append) -> bool:
        """Return whether a transaction was committed with *append*."""
        appender = self._usable().appender
        return await self._usable().others.call(lambda db: appender.has_committed(db, append))

    # -- FactStore -------------------------------------------------------------------------------

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """Keep *facts*; those that are there already stay."""
        await self._ask(commands.save_facts, run, dict(facts))

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the values."""
        return await self._ask(reading.load_facts, run, list(hashes))

    # -- SnapshotStore ---------------------------------------------------------------------------

    async def save_snapshot(self, run: RunId, snapshot: StoredSnapshot, *, epoch: int) -> None:
        """Replace the snapshot of a run by one of events that are stored."""
        await self._ask(commands.save_snapshot, run, snapshot, epoch)

    async def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """Return the snapshot of a run; None if it has none."""
        return await self._ask(reading.load_snapshot, run)

    async def load_between(self, run: RunId, first: int, last: int) -> Sequence[Segment]:
        """Return the events from number *first* to *last*, in whole segments."""
        return await self._ask(reading.load_between, run, first, last)

    # -- TruncatingStore -------------------------------------------------------------------------

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
        """Remove the events before number *first*, in slices: others get their turn in between."""
        await self._ask(
            commands.truncate_before, run, first, link=link, expected=expected, epoch=epoch, facts=list(facts)
        )
        while await self._ask(commands.remove_truncated, run):
            pass

    # -- OwnedStore ------------------------------------------------------------------------------

    async def acquire(self, run: RunId) -> RunRecord:
        """Own the run, in a new epoch."""
        answer = (await self.acquire_many([run]))[run]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def acquire_many(self, runs: Collection[RunId]) -> Mapping[RunId, RunRecord | StoreError]:
        """Own each of *runs*, in a new epoch; return its record, or why not."""
        opened, asked = self._usable(), list(runs)
        owner = await opened.lease.key()
        return await self._ask(commands.acquire_many, asked, owner, opened.process)

    async def list_free(
        self, *, statuses: Collection[RunStatus] = DUE, after: RunRecord | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """Return a page of the runs in one of *statuses* without a living owner, oldest first."""
        if after is None:
            await self._ask(commands.expire_dead_processes, self._usable().process)
        return await self._ask(reading.free_page, list(statuses), after, limit)

    async def release(self, runs: Iterable[RunId]) -> None:
        """Release these runs; runs that this store does not own are left alone."""
        opened, given = self._usable(), [run for run in runs if reading.can_exist(run)]
        if given and opened.lease.known is not None:
            await self._ask(appending.release, given, opened.lease.known)

    # -- ListableStore ---------------------------------------------------------------------------

    async def exists(self, run: RunId) -> bool:
        """Return whether a run is stored under this id."""
        return await self._ask(reading.exists, run)

    async def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        return await self._ask(reading.find, run)

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
        """Return a page of runs, newest first."""
        return await self._ask(reading.page, reading.Asked(statuses, workflow, failed, since), after, limit)

    async def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        return await self._ask(reading.count, reading.Asked(statuses, workflow, failed, since))

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
        return await self._ask(reading.waiting_page, (workflow, since, until), after, limit)

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status."""
        return await self._ask(reading.tally)

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of a workflow there are, by version."""
        return await self._ask(reading.count_versions, workflow)

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """Return how many runs were created in each period, by its number and status."""
        return await self._ask(reading.histogram, float(since), float(width), workflow)

    async def delete(self, run: RunId) -> None:
        """Delete a run, its log and its facts."""
        opened = self._usable()
        await self._ask(commands.delete, run, opened.lease.known, opened.process)

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """Delete runs that have no living owner and were last written before a time; return how many."""
        if unfinished := sorted(set(statuses) - AT_REST):
            raise InvalidStoreOption(f"runs that are {', '.join(unfinished)} have work left; delete them one by one")
        gone, more = 0, True
        while more and gone != limit:
            most = None if limit is None else limit - gone
            some, more = await self._ask(commands.purge, float(before), list(statuses), most)
            gone += some
        return gone

    # -- UniqueStore -----------------------------------------------------------------------------

    async def key_holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the unfinished run of *workflow* that has the key *unique*."""
        return await self._ask(reading.key_holder, workflow, unique)

    async def key_rival(self, run: RunId) -> tuple[str, str, RunId] | None:
        """Return the workflow and the key of *run*, and the other run that has that key now."""
        return await self._ask(reading.key_rival, run)

    # -- InboxStore ------------------------------------------------------------------------------

    async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
        """Store *messages*, in one transaction, and notify the owners of their runs."""
        opened = self._usable()
        if not messages:
            return []
        answers, is_own = await self._ask(inbox.post, list(messages), opened.lease.known)
        if is_own:
            opened.hints.notify(opened.channel)
        return answers

    async def messages(
        self, runs: Collection[RunId] | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Message]:
        """Return the messages of *runs*, or of all runs of this store."""
        asked = None if runs is None else list(runs)
        return await self._ask(inbox.messages, self._usable().lease.known, asked, after, limit)

    async def addressed(self, *, after: RunId = "", limit: int = 100) -> Sequence[RunId]:
        """Return the ids of idle runs that have messages and no living owner."""
        return await self._ask(inbox.addressed, after, limit)

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after something was posted for a run of this store."""
        opened = self._usable()
        await opened.hints.listen(self._statements.followers, opened.hints.on_follow)
        return await opened.hints.listen(opened.channel, lambda told: None if tasks.is_told(told) else notify())

    # -- ChangeStore -----------------------------------------------------------------------------

    @property
    def hears_changes(self) -> bool:
        """Whether changes of other processes are announced now."""
        return self._opened is not None and self._opened.hints.is_connected

    async def watch_runs(self, notify: Callable[[Collection[RunId] | None], object]) -> Callable[[], None]:
        """Call *notify* with the ids of runs that have changed; with None if any may have."""
        return await self._usable().hints.listen(self._statements.changes, lambda payload: notify(runs_in(payload)))

    async def follow(self, run: RunId) -> None:
        """Ask the process that drives *run* to tell, for a minute, also of all events and streams."""
        if reading.can_exist(run):
            await self._usable().hints.follow(run)

    # -- StreamStore -----------------------------------------------------------------------------

    async def write_chunks(self, chunks: Sequence[Chunk]) -> Sequence[int | StoreError]:
        """Store *chunks* in their order, in one transaction; return the offset of each, or why it was refused."""
        answers = await self._ask(streams.write, list(chunks))
        hints = self._usable().hints
        hints.changed(each.run for each in chunks if each.run in hints.followed)
        return answers

    async def read_chunks(self, run: RunId, stream: str, *, start: int = 0, limit: int = 100) -> Sequence[Chunk]:
        """Return chunks in order, from the one that holds the item at the offset *start*."""
        return await self._ask(streams.read, run, stream, start, limit)

    async def save_progress(self, run: RunId, body: bytes) -> None:
        """Keep *body*, in place of what was kept before."""
        await self._ask(streams.save_progress, run, body)

    async def load_progress(self, run: RunId) -> bytes | None:
        """Return what was kept last for the run; None if nothing was."""
        return await self._ask(streams.load_progress, run)

    # -- QueueStore ------------------------------------------------------------------------------

    @property
    def is_sure(self) -> bool:
        """Whether no other process can claim the runs of this store now; one that owns nothing is sure."""
        opened = self._opened
        return opened is not None and (opened.lease.known is None or opened.lease.is_sure)

    async def enqueue(self, batch: Sequence[Append], placement: Placement) -> Sequence[StoreError | None]:
        """Create runs that no process owns, in one transaction; return, for each, None or why it was refused."""
        opened, given = self._usable(), list(batch)
        if not given:
            return []
        if bad := [each.run for each in given if not (each.create and each.release)]:
            raise InvalidAppend(f"the append to run {bad[0]!r} does not create a free run; set create and release")
        opened.appender.fence = self.fence
        try:
            answers = await opened.others.call(lambda db: opened.appender.append(db, given, None, placement))
        except StoreUnavailable:
            await self.check_fence()  # with another one, none is created, and no reason is found
            raise
        opened.appender.remember(given, answers)
        return answers

    def enqueueing(self, append: Append, placement: Placement) -> tuple[str, Sequence[Any]]:
        """
        Return the statement that creates a run that no process owns, and its values, for another connection.

        It returns one row, whose first column is empty if the run exists.
        """
        appender = self._usable().appender
        appender.fence = self.fence
        return self._statements["append"], appender.values([append], None, placement)

    def asking_shard(self) -> tuple[str, Sequence[Any]]:
        """Return the statement that says which database this is, and its values, for another connection."""
        return self._statements["shard"], []

    async def claim(
        self, limit: int, *, queues: Collection[str], workflows: Collection[tuple[str, str]]
    ) -> Sequence[RunRecord]:
        """
        Own at most *limit* runs that are due and free, in a new epoch; return their records, most urgent first.

        If an earlier claim was not answered, return the runs that it has taken.
        """
        opened, known = self._usable(), sorted(workflows)
        owner = await opened.lease.key()
        claims = opened.claims
        if found := await claims.settled(lambda numbers: self._ask(commands.settle, numbers, owner, opened.process)):
            return found
        asked = list(dict.fromkeys(queues))
        return await claims.answered(
            limit,
            lambda number, few: self._ask(commands.claim, limit, asked, known, owner, opened.process, number, few=few),
        )

    async def expire_dead_processes(self) -> bool:
        """End the leases of processes of this machine that are dead; return whether there were some."""
        return await self._ask(commands.expire_dead_processes, self._usable().process)

    async def defer(self, runs: Collection[RunId], seconds: float) -> None:
        """Release runs that this store owns; they are due again after *seconds*."""
        opened = self._usable()
        if runs and opened.lease.known is not None:
            await self._ask(commands.defer, list(runs), opened.lease.known, float(seconds))

    async def present(self, notify: Callable[[], object]) -> None:
        """Send the report of :attr:`presence` with each renewal of the lease from now on; call *notify* after each."""
        opened = self._usable()
        self.presence.changed = notify
        lease = opened.lease
        await lease.key()
        await opened.hints.listen(opened.channel, lambda told: lease.renew_soon() if told == WANTED else None)

    def renew_soon(self) -> None:
        """Renew the lease soon, so that the report of :attr:`presence` is sent."""
        self._usable().lease.renew_soon()

    def check_version(self) -> None:
        """
        Check that no newer Weft has migrated the schema, as of the last renewal.

        Raises:
            NewerStore: one has.
        """
        found, known = self.presence.reply.version, schema.newest(self._statements)
        if found > known:
            raise NewerStore(self._name, found, known)

    async def workers(self) -> Sequence[WorkerRecord]:
        """Return the workers that are alive, oldest first."""
        return await self._ask(presence.workers)

    async def waiting(self) -> Sequence[Waiting]:
        """Return the runs that are due and have no worker, by workflow, version and queue."""
        return await self._ask(presence.waiting)

    async def want(self, worker: str, wanted: str) -> bool:
        """Store the wish of an operator for *worker*, and notify it; return False if no such worker is alive."""
        return await self._ask(presence.want, worker, wanted)

    async def queue_depth(self, queue: str | None = None) -> int:
        """Return how many runs have something to do, now or later, in one *queue* or in all."""
        return await self._ask(commands.queue_depth, queue)

    async def queues(self) -> Sequence[QueueStatus]:
        """Return the queues that have runs, as they are now."""
        return await self._ask(commands.queues)

    async def watch_queue(self, notify: Callable[[], object], *, queues: Collection[str] = ()) -> Callable[[], None]:
        """
        Call *notify* soon after a run may have become due and free.

        Notifies one worker per run, of those that report what they serve (:attr:`presence`), and a backup.

        Args:
            queues: calls for runs in other queues are for others.
        """
        hints = self._usable().hints
        watch = QueueWatch(self.presence, notify, queues, hints.call)
        self._watch = watch
        end = await hints.listen(self._statements.channel, watch.receive)

        def stop() -> None:
            end()
            watch.stop()

        return stop

    @property
    def is_called(self) -> bool:
        """Whether this worker was called for runs, and has neither looked for them since nor passed the calls on."""
        return self._watch is not None and self._watch.has_calls

    def calls_answered(self) -> None:
        """The queue was looked at, and there is nothing more in it: no call is open."""
        if self._watch is not None:
            self._watch.answered()

    async def pass_calls_on(self) -> None:
        """Call other workers for the runs that this one was called for, since it has no room."""
        if self._watch is not None:
            await self._watch.pass_on()


class _RunWriter:
    """Writes the append of a run in the transaction of a step."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    async def lock(self, db: Any, run: RunId) -> None:
        """Lock the run in the transaction that is open on *db*."""
        await self._opened.appender.lock(db, run)

    async def write(self, db: Any, append: Append) -> StoreError | None:
        """Write *append* in the transaction that is open on *db*; return why it was refused."""
        return await self._opened.appender.append_within(db, append, await self._opened.lease.key())

    def committed(self, append: Append) -> None:
        """*append* is committed."""
        _written(self._opened, [append], [None])


def _written(opened: Opened, given: Sequence[Append], answers: Sequence[StoreError | None]) -> None:
    """Remember what was written, and notify those that follow a run."""
    opened.appender.remember(given, answers)
    followed = opened.hints.followed
    opened.hints.changed(
        each.run
        for each, refused in zip(given, answers, strict=True)
        if refused is None and (each.status is not None or (followed and each.run in followed))
    )
