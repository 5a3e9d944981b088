"""Streams of runs: writing and reading chunks.  A chunk is one row, with its items as one array of MessagePack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from weft.errors import CorruptStore, RunNotFound, StoreError
from weft.ports.streams import Chunk
from weft.stores.postgres.reading import can_exist
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


async def write(db: Any, statements: Statements, chunks: Sequence[Chunk]) -> list[int | StoreError]:
    """Store *chunks* in their order; return the offset of each, or why not."""
    answers: list[int | StoreError] = [RunNotFound(each.run) for each in chunks]
    places = [place for place, each in enumerate(chunks) if can_exist(each.run)]
    if not any(chunks[place].again for place in places):
        await _add(db, statements, chunks, places, answers)
        return answers
    async with db.transaction():
        repeated = [place for place in places if chunks[place].again]
        known = await _known(db, statements, [chunks[place] for place in repeated])
        stored = {repeated[number - 1]: offset for number, offset in known}
        for place, offset in stored.items():
            answers[place] = offset
        await _add(db, statements, chunks, [place for place in places if place not in stored], answers)
    return answers


async def _known(db: Any, statements: Statements, chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    """Return which of *chunks*, counted from 1, are stored, and their offsets; their streams are locked from now on."""
    runs, streams = [each.run for each in chunks], [each.stream for each in chunks]
    await db.execute(statements["lock_streams"], runs, streams)
    executions, placed = [each.execution for each in chunks], [each.place for each in chunks]
    return [tuple(row) for row in await db.fetch(statements["known_chunks"], runs, streams, executions, placed)]


async def _add(
    db: Any, statements: Statements, chunks: Sequence[Chunk], places: Sequence[int], answers: list[int | StoreError]
) -> None:
    """Store the chunks at *places*, by one statement, and put their offsets into *answers*."""
    if not places:
        return
    new = [chunks[place] for place in places]
    numbers, offsets = await db.fetchrow(
        statements["write_chunks"],
        [each.run for each in new],
        [each.stream for each in new],
        [each.component for each in new],
        [each.attempt for each in new],
        [each.execution for each in new],
        [len(each.items) for each in new],
        [each.place for each in new],
        [each.at for each in new],
        [_pack(each.items) for each in new],
    )
    for number, offset in zip(numbers, offsets, strict=True):
        answers[places[number - 1]] = offset


async def read(db: Any, statements: Statements, run: RunId, stream: str, start: int, limit: int) -> list[Chunk]:
    """Return the chunks of a stream, from the one that holds the item at *start*."""
    if not can_exist(run):
        return []
    found = await db.fetch(statements["read_chunks"], run, stream, start, limit)
    return [_chunk(run, stream, row) for row in found]


def _chunk(run: RunId, stream: str, row: Sequence[Any]) -> Chunk:
    start, count, component, attempt, execution, place, at, body = row
    whose = f"a chunk of the stream {stream!r} of run {run!r}"
    try:
        items = _unpack(body)
    except msgspec.DecodeError as error:
        raise CorruptStore(whose, str(error)) from error
    if len(items) != count:
        raise CorruptStore(whose, f"it has {len(items)} items, and should have {count}")
    return Chunk(
        run=run,
        stream=stream,
        component=component,
        attempt=attempt,
        execution=execution,
        items=items,
        place=place,
        at=at,
        offset=start,
    )


async def save_progress(db: Any, statements: Statements, run: RunId, body: bytes) -> None:
    """Keep the progress of a run."""
    if can_exist(run):
        await db.execute(statements["save_progress"], run, body)


async def load_progress(db: Any, statements: Statements, run: RunId) -> bytes | None:
    """Return the progress of a run that was last kept."""
    return await db.fetchval(statements["load_progress"], run) if can_exist(run) else None
