"""What a store must do that knows who may advance a run."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import OwnershipLost, RunNotFound
from weft.ports.store import CLOSED, FIRST_EPOCH, RunStatus
from weft.testing.contracts.cases import OwnedLogStore, first, more, opened, write


class OwnedStoreContract:
    """Who may advance a run, as far as one owner can see."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_taking_a_run_fences_off_who_had_it(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        record = await store.acquire("r")

        assert (record.epoch, record.head) == (FIRST_EPOCH + 1, 1)
        assert record.owner
        old, new = await store.append([more("r", 1, b"old"), more("r", 1, b"new", epoch=record.epoch)])
        assert isinstance(old, OwnershipLost)
        assert new is None

    @opened
    async def test_an_owner_that_takes_its_run_again_fences_off_its_past_self(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        epochs = [(await store.acquire("r")).epoch for _ in range(3)]

        assert epochs == [FIRST_EPOCH + 1, FIRST_EPOCH + 2, FIRST_EPOCH + 3]

    @opened
    async def test_an_unknown_run_cannot_be_taken(self, store: OwnedLogStore) -> None:
        with pytest.raises(RunNotFound):
            await store.acquire("nope")

    @opened
    async def test_who_creates_a_run_owns_it(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        assert (await store.find("r")).owner
        assert list(await store.acquire_all()) == []

    @opened
    async def test_a_run_that_was_given_up_can_be_taken(self, store: OwnedLogStore) -> None:
        await write(store, first("a"), first("b"), first("c"), first("d", release=True))
        await store.release(["a", "nope"])
        await write(store, more("b", 1, release=True))

        taken = await store.acquire_all()

        assert [(each.id, each.epoch) for each in taken] == [("a", 2), ("b", 2), ("d", 2)]
        assert list(await store.acquire_all()) == []

    @opened
    async def test_closing_gives_up_every_run(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        await store.close()
        await store.open()

        assert (await store.find("r")).owner is None
        assert [each.id for each in await store.acquire_all()] == ["r"]

    @opened
    async def test_only_what_has_something_to_do_is_taken_unless_more_is_asked_for(self, store: OwnedLogStore) -> None:
        statuses: tuple[RunStatus, ...] = ("running", "waiting", "idle", "parked", *sorted(CLOSED))
        await write(store, *(first(status, status=status, at=float(i)) for i, status in enumerate(statuses)))
        await store.release(statuses)

        due = await store.acquire_all()
        asked = await store.acquire_all(statuses=["parked", "running"])

        assert [each.id for each in due] == ["running", "waiting"]
        assert [each.id for each in asked] == ["parked"]

    @opened
    async def test_the_oldest_are_taken_first(self, store: OwnedLogStore) -> None:
        await write(store, *(first(f"r{i}", at=100.0 - i, status="waiting" if i % 2 else "running") for i in range(6)))
        await store.release(f"r{i}" for i in range(6))

        some = await store.acquire_all(limit=2)
        rest = await store.acquire_all()

        assert [each.id for each in (*some, *rest)] == ["r5", "r4", "r3", "r2", "r1", "r0"]
