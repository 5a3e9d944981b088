"""The contract of stores that keep schedules."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from weft.ports.schedules import ScheduleStore, StoredSchedule
from weft.ports.store import Store
from weft.testing.contracts.cases import opened


class KeepingStore(Store, ScheduleStore, Protocol):
    """The store that the contract of schedules tests."""


def row(name: str, look_at: float = 0.0, **given: Any) -> StoredSchedule:
    """Return the row of a new schedule."""
    settings: dict[str, Any] = {"workflow": "orders", "body": b"x", **given}
    return StoredSchedule(name=name, look_at=look_at, **settings)


async def names(store: KeepingStore, *workflows: str, **options: int) -> list[str]:
    """Return the names of the schedules that are due now."""
    found = await store.due_schedules(workflows or ["orders"], time.time(), **options)
    return [each.name for each in found.found]


class ScheduleStoreContract:
    """The contract of rows that are changed by compare-and-set."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_schedule_comes_back_as_it_was_put(self, store: KeepingStore) -> None:
        given = row("a", 5.25, body=b"\x00\xff")

        assert await store.put_schedule(given)

        assert list(await store.list_schedules()) == [replace(given, revision=1)]
        assert list(await store.list_schedules("a")) == [replace(given, revision=1)]
        assert list(await store.list_schedules("b")) == []

    @opened
    async def test_a_change_needs_the_revision_that_is_stored(self, store: KeepingStore) -> None:
        await store.put_schedule(row("a"))

        assert not await store.put_schedule(row("a"))
        assert not await store.put_schedule(row("a", revision=2))
        assert not await store.put_schedule(row("b", revision=1))
        assert await store.put_schedule(row("a", 7.0, revision=1, workflow="others"))
        assert not await store.put_schedule(row("a", revision=1))

        (found,) = await store.list_schedules()
        assert (found.revision, found.look_at, found.workflow) == (2, 7.0, "others")

    @opened
    async def test_of_many_changes_at_once_one_is_written(self, store: KeepingStore) -> None:
        assert sorted(await asyncio.gather(*(store.put_schedule(row("a")) for _ in range(8)))) == [False] * 7 + [True]
        changes = (store.put_schedule(row("a", float(number), revision=1)) for number in range(8))
        assert sorted(await asyncio.gather(*changes)) == [False] * 7 + [True]

    @opened
    async def test_those_whose_time_has_come_are_due_the_longest_first(self, store: KeepingStore) -> None:
        now = time.time()
        for each in (row("late", now - 5), row("later", now - 50), row("soon", now + 900), row("never", float("inf"))):
            await store.put_schedule(each)
        await store.put_schedule(row("other", now - 70, workflow="others"))

        assert await names(store) == ["later", "late"]
        assert await names(store, limit=1) == ["later"]
        assert await names(store, "others", "orders") == ["other", "later", "late"]
        found = await store.due_schedules(["orders"], now)
        assert found.next_at == now + 900
        assert abs(found.now - now) < 600
        assert (await store.due_schedules(["none"], now)).next_at == float("inf")

    @opened
    async def test_a_deleted_schedule_is_gone_and_can_be_made_again(self, store: KeepingStore) -> None:
        await store.put_schedule(row("a"))

        assert await store.delete_schedule("a")
        assert not await store.delete_schedule("a")
        assert list(await store.list_schedules()) == []
        assert await store.put_schedule(row("a"))
