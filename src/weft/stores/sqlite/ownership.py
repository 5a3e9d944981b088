"""
Ownership of runs, which ends with the process that owns them.

Every open store is a session: a row that names it, and a file beside the database
on which it holds a lock for as long as it is open.  A run names the session that acquired it.
The kernel, and not a clock, decides whether that session is alive: **if its lock can be
taken, it is dead**, and its runs are free at once, even after ``kill -9``.

The lock belongs to an open file, not to a process, so two stores in one process are two
owners.  A forked child would share it, so it closes its copy before anything else runs there.
The row and the file of a dead session are removed by the first session that finds it dead, while holding its lock.
A session that is closed removes its own file, so a file that is left behind tells a death from a close: it is noted,
and the next owner of a run learns whether the last one died.
See docs/adr/0008-ownership-and-compare-and-set.md.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import uuid
import weakref
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from weft.errors import InvalidStoreOption
from weft.ports.store import RunRecord
from weft.stores.sqlite import rows
from weft.stores.sqlite.statements import query

_OPEN_SESSION = query("open_session")
_NOTE_DEATH = query("note_death")
_FORGET_DEATHS = query("forget_deaths")
_HAS_DIED = query("has_died")
_LAST_OWNER = query("last_owner")

_MOST_DEATHS = 1_000
"""How many dead sessions are remembered."""


class Session:
    """One open store, alive until it is closed or its process ends."""

    def __init__(self, database: Path) -> None:
        """Take a lock that no other session has."""
        if os.name != "posix":
            raise InvalidStoreOption(
                "SQLiteStore needs the file locks of a POSIX system (flock) to know who holds a run; "
                "use MemoryStore, or a PostgreSQL store, on this one"
            )
        self.key = 0
        self._database, self._host = database, socket.gethostname()
        while True:
            self.token = uuid.uuid4().hex
            self._file: int | None = _locked(_path(database, self.token), create=True)
            if self._file is not None:
                break
        _sessions.add(self)

    @property
    def is_held(self) -> bool:
        """Whether this process holds its lock: not after closing it, nor in a forked child."""
        return self._file is not None

    @property
    def words(self) -> str:
        """The process and host of this session, for messages."""
        return rows.holder("this session", os.getpid(), self._host)

    def register(self, db: sqlite3.Connection) -> None:
        """Store its row, so that runs can name it; remove what dead sessions have left."""
        with transaction(db):
            for key, token in db.execute("select key, token from sessions").fetchall():
                _remove_if_dead(db, self._database, key, rows.token(f"session {key}", token))
            self.key = db.execute(_OPEN_SESSION, (self.token, self._host, os.getpid())).lastrowid or 0
        _remove_strays(db, self._database)

    def release_all(self, db: sqlite3.Connection) -> None:
        """Free every run that it holds, unless that would take long."""
        db.execute("pragma busy_timeout = 100")
        db.execute("delete from sessions where key = ?", (self.key,))

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            _path(self._database, self.token).unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Close the file and leave it there: in a forked child, the parent still holds the lock."""
        _sessions.discard(self)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def others_alive(self, db: sqlite3.Connection) -> dict[int, str]:
        """Return the other sessions that are alive, in words; remove the dead ones."""
        found = db.execute("select key, token, pid, host from sessions where key != ?", (self.key,)).fetchall()
        return {
            key: rows.holder(f"session {key}", pid, host)
            for key, token, pid, host in found
            if not _remove_if_dead(db, self._database, key, rows.token(f"session {key}", token))
        }

    def is_left_by_death(self, db: sqlite3.Connection, owner: int | None) -> bool:
        """Whether *owner*, the session that a free run names, died without releasing it."""
        if owner is None or owner == self.key:
            return False
        return bool(db.execute(_HAS_DIED, (owner,)).fetchone()[0])


def is_alive(database: Path, token: str) -> bool:
    """
    Whether the session of this *token* is alive; nothing is removed if it is not.

    Its lock is taken shared, as others may be looking too, and released at once.  An owner that tries the lock of a
    dead session at that moment takes the session for alive, until its next try.
    """
    try:
        file = os.open(_path(database, token), os.O_RDONLY)
    except FileNotFoundError:
        return False
    import fcntl  # not everywhere, see above

    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def with_living_owners(db: sqlite3.Connection, database: Path, records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return *records*, of which each names an owner only if that is alive, and says so if it died; nothing changes."""
    alive: dict[str, bool] = {}
    checked: list[RunRecord] = []
    for record in records:
        row = db.execute(_LAST_OWNER, (record.id,)).fetchone()
        if row is not None:  # else it was released
            token, has_died = row
            if token is not None and token not in alive:
                alive[token] = is_alive(database, rows.token(f"run {record.id!r}", token))
            has_died = has_died or (token is not None and not alive[token])
            record = replace(record, owner=None, owner_died=True) if has_died else record  # noqa: PLW2901
        checked.append(record)
    return checked


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[None, None, None]:
    """Take the write lock at once; commit, or roll back on any error."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _path(database: Path, token: str) -> Path:
    return database.with_name(f"{database.name}-owner-{token}")


def _locked(path: Path, *, create: bool) -> int | None:
    """Return the open file at *path* with its lock taken, or None if another session has it or the file is missing."""
    import fcntl  # not everywhere, see above

    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL if create else os.O_RDONLY, 0o666)
    except (FileNotFoundError, FileExistsError):
        if create and not path.exists():
            raise
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, a session that took its owner for dead may have removed it.
        if os.path.samestat(os.fstat(file), path.stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _remove_if_dead(db: sqlite3.Connection, database: Path, key: int, token: str) -> bool:
    """Remove what a session has left, if it is dead; return whether it is."""
    path = _path(database, token)
    file = _locked(path, create=False)
    if file is None and path.exists():
        return False
    db.execute("delete from sessions where key = ?", (key,))
    if file is not None:
        db.execute(_NOTE_DEATH, (key,))
        db.execute(_FORGET_DEATHS, (_MOST_DEATHS,))
        path.unlink(missing_ok=True)
        os.close(file)
    return True


def _remove_strays(db: sqlite3.Connection, database: Path) -> None:
    """Remove the files of sessions that died before they were written down, or while they were closed."""
    known = {token for (token,) in db.execute("select token from sessions")}
    for path in database.parent.glob(f"{database.name}-owner-*"):
        if path.name.rpartition("-")[2] not in known:
            file = _locked(path, create=False)
            if file is not None:
                path.unlink(missing_ok=True)
                os.close(file)


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _abandon_all() -> None:
    for session in list(_sessions):
        with suppress(OSError):  # closed already, by code that closes all files after a fork
            session.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
