"""The contract of stores that list waiting runs by when they are woken."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from weft.ports.store import NEVER, ListableStore, LogStore, OwnedStore, WaitingStore
from weft.testing.contracts.cases import first, more, opened, write


class WaitingLogStore(LogStore, OwnedStore, ListableStore, WaitingStore, Protocol):
    """The store that the contract of waiting runs tests."""


def waits(run: str, until: float | None, **given: Any) -> Any:
    """Return the append that creates a run that waits until a time, or for a signal alone."""
    return first(run, status="waiting", wake_at=until, **given)


async def ids(store: WaitingLogStore, **asked: Any) -> list[str]:
    """Return the ids of one page."""
    return [each.id for each in await store.list_waiting(**asked)]


class WaitingStoreContract:
    """The contract of lists of waiting runs."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_the_run_that_is_woken_first_comes_first_on_all_pages(self, store: WaitingLogStore) -> None:
        await write(store, waits("signal-b", None, at=6.0), waits("signal-a", None, at=5.0))
        await write(store, *(waits(f"r{number}", 100.0 - number // 2, at=float(number)) for number in range(6)))
        await write(store, first("runs", at=7.0), first("done", status="completed", release=True, at=8.0))

        pages: list[list[str]] = []
        last = None
        while page := await store.list_waiting(after=last, limit=3):
            pages.append([each.id for each in page])
            last = page[-1]

        assert pages == [["r4", "r5", "r2"], ["r3", "r0", "r1"], ["signal-a", "signal-b"]]

    @opened
    async def test_equal_times_are_ordered_by_id(self, store: WaitingLogStore) -> None:
        await write(store, *(waits(run, 9.0) for run in ("b", "c", "a")), *(waits(run, None) for run in ("e", "d")))

        assert await ids(store) == ["a", "b", "c", "d", "e"]
        assert await ids(store, after=(await store.list_waiting(limit=2))[-1], limit=2) == ["c", "d"]

    @opened
    async def test_a_run_that_no_longer_waits_is_not_listed(self, store: WaitingLogStore) -> None:
        await write(store, waits("a", 5.0), waits("b", 6.0), waits("c", 7.0))

        await write(store, more("a", 1, status="running", wake_at=NEVER), more("b", 1, status="waiting", wake_at=8.0))

        assert await ids(store) == ["c", "b"]

    @opened
    async def test_only_the_runs_that_are_asked_for_are_listed(self, store: WaitingLogStore) -> None:
        for number in range(6):
            workflow = "x" if number % 2 else "y"
            await write(store, waits(f"r{number}", 50.0 - number, workflow=workflow, at=float(number)))
        await write(store, waits("signal", None, workflow="x", at=3.5))

        assert await ids(store, workflow="x") == ["r5", "r3", "r1", "signal"]
        assert await ids(store, since=2.0) == ["r5", "r4", "r3", "r2", "signal"]
        assert await ids(store, until=4.0) == ["r3", "r2", "r1", "r0", "signal"]
        assert await ids(store, workflow="x", since=2.0, until=5.0, limit=1) == ["r3"]
        assert await ids(store, workflow="z") == []

    @opened
    async def test_a_page_goes_on_where_a_deleted_run_was(self, store: WaitingLogStore) -> None:
        await write(store, *(waits(f"r{number}", float(number)) for number in range(4)))
        *_, last = await store.list_waiting(limit=2)

        await store.delete(last.id)

        assert await ids(store, after=last) == ["r2", "r3"]
