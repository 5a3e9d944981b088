"""
The schema of the file: its application id, its version, its migrations, and how it is opened.

A file is a store of Weft if its application id says so.  Its schema version counts the migrations that
were applied; they are applied under the write lock, in one transaction with the new version,
so two processes that open an old file at once migrate it once.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from weft.errors import ForeignStore, InvalidStoreOption, NewerStore, ReadOnlyStore, StoreNotFound
from weft.stores.sqlite.statements import migrations

Synchronous: TypeAlias = Literal["full", "normal", "extra"]
"""When SQLite waits for the disk: at every commit (full, extra) or at checkpoints (normal)."""

APPLICATION_ID = 0x57656674  # "Weft"
MIGRATIONS = migrations()
VERSION = MIGRATIONS[-1].version
IN_PARTS = 3
"""The first version that has large values in parts."""
WITH_OUTCOMES = 6
"""The first version in which a run has failures, dead letters, an outcome and a time of finishing."""

WITH_INBOX = 8
"""The first version that has messages for runs, and the times at which they are woken."""

WITH_PACKS = 13
"""The first version that has packs of segments, and logs that were truncated."""

_OLDEST_SQLITE = (3, 33)  # the first with `update ... from`
_CHECKPOINT_PAGES = 8000  # 32 MB: what the log may reach when the writer is never idle
_PAUSE = 0.01  # seconds between two tries to have a file alone


def validated(path: str | Path, synchronous: str, busy_timeout: float) -> Path:
    """Return the path, without links, if a store can be there with these options."""
    if str(path) in {"", ":memory:"} or str(path).startswith("file:"):
        raise InvalidStoreOption(
            f"{str(path)!r} is not a file that a second process could open; use MemoryStore() for a store in memory"
        )
    if synchronous not in get_args(Synchronous):
        raise InvalidStoreOption(f"synchronous={synchronous!r} is none of {', '.join(get_args(Synchronous))}")
    if not busy_timeout >= 0:
        raise InvalidStoreOption(f"busy_timeout={busy_timeout!r} is not a number of seconds")
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise InvalidStoreOption(f"SQLite {sqlite3.sqlite_version} is too old; Weft needs 3.33 or newer")
    return Path(path).resolve()  # under one name for all: the owners' files stand beside it


def connect(
    path: Path, synchronous: Synchronous, busy_timeout: float, *, is_shared: bool = False
) -> sqlite3.Connection:
    """
    Open a connection to a file that may be new, foreign or old, for the thread that calls this.

    Args:
        is_shared: whether other threads may use it too, one at a time.
    """
    if not path.parent.is_dir():
        raise InvalidStoreOption(f"there is no folder {path.parent} for the store; create it first")
    if path.is_dir():
        raise InvalidStoreOption(f"{path} is a folder; give the path of a file in it")
    db = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=not is_shared)
    try:
        checked_version(db, path)
        _write_ahead(db, path, busy_timeout)
        db.execute(f"pragma synchronous = {synchronous}")
        db.execute("pragma temp_store = memory")
        db.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    except BaseException:
        db.close()
        raise
    return db


def connect_for_reading(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Open a connection to a file that may be foreign or damaged, and that is left as it is, its log included."""
    return sqlite3.connect(f"{path.as_uri()}?{_ways(path)}", uri=True, timeout=busy_timeout, isolation_level=None)


def version_of(db: sqlite3.Connection) -> int:
    """Return the schema version of a file; 0 if it is empty, or not a store of Weft."""
    application, version, _ = _identity(db)
    return version if application == APPLICATION_ID else 0


def check_file(path: Path) -> None:
    """
    Check that there is a file at *path*.

    Raises:
        StoreNotFound: there is none.
    """
    if not path.is_file():
        raise StoreNotFound(f"{path} is a folder" if path.is_dir() else f"there is no file {path}")


def connect_to_look(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Open a connection to a file that must be there, and that is left as it is."""
    check_file(path)
    db = connect_for_reading(path, busy_timeout)
    try:
        _check_current(db, path)
        db.execute("pragma temp_store = memory")
    except BaseException:
        db.close()
        raise
    return db


def _check_current(db: sqlite3.Connection, path: Path) -> None:
    found = checked_version(db, path)
    if found == 0:
        raise StoreNotFound(f"nothing has been stored in {path} yet")
    if found < VERSION:
        raise InvalidStoreOption(
            f"the store at {path} has schema version {found}, and {VERSION} is needed to look at it; "
            "open it once with SQLiteStore(...), which brings it up to date"
        )


def _ways(path: Path) -> str:
    """
    Return how to open the file at *path* for reading.

    Readers need the files beside it, and make them; where they may not, and there are none, no process is writing.
    """
    write_ahead = path.with_name(f"{path.name}-wal")
    return "mode=ro" if write_ahead.exists() or os.access(path.parent, os.W_OK) else "mode=ro&immutable=1"


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the schema to this version."""
    if _version(db) == VERSION:
        return
    db.execute("begin immediate")
    try:
        found = checked_version(db, path)
        for version, script in MIGRATIONS:
            if version > found:
                for statement in _statements(script):
                    db.execute(statement)
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute(f"pragma user_version = {VERSION}")
        db.execute("commit")
        # Which store this is must not be lost with the write-ahead log.  If a reader is in the way, it comes later.
        db.execute("pragma wal_checkpoint(passive)").fetchall()
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def checked_version(db: sqlite3.Connection, path: Path) -> int:
    """
    Return the schema version of a store of Weft; 0 if the file is empty.

    Raises:
        ForeignStore: it belongs to another application.
        NewerStore: it is of a version that is not known here.
    """
    application, version, tables = _identity(db)
    if application != APPLICATION_ID and (application or version or tables):
        raise ForeignStore(f"the database at {path}", f"application id {application}, {tables} tables and indexes")
    if version > VERSION:
        raise NewerStore(f"the store at {path}", version, VERSION)
    return version


def _identity(db: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the application id, the version and the number of tables, at one moment: another process may migrate."""
    is_alone = not db.in_transaction
    if is_alone:
        db.execute("begin")
    try:
        (application,) = db.execute("pragma application_id").fetchone()
        version = _version(db)
        (tables,) = db.execute("select count(*) from sqlite_master").fetchone()
    finally:
        if is_alone and db.in_transaction:
            db.execute("rollback")
    return int(application), version, int(tables)


def _write_ahead(db: sqlite3.Connection, path: Path, busy_timeout: float) -> None:
    """Turn the write-ahead log on.  That needs the file alone for a moment, and SQLite itself does not wait for it."""
    end = time.monotonic() + busy_timeout
    while True:
        try:
            (mode,) = db.execute("pragma journal_mode = wal").fetchone()
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
    if mode != "wal":
        raise ReadOnlyStore(f"the store at {path}", f"its journal mode stays {mode}")


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("pragma user_version").fetchone()
    return int(version)


def _statements(script: str) -> list[str]:
    """Split a script, since ``executescript`` would commit first."""
    found, begun = list[str](), ""
    for piece in " ".join(line.partition("--")[0] for line in script.splitlines()).split(";")[:-1]:
        begun += f"{piece};"
        if sqlite3.complete_statement(begun):  # inside of a trigger it is not
            found.append(begun)
            begun = ""
    return found
