"""
The note about the last commit, in a small file next to the database.

Committed data is in the write-ahead log until a checkpoint, and SQLite ends that log at the first wrong byte:
everything after it is lost silently.  So every commit that adds events notes in a small file which segment it wrote
last.  **A log is lost from its end**, so if that segment is there, nothing is missing; if it is not, opening the store
raises ``LostCommits``.

The note is written after the commit and is not synced, so it may be older than the database and is never newer.  Its
file is mapped into memory: writing it copies a few bytes, while a system call would take a twentieth of the time of a
commit, and the copied bytes outlive the process.  With ``synchronous="normal"`` a power cut may lose a commit and not
its note, so none is written then.  Several processes write one note; the last one wins, and it does not matter which.

A segment may also be missing because its run was deleted, purged or replaced.  A trigger of the database counts that
(its *generation*), whichever version of Weft removes it; a note of an older generation proves nothing.  Nor does a note
about another store: each has an *identity*, which a copy of its file shares.  When the last store is closed normally,
everything is in the main file and the note is removed.

A counter in the database would prove a little more, but would dirty a second page with every commit: commits would take
a tenth longer, and the write-ahead log would be twice as long.
"""

from __future__ import annotations

import logging
import mmap
import os
import sqlite3
import struct
from binascii import crc32
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from weft.errors import LostCommits
from weft.stores.sqlite import schema

_log = logging.getLogger("weft.stores")

_NOTE: Final = struct.Struct(">8s16sQQ16s")
_SUM: Final = struct.Struct(">I")
_SIZE: Final = _NOTE.size + _SUM.size
_KIND: Final = b"weft c1\n"
FIRST_VERSION: Final = 2  # of a schema that has an identity
_BLANK: Final = bytes(_SIZE)
_MOST_READINGS = 3  # of a note that another process may be writing
_SELDOM = 64  # notes; after this many the generation is read again, in case another process has removed something


class Noted(NamedTuple):
    """A commit: of which store, in which generation, and the place and the hashed link of its last segment."""

    identity: bytes
    generation: int
    place: int
    link: bytes


class UnreadableNote(ValueError):
    """The content of the file is not a note."""


def path_beside(database: Path) -> Path:
    """Return where the last commit to *database* is noted."""
    return database.with_name(f"{database.name}-commits")


def read(database: Path) -> Noted | None:
    """
    Return what is noted beside *database*, or None if nothing is.

    Raises:
        UnreadableNote: there is a file, and it is torn or something else.
    """
    for _ in range(_MOST_READINGS - 1):
        try:
            return _read(database)
        except UnreadableNote:  # perhaps half of it was new
            continue
    return _read(database)


def _read(database: Path) -> Noted | None:
    try:
        found = path_beside(database).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableNote(error.strerror or str(error)) from error
    if found in {b"", _BLANK}:  # by a store that has not committed anything, or not written before the power went
        return None
    if len(found) != _SIZE:
        raise UnreadableNote(f"it has {len(found)} bytes instead of {_SIZE}")
    note, (checked,) = found[: _NOTE.size], _SUM.unpack(found[_NOTE.size :])
    kind, *noted = _NOTE.unpack(note)
    if kind != _KIND or crc32(note) != checked:
        raise UnreadableNote("its bytes are not what was written")
    return Noted(*noted)


def missing(db: sqlite3.Connection, noted: Noted) -> str | None:
    """Return which commit is missing, in words; None if it is there, or if that is unknown."""
    known = store_of(db)
    if known is None or known[0] != noted.identity or known[1] > noted.generation:
        return None
    key, event = noted.place >> 32, noted.place & 0xFFFFFFFF
    if known[1] == noted.generation:
        row = db.execute("select chain from segments where place = ?", (noted.place,)).fetchone()
        if row is not None and isinstance(row[0], bytes) and _hashed(row[0]) == noted.link:
            return None
    row = db.execute("select id from runs where key = ?", (key,)).fetchone()
    whose = f"run {row[0]!r}" if row is not None else f"a run that is not there (row {key} of runs)"
    return f"event {event} of {whose}"


