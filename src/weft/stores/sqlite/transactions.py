"""
The transaction that a step writes in, on the file of the store (ADR 51).

SQLite has one writer, and that is the writer thread of the store.  It begins the transaction on another connection,
lends that to the step, and waits: nothing else is written meanwhile.

    lent ──check──► checked ──commit──► committed, or refused and rolled back
      │                │
      └── too long ────┴── abandoned ──► rolled back

Invariants: a step uses the connection only while it is lent; every use takes a lock, and so does the end of it.  An
authorizer keeps the step from ending the transaction, attaching other files and changing the tables of the store.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any, Final

from weft.errors import StoreError, TransactionEnded, TransactionLost, TransactionTimeout
from weft.ports.store import Append
from weft.stores.sqlite.statements import migrations
from weft.typing import RunId

Parameters = Sequence[Any] | Mapping[str, Any]

_INTERRUPTED_EVERY: Final = 0.05  # seconds: a statement may have begun just after it was interrupted
_REFUSED: Final = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
_CHANGES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_ABOUT_FIRST: Final = frozenset({sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_CREATE_TABLE})
_ABOUT_SECOND: Final = frozenset(
    {
        *(sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX),
        *(sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER),
    }
)
_ROLLED_BACK: Final = "SQLite has rolled it back after an error"
_PRAGMAS: Final = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"})


class Rows:
    """The rows of a statement, all of them, with the methods of a cursor that was read to its end."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        """The columns; None if there are none."""
        self._rows: Iterator[Any] = iter(cursor.fetchall())
        self.rowcount = cursor.rowcount
        """How many rows were changed."""
        self.lastrowid = cursor.lastrowid
        """The row that was inserted last."""

    def fetchone(self) -> Any:
        """Return the next row; None if there is none."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows


class StepConnection:
    """The connection as a step has it, from any thread; it can be used until the step has ended."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._lock = db, threading.Lock()
        self._ended: TransactionEnded | None = None
        db.set_authorizer(_may)

    def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """
        Execute *sql* and return its rows.

        Raises:
            TransactionEnded: the transaction has ended, or this would end it.
            sqlite3.Error: the statement has failed.
        """
        with self._lock:
            self._check()
            try:
                with closing(self._db.execute(sql, parameters)) as cursor:
                    return Rows(cursor)
            except sqlite3.DatabaseError as error:
                raise self._translated(error) from error

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Rows:
        """
        Execute *sql* for each of *parameters*.

        Raises:
            TransactionEnded: as :meth:`execute`.
            sqlite3.Error: the statement has failed.
        """
        with self._lock:
            self._check()
            try:
                with closing(self._db.executemany(sql, parameters)) as cursor:
                    return Rows(cursor)
            except sqlite3.DatabaseError as error:
                raise self._translated(error) from error

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended
        if not self._db.in_transaction:
            raise TransactionLost(_ROLLED_BACK)

    def _translated(self, error: sqlite3.DatabaseError) -> Exception:
        if self._ended is not None:  # it was interrupted
            return self._ended
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH:
            return TransactionEnded(
                "a step cannot end it, attach other files, set pragmas or change Weft's own tables, and this one tried"
            )
        return error

    def end(self, reason: TransactionEnded) -> None:
        """Let no statement begin, and interrupt the one that is being executed; called in the writer thread."""
        if self._ended is None:
            self._ended = reason
        while not self._lock.acquire(timeout=_INTERRUPTED_EVERY):
            self._db.interrupt()
        self._lock.release()
        self._db.set_authorizer(None)


Request = tuple[Append | None, "asyncio.Future[Any]"]


class Loan:
    """The connection of a step, which the writer thread lends and serves."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        """Lend it for *timeout* seconds at most; requests come from *loop*."""
        self._loop, self._timeout = loop, timeout
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self.begun: asyncio.Future[StepConnection] = loop.create_future()
        """Ends with the connection when the transaction has begun."""

    async def begun_or(self, ended: asyncio.Future[None]) -> None:
        """Wait until the transaction has begun; raise what has ended the loan before."""
        try:
            waited: list[asyncio.Future[Any]] = [self.begun, ended]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.abandon()
            raise
        if not self.begun.done():
            ended.result()
            raise TransactionLost("it has not begun")

    def request(self, append: Append | None) -> asyncio.Future[Any]:
        """Ask for a check; or for *append* to be written and committed."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._requests.put((append, answer))
        return answer

    def abandon(self) -> None:
        """Ask for it to be rolled back."""
        self._requests.put(None)

    # -- in the writer thread --------------------------------------------------------------------

    def serve(
        self,
        db: sqlite3.Connection,
        write: Callable[[Append], StoreError | None],
        committed: Callable[[], None],
    ) -> bool:
        """
        Begin a transaction on *db*, and wait for its end; return whether *db* can be used for another one.

        Args:
            write: writes an append, and returns why it was refused.
            committed: called after the commit.
        """
        db.execute("begin immediate")
        step = StepConnection(db)
        try:
            self._answer(self.begun, step)
            request = self._requests.get(timeout=self._timeout)
            if request is None:
                return False
            append, answer = request
            if append is None:  # a check: its function has returned
                step.end(TransactionEnded("the step has returned"))
                self._answer(answer, None if db.in_transaction else TransactionLost(_ROLLED_BACK))
                request = self._requests.get()
                if request is None:
                    return False
                append, answer = request
                assert append is not None  # noqa: S101 - after a check there is only a commit
            refused = write(append)
            if refused is None:
                db.execute("commit")
                committed()
            self._answer(answer, refused)
            return refused is None
        except queue.Empty:
            step.end(TransactionTimeout(self._timeout))
            return False
        finally:
            step.end(TransactionEnded("it was rolled back"))
            if db.in_transaction:
                db.execute("rollback")

    def _answer(self, future: asyncio.Future[Any], answer: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, future, answer)
        except RuntimeError:
            if not self._loop.is_closed():  # once the loop is closed, no caller waits any more
                raise


