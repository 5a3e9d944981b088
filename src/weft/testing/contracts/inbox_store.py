"""The contract of stores that take messages for runs."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import pytest

from weft.errors import OwnershipLost, RunNotFound
from weft.ports.store import NEVER, FactStore, InboxStore, ListableStore, LogStore, Message, OwnedStore
from weft.testing.contracts.cases import first, more, opened, skip_unless_grouped, write


class InboxLogStore(LogStore, FactStore, OwnedStore, ListableStore, InboxStore, Protocol):
    """The store that the contract of inboxes tests."""


def message(run: str, body: bytes, kind: str = "signal", at: float = 5.0) -> Message:
    """Return a message for *run*."""
    return Message(run=run, kind=kind, body=body, at=at)


async def in_inbox(store: InboxLogStore, *runs: str) -> list[bytes]:
    """Return the bodies of the messages for *runs*, or for all that the store owns."""
    return [each.body for each in await store.messages(runs or None)]


class InboxStoreContract:
    """The contract of messages for runs, as far as one owner can test it."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_message_comes_back_as_it_was_posted(self, store: InboxLogStore) -> None:
        await write(store, first("r"))

        (number,) = await store.post([message("r", b"yes", kind="signal", at=7.5)])
        (found,) = await store.messages(["r"])

        assert (found.run, found.kind, found.body, found.at) == ("r", "signal", b"yes", 7.5)
        assert found.number == number

    @opened
    async def test_an_idle_run_with_messages_and_no_owner_is_addressed(self, store: InboxLogStore) -> None:
        runs = ("b", "a", "held", "running", "finished", "read")
        statuses = {"running": "running", "finished": "completed"}
        for run in runs:
            await write(store, first(run, status=statuses.get(run, "idle")))
        await store.post([message(run, b"1") for run in ("b", "b", *runs[1:-1])])
        await store.release([run for run in runs if run != "held"])

        assert list(await store.addressed()) == ["a", "b"]
        assert list(await store.addressed(limit=1)) == ["a"]
        assert list(await store.addressed(after="a")) == ["b"]

        record = await store.acquire("a")
        (posted,) = await store.messages(["a"])
        await write(store, more("a", 1, epoch=record.epoch, taken=(posted.number,)))
        await store.release(["a"])
        assert list(await store.addressed()) == ["b"]

    @opened
    async def test_later_messages_have_higher_numbers_and_come_in_their_order(self, store: InboxLogStore) -> None:
        await write(store, first("a"), first("b"))

        one = await store.post([message("a", b"1"), message("b", b"2")])
        two = await store.post([message("a", b"3")])

        numbers = [*one, *two]
        assert all(isinstance(each, int) for each in numbers)
        assert numbers == sorted(numbers, key=lambda each: each if isinstance(each, int) else 0)
        assert len(set(numbers)) == 3
        assert await in_inbox(store, "b", "a") == [b"1", b"2", b"3"]
        assert await in_inbox(store) == [b"1", b"2", b"3"]

    @opened
    async def test_a_run_that_is_not_there_gets_no_message_and_the_others_do(self, store: InboxLogStore) -> None:
        await write(store, first("r"))

        nobody, somebody = await store.post([message("nope", b"1"), message("r", b"2")])

        assert isinstance(nobody, RunNotFound)
        assert isinstance(somebody, int)
        assert await in_inbox(store, "nope", "r") == [b"2"]
        assert list(await store.post([])) == []

    @opened
    async def test_messages_of_a_run_that_another_one_continues_are_for_that_one(self, store: InboxLogStore) -> None:
        skip_unless_grouped(store)
        await write(store, first("old"), first("other"))
        await store.post([message("old", b"1"), message("other", b"2")])

        await write(store, more("old", 1, status="completed", release=True), first("new", continues="old"))
        await store.post([message("old", b"3"), message("new", b"4")])
        await write(store, first("newest", continues="new"))
        (number,) = await store.post([message("old", b"5")])

        assert isinstance(number, int)
        assert await in_inbox(store, "old", "new") == []
        assert await in_inbox(store, "newest") == [b"1", b"3", b"4", b"5"]
        assert {each.run for each in await store.messages(["newest"])} == {"newest"}
        assert await in_inbox(store, "other") == [b"2"]

    @opened
    async def test_a_run_that_has_the_id_of_one_that_was_continued_keeps_its_messages(
        self, store: InboxLogStore
    ) -> None:
        skip_unless_grouped(store)
        await write(store, first("old"))
        await write(store, more("old", 1, status="completed", release=True), first("new", continues="old"))
        await store.delete("old")
        await write(store, first("old"))

        await store.post([message("old", b"1")])

        assert await in_inbox(store, "old") == [b"1"]
        assert await in_inbox(store, "new") == []

    @opened
    async def test_reading_takes_nothing_and_is_bounded(self, store: InboxLogStore) -> None:
        await write(store, first("r"))
        await store.post([message("r", b"%d" % i) for i in range(10)])

        assert [each.body for each in await store.messages(["r"], limit=3)] == [b"0", b"1", b"2"]
        assert [each.body for each in await store.messages(limit=3)] == [b"0", b"1", b"2"]
        assert len(await store.messages(["r"])) == 10
        second = (await store.messages(limit=2))[-1]
        assert [each.body for each in await store.messages(after=second.number, limit=2)] == [b"2", b"3"]
        assert [each.body for each in await store.messages(["r"], after=second.number, limit=1)] == [b"2"]

    @opened
    async def test_an_append_takes_the_messages_that_it_names_and_no_others(self, store: InboxLogStore) -> None:
        await write(store, first("r"), first("s"))
        numbers = await store.post([message("r", b"1"), message("r", b"2"), message("s", b"3")])
        one, _, three = (each for each in numbers if isinstance(each, int))

        await write(store, more("r", 1, taken=(one, three)))  # the last is another run's

        assert await in_inbox(store) == [b"2", b"3"]

    @opened
    async def test_an_append_that_is_refused_takes_no_message(self, store: InboxLogStore) -> None:
        await write(store, first("r"))
        (number,) = await store.post([message("r", b"1")])
        await store.acquire("r")

        (refused,) = await store.append([more("r", 1, taken=(number,) if isinstance(number, int) else ())])

        assert isinstance(refused, OwnershipLost)
        assert await in_inbox(store, "r") == [b"1"]

    @opened
    async def test_messages_can_be_taken_without_an_event(self, store: InboxLogStore) -> None:
        await write(store, first("r"))
        (number,) = await store.post([message("r", b"1")])
        assert isinstance(number, int)

        await write(store, more("r", 1, b"", count=0, taken=(number,)))

        assert await in_inbox(store, "r") == []
        assert (await store.find("r")).head == 1

    @opened
    async def test_a_run_without_an_owner_keeps_its_messages(self, store: InboxLogStore) -> None:
        await write(store, first("r", release=True))
        await store.post([message("r", b"1")])

        assert await in_inbox(store) == []
        assert await in_inbox(store, "r") == [b"1"]
        await store.acquire("r")
        assert await in_inbox(store) == [b"1"]

    @opened
    async def test_the_messages_of_a_run_go_with_it(self, store: InboxLogStore) -> None:
        await write(store, first("r"))
        await store.post([message("r", b"old")])

        await store.delete("r")
        await write(store, first("r"))

        assert await in_inbox(store, "r") == []

    @opened
    async def test_the_owner_is_told_of_what_is_posted(self, store: InboxLogStore) -> None:
        heard = asyncio.Event()
        await write(store, first("r"))
        await store.listen(heard.set)

        await store.post([message("r", b"1")])

        await asyncio.wait_for(heard.wait(), 30)

    @opened
    async def test_a_listener_that_has_ended_is_not_told(self, store: InboxLogStore) -> None:
        told: list[str] = []
        heard = asyncio.Event()
        await write(store, first("r"))
        end = await store.listen(lambda: told.append("ended"))
        await store.listen(heard.set)
        end()

        await store.post([message("r", b"1")])
        await asyncio.wait_for(heard.wait(), 30)

        assert told == []

    @opened
    async def test_the_record_says_when_to_wake_a_run(self, store: InboxLogStore) -> None:
        await write(store, first("a", status="waiting", wake_at=50.0), first("b", status="waiting"))

        assert [(await store.find(run)).wake_at for run in "ab"] == [50.0, None]
        await write(store, more("a", 1), more("b", 1, wake_at=70.0))
        assert [(await store.find(run)).wake_at for run in "ab"] == [50.0, 70.0]
        await write(store, more("a", 2, wake_at=60.0), more("b", 2, status="running", wake_at=NEVER))
        assert [each.wake_at for each in await store.list()] == [None, 60.0]
        await store.release(["a"])
        assert [each.wake_at for each in await store.list_free(statuses=["waiting"])] == [60.0]


class SharedInboxContract:
    """The contract of messages between two owners of the same data: ``store`` and ``another``, unopened."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @pytest.fixture
    def another(self) -> Any:
        """Return a second store on the same data."""
        raise NotImplementedError("override the fixture `another`: return a second store on the same data")

    @opened
    async def test_the_owner_hears_what_another_posts(self, store: InboxLogStore, another: InboxLogStore) -> None:
        heard = asyncio.Event()
        await write(store, first("r"))
        await store.listen(heard.set)

        await another.post([message("r", b"1")])
        await asyncio.wait_for(heard.wait(), 30)

        assert await in_inbox(store) == [b"1"]
        assert await in_inbox(another) == []
        assert await in_inbox(another, "r") == [b"1"]

    @opened
    async def test_a_run_that_changes_hands_takes_its_messages_along(
        self, store: InboxLogStore, another: InboxLogStore
    ) -> None:
        await write(store, first("r"))
        await another.post([message("r", b"1")])
        await store.release(["r"])

        record = await another.acquire("r")

        assert await in_inbox(store) == []
        (found,) = await another.messages()
        await write(another, more("r", 1, epoch=record.epoch, taken=(found.number,)))
        assert await in_inbox(store, "r") == []
