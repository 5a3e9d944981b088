"""The contract of stores that several owners have open at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from weft.errors import OwnershipLost, RunExists, RunOwned
from weft.ports.store import FIRST_EPOCH
from weft.testing.contracts.cases import OwnedLogStore, again, bodies, first, more, opened, take_free, write


class SharedStoreContract:
    """The contract of two owners of the same data: provide ``store`` and ``another``, two unopened stores on it."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @pytest.fixture
    def another(self) -> Any:
        """Return a second store on the same data."""
        raise NotImplementedError("override the fixture `another`: return a second store on the same data")

    @opened
    async def test_each_sees_what_the_other_wrote(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        await write(store, first("a", b"1"))
        await write(another, first("b", b"2"))

        assert bodies(await another.load("a")) == [b"1"]
        assert bodies(await store.load("b")) == [b"2"]

    @opened
    async def test_what_another_holds_cannot_be_taken(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        await write(store, first("r"))

        with pytest.raises(RunOwned) as caught:
            await another.acquire("r")

        assert caught.value.owner == (await store.find("r")).owner
        assert list(await another.list_free()) == []
        await write(store, more("r", 1))

    @opened
    async def test_of_many_runs_those_are_taken_that_no_other_holds(
        self, store: OwnedLogStore, another: OwnedLogStore
    ) -> None:
        await write(store, first("held"), first("free", release=True))

        listed = await another.list_free()
        taken = await another.acquire_many(["held", "free"])

        assert [each.id for each in listed] == ["free"]
        assert taken["free"] == await store.find("free")
        refused = taken["held"]
        assert isinstance(refused, RunOwned)
        assert refused.owner == (await store.find("held")).owner
        await write(store, more("held", 1))

    @opened
    async def test_what_another_gave_up_can_be_taken(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        await write(store, first("a"), first("b"), first("c"))
        await store.release(["a"])
        await another.release(["b"])

        taken = await take_free(another)

        assert [each.id for each in taken] == ["a"]
        (refused,) = await store.append([more("a", 1)])
        assert isinstance(refused, OwnershipLost)

    @opened
    async def test_what_a_closed_one_held_is_free(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        await write(store, first("a"), first("b"))

        await store.close()

        assert [each.id for each in await another.list_free()] == ["a", "b"]
        assert (await another.acquire("b")).epoch == FIRST_EPOCH + 1
        assert [each.id for each in await take_free(another)] == ["a"]

    @opened
    async def test_of_two_who_take_a_free_run_one_does(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        await write(store, *(first(f"r{i}", release=True) for i in range(20)))

        mine, theirs = await asyncio.gather(take_free(store), take_free(another))

        assert sorted(each.id for each in (*mine, *theirs)) == sorted(f"r{i}" for i in range(20))

    @opened
    async def test_of_two_who_create_an_id_one_does(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        both = await asyncio.gather(store.append([first("r", b"mine")]), another.append([first("r", b"theirs")]))

        assert sorted(type(each).__name__ for (each,) in both) == ["NoneType", "RunExists"]

    @opened
    async def test_in_doubt_nobody_takes_what_another_created_for_its_own(
        self, store: OwnedLogStore, another: OwnedLogStore
    ) -> None:
        await write(store, first("r", b"same"))

        (refused,) = await another.append([again(first("r", b"same"))])

        assert isinstance(refused, RunExists)

    @opened
    async def test_what_another_holds_is_not_forgotten(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        await write(store, first("r", status="completed"))

        with pytest.raises(RunOwned):
            await another.delete("r")

        assert await another.purge(before=99.0) == 0
        assert await store.exists("r")

    @opened
    async def test_both_write_at_once(self, store: OwnedLogStore, another: OwnedLogStore) -> None:
        async def life(owner: OwnedLogStore, run: str) -> None:
            await write(owner, first(run))
            for position in range(1, 10):
                await write(owner, more(run, position))

        await asyncio.gather(*(life(owner, f"{i}{owner is store}") for i in range(5) for owner in (store, another)))

        assert {each.head for each in await store.list()} == {10}
