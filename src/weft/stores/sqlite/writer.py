"""
The one thread that writes.

SQLite has one writer at a time, so Weft has one per store: whatever tasks append while a
commit is under way is committed together by the next.  In between, when nobody asks for
anything, it moves what was written from the write-ahead log into the database: much at
once, so that a commit seldom has to, and everything after a second of quiet.  A log that
is empty cannot be damaged.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from weft.errors import StoreError
from weft.ports.store import Append
from weft.stores.sqlite.appending import Appender
from weft.stores.sqlite.commits import CommitNote
from weft.stores.sqlite.file import StoreFile
from weft.stores.sqlite.room import Room, emptied
from weft.stores.sqlite.thread import Answer, DatabaseThread, attempt
from weft.typing import RunId

_MOST_APPENDS = 10_000  # of one transaction, beyond what one caller asks for
_WORTH_A_CHECKPOINT = 1000  # rows, about as many pages
_IDLE = 0.05  # seconds without work, after which much is moved
_QUIET = 1.0  # seconds without work, after which everything is
_MOST_PATIENCE = 64.0  # seconds between two tries, if something is in the way


class Writer(DatabaseThread):
    """Does what changes the database, in the order in which it was asked for."""

    def __init__(
        self, name: str, connect: Callable[[], sqlite3.Connection], room: Room | None, note: CommitNote | None
    ) -> None:
        super().__init__(name, connect)
        self._room, self._note = room, note
        self._appender: Appender | None = None
        self._file: StoreFile | None = None
        self._since_checkpoint = 0
        self._is_behind = False  # whether something was done that is in the write-ahead log alone
        self._patience, self._seen = _QUIET / 2, -1

    def begin(self, db: sqlite3.Connection, session: int, file: StoreFile) -> None:
        """Write for this session from now on, as long as *file* is in its place; called in the thread."""
        self._appender, self._file = Appender(session), file
        if self._note is not None:
            self._note.open(db)

    def append(self, batch: Sequence[Append]) -> asyncio.Future[Sequence[StoreError | None]]:
        """Have *batch* written, in one transaction with whatever else waits."""
        future: asyncio.Future[Sequence[StoreError | None]] = self._loop.create_future()
        self._queue.put((list(batch), future))  # whatever its owner does with it from now on
        return future

    def forget(self, runs: Iterable[RunId]) -> None:
        """Remember nothing of *runs*, which were given up: a long life sees many; called in the thread."""
        if self._appender is not None:
            self._appender.forget(runs)

    def removed(self) -> None:
        """Segments were removed; called in the thread."""
        if self._note is not None:
            self._note.doubt()

    # -- in the thread ---------------------------------------------------------------------------

    def _disconnected(self) -> None:
        if self._note is not None:
            self._note.close()

    def _handle(
        self, db: sqlite3.Connection, work: Any, future: asyncio.Future[Any]
    ) -> tuple[Any, asyncio.Future[Any]] | None:
        if callable(work):
            self._since_checkpoint += 1
            self._worked()
            return super()._handle(db, work, future)
        appends, waiting = [*work], [(len(work), future)]
        following = None
        while len(appends) < _MOST_APPENDS and not self._queue.empty():  # nobody else takes from it
            more, future = self._queue.get_nowait()
            if more is None or callable(more):
                following = more, future
                break
            appends += more
            waiting.append((len(more), future))
        self._since_checkpoint += len(appends)
        self._worked()
        self._deliver(self._append(db, appends, waiting))
        if self._room is not None and self._room.is_used_up():
            self._room.make()
        return following

    def _append(
        self, db: sqlite3.Connection, appends: list[Append], waiting: list[tuple[int, asyncio.Future[Any]]]
    ) -> list[Answer]:
        assert self._appender is not None and self._file is not None, "a store appends after it was opened"  # noqa: S101, PT018
        results, error = attempt(self._commit, db, self._appender, self._file, appends)
        answers: list[Answer] = []
        start = 0
        for count, future in waiting:
            answers.append((future, None if error else results[start : start + count], error))
            start += count
        return answers

    def _commit(
        self, db: sqlite3.Connection, appender: Appender, file: StoreFile, appends: list[Append]
    ) -> list[StoreError | None]:
        file.check()
        if self._note is not None:
            self._note.prepare(db)
        results = appender.append(db, appends)
        file.check()  # what went into a file that nobody will find is not acknowledged
        if self._note is not None and appender.last is not None:
            self._note.write(*appender.last)
        return results

    def _worked(self) -> None:
        self._is_behind, self._patience, self._seen = True, _QUIET / 2, -1

    def _next(self, db: sqlite3.Connection) -> tuple[Any, asyncio.Future[Any]]:
        while self._is_behind:
            is_much = self._since_checkpoint >= _WORTH_A_CHECKPOINT
            try:
                return self._queue.get(timeout=_IDLE if is_much else self._patience)
            except queue.Empty:
                # If it cannot be done now (a reader is in the way, the disk fails), it is tried again, and a commit
                # will say what is wrong.
                with suppress(sqlite3.Error):
                    self._tidy(db, is_much=is_much)
        return self._queue.get()

    def _tidy(self, db: sqlite3.Connection, *, is_much: bool) -> None:
        """Move what was written into the database, as nobody asks for anything."""
        self._since_checkpoint = 0
        if is_much:
            db.execute("pragma wal_checkpoint(passive)").fetchall()
            return
        seen, (self._seen,) = self._seen, db.execute("pragma data_version").fetchone()
        if seen != self._seen:  # the first look, or another process writes and needs its log as it is
            return
        self._patience = min(self._patience * 2, _MOST_PATIENCE)
        if self._file is not None and self._file.is_in_place() and emptied(db):
            self._is_behind = False
            if self._room is not None:
                self._room.make_after_emptying()
