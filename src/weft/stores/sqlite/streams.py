"""
Streams of runs: writing and reading chunks.  A chunk is one row, with its items as one array of MessagePack.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from weft.errors import CorruptStore, RunNotFound, StoreError
from weft.ports.streams import Chunk
from weft.stores.sqlite import rows
from weft.stores.sqlite.ownership import Session, transaction
from weft.stores.sqlite.reading import fetched
from weft.stores.sqlite.statements import query
from weft.typing import RunId

_ADD = query("add_chunk")
_NEXT = query("next_offset")
_KNOWN = query("known_chunk")
_CHUNKS = query("chunks")
_SAVE_PROGRESS = query("save_progress")
_PROGRESS = query("progress")

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


def write(db: sqlite3.Connection, _: Session, chunks: Iterable[Chunk]) -> list[int | StoreError]:
    """Store *chunks*; return the offset of each, or why not."""
    answers: list[int | StoreError] = []
    with transaction(db):
        for each in chunks:
            found = db.execute(_NEXT, (each.stream, each.run)).fetchone()
            if found is None:
                answers.append(RunNotFound(each.run))
                continue
            key, start = found
            if each.again and (known := db.execute(_KNOWN, (key, each.stream, each.execution, each.place)).fetchone()):
                answers.append(int(known[0]))
                continue
            by = (each.component, each.attempt, each.execution, each.place, each.at)
            db.execute(_ADD, (key, each.stream, start, len(each.items), *by, _pack(each.items)))
            answers.append(int(start))
    return answers


def read(db: sqlite3.Connection, run: RunId, stream: str, start: int, limit: int) -> Sequence[Chunk]:
    """Return the chunks of a stream, from the one that holds the item at *start*."""
    asked = {"run": run, "stream": stream, "start": start, "limit": limit}
    return [_chunk(run, stream, row) for row in fetched(db, _CHUNKS, asked)]


def _chunk(run: RunId, stream: str, row: Sequence[object]) -> Chunk:
    whose = f"a chunk of the stream {stream!r} of run {run!r}"
    start, items, component, attempt, execution, place, at, body = row
    try:
        held = _unpack(rows.blob(whose, "chunks.body", body))
    except msgspec.DecodeError as error:
        raise CorruptStore(whose, str(error)) from error
    if len(held) != items:
        raise CorruptStore(whose, f"it has {len(held)} items, and should have {items}")
    return Chunk(
        run=run,
        stream=stream,
        component=rows.text(whose, "chunks.component", component),
        attempt=rows.whole(whose, "chunks.attempt", attempt, 1),
        execution=rows.text(whose, "chunks.execution", execution),
        items=held,
        place=rows.whole(whose, "chunks.place", place, 0),
        at=rows.moment(whose, "chunks.at", at),
        offset=rows.whole(whose, "chunks.start", start, 0),
    )


def save_progress(db: sqlite3.Connection, _: Session, run: RunId, body: bytes) -> None:
    """Keep the progress of a run."""
    with transaction(db):
        db.execute(_SAVE_PROGRESS, {"run": run, "body": body})


def load_progress(db: sqlite3.Connection, run: RunId) -> bytes | None:
    """Return the progress of a run that was last kept."""
    found = db.execute(_PROGRESS, (run,)).fetchone()
    return None if found is None else rows.blob(f"the progress of run {run!r}", "progress.body", found[0])


def forget(db: sqlite3.Connection, key: int) -> None:
    """Remove the streams of the run with this key."""
    db.execute("delete from chunks where run = ?", (key,))
    db.execute("delete from progress where run = ?", (key,))
