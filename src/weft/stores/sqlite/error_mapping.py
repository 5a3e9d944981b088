"""
Translates the errors of SQLite and the file system into those of :mod:`weft.errors`.

Only an error that a second try could overcome is a ``StoreUnavailable``: a lock, a timeout, a
failing or full disk.  The others are final until a person does something about them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import (
    CorruptStore,
    ForeignStore,
    InvalidStoreOption,
    ReadOnlyStore,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

BAD_DATA = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    TypeError,
    ValueError,
)
"""Errors that are about a row, not about the store: the row alone is refused."""


@contextmanager
def translated(path: Path) -> Generator[None, None, None]:
    """Raise errors of the database at *path* as Weft's errors."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise problem(path, error) from error
    except OSError as error:
        raise file_problem(path, error) from error


def problem(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    """Return *error* of the database at *path* as one of Weft's errors."""
    store, said = f"the store at {path}", str(error)
    if isinstance(error, UnicodeDecodeError):
        # SQLite quotes what it cannot understand, and the module cannot read what is quoted.
        return CorruptStore(
            store, "it holds text that is not UTF-8, in its schema or in what a message of SQLite quotes"
        )
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError) and not hasattr(error, "sqlite_errorcode"):
        return StoreError(f"{store} was asked for something that it cannot store ({said}); nothing is damaged")
    # An error that the module itself raised has no code; neither has one about damaged text in a row.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    match code:
        case sqlite3.SQLITE_FULL:
            return StoreFull(store, said)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return ReadOnlyStore(store, said)
        case sqlite3.SQLITE_CANTOPEN if not _is_writable(path):
            return ReadOnlyStore(store, said)
        case sqlite3.SQLITE_NOTADB:
            return ForeignStore(store, said)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR | sqlite3.SQLITE_MISMATCH | sqlite3.SQLITE_CONSTRAINT:
            return CorruptStore(store, said)
        case _:
            return StoreUnavailable(store, said)


def file_problem(path: Path, error: OSError) -> StoreError:
    """Return *error* of a file beside the database as one of Weft's errors."""
    store, said = f"the store at {path}", error.strerror or str(error)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(store, said)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ReadOnlyStore(store, said)
        case errno.ENOENT | errno.ENOTDIR:
            return InvalidStoreOption(f"there is no folder {path.parent} for the store; create it first")
        case _:
            return StoreUnavailable(store, said)


def _is_writable(path: Path) -> bool:
    """Whether this process may write to the file and make others beside it."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(each, os.W_OK, effective_ids=effective) for each in (path, path.parent) if each.exists())
