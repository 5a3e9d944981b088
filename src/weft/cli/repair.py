"""
Repairs the file of a SQLite store: removes what dead processes have left, and writes the write-ahead log back.

Nothing that a run consists of is touched.  Damage is not repaired: what was lost is not in the file any more, and
removing the rest would only hide that.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite.ownership import is_alive

_SESSIONS = "select token from sessions"
_UNFINISHED = "select count(*) from large where session is not null and session not in (select key from sessions)"


class Left(msgspec.Struct, frozen=True):
    """The leftovers in a file that no living process needs."""

    sessions: int
    """Rows of processes that have died while they had the store open."""
    parts: int
    """Large values that were never finished, or whose run was deleted."""
    log_bytes: int
    """The size of the write-ahead log."""

    def since(self, before: Left) -> list[tuple[str, int]]:
        """Return what was removed since *before*, in words, with how much of it."""
        found = [
            ("rows of dead processes removed", before.sessions - self.sessions),
            ("unfinished large values removed", before.parts - self.parts),
            ("bytes of the write-ahead log written back", before.log_bytes - self.log_bytes),
        ]
        return [(what, number) for what, number in found if number > 0]


def repair(file: Path) -> list[tuple[str, int]]:
    """
    Remove what dead processes have left in *file*; return what was done, in words, with how much of it.

    Raises:
        StoreError: the file cannot be opened for writing.
    """
    before = _left(file)
    asyncio.run(_opened_and_closed(file))
    return _left(file).since(before)


async def _opened_and_closed(file: Path) -> None:
    """Open the store, which removes what is not needed, and close it, which empties the write-ahead log."""
    store = SQLiteStore(file)
    await store.open()
    try:
        await store.list_free(limit=1)  # which removes the rows of dead processes first
    finally:
        await store.close()


def _left(file: Path) -> Left:
    log = file.with_name(f"{file.name}-wal")
    with SQLiteView(file) as view:
        tokens = [token for (token,) in view.ask(lambda db: db.execute(_SESSIONS).fetchall())]
        dead = sum(not is_alive(view.path, token) for token in tokens)
        ((parts,),) = view.ask(lambda db: db.execute(_UNFINISHED).fetchall())
    return Left(dead, parts, log.stat().st_size if log.exists() else 0)
