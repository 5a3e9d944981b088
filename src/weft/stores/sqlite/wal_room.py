"""
Room in the write-ahead log, so that a commit seldom has to make the file longer.

A commit that overwrites a part of the file waits only for its own bytes.  A commit that makes
the file longer also waits for the file system, which has to record the new length: that is half
the time of a small commit.  SQLite begins with an empty log and makes it longer with every
commit, until the first checkpoint lets it start over.

So the log is kept longer than its content.  When a small commit had to lengthen the file, a
transaction that is too large for its cache spills into the log, and is rolled back: only the
length remains.  It was never committed, and SQLite never reads beyond the last commit,
neither in an open file nor after a crash.  See docs/adr/0014-room-in-the-write-ahead-log.md.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from weft.stores.sqlite.statements import query

_FILL = query("room")

_SELDOM = 8  # commits between two looks at the file
_SMALL = _SELDOM << 16  # bytes; commits of more pay for the length of the file once for many rows
_LEAST, _MOST = 1 << 16, 1 << 20  # bytes; in between, as much as there is: few files ever need a megabyte
_CACHE = 10  # pages


class Room:
    """The room that is left in the log of the database at *path*; for the one thread that writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, f"{path}-wal"
        self._commits = self._length = 0

    def is_used_up(self) -> bool:
        """Whether the file has grown by the last few commits, and they were small; called after each of them."""
        self._commits += 1
        if self._commits % _SELDOM:
            return False
        known, self._length = self._length, self._measured()
        return 0 < self._length - known <= _SMALL

    def make(self) -> None:
        """Lengthen the file, unless another process is writing."""
        lengthen(self._path, min(max(self._length, _LEAST), _MOST))
        self._length = self._measured()

    def make_after_emptying(self) -> None:
        """Lengthen the file a little, for the first commits after a pause, unless another store has done it."""
        if self._measured() < _LEAST:
            lengthen(self._path, _LEAST)
        self._length = self._measured()

    def _measured(self) -> int:
        try:
            return os.stat(self._log).st_size  # noqa: PTH116 - three times as fast
        except FileNotFoundError:
            return 0


def emptied(db: sqlite3.Connection) -> bool:
    """
    Move the whole log into the database and begin a new one, unless it is in use; return whether it was done.

    Moving alone is not enough: what was moved is still in the file, and a process that opens it after a crash reads it
    again up to the first wrong byte, older pages in front of newer ones.
    """
    with without_waiting(db):
        (is_busy, _, _) = db.execute("pragma wal_checkpoint(truncate)").fetchone()
    return not is_busy


@contextmanager
def without_waiting(db: sqlite3.Connection) -> Generator[None, None, None]:
    """Do optional work: it fails at once, instead of waiting, if another process is writing."""
    (timeout,) = db.execute("pragma busy_timeout").fetchone()
    db.execute("pragma busy_timeout = 0")
    try:
        yield
    finally:
        db.execute(f"pragma busy_timeout = {timeout}")


def lengthen(path: Path, size: int) -> None:
    """Let the log of the database at *path*, which has its schema, take about *size* bytes more before it grows."""
    try:
        # For reading and writing alone: a file that was removed is not made again.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)) as db:
            db.execute(f"pragma cache_size = {_CACHE}")
            db.execute("begin immediate")
            db.execute(_FILL, (size,))
            db.execute("rollback")
    except sqlite3.Error:
        # Another process writes, the disk is full, or worse: commits go on without, and will say what is wrong.
        return
