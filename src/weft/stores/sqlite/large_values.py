"""
Large values, written ahead in parts.

SQLite has one writer, and while one transaction writes, every other one waits.  So if an
append has many bytes of values, they are written before it: in parts, one transaction each, with other writes between.
The append itself comes last and is as small as any.  **Only the append makes the values valid**: until then they belong
to the session that writes them, and no row that is read refers to them.

    nothing ──first part──► being written ──append──► whole ──run is forgotten──► unneeded ──in slices──► nothing
                                  │                                                  ▲
                                  └──── refused, failed, or its session is gone ─────┘

Unneeded values are removed in slices as well, by any store that is otherwise idle.
See docs/adr/0019-large-values-in-parts.md.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from weft.ports.store import Append, ContentHash
from weft.stores.sqlite.ownership import transaction
from weft.stores.sqlite.statements import query
from weft.typing import RunId

LARGE: Final = 1 << 20
"""Bytes: an append with more of values has them written ahead."""
PART: Final = 1 << 18
"""Bytes: a part, and what is written ahead in one transaction: one to four milliseconds."""

Loaded: TypeAlias = Mapping[tuple[RunId, ContentHash], int]
"""Values that are there in parts, and under which key."""

_OPEN = query("open_large")
_PART = query("part")
_UNNEEDED = query("unneeded_large")
_REMOVE_PARTS = query("remove_parts")
_REMOVE = "delete from large where key = ?"

_REMOVED_AT_ONCE = 4  # parts
_FACTS = attrgetter("facts")


class _Piece(NamedTuple):
    """A part of the *length* bytes that a run has under a hash."""

    value: tuple[RunId, ContentHash]
    length: int
    number: int
    body: memoryview


def has_large(batch: Sequence[Append], bound: int) -> bool:
    """Whether an append in *batch* has values of more than *bound* bytes together."""
    if not any(map(_FACTS, batch)):  # every append is looked at, and nearly none has any
        return False
    return any(each.facts and _size(each) > bound for each in batch)


class Load:
    """The values that are written ahead of a *batch*, for a *session*: of each append that has more than *bound*."""

    def __init__(self, batch: Sequence[Append], session: int, bound: int) -> None:
        self.runs = frozenset(each.run for each in batch)
        """The runs that it is about: what else they have to write comes after it."""
        self.keys: dict[tuple[RunId, ContentHash], int] = {}
        """Under which key each value is written."""
        self._session, self._part = session, max(1, min(PART, bound))
        self._left = _pieces([each for each in batch if has_large([each], bound)], self._part)

    def go_on(self, db: sqlite3.Connection) -> int:
        """Write the next slice, and commit; return how many bytes it had, which is 0 if there was nothing left."""
        pieces = list(self._slice())
        if not pieces:
            return 0
        with transaction(db):
            for value, length, number, body in pieces:
                if number == 1:
                    self.keys[value] = db.execute(_OPEN, (self._session, length)).lastrowid or 0
                db.execute(_PART, ((self.keys[value] << 32) + number, body))
        return sum(len(piece.body) for piece in pieces)

    def _slice(self) -> Iterator[_Piece]:
        size = 0
        while size < self._part and (piece := next(self._left, None)) is not None:
            size += len(piece.body)
            yield piece


def remove_some(db: sqlite3.Connection, session: int) -> bool:
    """
    Remove some parts of an unneeded value; return whether there was one.

    Call it only while nothing is being written for *session*: a value that it has begun is taken for unneeded.
    """
    row = db.execute(_UNNEEDED, (session,)).fetchone()
    if row is None:
        return False
    with transaction(db):
        asked = {"large": row[0], "most": _REMOVED_AT_ONCE}
        if db.execute(_REMOVE_PARTS, asked).rowcount < _REMOVED_AT_ONCE:
            db.execute(_REMOVE, (row[0],))
    return True


def _size(append: Append) -> int:
    return sum(map(len, append.facts.values()))


def _pieces(appends: Sequence[Append], part: int) -> Iterator[_Piece]:
    seen: set[tuple[RunId, ContentHash]] = set()
    for append in appends:
        for content, body in append.facts.items():
            value, view = (append.run, content), memoryview(body)
            if value in seen:  # once per run
                continue
            seen.add(value)
            for number, start in enumerate(range(0, max(len(body), 1), part), 1):
                yield _Piece(value, len(body), number, view[start : start + part])