def store_of(db: sqlite3.Connection) -> tuple[bytes, int] | None:
    """Return the identity and the generation of a store; None if its row is missing or damaged."""
    row = db.execute("select identity, generation from store").fetchone()
    if row is None or not isinstance(row[0], bytes) or not isinstance(row[1], int) or row[1] < 0:
        return None
    return row[0], row[1]


def check(database: Path, busy_timeout: float) -> None:
    """
    Check that the last commit that is noted is in *database*, without changing anything in its files.

    Raises:
        LostCommits: it is not.
    """
    try:
        noted = read(database)
    except UnreadableNote as error:
        _log.warning(
            "%s cannot be read (%s), so it is not known whether the store beside it has everything that was committed; "
            "the next commit writes it again",
            path_beside(database),
            error,
        )
        return
    if noted is None or not database.is_file() or not database.stat().st_size:
        return
    with closing(schema.connect_for_reading(database, busy_timeout)) as db:
        db.execute("begin")  # one moment: whose it is, how often something was removed, and what is there
        if schema.version_of(db) < FIRST_VERSION:
            return
        what = missing(db, noted)
        if what is not None:
            raise LostCommits(f"the store at {database}", what, f"{database}-wal", str(path_beside(database)))


class CommitNote:
    """The note of the last commit to the database at *path*; for the one thread that writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path_beside(path), path.with_name(f"{path.name}-wal")
        self._file: int | None = None
        self._page: mmap.mmap | None = None
        self._store: tuple[bytes, int] | None = None
        self._left = 0

    def open(self, db: sqlite3.Connection) -> None:
        """Make the file; where that is not possible, commits are not noted."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            self._page = _mapped(self._file)
        except OSError as error:
            self._let_go()
            _log.warning("commits are not noted in %s: %s", self._path, error.strerror or error)
        self._store, self._left = store_of(db), _SELDOM

    def close(self) -> None:
        """Leave the note as it is; remove it if the write-ahead log is gone, and with it all that could be lost."""
        if self._let_go():
            try:
                if not self._log.exists():
                    self._path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("%s is left behind: %s", self._path, error.strerror or error)

    def doubt(self) -> None:
        """Read the generation again before the next commit: this store has removed segments."""
        self._left = 0

    def prepare(self, db: sqlite3.Connection) -> None:
        """Read the generation before the next commit: after that, it might be a later one."""
        self._left -= 1
        if self._left >= 0 or self._file is None:
            return
        if not os.fstat(self._file).st_nlink:  # removed by a store that was closed as this one was opened
            self._let_go()
            self.open(db)
        else:
            self._store, self._left = store_of(db), _SELDOM

    def write(self, place: int, link: bytes) -> None:
        """Note the commit whose last segment is at *place* and made *link*."""
        if self._page is not None and self._store is not None:
            note = _NOTE.pack(_KIND, *self._store, place, _hashed(link))
            self._page[:] = note + _SUM.pack(crc32(note))

    def _let_go(self) -> bool:
        """Close the file; return whether there was one."""
        if self._page is not None:
            self._page.close()
        if self._file is not None:
            os.close(self._file)
        had, self._file, self._page = self._file is not None, None, None
        return had


def _mapped(file: int) -> mmap.mmap:
    """Return the note in *file* as memory; room for it is taken first, so that a full disk is an error here alone."""
    size = os.fstat(file).st_size
    if size > _SIZE:
        os.ftruncate(file, _SIZE)
    elif size < _SIZE:
        os.pwrite(file, _BLANK[size:], size)
    return mmap.mmap(file, _SIZE)


def _hashed(link: bytes) -> bytes:
    return blake2b(link, digest_size=16).digest()
