"""
Runs in one SQLite file.

The file is durable on one machine and shared by its processes: in WAL mode with ``synchronous=FULL``
an append that has returned survives a power cut.  One thread writes, another reads, and
the event loop never waits for the disk.

    >>> import asyncio, tempfile
    >>> async def started():
    ...     with tempfile.TemporaryDirectory() as folder:
    ...         async with SQLiteStore(f"{folder}/runs.db") as store:
    ...             first = Append(run="order-1", workflow="orders", create=True, expected=0, count=1,
    ...                            body=b"placed", chain=b"1", at=0.0)
    ...             await store.append([first])
    ...             return (await store.load("order-1")).segments
    >>> asyncio.run(started())
    [Segment(first=1, count=1, body=b'placed')]
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from weft.errors import InvalidStoreOption, StoreClosed, StoreError, StoreUnavailable, WrongLoop
from weft.ports.deadlines import Endangered
from weft.ports.jobs import DueJobs, StoredJob
from weft.ports.schedules import DueSchedules, StoredSchedule
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
from weft.stores.sqlite import commands, commits, deadlines, inbox, jobs, reading, schedules, schema, streams
from weft.stores.sqlite.commits import CommitNote
from weft.stores.sqlite.database_thread import DatabaseThread
from weft.stores.sqlite.doorbell import Doorbell, ring
from weft.stores.sqlite.error_mapping import file_problem, problem, translated
from weft.stores.sqlite.file import StoreFile
from weft.stores.sqlite.large_values import LARGE
from weft.stores.sqlite.ownership import Session, with_living_owners
from weft.stores.sqlite.transactions import Loan, SQLiteTransaction
from weft.stores.sqlite.wal_room import Room
from weft.stores.sqlite.writer import Writer
from weft.typing import RunId

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("weft.stores")
_MOST_DEFINITIONS = 256
"""How many definitions are remembered."""


class _Opened(NamedTuple):
    """The parts of a store that is open."""

    loop: asyncio.AbstractEventLoop
    session: Session
    writer: Writer
    reader: DatabaseThread
    file: StoreFile


class SQLiteStore:
    """
    Keeps runs in the file at *path*, which is made if it is not there.

    Args:
        path: A file on a local disk; its folder must exist.  Beside it are ``-wal`` and ``-shm`` of SQLite, the note of
            the last commit in ``-commits``, and an ``-owner-`` file of every open store.  In place of ``:memory:``
            use :class:`~weft.stores.MemoryStore`.
        synchronous: ``"full"`` waits for the disk at every commit.  With ``"normal"`` a power cut, but no crash of the
            process, may lose the last commits.  ``"extra"`` is for file systems that need it.
        busy_timeout: How many seconds to wait while another process writes.
        transaction_timeout: How many seconds a step may have the transaction (``transaction()``), while nothing else
            can be written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: schema.Synchronous = "full",
        busy_timeout: float = 5.0,
        transaction_timeout: float = 5.0,
    ) -> None:
        self.path = schema.validated(path, synchronous, busy_timeout)
        if not transaction_timeout > 0:
            raise InvalidStoreOption(f"transaction_timeout={transaction_timeout!r} is not a number of seconds above 0")
        self._transaction_timeout = transaction_timeout
        self._synchronous, self._busy_timeout = synchronous, busy_timeout
        self._connect = partial(schema.connect, self.path, synchronous, busy_timeout)
        self._large = LARGE  # tests lower it
        self._opened: _Opened | None = None
        self._opening = asyncio.Lock()
        self._doorbell: Doorbell | None = None
        self._listeners: dict[object, Callable[[], object]] = {}
        """Told when something may have been posted for a run of this store."""
        self._definitions: dict[ContentHash, bytes] = {}
        """Definitions that were asked for since it was opened; they are never changed or removed."""

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    # -- Store -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._opened is not None and self._opened.session.is_held

    async def open(self) -> None:
        """Make the file ready, and become a new owner; do nothing if it is open already."""
        async with self._opening:
            if not self.is_open:
                self._opened, self._definitions = await self._open(), {}

    async def _open(self) -> _Opened:
        connect = partial(_migrated, self._connect, self.path, self._busy_timeout)
        lent = partial(self._connect, is_shared=True)
        writer = Writer(f"weft-writer-{self.path.name}", connect, self._room(), self._note(), self._large, lent)
        reader = DatabaseThread(f"weft-reader-{self.path.name}", self._connect)
        with translated(self.path):
            await writer.start()
            try:
                session = Session(self.path)
                try:
                    file = await writer.call(partial(_register, self.path, session, writer))
                    await reader.start()
                except BaseException:
                    session.close()
                    raise
            except BaseException:
                writer.abandon()
                raise
        return _Opened(asyncio.get_running_loop(), session, writer, reader, file)

    def _room(self) -> Room | None:
        return None if self._synchronous == "normal" else Room(self.path)  # a commit that waits for nothing needs none

    def _note(self) -> CommitNote | None:
        # A commit that has not waited for the disk may be lost with the power, and a note of it might not be.
        return None if self._synchronous == "normal" else CommitNote(self.path)

    async def close(self) -> None:
        """Write what was handed over, and free every run that is owned; do nothing if it is closed already."""
        opened, self._opened = self._opened, None
        self._listeners.clear()
        doorbell, self._doorbell = self._doorbell, None
        if opened is None or not opened.session.is_held:
            if doorbell is not None:
                doorbell.abandon()
            return
        try:
            if doorbell is not None:
                await doorbell.close()
            await opened.reader.stop()
            await self._answer(opened.writer.call(opened.session.release_all))
        except StoreUnavailable as error:  # its runs are free without the lock, and the next one to open tidies up
            _log.debug("the session of %s could not be removed: %s", self.path, error)
        finally:
            # The lock goes last, and it does go: without it the session is dead, whatever else failed.
            try:
                await opened.writer.stop()
            finally:
                opened.session.close()

    def __del__(self) -> None:
        opened = getattr(self, "_opened", None)
        if opened is not None and opened.session.is_held:
            warnings.warn(f"{self!r} was never closed; use `async with`", ResourceWarning, source=self, stacklevel=2)
            if self._doorbell is not None:
                self._doorbell.abandon()
            opened.reader.abandon()
            opened.writer.abandon()
            opened.session.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def save(self, record: RunRecord, body: bytes) -> None:
        """Replace the whole log of a run."""
        await self._remove([record.id], commands.save, record, body)

    async def load(self, run: RunId) -> LoadedRun:
        """Return the whole log."""
        return await self._read(reading.load, run, 0)

    # -- LogStore --------------------------------------------------------------------------------

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write the whole *batch* in one transaction; return, for each of it, None or why it was refused."""
        writer = self._usable().writer
        return await self._answer(writer.append(batch)) if batch else []

    async def load_since(self, run: RunId, position: int) -> LoadedRun:
        """Return the segments that hold what came after *position*."""
        return await self._read(reading.load, run, position)

    async def load_many(self, runs: Collection[RunId]) -> Mapping[RunId, LoadedRun | StoreError]:
        """Return the whole logs of *runs*, or why one cannot be read."""
        return await self._read(reading.load_many, list(runs))

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the definitions; those that were asked for lately are remembered, since many runs share them."""
        self._usable()
        missing = [content for content in hashes if content not in self._definitions]
        if missing:
            known = {**self._definitions, **await self._read(reading.load_definitions, missing)}
            wanted = {content: known[content] for content in hashes}
            self._definitions = known if len(known) <= _MOST_DEFINITIONS else wanted
            return wanted
        return {content: self._definitions[content] for content in hashes}

    # -- FactStore -------------------------------------------------------------------------------

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """Store *facts*; those that are stored already stay."""
        await self._write_about([run], lambda db, _: commands.save_facts(db, run, facts))

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return the values."""
        return await self._read(reading.load_facts, run, hashes)

    # -- SnapshotStore ---------------------------------------------------------------------------

    async def save_snapshot(self, run: RunId, snapshot: StoredSnapshot, *, epoch: int) -> None:
        """Replace the snapshot of a run."""
        await self._write_about([run], lambda db, _: commands.save_snapshot(db, run, snapshot, epoch))

    async def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """Return the snapshot of a run."""
        return await self._read(reading.load_snapshot, run)

    async def load_between(self, run: RunId, first: int, last: int) -> Sequence[Segment]:
        """Return the segments that hold these events."""
        return await self._read(reading.load_between, run, first, last)

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
        """Remove the events before number *first*: at once for those that read, from the file in slices."""
        await self._remove(
            [run],
            commands.truncate_before,
            run,
            first,
            link=link,
            expected=expected,
            epoch=epoch,
            facts=list(facts),
        )
        while await self._remove([run], commands.remove_truncated, run):
            pass

    # -- CompactStore ----------------------------------------------------------------------------

    async def compact(self, run: RunId) -> int:
        """Move old segments of a run into packs, in slices; return how many."""
        moved, more = 0, True
        while more:
            some, more = await self._remove([run], commands.compact, run)
            moved += some
        return moved

    # -- OwnedStore ------------------------------------------------------------------------------

    async def acquire(self, run: RunId) -> RunRecord:
        """Own the run, in a new epoch."""
        return await self._write_about([run], commands.acquire, run)

    async def acquire_many(self, runs: Collection[RunId]) -> Mapping[RunId, RunRecord | StoreError]:
        """Own each of *runs*, in a new epoch and one transaction; return its record, or why not."""
        asked = list(runs)
        return await self._write_about(asked, commands.acquire_many, asked)

    async def list_free(
        self, *, statuses: Collection[RunStatus] = DUE, after: RunRecord | None = None, limit: int = 100
    ) -> Sequence[RunRecord]:
        """Return a page of the runs in one of *statuses* that no live session owns, oldest first."""
        await self._write_about([], commands.remove_dead_sessions)  # whose rows would count as owners
        return await self._read(reading.free_page, statuses, after, limit, commands.log_unreadable)

    async def release(self, runs: Iterable[RunId]) -> None:
        """Release these runs; those that this store does not own are left alone."""
        given_up, writer = list(runs), self._usable().writer

        def act(db: sqlite3.Connection, session: Session) -> None:
            commands.release(db, session, given_up)
            writer.forget(given_up)

        await self._write_about(given_up, act)

    # -- ListableStore ---------------------------------------------------------------------------

    async def exists(self, run: RunId) -> bool:
        """Whether something is stored under this id."""
        return await self._read(reading.exists, run)

    async def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""

        def found(db: sqlite3.Connection) -> RunRecord:
            _, record = reading.find(db, run)
            return with_living_owners(db, self.path, [record])[0]

        return await self._read(found)

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
        asked = reading.Asked(statuses, workflow, failed, since)
        return await self._read(lambda db: with_living_owners(db, self.path, reading.page(db, asked, after, limit)))

    async def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are."""
        return await self._read(reading.count, reading.Asked(statuses, workflow, failed, since))

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
        asked = reading.AskedWaiting(workflow, since, until)
        return await self._read(
            lambda db: with_living_owners(db, self.path, reading.waiting_page(db, asked, after, limit))
        )

    async def tally(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return how many runs there are, by workflow and status."""
        return await self._read(reading.tally)

    async def count_versions(self, workflow: str) -> Mapping[str, int]:
        """Return how many runs of a workflow there are, by version."""
        return await self._read(reading.count_versions, workflow)

    async def histogram(
        self, *, since: float, width: float, workflow: str | None = None
    ) -> Mapping[tuple[int, RunStatus], int]:
        """Return how many runs were created in each period, by its number and status."""
        return await self._read(reading.histogram, reading.Asked(workflow=workflow, since=since), float(width))

    async def delete(self, run: RunId) -> None:
        """Delete a run, its log and its facts."""
        await self._remove([run], commands.delete, run)

    async def purge(
        self, *, before: float, statuses: Collection[RunStatus] = FINISHED, limit: int | None = None
    ) -> int:
        """Delete finished runs that no live session owns and that were last written before a time; return how many."""
        if unfinished := sorted(set(statuses) - AT_REST):
            raise InvalidStoreOption(f"runs that are {', '.join(unfinished)} have work left; delete them one by one")
        gone, more, before = 0, True, float(before)  # for SQLite every number is less than any text or date
        while more and gone != limit:
            most = None if limit is None else limit - gone
            some, more = await self._remove(None, commands.purge, before, statuses, most)
            gone += some
        return gone

    # -- UniqueStore -----------------------------------------------------------------------------

    async def key_holder(self, workflow: str, unique: str) -> RunId | None:
        """Return the unfinished run of *workflow* that has the key *unique*."""
        return await self._read(reading.key_holder, workflow, unique)

    async def key_rival(self, run: RunId) -> tuple[str, str, RunId] | None:
        """Return the workflow and the key of *run*, and the other run that has that key now."""
        return await self._read(reading.key_rival, run)

    # -- InboxStore ------------------------------------------------------------------------------

    async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
        """Store *messages*, in one transaction, and ring the owners of their runs."""
        runs = [each.run for each in messages]
        answers, owners = await self._write_about(runs, inbox.post, list(messages))
        self._ring(owners)
        return answers

    def _ring(self, owners: Mapping[int, int | None]) -> None:
        """Tell the *owners* of runs, by session, that they have messages."""
        own = self._usable().session.key
        ring(port for session, port in owners.items() if port is not None and session != own)
        if own in owners:
            self._tell()

    async def messages(
        self, runs: Collection[RunId] | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Message]:
        """Return the messages of *runs*, or of all runs of this store."""
        session = self._usable().session.key
        return await self._read(inbox.messages, session, None if runs is None else list(runs), after, limit)

    async def addressed(self, *, after: RunId = "", limit: int = 100) -> Sequence[RunId]:
        """Return the ids of idle runs that have messages and that no live session owns."""
        await self._write_about([], commands.remove_dead_sessions)  # whose rows would count as owners
        return await self._read(inbox.addressed, after, limit)

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after something was posted for a run of this store; the first listener starts a thread."""
        opened, me = self._usable(), object()
        self._listeners[me] = notify
        if self._doorbell is None:
            weakly = weakref.WeakMethod(self._tell)  # the thread must not keep a store alive that was forgotten
            look = partial(schema.connect_for_reading, self.path, self._busy_timeout)
            self._doorbell = Doorbell(f"weft-doorbell-{self.path.name}", look, partial(_call, weakly))
            try:
                await self._answer(
                    opened.writer.call_about(
                        (), partial(inbox.listen_at, session=opened.session, port=self._doorbell.port)
                    )
                )
            except BaseException:
                self._listeners.pop(me, None)
                raise

        def end() -> None:
            self._listeners.pop(me, None)

        return end

    def _tell(self) -> None:
        for notify in list(self._listeners.values()):
            notify()

    # -- StreamStore -----------------------------------------------------------------------------

    async def write_chunks(self, chunks: Sequence[Chunk]) -> Sequence[int | StoreError]:
        """Store *chunks*, in one transaction."""
        return await self._write_about([each.run for each in chunks], streams.write, list(chunks))

    async def read_chunks(self, run: RunId, stream: str, *, start: int = 0, limit: int = 100) -> Sequence[Chunk]:
        """Return chunks, from the one that holds the item at *start*."""
        return await self._read(streams.read, run, stream, start, limit)

    async def save_progress(self, run: RunId, body: bytes) -> None:
        """Keep the progress of a run."""
        await self._write_about([run], streams.save_progress, run, body)

    async def load_progress(self, run: RunId) -> bytes | None:
        """Return the progress of a run that was last kept."""
        return await self._read(streams.load_progress, run)

    # -- ScheduleStore ---------------------------------------------------------------------------

    async def put_schedule(self, row: StoredSchedule) -> bool:
        """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
        return await self._write_about([], schedules.put, row)

    async def list_schedules(self, name: str | None = None) -> Sequence[StoredSchedule]:
        """Return all rows of schedules, or the one of this *name*."""
        return await self._read(schedules.listed, name)

    async def due_schedules(self, workflows: Collection[str], now: float, *, limit: int = 100) -> DueSchedules:
        """Return the schedules that are due."""
        return await self._read(schedules.due, workflows, now, limit)

    async def delete_schedule(self, name: str) -> bool:
        """Delete the row of a schedule; return whether it was there."""
        return await self._write_about([], schedules.delete, name)

    # -- DeadlineStore ---------------------------------------------------------------------------

    async def endangered(self, now: float, *, limit: int = 100) -> Sequence[Endangered]:
        """Return the runs whose deadline is in danger, or past."""
        return await self._read(deadlines.endangered, float(now), limit)

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        """Mark all unreported dangers as reported; return them and the time of the next one."""
        return await self._write_about([], deadlines.mark_all_reported, float(now), limit)

    async def tell_danger(self, run: RunId, deadline: float, now: float) -> Endangered | None:
        """Mark one danger as reported and return it; None if there is none."""
        return await self._write_about([run], deadlines.mark_reported, run, deadline, now)

    # -- JobStore --------------------------------------------------------------------------------

    async def put_job(self, row: StoredJob, messages: Sequence[Message] = ()) -> Sequence[int | StoreError] | None:
        """Write *row* in place of the one with its revision, or as a new one, and post *messages*; else None."""
        written = await self._write_about([each.run for each in messages], jobs.put, row, list(messages))
        if written is None:
            return None
        answers, owners = written
        self._ring(owners)
        return answers

    async def list_jobs(self, id: str | None = None, *, limit: int = 100) -> Sequence[StoredJob]:
        """Return the newest rows of jobs, or the one of this *id*."""
        return await self._read(jobs.listed, id, limit)

    async def due_jobs(self, now: float, *, limit: int = 10) -> DueJobs:
        """Return the jobs that are due."""
        return await self._read(jobs.due, now, limit)

    async def delete_job(self, id: str) -> bool:
        """Delete the row of a job; return whether it was there."""
        return await self._write_about([], jobs.delete, id)

    # -- TransactionalStore ----------------------------------------------------------------------

    has_exclusive_transactions = True

    async def begin(self) -> SQLiteTransaction:
        """Begin a transaction, when the one before has ended: nothing else is written meanwhile."""
        loan = Loan(asyncio.get_running_loop(), self._transaction_timeout)
        ended = asyncio.ensure_future(self._answer(self._usable().writer.lend(loan)))
        await loan.begun_or(ended)
        return SQLiteTransaction(loan, ended)

    async def has_committed(self, append: Append) -> bool:
        """Return whether a transaction was committed with *append*."""
        return await self._answer(self._usable().writer.has_committed(append))

    # -- CheckpointStore -------------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the file, for instance before copying it."""
        await self._write(lambda db, _: _checkpoint(db))

    # --------------------------------------------------------------------------------------------

    def _usable(self) -> _Opened:
        opened = self._opened
        if opened is None or not opened.session.is_held:
            raise StoreClosed(f"the store at {self.path}")
        if opened.loop is not asyncio.get_running_loop():
            raise WrongLoop(f"the store at {self.path}")
        return opened

    async def _read(
        self, question: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        opened = self._usable()

        def ask(db: sqlite3.Connection) -> T:
            opened.file.check()
            return question(db, *arguments, **named)

        return await self._answer(opened.reader.call(ask))

    async def _write(
        self, command: Callable[Concatenate[sqlite3.Connection, Session, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Do work that may concern any run."""
        return await self._write_about(None, command, *arguments, **named)

    async def _write_about(
        self,
        runs: Collection[RunId] | None,
        command: Callable[Concatenate[sqlite3.Connection, Session, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do work that concerns these *runs* alone."""
        opened = self._usable()

        def act(db: sqlite3.Connection) -> T:
            opened.file.check()
            return command(db, opened.session, *arguments, **named)

        return await self._answer(opened.writer.call_about(runs, act))

    async def _remove(
        self,
        runs: Collection[RunId] | None,
        command: Callable[Concatenate[sqlite3.Connection, Session, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do work that may remove segments and large values."""
        writer = self._usable().writer

        def act(db: sqlite3.Connection, session: Session) -> T:
            try:
                return command(db, session, *arguments, **named)
            finally:
                writer.removed()

        return await self._write_about(runs, act)

    async def _answer(self, future: asyncio.Future[T]) -> T:
        try:
            return await future
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise problem(self.path, error) from error
        except OSError as error:
            raise file_problem(self.path, error) from error


# Below are functions, not methods: what the threads hold must not keep a store alive that was forgotten.


def _migrated(connect: Callable[[], sqlite3.Connection], path: Path, busy_timeout: float) -> sqlite3.Connection:
    commits.check(path, busy_timeout)
    db = connect()
    try:
        schema.migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _register(path: Path, session: Session, writer: Writer, db: sqlite3.Connection) -> StoreFile:
    file = StoreFile(path)
    session.register(db)
    writer.begin(db, session.key, file)
    return file


def _call(weakly: weakref.WeakMethod[Callable[[], None]]) -> None:
    method = weakly()
    if method is not None:
        method()


def _checkpoint(db: sqlite3.Connection) -> None:
    busy, _, _ = db.execute("pragma wal_checkpoint(truncate)").fetchone()
    if busy:
        raise StoreUnavailable("the write-ahead log", "a reader or another writer is in the way")
