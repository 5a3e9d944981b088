"""The contract of stores that keep jobs."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from weft.errors import RunNotFound
from weft.ports.jobs import JobStore, StoredJob
from weft.ports.store import InboxStore, LogStore
from weft.testing.contracts.cases import first, opened, write
from weft.testing.contracts.inbox_store import message


class JobKeepingStore(LogStore, InboxStore, JobStore, Protocol):
    """The store that the contract of jobs tests."""


def row(id: str, look_at: float = 0.0, **given: Any) -> StoredJob:
    """Return the row of a new job."""
    settings: dict[str, Any] = {"created_at": 1.0, "body": b"x", **given}
    return StoredJob(id=id, look_at=look_at, **settings)


async def bodies(store: JobKeepingStore, *runs: str) -> list[bytes]:
    """Return the bodies of the messages of *runs*."""
    return [each.body for each in await store.messages(runs)]


class JobStoreContract:
    """The contract of rows that are changed, together with messages, by compare-and-set."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_job_comes_back_as_it_was_put(self, store: JobKeepingStore) -> None:
        given = row("a", 5.25, created_at=7.5, body=b"\x00\xff")

        assert await store.put_job(given) == []

        assert list(await store.list_jobs()) == [replace(given, revision=1)]
        assert list(await store.list_jobs("a")) == [replace(given, revision=1)]
        assert list(await store.list_jobs("b")) == []

    @opened
    async def test_the_newest_jobs_come_first(self, store: JobKeepingStore) -> None:
        for each in (row("a", created_at=2.0), row("b", created_at=3.0), row("c", created_at=2.0)):
            await store.put_job(each)

        assert [each.id for each in await store.list_jobs()] == ["b", "c", "a"]
        assert [each.id for each in await store.list_jobs(limit=2)] == ["b", "c"]

    @opened
    async def test_a_change_of_a_job_needs_the_revision_that_is_stored(self, store: JobKeepingStore) -> None:
        await store.put_job(row("a"))

        assert await store.put_job(row("a")) is None
        assert await store.put_job(row("a", revision=2)) is None
        assert await store.put_job(row("b", revision=1)) is None
        assert await store.put_job(row("a", 7.0, revision=1, body=b"y")) == []
        assert await store.put_job(row("a", revision=1)) is None

        (found,) = await store.list_jobs()
        assert (found.revision, found.look_at, found.body) == (2, 7.0, b"y")

    @opened
    async def test_messages_are_posted_with_the_row(self, store: JobKeepingStore) -> None:
        await write(store, first("r"), first("s"))
        await store.put_job(row("a"))

        answers = await store.put_job(
            row("a", revision=1), [message("r", b"one"), message("x", b""), message("s", b"two")]
        )

        assert answers is not None
        assert isinstance(answers[1], RunNotFound)
        assert isinstance(answers[0], int)
        assert isinstance(answers[2], int)
        assert await bodies(store, "r", "s") == [b"one", b"two"]

    @opened
    async def test_nothing_is_posted_with_a_row_that_is_not_written(self, store: JobKeepingStore) -> None:
        await write(store, first("r"))
        await store.put_job(row("a"))

        assert await store.put_job(row("a", revision=7), [message("r", b"m")]) is None
        assert await store.put_job(row("a"), [message("r", b"m")]) is None

        assert await bodies(store, "r") == []

    @opened
    async def test_of_many_changes_of_a_job_at_once_one_is_written_with_its_messages(
        self, store: JobKeepingStore
    ) -> None:
        await write(store, first("r"))
        await store.put_job(row("a"))

        changes = (store.put_job(row("a", float(number), revision=1), [message("r", b"m")]) for number in range(8))
        answers = await asyncio.gather(*changes)

        assert [answer is None for answer in answers].count(False) == 1
        assert len(await bodies(store, "r")) == 1

    @opened
    async def test_jobs_whose_time_has_come_are_due_the_longest_first(self, store: JobKeepingStore) -> None:
        now = time.time()
        for each in (row("late", now - 5), row("later", now - 50), row("soon", now + 900), row("never", float("inf"))):
            await store.put_job(each)

        found = await store.due_jobs(now)

        assert [each.id for each in found.found] == ["later", "late"]
        assert found.next_at == now + 900
        assert abs(found.now - now) < 600
        assert [each.id for each in (await store.due_jobs(now, limit=1)).found] == ["later"]

    @opened
    async def test_a_deleted_job_is_gone(self, store: JobKeepingStore) -> None:
        await store.put_job(row("a"))

        assert await store.delete_job("a")
        assert not await store.delete_job("a")
        assert list(await store.list_jobs()) == []