class SQLiteTransaction:
    """The transaction of a step, in the event loop of the store."""

    def __init__(self, loan: Loan, ended: asyncio.Future[None]) -> None:
        self._loan, self._ended = loan, ended
        self.connection = self.blocking = loan.begun.result()
        ended.add_done_callback(_retrieved)

    is_lost = False

    async def belong_to(self, run: RunId, epoch: int) -> None:
        """Do nothing: only one process has a transaction at a time, and it ends by itself."""

    async def check(self, run: RunId) -> None:  # noqa: ARG002 - nothing else is written while it is open
        """Check that it can be committed; its function has returned, and its time does not count any more."""
        error = await self._answer_to(None)
        if error is not None:
            raise error

    async def commit(self, append: Append) -> StoreError | None:
        """Write *append* in it, and commit."""
        refused: StoreError | None = await self._answer_to(append)
        return refused

    def abandon(self) -> None:
        """Roll it back."""
        self._loan.abandon()

    async def _answer_to(self, append: Append | None) -> Any:
        answer = self._loan.request(append)
        await asyncio.wait([answer, self._ended], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        await self._ended  # raises, if the commit has failed
        self.connection.execute("select 1")  # raises, since it has ended
        raise TransactionLost("it has ended")


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():  # else its caller was cancelled
        future.set_result(answer)


def _retrieved(ended: asyncio.Future[None]) -> None:
    if not ended.cancelled():
        ended.exception()


def _may(action: int, first: str | None, second: str | None, _: str | None, trigger: str | None) -> int:
    """Return whether a step may do that."""
    if trigger is not None and trigger in own_names():
        return sqlite3.SQLITE_OK
    is_refused = (
        action in _REFUSED
        or (action in _CHANGES and first in own_names())
        or (action in _ABOUT_FIRST and first in own_names())
        or (action in _ABOUT_SECOND and (second in own_names() or first in own_names()))
        or (action == sqlite3.SQLITE_PRAGMA and first not in _PRAGMAS and second is not None)
    )
    return sqlite3.SQLITE_DENY if is_refused else sqlite3.SQLITE_OK


@cache
def own_names() -> frozenset[str]:
    """Return the names of the tables, indexes and triggers of a store."""
    with closing(sqlite3.connect(":memory:")) as db:
        for _, script in migrations():
            db.executescript(script)
        return frozenset(name for (name,) in db.execute("select name from sqlite_master"))
