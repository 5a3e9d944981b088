"""The contract of every store: saving and loading whole logs."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import OwnershipLost, RunNotFound, StoreClosed
from weft.ports.store import RunRecord, Segment, Store
from weft.testing.contracts.cases import bodies, opened, unowned


class StoreContract:
    """The contract of whole logs: inherit it, and provide a ``store`` fixture."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_saved_log_comes_back(self, store: Store) -> None:
        record = RunRecord(id="r", workflow="orders", version="v1", head=3, chain=b"h", created_at=1.5, updated_at=2.5)

        await store.save(record, b"three events")

        loaded = await store.load("r")
        assert list(loaded.segments) == [Segment(1, 3, b"three events")]
        assert unowned(loaded.record) == unowned(record)

    @opened
    async def test_saving_again_replaces_what_was_there(self, store: Store) -> None:
        await store.save(RunRecord(id="r", workflow="orders", head=1, created_at=1.0, updated_at=1.0), b"one")

        changed = RunRecord(id="r", workflow="orders", head=2, status="idle", created_at=1.0, updated_at=2.0)
        await store.save(changed, b"both")

        loaded = await store.load("r")
        assert list(loaded.segments) == [Segment(1, 2, b"both")]
        assert unowned(loaded.record) == unowned(changed)

    @opened
    async def test_saving_in_another_epoch_is_refused(self, store: Store) -> None:
        await store.save(RunRecord(id="r", workflow="orders", head=1, created_at=1.0, updated_at=1.0), b"one")
        stale = RunRecord(id="r", workflow="orders", head=2, epoch=7, created_at=1.0, updated_at=2.0)

        with pytest.raises(OwnershipLost):
            await store.save(stale, b"both")

        assert bodies(await store.load("r")) == [b"one"]

    @opened
    async def test_an_unknown_run_is_an_error_not_an_empty_log(self, store: Store) -> None:
        with pytest.raises(RunNotFound, match="nope"):
            await store.load("nope")

    @pytest.mark.parametrize("run", [" spaced ", "../up/and;down'--", "工作-🧵-é", "é", "n" * 500, "%_*?"])
    @opened
    async def test_an_id_is_any_text(self, store: Store, run: str) -> None:
        await store.save(RunRecord(id=run, workflow="w", head=1, created_at=1.0, updated_at=1.0), b"it")
        await store.save(RunRecord(id=run + "x", workflow="w", head=1, created_at=1.0, updated_at=1.0), b"other")

        loaded = await store.load(run)

        assert (loaded.record.id, bodies(loaded)) == (run, [b"it"])

    @opened
    async def test_a_body_is_any_bytes_of_any_size(self, store: Store) -> None:
        body = bytes(range(256)) * 20_000

        await store.save(RunRecord(id="r", workflow="w", head=1, created_at=1.0, updated_at=1.0), body)

        assert bodies(await store.load("r")) == [body]

    @opened
    async def test_what_was_stored_is_there_when_it_is_opened_again(self, store: Store) -> None:
        await store.save(RunRecord(id="r", workflow="w", head=1, created_at=1.0, updated_at=1.0), b"it")

        await store.close()
        await store.open()

        assert bodies(await store.load("r")) == [b"it"]

    @opened
    async def test_a_store_that_is_not_open_says_so(self, store: Store) -> None:
        await store.close()
        assert not store.is_open

        with pytest.raises(StoreClosed):
            await store.load("r")
        with pytest.raises(StoreClosed):
            await store.save(RunRecord(id="r", workflow="w", created_at=1.0, updated_at=1.0), b"")

    @opened
    async def test_opening_or_closing_twice_does_nothing(self, store: Store) -> None:
        await store.open()
        assert store.is_open
        await store.close()

        await store.close()

        assert not store.is_open
