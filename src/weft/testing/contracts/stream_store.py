"""The contract of stores that keep streams."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from weft.errors import RunNotFound
from weft.ports.store import FactStore, ListableStore, LogStore, OwnedStore
from weft.ports.streams import Chunk, StreamStore
from weft.testing.contracts.cases import first, opened, write


class StreamLogStore(LogStore, FactStore, OwnedStore, ListableStore, StreamStore, Protocol):
    """The store that the contract of streams tests."""


def chunk(run: str, *items: bytes, stream: str = "tokens", attempt: int = 1, execution: str = "e") -> Chunk:
    """Return a chunk of a stream of *run*."""
    return Chunk(run=run, stream=stream, component="write", attempt=attempt, execution=execution, items=items, at=5.0)


async def items(store: StreamLogStore, run: str, stream: str = "tokens", **options: int) -> list[bytes]:
    """Return the items of the chunks that the store returns."""
    return [item for each in await store.read_chunks(run, stream, **options) for item in each.items]


class StreamStoreContract:
    """The contract of streams."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_chunk_comes_back_as_it_was_written(self, store: StreamLogStore) -> None:
        await write(store, first("r"))

        (offset,) = await store.write_chunks([chunk("r", b"a", b"", attempt=3, execution="x")])
        (found,) = await store.read_chunks("r", "tokens")

        assert offset == found.offset == 0
        assert (found.component, found.attempt, found.execution, found.at) == ("write", 3, "x", 5.0)
        assert found.items == (b"a", b"")

    @opened
    async def test_the_items_of_a_stream_are_numbered_without_gaps(self, store: StreamLogStore) -> None:
        await write(store, first("r"), first("s"))

        offsets = await store.write_chunks(
            [chunk("r", b"a", b"b"), chunk("s", b"x"), chunk("r", b"c", stream="other"), chunk("r", b"d")]
        )
        more = await store.write_chunks([chunk("r", b"e", execution="another")])

        assert [*offsets, *more] == [0, 0, 0, 2, 3]
        assert await items(store, "r") == [b"a", b"b", b"d", b"e"]
        assert await items(store, "r", "other") == [b"c"]

    @opened
    async def test_a_stream_is_read_from_any_offset(self, store: StreamLogStore) -> None:
        await write(store, first("r"))
        await store.write_chunks([chunk("r", b"0", b"1", b"2"), chunk("r", b"3"), chunk("r", b"4", b"5")])

        starts = [[each.offset for each in await store.read_chunks("r", "tokens", start=at)] for at in range(8)]

        assert starts == [[0, 3, 4], [0, 3, 4], [0, 3, 4], [3, 4], [4], [4], [], []]
        assert await items(store, "r", start=1, limit=2) == [b"0", b"1", b"2", b"3"]

    @opened
    async def test_a_chunk_that_comes_again_is_stored_once(self, store: StreamLogStore) -> None:
        await write(store, first("r"))
        one, two = chunk("r", b"a", b"b"), replace(chunk("r", b"c"), place=2)
        await store.write_chunks([one])

        offsets = await store.write_chunks([replace(one, again=True), replace(two, again=True)])
        later = await store.write_chunks([replace(one, execution="another", again=True)])

        assert [*offsets, *later] == [0, 2, 3]
        assert await items(store, "r") == [b"a", b"b", b"c", b"a", b"b"]

    @opened
    async def test_a_run_that_is_not_there_has_no_streams(self, store: StreamLogStore) -> None:
        await write(store, first("r"))

        refused, accepted = await store.write_chunks([chunk("nope", b"a"), chunk("r", b"b")])

        assert isinstance(refused, RunNotFound)
        assert accepted == 0
        assert await items(store, "nope") == await items(store, "r", "nothing") == []
        assert list(await store.write_chunks([])) == []

    @opened
    async def test_streams_are_deleted_with_their_run(self, store: StreamLogStore) -> None:
        await write(store, first("r"), first("s"))
        await store.write_chunks([chunk("r", b"a"), chunk("s", b"b")])
        await store.save_progress("r", b"half")

        await store.delete("r")
        await write(store, first("r"))

        assert await items(store, "r") == []
        assert await store.load_progress("r") is None
        assert await items(store, "s") == [b"b"]

    @opened
    async def test_the_last_progress_is_kept(self, store: StreamLogStore) -> None:
        await write(store, first("r"))

        assert await store.load_progress("r") is None
        await store.save_progress("r", b"1")
        await store.save_progress("r", b"2")
        await store.save_progress("nope", b"3")

        assert await store.load_progress("r") == b"2"
        assert await store.load_progress("nope") is None
