"""The contract of stores that keep unique keys of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import pytest

from weft.errors import RunNotFound, StoreError, UniqueKeyTaken
from weft.ports.store import ListableStore, LogStore, OwnedStore, RunStatus, UniqueStore
from weft.testing.contracts.cases import again, first, more, opened, skip_unless_grouped, write


class UniqueLogStore(LogStore, OwnedStore, ListableStore, UniqueStore, Protocol):
    """The store that the contract of unique keys tests."""


def taken_by(answers: Sequence[StoreError | None]) -> list[str | None]:
    """Return, for each answer, the run that has the key, or None if the append was written."""
    return [each.holder if isinstance(each, UniqueKeyTaken) else None for each in answers]


class UniqueStoreContract:
    """The contract of unique keys: of the unfinished runs of a workflow, at most one has a key."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_second_run_with_the_key_of_an_unfinished_one_is_refused(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"))

        (refused,) = await store.append([first("b", unique="k")])

        assert isinstance(refused, UniqueKeyTaken)
        assert (refused.run_id, refused.workflow, refused.unique, refused.holder) == ("b", "orders", "k", "a")
        assert not await store.exists("b")
        assert await store.key_holder("orders", "k") == "a"

    @opened
    async def test_a_refused_run_keeps_none_of_its_batch_from_being_written(self, store: UniqueLogStore) -> None:
        batch = [first("a", unique="k"), first("b", unique="k"), first("c", unique="l"), first("d")]

        answers = await store.append(batch)

        assert taken_by(answers) == [None, "a", None, None]
        assert [await store.exists(run) for run in "abcd"] == [True, False, True, True]

    @opened
    async def test_keys_of_different_workflows_have_nothing_to_do_with_each_other(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"), first("b", unique="k", workflow="others"))

        assert await store.key_holder("orders", "k") == "a"
        assert await store.key_holder("others", "k") == "b"
        assert await store.key_holder("orders", "other") is None

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
    @opened
    async def test_the_append_that_finishes_a_run_frees_its_key(self, store: UniqueLogStore, status: RunStatus) -> None:
        await write(store, first("a", unique="k"), more("a", 1, status=status))

        assert await store.key_holder("orders", "k") is None
        await write(store, first("b", unique="k"))

    @pytest.mark.parametrize("status", ["waiting", "idle", "parked"])
    @opened
    async def test_a_run_that_has_not_finished_keeps_its_key(self, store: UniqueLogStore, status: RunStatus) -> None:
        await write(store, first("a", unique="k"), more("a", 1, status=status, release=True))

        assert taken_by(await store.append([first("b", unique="k")])) == ["a"]

    @opened
    async def test_a_run_that_is_created_as_finished_takes_no_key(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"))

        await write(store, first("b", unique="k", status="completed"))

        assert await store.key_holder("orders", "k") == "a"

    @opened
    async def test_a_failed_run_that_goes_on_takes_its_key_again(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"), more("a", 1, status="failed"))

        assert await store.key_rival("a") is None
        await write(store, more("a", 2, status="running"))

        assert taken_by(await store.append([first("b", unique="k")])) == ["a"]

    @opened
    async def test_a_failed_run_whose_key_another_one_has_cannot_go_on(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"), more("a", 1, status="failed"), first("b", unique="k"), first("c"))

        answers = await store.append([more("a", 2, status="running"), more("c", 1, status="waiting")])

        assert taken_by(answers) == ["b", None]
        assert (await store.find("a")).status == "failed"
        assert (await store.find("a")).head == 2
        assert (await store.find("c")).status == "waiting"
        assert await store.key_rival("a") == ("orders", "k", "b")
        assert await store.key_rival("b") is None
        assert await store.key_rival("c") is None

    @opened
    async def test_what_says_nothing_of_the_status_needs_no_key(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"), more("a", 1, status="failed"), first("b", unique="k"))

        await write(store, more("a", 2, b"", count=0))
        await write(store, more("a", 2, status="failed"))

    @opened
    async def test_the_key_of_a_deleted_run_is_free(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"))

        await store.delete("a")

        assert await store.key_holder("orders", "k") is None
        await write(store, first("b", unique="k"))
        with pytest.raises(RunNotFound):
            await store.key_rival("a")

    @opened
    async def test_an_attempt_that_was_written_already_is_not_refused(self, store: UniqueLogStore) -> None:
        await write(store, first("a", unique="k"))

        assert list(await store.append([again(first("a", unique="k"))])) == [None]

    @opened
    async def test_the_run_that_continues_another_has_its_key(self, store: UniqueLogStore) -> None:
        skip_unless_grouped(store)
        await write(store, first("a", unique="k"))

        await write(
            store, more("a", 1, status="completed", group="g"), first("b", status="idle", group="g", continues="a")
        )

        assert await store.key_holder("orders", "k") == "b"
        assert taken_by(await store.append([first("c", unique="k")])) == ["b"]

    @opened
    async def test_of_many_runs_at_once_one_has_the_key(self, store: UniqueLogStore) -> None:
        batches = [[first(f"{batch} {number}", unique="k") for number in range(5)] for batch in range(8)]

        answers = await asyncio.gather(*(store.append(batch) for batch in batches))

        written = [
            append.run
            for batch, answered in zip(batches, answers, strict=True)
            for append, refused in zip(batch, answered, strict=True)
            if refused is None
        ]
        assert written == [await store.key_holder("orders", "k")]
