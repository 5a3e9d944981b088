"""
Checks that the file of an open store is still the one at its path.

SQLite continues to write to the file that it has opened, even if that was moved or removed.  So before anything is
written or read, and again before a commit is acknowledged, a store checks that its file is still at its path.  If it is
not, the store is **unavailable as long as its file may come back**: it was moved, or its disk is not mounted.  Only a
file that has no name left cannot come back.

The database file is never opened here: closing it would release the locks that SQLite holds in this process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from weft.errors import StoreRemoved, StoreUnavailable

_Identity: TypeAlias = tuple[int, int]

_OPEN_FILES = "/dev/fd"


class StoreFile:
    """The file that is at *path* now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _at(path)

    def is_in_place(self) -> bool:
        """Whether it is still the file at its path."""
        return _at(self._path) == self._known

    def check(self) -> None:
        """
        Check that it is still the file at its path.

        Raises:
            StoreUnavailable: it is not, and may come back.
            StoreRemoved: it has no name any more.
        """
        found = _at(self._path)
        if found == self._known:
            return
        store = f"the store at {self._path}"
        if self._known is not None and _links(self._known) == 0:
            raise StoreRemoved(store)
        if found is None:
            raise StoreUnavailable(
                store,
                "its file is not there: it was moved, or its disk is not mounted; when it is back, what waits goes on "
                "by itself",
            )
        raise StoreUnavailable(
            store,
            "another file is in its place, and its own was moved away; put that back, or close the store and open it "
            "again to use the other one",
        )


def _at(path: Path) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - Path.stat takes twice as long, and this is asked with every commit
    except OSError:  # it is gone, or out of reach
        return None
    return found.st_dev, found.st_ino


def _links(known: _Identity) -> int | None:
    """Return how many names a file has that this process has open; None if that is unknown."""
    try:
        numbers = [int(name) for name in os.listdir(_OPEN_FILES)]  # noqa: PTH208 - plain numbers
    except (OSError, ValueError):
        return None
    for number in numbers:
        try:
            found = os.fstat(number)
        except OSError:  # closed meanwhile
            continue
        if (found.st_dev, found.st_ino) == known:
            return found.st_nlink
    return None
