"""The contract of stores on which steps have transactions."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import pytest

from weft.errors import ConcurrentAppend, OwnershipLost, StoreClosed
from weft.ports.store import FIRST_EPOCH, ListableStore, LogStore, OwnedStore
from weft.ports.transactions import OpenTransaction, TransactionalStore
from weft.testing.contracts.cases import bodies, first, more, opened, write

MANY = 12
"""More transactions than a store has room for at once."""
A_MOMENT = 0.1
"""Seconds in which something that must wait would come, if it did not."""


class TransactionalLogStore(LogStore, OwnedStore, ListableStore, TransactionalStore, Protocol):
    """The store that the contract of transactions tests."""


class TransactionalStoreContract:
    """The contract of transactions: what a step writes and its append are stored together, or not at all."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    async def put(self, store: Any, connection: Any, word: str) -> None:
        """Write *word* over the connection for coroutine functions, into a table that it creates if it is not there."""
        raise NotImplementedError("override `put`: write a word over the connection")

    def put_blocking(self, store: Any, connection: Any, word: str) -> None:
        """Write *word* as :meth:`put` does, over the connection for plain functions; called on another thread."""
        raise NotImplementedError("override `put_blocking`: write a word over the connection")

    async def words(self, store: Any) -> list[str]:
        """Return the words that are committed, in their order, over another connection."""
        raise NotImplementedError("override `words`: return the words that are committed")

    async def _begun(self, store: Any, *words: str) -> OpenTransaction:
        transaction: OpenTransaction = await store.begin()
        for word in words:
            await self.put(store, transaction.connection, word)
        return transaction

    @opened
    async def test_what_a_step_has_written_and_its_append_are_committed_together(
        self, store: TransactionalLogStore
    ) -> None:
        await write(store, first("r"))
        transaction = await self._begun(store, "a")
        await asyncio.to_thread(self.put_blocking, store, transaction.blocking, "b")
        before = await self.words(store), (await store.find("r")).head
        assert not transaction.is_lost

        await transaction.check("r")
        refused = await transaction.commit(more("r", 1, b"end", status="completed"))

        assert before == ([], 1)
        assert refused is None
        assert await self.words(store) == ["a", "b"]
        loaded = await store.load("r")
        assert (bodies(loaded), loaded.record.status) == ([b"1", b"end"], "completed")

    @opened
    async def test_an_owner_that_has_lost_its_run_leaves_nothing(self, store: TransactionalLogStore) -> None:
        await write(store, first("r"))
        await store.acquire("r")
        transaction = await self._begun(store, "a")

        await transaction.check("r")
        refused = await transaction.commit(more("r", 1, b"old", epoch=FIRST_EPOCH))

        assert isinstance(refused, OwnershipLost)
        assert await self.words(store) == []
        assert bodies(await store.load("r")) == [b"1"]

    @opened
    async def test_an_append_at_another_position_leaves_nothing(self, store: TransactionalLogStore) -> None:
        await write(store, first("r"), more("r", 1))
        transaction = await self._begun(store, "a")

        await transaction.check("r")
        refused = await transaction.commit(more("r", 1, b"other"))

        assert isinstance(refused, ConcurrentAppend)
        assert await self.words(store) == []
        assert bodies(await store.load("r")) == [b"1", b"2"]

    @opened
    async def test_a_transaction_that_is_abandoned_leaves_nothing_and_cannot_be_used(
        self, store: TransactionalLogStore
    ) -> None:
        await write(store, first("r"))
        transaction = await self._begun(store, "a")

        transaction.abandon()
        transaction.abandon()
        later = await self._begun(store, "b")
        with pytest.raises(Exception):  # noqa: B017, PT011 - which one is the driver's choice
            await self.put(store, transaction.connection, "c")
        await later.check("r")

        assert await later.commit(more("r", 1)) is None
        assert await self.words(store) == ["b"]

    @opened
    async def test_a_transaction_that_has_ended_makes_room_for_another(self, store: TransactionalLogStore) -> None:
        await write(store, first("r"))

        async with asyncio.timeout(60):
            for number in range(MANY):
                (await self._begun(store, f"not {number}")).abandon()
                transaction = await self._begun(store, f"{number}")
                await transaction.check("r")
                assert await transaction.commit(more("r", number + 1)) is None
                late = await self._begun(store, f"late {number}")
                assert await late.commit(more("r", number + 1)) is not None

        assert await self.words(store) == [f"{number}" for number in range(MANY)]
        assert (await store.find("r")).head == MANY + 1

    @opened
    async def test_a_store_says_whether_others_can_write_meanwhile(self, store: TransactionalLogStore) -> None:
        await write(store, first("r"))
        transaction = await self._begun(store, "a")

        appending = asyncio.ensure_future(store.append([first("s")]))
        await asyncio.wait([appending], timeout=A_MOMENT if store.has_exclusive_transactions else 60)
        could = appending.done()
        await self.put(store, transaction.connection, "b")  # it has not ended meanwhile
        transaction.abandon()

        assert list(await appending) == [None]
        assert could == (not store.has_exclusive_transactions)
        assert await self.words(store) == []

    @opened
    async def test_it_can_be_found_out_whether_a_transaction_was_committed(self, store: TransactionalLogStore) -> None:
        await write(store, first("r"), first("s"))
        transaction = await self._begun(store, "a")
        await transaction.check("r")
        await transaction.commit(more("r", 1, b"yes"))

        assert await store.has_committed(more("r", 1, b"yes"))
        assert not await store.has_committed(more("r", 1, b"other"))
        assert not await store.has_committed(more("s", 1, b"yes"))
        await store.acquire("r")
        with pytest.raises(OwnershipLost):
            await store.has_committed(more("r", 1, b"yes"))

    @opened
    async def test_whether_it_was_committed_is_said_when_that_is_decided(self, store: TransactionalLogStore) -> None:
        await write(store, first("r"))
        transaction = await self._begun(store, "a")
        await transaction.check("r")

        asking = asyncio.ensure_future(store.has_committed(more("r", 1, b"end")))
        await asyncio.wait([asking], timeout=A_MOMENT)
        answered = asking.done()
        await transaction.commit(more("r", 1, b"end"))

        assert not answered
        assert await asking

    @opened
    async def test_no_transaction_begins_on_a_closed_store(self, store: TransactionalLogStore) -> None:
        await store.close()

        with pytest.raises(StoreClosed):
            await store.begin()
