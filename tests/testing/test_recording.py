"""The recording store: transparent, and honest about what was written."""

from __future__ import annotations

import asyncio

import pytest

from weft.ports.store import Append
from weft.stores import MemoryStore
from weft.testing import FactStoreContract, ListableStoreContract, LogStoreContract, OwnedStoreContract, RecordingStore


class TestRecordingStore(LogStoreContract, FactStoreContract, OwnedStoreContract, ListableStoreContract):
    @pytest.fixture
    def store(self) -> RecordingStore:
        return RecordingStore(MemoryStore())


def first(run: str) -> Append:
    return Append(run=run, workflow="w", create=True, expected=0, count=1, body=run.encode(), chain=b"h", at=0.0)


def test_it_keeps_what_was_taken_and_in_which_transaction() -> None:
    async def main() -> RecordingStore:
        async with RecordingStore(MemoryStore()) as store:
            await store.append([first("a"), first("b")])
            await store.append([first("a"), first("c")])
            return store

    store = asyncio.run(main())

    assert [(write.batch, write.append.run) for write in store.writes] == [(1, "a"), (1, "b"), (2, "c")]
    assert [event for write in store.writes for event in write.events] == [b"a", b"b", b"c"]


def test_it_shows_events_as_it_is_told_to_decode_them() -> None:
    async def main() -> RecordingStore:
        async with RecordingStore(MemoryStore(), decode=lambda append: [append.body.decode()]) as store:
            await store.append([first("a")])
            return store

    (write,) = asyncio.run(main()).writes

    assert list(write.events) == ["a"]
