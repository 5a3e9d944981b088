"""
Packs: old segments of a run, many in one row, and compressed.

A segment is what one append has written, and the hash chain is over the bodies of segments.  So segments are not
joined; they are moved, as they are, from single rows into one that they share.  A reader gets the same segments.

Invariants:

1. A segment is in a single row or in a pack, never in both and never in neither: it is moved in one transaction.
2. The packs of a run are its beginning, without a gap; its last segments stay in rows.  The last one is the head of the
   run, and an append whose answer was lost is looked for there.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from weft.errors import DamagedRow
from weft.stores.sqlite import rows
from weft.stores.sqlite.statements import query

SIZE: Final = 64 << 10
"""Size of the segments in one pack before compression, in bytes, approximately."""
KEPT: Final = 16
"""How many of the last segments of a run stay in single rows."""
MOVED_AT_ONCE: Final = 1_000
"""How many segments a transaction moves at most, so that other writers get their turn."""
BYTES_AT_ONCE: Final = 1 << 20
"""How many bytes of segments a transaction moves, about."""

_LEVEL: Final = 1  # of compression: the next one takes twice as long and saves a tenth

_PACKS = query("packs")
_PACK = query("pack")
_OLDEST = query("oldest_segments")
_LAST = query("last_pack")
_FORGET_SEGMENTS = "delete from segments where place between (? << 32) + ? and (? << 32) + ?"
_COUNT = "select count(*) from segments where place between ? << 32 and (? << 32) + 4294967295"


class Packed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A segment as a single row would have it."""

    first: int
    count: int
    chain: bytes
    at: float
    body: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Packed]).decode


def read(db: sqlite3.Connection, whose: str, key: int, position: int, last: int = 0xFFFFFFFF) -> Iterator[Packed]:
    """Yield the segments in packs of the run with this *key*, from the pack that holds the event after *position*."""
    for first, count, body in db.execute(_PACKS, {"run": key, "position": position, "last": last}).fetchall():
        yield from opened(whose, first, count, body)


def holds(db: sqlite3.Connection, whose: str, key: int, first: int, count: int, body: bytes) -> bool:
    """Whether a pack of the run with this *key* has this segment."""
    return any(
        (each.first, each.count, each.body) == (first, count, body) for each in read(db, whose, key, first - 1, first)
    )


def opened(whose: str, first: Any, count: Any, body: Any) -> list[Packed]:
    """
    Return the segments of a pack.

    Raises:
        DamagedRow: it cannot be read, or has other events than its row says.
    """
    data = rows.blob(whose, "packs.body", body)
    try:
        found = _decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise DamagedRow(whose, "packs.body", f"{len(data)} bytes ({error})", "segments, compressed") from error
    following = first
    for each in found:
        if each.first != following or each.count < 1:
            raise DamagedRow(whose, "packs.body", f"event {each.first}", f"event {following}")
        following += each.count
    if following != first + count:
        raise DamagedRow(whose, "packs.count", f"{count!r:.60}", f"{following - first} events")
    return found


def closed(segments: Sequence[Packed]) -> bytes:
    """Return the body of a pack."""
    return zlib.compress(_encode(list(segments)), _LEVEL)


def move_some(db: sqlite3.Connection, whose: str, key: int) -> tuple[int, bool]:
    """
    Move some old segments of the run with this *key* into packs; return how many, and whether there are more.

    It is called in a transaction.
    """
    (there,) = db.execute(_COUNT, (key, key)).fetchone()
    most = min(there - KEPT, MOVED_AT_ONCE)
    if most < KEPT:  # a pack for so few is not worth the transaction
        return 0, False
    moved: list[Packed] = []
    size = 0
    for row in db.execute(_OLDEST, {"run": key, "limit": most}):
        segment = rows.one_segment(whose, row[0], row[1], row[4])
        link, at = rows.blob(whose, "segments.chain", row[2]), rows.moment(whose, "segments.at", row[3])
        moved.append(Packed(segment.first, segment.count, link, at, segment.body))
        size += len(segment.body)
        if size >= BYTES_AT_ONCE:
            break
    for pack in _packs([*_begun(db, whose, key), *moved]):
        db.execute(_PACK, ((key << 32) + pack[0].first, sum(each.count for each in pack), closed(pack)))
    db.execute(_FORGET_SEGMENTS, (key, moved[0].first, key, moved[-1].first))
    return len(moved), len(moved) < there - 2 * KEPT


def _begun(db: sqlite3.Connection, whose: str, key: int) -> list[Packed]:
    """Return the segments of the last pack, if more fit into it."""
    found = db.execute(_LAST, {"run": key}).fetchone()
    last = [] if found is None else opened(whose, *found)
    return last if sum(len(each.body) for each in last) < SIZE // 2 else []


def _packs(segments: Sequence[Packed]) -> Iterator[list[Packed]]:
    """Yield *segments* in groups, each of which is a pack."""
    group: list[Packed] = []
    size = 0
    for each in segments:
        if group and size + len(each.body) > SIZE:
            yield group
            group, size = [], 0
        group.append(each)
        size += len(each.body)
    yield group


def cut(db: sqlite3.Connection, whose: str, key: int, first: int) -> None:
    """Remove the events before number *first* from the pack that has it; called in a transaction."""
    for begin, count, body in db.execute(_PACKS, {"run": key, "position": first - 1, "last": first}).fetchall():
        if begin < first:
            left = [each for each in opened(whose, begin, count, body) if each.first >= first]
            db.execute("delete from packs where place = ?", ((key << 32) + begin,))
            if left:
                db.execute(_PACK, ((key << 32) + left[0].first, sum(each.count for each in left), closed(left)))
