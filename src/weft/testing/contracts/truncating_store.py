"""The contract of stores that remove the beginning of a log."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import ConcurrentAppend, InvalidAppend, MissingContent, OwnershipLost, RunNotFound
from weft.ports.store import Segment, StoredSnapshot
from weft.testing.contracts.cases import TruncatingLogStore, again, first, more, opened, write


class TruncatingStoreContract:
    """
    The contract of truncation: a log begins behind its snapshot, and nothing else about the run changes.

    The store must be a LogStore, a SnapshotStore, an OwnedStore and a ListableStore too.
    """

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @staticmethod
    async def _four_segments(store: TruncatingLogStore) -> None:
        """Write a run of seven events in four segments, with a snapshot of the first six."""
        await write(store, first("r", b"abc", count=3), first("other", b"x", snapshot=b"one"))
        await write(store, more("r", 3, b"d"), more("r", 4, b"ef", count=2, snapshot=b"six"), more("r", 6, b"g"))

    @opened
    async def test_a_log_can_begin_behind_its_beginning(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        before = (await store.load("r")).record

        await store.truncate_before("r", 4, link=b"link 3", expected=7, epoch=1)

        loaded = await store.load("r")
        assert list(loaded.segments) == [Segment(4, 1, b"d"), Segment(5, 2, b"ef"), Segment(7, 1, b"g")]
        assert (loaded.record.first, loaded.record.head, loaded.link) == (4, 7, b"link 3")
        assert (loaded.record.chain, loaded.record.status) == (before.chain, before.status)
        assert list((await store.load_many(["r"]))["r"].segments) == list(loaded.segments)  # type: ignore[union-attr]
        assert (await store.find("r")).first == 4
        assert {each.id: each.first for each in await store.list()} == {"r": 4, "other": 1}
        assert [each.body for each in (await store.load("other")).segments] == [b"x"]
        assert (await store.find("other")).first == 1

    @opened
    async def test_what_was_removed_is_not_read_by_any_way(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        await store.truncate_before("r", 5, link=b"link 4", expected=7, epoch=1)

        left = [Segment(5, 2, b"ef"), Segment(7, 1, b"g")]
        assert list((await store.load_since("r", 0)).segments) == left
        assert list((await store.load_since("r", 6)).segments) == left[1:]
        assert list(await store.load_between("r", 1, 7)) == left
        assert list(await store.load_between("r", 1, 4)) == []
        assert list(await store.load_between("r", 2, 5)) == left[:1]

    @opened
    async def test_a_log_without_events_goes_on_at_its_head(self, store: TruncatingLogStore) -> None:
        await write(store, first("r", b"abc", count=3), more("r", 3, b"d", snapshot=b"four"))
        record = await store.find("r")

        await store.truncate_before("r", 5, link=record.chain, expected=4, epoch=1)

        loaded = await store.load("r")
        assert (list(loaded.segments), loaded.record.head, loaded.record.chain) == ([], 4, record.chain)
        await write(store, more("r", 4, b"e", status="idle"))
        assert list((await store.load("r")).segments) == [Segment(5, 1, b"e")]
        assert await store.load_snapshot("r") == StoredSnapshot(4, b"four")

    @opened
    async def test_an_append_in_doubt_whose_events_were_removed_meanwhile_was_written(
        self, store: TruncatingLogStore
    ) -> None:
        await write(store, first("r", b"abc", count=3))
        in_doubt = more("r", 3, b"d", snapshot=b"four", chain=b"link 4")
        await write(store, in_doubt)
        await store.truncate_before("r", 5, link=b"link 4", expected=4, epoch=1)

        other = more("r", 3, b"e", chain=b"link of another")
        assert await store.append([again(in_doubt)]) == [None]
        (refused,) = await store.append([again(other)])

        assert isinstance(refused, ConcurrentAppend)
        assert (await store.find("r")).head == 4

    @opened
    async def test_a_log_is_truncated_further_and_never_less(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)

        await store.truncate_before("r", 4, link=b"link 3", expected=7, epoch=1)
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)
        await store.truncate_before("r", 5, link=b"link 4", expected=7, epoch=1)
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)

        loaded = await store.load("r")
        assert (loaded.record.first, loaded.link) == (7, b"link 6")
        assert list(loaded.segments) == [Segment(7, 1, b"g")]

    @opened
    async def test_what_the_snapshot_does_not_have_is_not_removed(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        await write(store, first("bare", b"ab", count=2))

        with pytest.raises(InvalidAppend, match="its snapshot is of 6 events"):
            await store.truncate_before("r", 8, link=b"l", expected=7, epoch=1)
        with pytest.raises(InvalidAppend, match="it has no snapshot"):
            await store.truncate_before("bare", 3, link=b"l", expected=2, epoch=1)
        with pytest.raises(InvalidAppend, match="inside a segment"):
            await store.truncate_before("r", 6, link=b"l", expected=7, epoch=1)

        assert len((await store.load("r")).segments) == 4
        assert (await store.find("r")).first == 1

    @opened
    async def test_only_the_owner_truncates_and_only_the_log_that_it_knows(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)

        with pytest.raises(ConcurrentAppend):
            await store.truncate_before("r", 4, link=b"l", expected=6, epoch=1)
        owned = await store.acquire("r")
        with pytest.raises(OwnershipLost):
            await store.truncate_before("r", 4, link=b"l", expected=7, epoch=owned.epoch - 1)
        with pytest.raises(RunNotFound):
            await store.truncate_before("nope", 1, link=b"", expected=0, epoch=1)

        assert len((await store.load("r")).segments) == 4

    @opened
    async def test_a_snapshot_before_what_was_removed_is_refused(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)

        with pytest.raises(InvalidAppend, match="were removed"):
            await store.save_snapshot("r", StoredSnapshot(4, b"four"), epoch=1)

        await store.save_snapshot("r", StoredSnapshot(7, b"seven"), epoch=1)
        assert await store.load_snapshot("r") == StoredSnapshot(7, b"seven")

    @opened
    async def test_the_values_that_are_named_go_with_the_events(self, store: TruncatingLogStore) -> None:
        facts = getattr(store, "load_facts", None)
        if facts is None:
            pytest.skip("this store keeps values inside the events")
        await write(store, first("r", b"a", facts={b"1": b"one", b"2": b"two"}), first("other", facts={b"1": b"one"}))
        await write(store, more("r", 1, b"b", snapshot=b"two"))

        await store.truncate_before("r", 2, link=b"link 1", expected=2, epoch=1, facts=[b"1", b"never stored"])

        assert await facts("r", [b"2"]) == {b"2": b"two"}
        assert await facts("other", [b"1"]) == {b"1": b"one"}
        with pytest.raises(MissingContent):
            await facts("r", [b"1"])
        await write(store, more("r", 2, b"c", facts={b"1": b"one"}))
        assert await facts("r", [b"1"]) == {b"1": b"one"}

    @opened
    async def test_an_append_whose_answer_was_lost_is_found_after_a_truncation(self, store: TruncatingLogStore) -> None:
        last = more("r", 3, b"d", snapshot=b"four")
        await write(store, first("r", b"abc", count=3), last)
        await store.truncate_before("r", 4, link=b"link 3", expected=4, epoch=1)

        assert list(await store.append([again(last)])) == [None]
        assert (await store.find("r")).head == 4

    @opened
    async def test_a_truncated_log_is_truncated_when_the_store_is_opened_again(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)

        await store.close()
        await store.open()

        loaded = await store.load("r")
        assert (loaded.record.first, loaded.link, list(loaded.segments)) == (7, b"link 6", [Segment(7, 1, b"g")])

    @opened
    async def test_a_run_with_the_id_of_a_truncated_one_is_whole(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)
        await store.delete("r")
        await write(store, first("r", b"new"))

        loaded = await store.load("r")
        assert (loaded.record.first, loaded.link, list(loaded.segments)) == (1, b"", [Segment(1, 1, b"new")])

    @opened
    async def test_a_log_that_is_saved_as_a_whole_is_not_truncated(self, store: TruncatingLogStore) -> None:
        await self._four_segments(store)
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)
        record = (await store.load("r")).record

        await store.save(record, b"another log")

        loaded = await store.load("r")
        assert (loaded.record.first, loaded.link, list(loaded.segments)) == (1, b"", [Segment(1, 7, b"another log")])
