"""The contract of stores that count their runs."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from weft.ports.store import LogStore, OwnedStore, StatisticsStore
from weft.testing.contracts.cases import first, more, opened, write


class CountingLogStore(LogStore, OwnedStore, StatisticsStore, Protocol):
    """The store that the contract of numbers tests."""


class StatisticsStoreContract:
    """The contract of stores that say how many runs there are."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_an_empty_store_has_no_numbers(self, store: CountingLogStore) -> None:
        assert dict(await store.tally()) == {}
        assert dict(await store.histogram(since=0.0, width=60.0)) == {}

    @opened
    async def test_runs_are_counted_by_workflow_and_status(self, store: CountingLogStore) -> None:
        await write(store, first("a", workflow="x"), first("b", workflow="x"), first("c", workflow="y"))
        await write(store, first("d", workflow="y", status="completed", release=True))

        assert dict(await store.tally()) == {("x", "running"): 2, ("y", "running"): 1, ("y", "completed"): 1}

    @opened
    async def test_runs_of_a_workflow_are_counted_by_version(self, store: CountingLogStore) -> None:
        for run, workflow, version in (("a", "x", "1"), ("b", "x", "2"), ("c", "x", "2"), ("d", "y", "2")):
            await write(store, replace(first(run, workflow=workflow), version=version))
        await write(store, more("b", 1, status="completed", release=True))

        assert dict(await store.count_versions("x")) == {"1": 1, "2": 2}
        assert dict(await store.count_versions("y")) == {"2": 1}
        assert dict(await store.count_versions("z")) == {}

        await write(store, replace(more("a", 1), version="2"))

        assert dict(await store.count_versions("x")) == {"2": 3}

    @opened
    async def test_runs_are_counted_by_the_period_in_which_they_were_created(self, store: CountingLogStore) -> None:
        for run, at in (("early", 99.0), ("a", 100.0), ("b", 109.5), ("c", 110.0), ("d", 135.0)):
            await write(store, first(run, at=at, workflow="x" if run != "d" else "y"))
        await write(store, first("e", at=111.0, workflow="x", status="failed", failures=1, release=True))

        assert dict(await store.histogram(since=100.0, width=10.0)) == {
            (0, "running"): 2,
            (1, "running"): 1,
            (1, "failed"): 1,
            (3, "running"): 1,
        }
        assert dict(await store.histogram(since=100.0, width=10.0, workflow="y")) == {(3, "running"): 1}
