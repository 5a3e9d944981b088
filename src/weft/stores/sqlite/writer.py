"""
The one thread that writes.

SQLite has one writer at a time, so Weft has one per store: everything that tasks append during
a commit is committed together by the next one.  When the thread is idle, it moves data from the
write-ahead log into the database: much at once, so that a commit seldom has to, and everything
after an idle second.  An empty log cannot be damaged.

An append with large values is not written at once: its values are written ahead in parts, one after each other request
(large_values.py).  Until that is done, requests about one of its runs wait, and so do those that may concern any run.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from weft.errors import StoreError
from weft.ports.store import Append
from weft.stores.sqlite.appending import Appender
from weft.stores.sqlite.commits import CommitNote
from weft.stores.sqlite.database_thread import Answer, DatabaseThread, Work, attempt
from weft.stores.sqlite.file import StoreFile
from weft.stores.sqlite.large_values import Load, Loaded, has_large, remove_some
from weft.stores.sqlite.transactions import Loan
from weft.stores.sqlite.wal_room import Room, emptied, without_waiting
from weft.typing import RunId

T = TypeVar("T")

_MOST_APPENDS = 10_000  # of one transaction, beyond what one caller asks for
_WORTH_A_CHECKPOINT = 1000  # rows, about as many pages
_MOVED_BETWEEN_PARTS = 1 << 20  # bytes: more at once would be one long wait, and the log would become as long
_IDLE = 0.05  # seconds without work, after which much is moved
_QUIET = 1.0  # seconds without work, after which everything is
_LONGEST_WAIT = 64.0  # seconds between two tries, if something is in the way


Asked = tuple[Any, "asyncio.Future[Any]"]


class _Command(NamedTuple):
    """Work that is about these *runs* alone."""

    work: Work
    runs: Collection[RunId]

    def __call__(self, db: sqlite3.Connection) -> Any:
        return self.work(db)


class _Ahead(NamedTuple):
    """A batch whose large values are being written ahead of it."""

    load: Load
    batch: list[Append]
    future: asyncio.Future[Any]


class Writer(DatabaseThread):
    """
    Executes the requests that change the database; those about one run in the order in which they were made.

    Args:
        large: How many bytes of values an append may have that is written at once.
        connect_to_lend: Returns a connection for the transactions of steps, which other threads may use.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        room: Room | None,
        note: CommitNote | None,
        large: int,
        connect_to_lend: Callable[[], sqlite3.Connection],
    ) -> None:
        super().__init__(name, connect)
        self._connect_to_lend = connect_to_lend
        self._lent: sqlite3.Connection | None = None  # the connection for the transactions of steps
        self._room, self._note, self._large = room, note, large
        self._session = 0
        self._appender: Appender | None = None
        self._file: StoreFile | None = None
        self._ahead: _Ahead | None = None
        self._held: set[RunId] = set()  # the runs of that, and of what waits for it
        self._is_all_held = False  # whether something waits that may be about any run, so that nothing may pass it
        self._waiting: deque[Asked] = deque()  # for what is written ahead
        self._backlog: deque[Asked] = deque()  # what has waited, in front of the queue
        self._unmoved = 0  # bytes that were written ahead and are in the write-ahead log
        self._needs_cleaning = False  # whether there may be large values that are unneeded
        self._since_checkpoint = 0
        self._is_behind = False  # whether something was done that is in the write-ahead log alone
        self._tidy_after, self._seen = _QUIET / 2, -1

    def begin(self, db: sqlite3.Connection, session: int, file: StoreFile) -> None:
        """Write for this session from now on, as long as *file* is in its place; called in the thread."""
        self._session, self._appender, self._file, self._needs_cleaning = session, Appender(session), file, True
        if self._note is not None:
            self._note.open(db)

    def append(self, batch: Sequence[Append]) -> asyncio.Future[Sequence[StoreError | None]]:
        """Write *batch*, in one transaction with whatever else waits."""
        future: asyncio.Future[Sequence[StoreError | None]] = self._loop.create_future()
        self._queue.put((list(batch), future))  # whatever its owner does with it from now on
        return future

    def call_about(self, runs: Collection[RunId] | None, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Do *work* that concerns these *runs* alone; None: it may concern any."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((work if runs is None else _Command(work, runs), future))
        return future

    def lend(self, loan: Loan) -> asyncio.Future[None]:
        """Begin the transaction of *loan*, and write nothing else until it has ended."""
        return self.call_about(None, partial(self._lend, loan))

    def has_committed(self, append: Append) -> asyncio.Future[bool]:
        """Return whether *append*, which was written in a transaction, is there."""

        def look(db: sqlite3.Connection) -> bool:
            assert self._appender is not None, "a store appends after it was opened"  # noqa: S101
            return self._appender.holds(db, append)

        return self.call_about([append.run], look)

    def forget(self, runs: Iterable[RunId]) -> None:
        """Forget *runs*, which were released: a long-lived store sees many; called in the thread."""
        if self._appender is not None:
            self._appender.forget(runs)

    def removed(self) -> None:
        """Segments and large values were removed; called in the thread."""
        self._needs_cleaning = True
        if self._note is not None:
            self._note.doubt()

    # -- in the thread ---------------------------------------------------------------------------

    def _disconnected(self) -> None:
        if self._lent is not None:
            self._lent.close()
        if self._note is not None:
            self._note.close()

    def _handle(self, db: sqlite3.Connection, work: Any, future: asyncio.Future[Any]) -> Asked | None:
        following = None
        if callable(work):
            self._since_checkpoint += 1
            self._worked()
            if self._appender is not None:
                self._appender.doubt()
            super()._handle(db, work, future)
        elif has_large(work, self._large):
            self._ahead = _Ahead(Load(work, self._session, self._large), work, future)
            self._held = {*self._ahead.load.runs}
        else:
            following = self._handle_appends(db, work, future)
        if self._ahead is not None:
            self._go_on(db, self._ahead)
        return following

    def _handle_appends(self, db: sqlite3.Connection, work: list[Append], future: asyncio.Future[Any]) -> Asked | None:
        appends, waiting = [*work], [(len(work), future)]
        following = None
        while len(appends) < _MOST_APPENDS and (asked := self._asked()) is not None:
            more, future = asked
            if more is None or callable(more) or has_large(more, self._large):
                following = asked
                break
            appends += more
            waiting.append((len(more), future))
        self._since_checkpoint += len(appends)
        self._worked()
        self._deliver(self._append(db, appends, waiting))
        if self._room is not None and self._room.is_used_up():
            self._room.make()
        return following

    def _asked(self) -> Asked | None:
        """Return the next request that can be executed now; None if there is none."""
        while self._backlog or not self._queue.empty():  # only this thread takes from it
            asked = self._backlog.popleft() if self._backlog else self._queue.get_nowait()
            if self._ahead is None or not self._has_to_wait(asked[0]):
                return asked
            self._waiting.append(asked)
        return None

    def _append(
        self,
        db: sqlite3.Connection,
        appends: list[Append],
        waiting: list[tuple[int, asyncio.Future[Any]]],
        loaded: Loaded | None = None,
    ) -> list[Answer]:
        results, error = attempt(self._commit, db, appends, loaded or {})
        answers: list[Answer] = []
        start = 0
        for count, future in waiting:
            answers.append((future, None if error else results[start : start + count], error))
            start += count
        return answers

    def _commit(self, db: sqlite3.Connection, appends: list[Append], loaded: Loaded) -> list[StoreError | None]:
        appender, file = self._appender, self._file
        assert appender is not None and file is not None, "a store appends after it was opened"  # noqa: S101, PT018
        file.check()
        if self._note is not None:
            self._note.prepare(db)
        results = appender.append(db, appends, loaded)
        file.check()  # what went into a file that was moved away is not acknowledged
        if self._note is not None and appender.last is not None:
            self._note.write(*appender.last)
        return results

    def _lend(self, loan: Loan, _: sqlite3.Connection) -> None:
        appender, file = self._appender, self._file
        assert appender is not None and file is not None, "a store appends after it was opened"  # noqa: S101, PT018
        if self._lent is None:
            self._lent = self._connect_to_lend()
        db = self._lent

        def write(append: Append) -> StoreError | None:
            if self._note is not None:
                self._note.prepare(db)
            refused = appender.append_within(db, append)
            file.check()
            return refused

        def committed() -> None:
            if self._note is not None and appender.last is not None:
                self._note.write(*appender.last)

        file.check()
        if not loan.serve(db, write, committed):  # its function may still have hold of it
            self._lent = None
            db.close()

    # -- what is written ahead -------------------------------------------------------------------

    def _has_to_wait(self, work: Any) -> bool:
        """Whether *work* has to wait for what is written ahead; then later work about the same runs waits too."""
        runs = _runs_of(work)
        if runs is None:
            self._is_all_held = True
        elif not self._is_all_held and self._held.isdisjoint(runs) and not self._is_large(work):
            return False
        else:
            self._held.update(runs)
        return True

    def _is_large(self, work: Any) -> bool:
        return not callable(work) and has_large(work, self._large)

    def _go_on(self, db: sqlite3.Connection, ahead: _Ahead) -> None:
        """Write the next part; after the last one, the batch that the parts are of."""
        self._worked()
        size, error = attempt(self._write_part, db, ahead.load)
        if size:
            return
        self._ahead, self._needs_cleaning = None, True  # it may be refused
        self._held, self._is_all_held = set(), False
        self._backlog.extendleft(reversed(self._waiting))
        self._waiting.clear()
        if error is None:
            self._deliver(self._append(db, ahead.batch, [(len(ahead.batch), ahead.future)], ahead.load.keys))
        else:
            self._deliver([(ahead.future, None, error)])

    def _write_part(self, db: sqlite3.Connection, load: Load) -> int:
        assert self._file is not None, "a store appends after it was opened"  # noqa: S101
        self._file.check()
        size = load.go_on(db)
        self._unmoved += size
        if self._unmoved >= _MOVED_BETWEEN_PARTS:
            self._unmoved = 0
            with suppress(sqlite3.Error):  # it is tried again, and a commit will say what is wrong
                db.execute("pragma wal_checkpoint(passive)").fetchall()
        return size

    def _clean(self, db: sqlite3.Connection) -> None:
        """Remove large values that are unneeded, in slices, as long as there is nothing else to do."""
        try:
            with without_waiting(db):
                while self._needs_cleaning and self._queue.empty():
                    if self._file is None or not self._file.is_in_place():
                        return
                    self._needs_cleaning = remove_some(db, self._session)
                    self._is_behind |= self._needs_cleaning
        except (sqlite3.Error, UnicodeDecodeError):  # another process writes, or the disk fails: after the next work
            return

    # --------------------------------------------------------------------------------------------

    def _worked(self) -> None:
        self._is_behind, self._tidy_after, self._seen = True, _QUIET / 2, -1

    def _next(self, db: sqlite3.Connection) -> Asked:
        while self._ahead is not None:
            if (asked := self._asked()) is not None:
                return asked
            self._go_on(db, self._ahead)
        if self._backlog:
            return self._backlog.popleft()
        if self._needs_cleaning:
            self._clean(db)
        while self._is_behind:
            is_much = self._since_checkpoint >= _WORTH_A_CHECKPOINT
            try:
                return self._queue.get(timeout=_IDLE if is_much else self._tidy_after)
            except queue.Empty:
                # If it cannot be done now (a reader is in the way, the disk fails), it is tried again, and a commit
                # will say what is wrong.
                with suppress(sqlite3.Error):
                    self._tidy(db, is_much=is_much)
        return self._queue.get()

    def _tidy(self, db: sqlite3.Connection, *, is_much: bool) -> None:
        """Move what was written into the database, while there is nothing else to do."""
        self._since_checkpoint = 0
        if is_much:
            db.execute("pragma wal_checkpoint(passive)").fetchall()
            return
        seen, (self._seen,) = self._seen, db.execute("pragma data_version").fetchone()
        if seen != self._seen:  # the first look, or another process writes and needs its log as it is
            return
        self._tidy_after = min(self._tidy_after * 2, _LONGEST_WAIT)
        if self._file is not None and self._file.is_in_place() and emptied(db):
            self._is_behind = False
            if self._room is not None:
                self._room.make_after_emptying()


def _runs_of(work: Any) -> Collection[RunId] | None:
    """Return the runs that *work* concerns; None if that may be any."""
    match work:
        case _Command():
            return work.runs
        case [*appends]:
            return [each.run for each in appends]
        case _:
            return None
