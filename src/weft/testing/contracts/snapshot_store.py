"""The contract of stores for snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import InvalidAppend, OwnershipLost, RunNotFound
from weft.ports.store import RunRecord, Segment, StoredSnapshot
from weft.testing.contracts.cases import SnapshotLogStore, again, first, more, opened, write


class SnapshotStoreContract:
    """
    The contract of snapshots: one per run, never of events that are not stored.

    The store must be a LogStore, an OwnedStore and a ListableStore too.
    """

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_snapshot_comes_back_as_it_was(self, store: SnapshotLogStore) -> None:
        body = bytes(range(256)) * 5_000
        await write(store, first("r", count=3))

        await store.save_snapshot("r", StoredSnapshot(2, body), epoch=1)

        assert await store.load_snapshot("r") == StoredSnapshot(2, body)

    @opened
    async def test_a_run_without_a_snapshot_has_none(self, store: SnapshotLogStore) -> None:
        await write(store, first("r"))

        assert await store.load_snapshot("r") is None

    @opened
    async def test_an_append_brings_its_snapshot_in_place_of_the_one_before(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", snapshot=b"one"), first("other"))
        assert await store.load_snapshot("r") == StoredSnapshot(1, b"one")

        await write(store, more("r", 1, count=2, snapshot=b"three"), more("other", 1, snapshot=b"of another"))
        assert await store.load_snapshot("r") == StoredSnapshot(3, b"three")

        await write(store, more("r", 3, status="idle", snapshot=b"four"))
        await write(store, more("r", 4))

        assert await store.load_snapshot("r") == StoredSnapshot(4, b"four")
        assert await store.load_snapshot("other") == StoredSnapshot(2, b"of another")

    @opened
    async def test_the_snapshot_of_what_is_refused_is_not_kept(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", snapshot=b"one"))

        wrong_head, wrong_epoch = await store.append(
            [more("r", 7, snapshot=b"eight"), more("r", 1, epoch=9, snapshot=b"two")]
        )

        assert wrong_head is not None
        assert wrong_epoch is not None
        assert await store.load_snapshot("r") == StoredSnapshot(1, b"one")

    @opened
    async def test_an_append_that_is_repeated_has_its_snapshot_once(self, store: SnapshotLogStore) -> None:
        append = more("r", 1, snapshot=b"two")
        await write(store, first("r"), append)
        await write(store, again(append))

        assert await store.load_snapshot("r") == StoredSnapshot(2, b"two")

    @opened
    async def test_a_snapshot_of_events_that_are_not_stored_is_refused(self, store: SnapshotLogStore) -> None:
        await write(store, first("r"))

        with pytest.raises(InvalidAppend, match="append them first"):
            await store.save_snapshot("r", StoredSnapshot(2, b"two"), epoch=1)

        assert await store.load_snapshot("r") is None

    @opened
    async def test_a_snapshot_of_an_earlier_owner_is_refused(self, store: SnapshotLogStore) -> None:
        await write(store, first("r"))
        owned = await store.acquire("r")
        assert isinstance(owned, RunRecord)

        with pytest.raises(OwnershipLost):
            await store.save_snapshot("r", StoredSnapshot(1, b"old"), epoch=owned.epoch - 1)

        await store.save_snapshot("r", StoredSnapshot(1, b"new"), epoch=owned.epoch)
        assert await store.load_snapshot("r") == StoredSnapshot(1, b"new")

    @opened
    async def test_a_snapshot_removes_no_event(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", b"a"), more("r", 1, b"b", snapshot=b"two"))

        assert [each.body for each in (await store.load("r")).segments] == [b"a", b"b"]

    @opened
    async def test_a_part_of_a_log_is_read_in_whole_segments(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", b"abc", count=3), first("other", b"x"))
        await write(store, more("r", 3, b"d"), more("r", 4, b"ef", count=2), more("r", 6, b"g"))

        async def between(first: int, last: int) -> list[Segment]:
            return list(await store.load_between("r", first, last))

        abc, d, ef, g = Segment(1, 3, b"abc"), Segment(4, 1, b"d"), Segment(5, 2, b"ef"), Segment(7, 1, b"g")
        assert await between(1, 7) == [abc, d, ef, g]
        assert await between(2, 3) == [abc]
        assert await between(4, 4) == [d]
        assert await between(4, 5) == [d, ef]
        assert await between(6, 6) == [ef]

    @opened
    async def test_the_snapshot_of_a_run_that_is_deleted_goes_with_it(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", snapshot=b"one"))
        await store.delete("r")
        await write(store, first("r"))

        assert await store.load_snapshot("r") is None

    @opened
    async def test_a_log_that_is_saved_as_a_whole_has_no_snapshot(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", snapshot=b"one"))
        record = (await store.load("r")).record

        await store.save(record, b"another log")

        assert await store.load_snapshot("r") is None

    @opened
    async def test_an_unknown_run_is_an_error(self, store: SnapshotLogStore) -> None:
        with pytest.raises(RunNotFound):
            await store.load_snapshot("nope")
        with pytest.raises(RunNotFound):
            await store.save_snapshot("nope", StoredSnapshot(0, b"x"), epoch=1)
        with pytest.raises(RunNotFound):
            await store.load_between("nope", 1, 2)

    @opened
    async def test_a_snapshot_is_there_when_the_store_is_opened_again(self, store: SnapshotLogStore) -> None:
        await write(store, first("r", snapshot=b"one"))

        await store.close()
        await store.open()

        assert await store.load_snapshot("r") == StoredSnapshot(1, b"one")
