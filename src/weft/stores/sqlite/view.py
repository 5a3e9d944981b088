"""
Reads the file without changing anything in it.

A store that is opened becomes an owner, and migrates the file.  A view does neither: it reads what is committed, even
while other processes write, and leaves nothing behind.  It does not need an event loop.

    >>> import tempfile
    >>> from weft import Runner, Workflow, step
    >>> from weft.stores import SQLiteStore
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Runner(SQLiteStore(f"{folder.name}/runs.db")) as runner:
    ...     _ = runner.start(Workflow("w", step(abs)), -1, id="r").wait()
    >>> with SQLiteView(f"{folder.name}/runs.db") as view:
    ...     [(record.id, record.status, record.head) for record in view.list()]
    [('r', 'completed', 3)]
    >>> folder.cleanup()
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from weft.errors import CorruptStore, RunNotFound
from weft.ports.store import ContentHash, LoadedRun, RunRecord, RunStatus, StoredSnapshot
from weft.stores.sqlite import commits, reading, rows, schema
from weft.stores.sqlite.error_mapping import translated
from weft.stores.sqlite.ownership import is_alive, with_living_owners
from weft.stores.sqlite.statements import query
from weft.typing import RunId

T = TypeVar("T")

_HOLDERS = query("holders")
_KEY = "(select key from runs where id = ?)"
_FACT_BODY = query("fact_body").replace("f.run = ?", f"f.run = {_KEY}")
_FACTS = f"facts where run = {_KEY}"
_DEFINITIONS = "definitions where true"


class Written(msgspec.Struct, frozen=True):
    """When *count* events, of which the first has the number *first*, were written: seconds since the epoch."""

    first: int
    count: int
    at: float


class SQLiteView:
    """
    Reads what is in the file at *path* now.

    Args:
        path: A file that a :class:`~weft.stores.SQLiteStore` has made.
        busy_timeout: How many seconds to wait while the file is locked as a whole, which is seldom.

    Raises:
        StoreNotFound: there is no file, or nothing in it.
        StoreError: it cannot be read; the case says why.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0) -> None:
        self.path, self._busy_timeout = schema.validated(path, "full", busy_timeout), busy_timeout
        with translated(self.path):
            self._db = schema.connect_to_look(self.path, busy_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def check_commits(self) -> None:
        """
        Check that the last commit that is noted beside the file is in it.

        Raises:
            LostCommits: it is not, so what this view shows may be old, and runs may be missing from it.
        """
        with translated(self.path):
            commits.check(self.path, self._busy_timeout)

    def list(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
        damaged: reading.Damaged | None = None,
    ) -> Sequence[RunRecord]:
        """
        Return a page of runs, newest first; see :meth:`weft.ports.store.ListableStore.list`.

        Args:
            damaged: called for each run that cannot be read, which is left out then.

        Raises:
            DamagedRow: a run cannot be read, and *damaged* is None.
        """
        asked = reading.Asked(statuses, workflow, failed, since)
        return self.ask(lambda db: with_living_owners(db, self.path, reading.page(db, asked, after, limit, damaged)))

    def count(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: float | None = None,
    ) -> int:
        """Return how many runs there are, those that cannot be read included."""
        asked = reading.Asked(statuses, workflow, failed, since)
        return self.ask(lambda db: reading.count(db, asked))

    def find(self, run: RunId) -> RunRecord:
        """
        Return the record of a run.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        return self.ask(lambda db: with_living_owners(db, self.path, [reading.find(db, run)[1]]))[0]

    def load(self, run: RunId) -> LoadedRun:
        """
        Return the whole log of a run.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            CorruptStore: it is stored, and the index does not lead to it.
        """
        return self.load_since(run, 0)

    def load_since(self, run: RunId, position: int) -> LoadedRun:
        """
        Return what came after the event number *position*, in whole segments.

        Raises:
            RunNotFound: nothing was ever stored under this id.
            CorruptStore: it is stored, and the index does not lead to it.
        """
        try:
            return self.ask(lambda db: reading.load(db, run, position))
        except RunNotFound as error:
            if not self.ask(lambda db: reading.is_unindexed(db, run)):
                raise
            store, reason = f"the store at {self.path}", f"its index of runs does not lead to run {run!r}"
            raise CorruptStore(store, reason) from error

    def times(self, run: RunId) -> Sequence[Written]:
        """Return when the events of a run were written, segment by segment."""
        found = self.ask(lambda db: reading.times(db, run))
        return [Written(*rows.written(run, *row)) for row in found]

    def load_snapshot(self, run: RunId) -> StoredSnapshot | None:
        """
        Return the snapshot of a run; None if it has none.

        Raises:
            RunNotFound: nothing was ever stored under this id.
        """
        return self.ask(lambda db: reading.load_snapshot(db, run))

    def owners(self, run: RunId | None = None) -> dict[RunId, str]:
        """Return by run the living process that holds it, in words; for one *run*, or for all that are held."""

        def held_by(db: sqlite3.Connection) -> dict[RunId, str]:
            held: dict[RunId, tuple[str, str]] = {}
            for id_, token, pid, host in reading.fetched(db, _HOLDERS, {"run": run}):
                if isinstance(id_, str):  # else it cannot be asked for, and list() tells
                    whose = f"run {id_!r}"
                    held[id_] = rows.token(whose, token), rows.holder(whose, pid, host)
            alive = {token: is_alive(self.path, token) for token in {token for token, _ in held.values()}}
            return {id_: words for id_, (token, words) in held.items() if alive[token]}

        return self.ask(held_by)

    def facts(self, run: RunId) -> Mapping[ContentHash, bytes]:
        """Return the large values of a run, each of which is read when it is asked for."""
        return Facts(self.ask, _FACTS, _FACT_BODY, f"run {run!r}", run)

    def definitions(self) -> Mapping[ContentHash, bytes]:
        """Return all definitions, each of which is read when it is asked for."""
        return Contents(self.ask, "definitions", _DEFINITIONS, "")

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Return the answer to *question*."""
        with translated(self.path):
            return question(self._db)


class Contents(Mapping[ContentHash, bytes]):
    """The contents of a *table* by hash, each read when it is asked for; *whose* is the owner that errors name."""

    def __init__(
        self,
        ask: Callable[[Callable[[sqlite3.Connection], Any]], Any],
        table: str,
        of: str,
        whose: str,
        *key: RunId | int,
    ) -> None:
        self._ask, self._table, self._of, self._whose, self._key = ask, table, of, whose, key

    def __getitem__(self, content: ContentHash) -> bytes:
        sql = f"select body from {self._of} and hash = ?"  # noqa: S608 - one of two constants
        row = self._ask(lambda db: db.execute(sql, (*self._key, content)).fetchone())
        if row is None:
            raise KeyError(content.hex())
        return rows.blob(self._whose or reading.definition(content), f"{self._table}.body", row[0])

    def __iter__(self) -> Iterator[ContentHash]:
        sql = f"select hash from {self._of}"  # noqa: S608 - as above
        found = self._ask(lambda db: reading.fetched(db, sql, self._key))
        return iter([rows.blob(self._whose or "a definition", f"{self._table}.hash", row[0]) for row in found])

    def __len__(self) -> int:
        sql = f"select count(*) from {self._of}"  # noqa: S608 - as above
        return int(self._ask(lambda db: db.execute(sql, self._key).fetchone()[0]))


class Facts(Contents):
    """The large values of a run, of which *body* finds one, in parts if it is stored in parts."""

    def __init__(
        self,
        ask: Callable[[Callable[[sqlite3.Connection], Any]], Any],
        of: str,
        body: str,
        whose: str,
        key: RunId | int,
    ) -> None:
        super().__init__(ask, "facts", of, whose, key)
        self._body = body

    def __getitem__(self, content: ContentHash) -> bytes:
        # One statement: between two, the run could be forgotten.
        found = self._ask(lambda db: db.execute(self._body, (*self._key, content)).fetchall())
        if not found:
            raise KeyError(content.hex())
        return rows.content(self._whose, found)
