"""The recording store: transparent, and honest about what was written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft import Runner, Workflow, step
from weft.core.events import ReactionOccurred
from weft.errors import CorruptLog
from weft.ports.store import Append
from weft.stores import MemoryStore, SQLiteStore
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
    with pytest.raises(CorruptLog):
        store.writes[0].events  # noqa: B018 - what it holds is not a log


@dataclass
class Parcel:
    weight: int


@step
def pack(weight: int) -> Parcel:
    return Parcel(weight)


@step
def label(parcel: Parcel) -> str:
    return "x" * 5_000 * parcel.weight


parcels = Workflow("parcels", pack >> label)


def test_it_shows_the_events_of_a_runner_once_each_and_in_order() -> None:
    store = RecordingStore(MemoryStore())
    with Runner(store) as runner:
        run = runner.start(parcels, 1, id="a").wait(20)

    events = [event for write in store.writes for event in write.events]

    assert events == run.log()
    assert events[-2:] == [event for event in run.log() if isinstance(event, ReactionOccurred)]
    assert events[-2].value == Parcel(1)


def test_it_shows_events_that_refer_to_what_was_stored_before(tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(parcels, 1, id="a", open=True).wait(20)
    store = RecordingStore(SQLiteStore(tmp_path / "runs.db"))
    with Runner(store) as runner:
        runner.resume("a")
        runner.send("a", 1)
        run = runner.wait("a", 20)

    events = [event for write in store.writes for event in write.events]

    assert [event for event in events if isinstance(event, ReactionOccurred)] == run.log()[-2:]


def test_it_shows_events_as_it_is_told_to_decode_them() -> None:
    async def main() -> RecordingStore:
        async with RecordingStore(MemoryStore(), decode=lambda append: [append.body.decode()]) as store:
            await store.append([first("a")])
            return store

    (write,) = asyncio.run(main()).writes

    assert list(write.events) == ["a"]
