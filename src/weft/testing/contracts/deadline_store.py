"""The contract of stores that know which deadlines are in danger."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from weft.ports.deadlines import DeadlineStore, Endangered
from weft.ports.store import NO_DEADLINE, ListableStore, LogStore, OwnedStore
from weft.testing.contracts.cases import first, more, opened, write


class DueStore(LogStore, OwnedStore, ListableStore, DeadlineStore, Protocol):
    """The store that the contract of deadlines tests."""


async def runs(store: DueStore, now: float, **options: int) -> list[str]:
    """Return the runs that are in danger at the time *now*."""
    return [each.run for each in await store.endangered(now, **options)]


class DeadlineStoreContract:
    """The contract of the earliest deadline of a run, and of telling it once."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_run_is_in_danger_from_its_time_on(self, store: DueStore) -> None:
        await write(store, first("a", due=(80.0, 100.0)), first("b", due=(70.0, 200.0)), first("c"))

        assert await runs(store, 69.0) == []
        assert await runs(store, 70.0) == ["b"]
        assert await runs(store, 500.0) == ["a", "b"], "a deadline that is past is no less in danger"
        assert await runs(store, 500.0, limit=1) == ["a"]
        (found,) = await store.endangered(75.0)
        assert found == Endangered("b", "orders", "running", 200.0, 70.0, is_held=True)

    @opened
    async def test_a_run_without_a_deadline_and_a_finished_one_are_in_no_danger(self, store: DueStore) -> None:
        await write(store, first("a", due=(1.0, 2.0)), first("b", due=(1.0, 2.0)), first("c", due=(1.0, 2.0)))

        await write(store, more("a", 1, due=NO_DEADLINE), more("b", 1, status="completed", release=True), more("c", 1))

        assert await runs(store, 10.0) == ["c"]
        assert await store.tell_danger("a", 2.0, 10.0) is None
        assert [each.run for each in (await store.tell_dangers(10.0))[0]] == ["c"]

    @opened
    async def test_a_danger_is_told_once(self, store: DueStore) -> None:
        await write(store, first("a", due=(80.0, 100.0)), first("b", due=(90.0, 200.0)))

        assert await store.tell_dangers(79.0) == ([], 80.0)
        told, following = await store.tell_dangers(85.0)
        assert ([each.run for each in told], following) == (["a"], 90.0)
        assert await store.tell_dangers(85.0) == ([], 90.0)
        assert await store.tell_danger("a", 100.0, 85.0) is None
        assert await runs(store, 85.0) == ["a"], "it is still in danger"

    @opened
    async def test_a_danger_can_be_told_before_its_time(self, store: DueStore) -> None:
        await write(store, first("a", due=(80.0, 100.0)))

        assert await store.tell_danger("a", 101.0, 50.0) is None, "it has another deadline"
        assert await store.tell_danger("b", 100.0, 50.0) is None
        told = await store.tell_danger("a", 100.0, 50.0)

        assert told == Endangered("a", "orders", "running", 100.0, 50.0, is_held=True)
        assert await runs(store, 50.0) == ["a"]
        assert await store.tell_dangers(85.0) == ([], None)

    @opened
    async def test_another_deadline_is_told_anew_and_the_same_one_is_not(self, store: DueStore) -> None:
        await write(store, first("a", due=(80.0, 100.0)))
        await store.tell_danger("a", 100.0, 50.0)

        await write(store, more("a", 1, due=(80.0, 100.0)))
        assert await store.tell_dangers(85.0) == ([], None)
        assert await runs(store, 50.0) == ["a"], "and it stays in danger since then"

        await write(store, more("a", 2, due=(180.0, 200.0)))
        assert await runs(store, 85.0) == []
        assert await store.tell_dangers(85.0) == ([], 180.0)
        assert [each.deadline for each in (await store.tell_dangers(180.0))[0]] == [200.0]

    @opened
    async def test_many_are_told_by_several_calls(self, store: DueStore) -> None:
        await write(store, *(first(f"r{i}", due=(1.0 + i, 100.0)) for i in range(5)))

        told, following = await store.tell_dangers(50.0, limit=3)
        assert len(told) == 3
        assert following is not None
        assert following <= 50.0
        assert len((await store.tell_dangers(50.0, limit=3))[0]) == 2

    @opened
    async def test_a_deleted_run_leaves_no_deadline_to_the_next_one_of_its_id(self, store: DueStore) -> None:
        await write(store, first("a", due=(1.0, 2.0), status="completed", release=True))
        await store.delete("a")

        await write(store, first("a"))

        assert await runs(store, 10.0) == []
        assert await store.tell_dangers(10.0) == ([], None)
