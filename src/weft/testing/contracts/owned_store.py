"""The contract of stores that know which process owns a run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from weft.core.components.step import step
from weft.core.workflow import Workflow
from weft.errors import OwnershipLost, RunNotFound, StoreError, WeftError
from weft.executors import TaskExecutor
from weft.ports.store import FINISHED, FIRST_EPOCH, RunRecord, RunStatus
from weft.runner import AsyncRunner
from weft.testing.contracts.cases import OwnedLogStore, first, more, opened, take_free, write
from weft.testing.contracts.owner import in_a_loop


class OwnedStoreContract:
    """The contract of ownership, as far as one owner can test it."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_taking_a_run_fences_off_who_had_it(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        record = await store.acquire("r")

        assert (record.epoch, record.head) == (FIRST_EPOCH + 1, 1)
        assert record.owner
        old, new = await store.append([more("r", 1, b"old"), more("r", 1, b"new", epoch=record.epoch)])
        assert isinstance(old, OwnershipLost)
        assert new is None

    @opened
    async def test_an_owner_that_takes_its_run_again_fences_off_its_past_self(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        epochs = [(await store.acquire("r")).epoch for _ in range(3)]

        assert epochs == [FIRST_EPOCH + 1, FIRST_EPOCH + 2, FIRST_EPOCH + 3]

    @opened
    async def test_an_unknown_run_cannot_be_taken(self, store: OwnedLogStore) -> None:
        with pytest.raises(RunNotFound):
            await store.acquire("nope")

    @opened
    async def test_who_creates_a_run_owns_it(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        assert (await store.find("r")).owner
        assert list(await store.list_free()) == []

    @opened
    async def test_a_run_that_was_given_up_can_be_taken(self, store: OwnedLogStore) -> None:
        await write(store, first("a"), first("b"), first("c"), first("d", release=True))
        await store.release(["a", "nope"])
        await write(store, more("b", 1, release=True))

        taken = await take_free(store)

        assert [(each.id, each.epoch) for each in taken] == [("a", 2), ("b", 2), ("d", 2)]
        assert list(await store.list_free()) == []

    @opened
    async def test_closing_gives_up_every_run(self, store: OwnedLogStore) -> None:
        await write(store, first("r"))

        await store.close()
        await store.open()

        assert (await store.find("r")).owner is None
        assert [each.id for each in await take_free(store)] == ["r"]

    async def crash(self, store: Any) -> None:
        """Leave *store* as the death of its process would; a store that cannot tell a death from a close has none."""
        pytest.skip(f"override crash(store) to see that {type(store).__name__} tells of a death")

    @opened
    async def test_the_next_owner_of_a_run_is_told_that_the_last_one_died(self, store: OwnedLogStore) -> None:
        await write(store, first("a"), first("b", at=2.0), first("released", at=3.0))
        await store.release(["released"])
        await self.crash(store)
        await store.open()

        listed = await store.list_free()
        found = [await store.find(each) for each in ("a", "released")]
        assert [(each.owner, each.owner_died) for each in found] == [(None, True), (None, False)]
        assert {each.id: each.owner_died for each in await store.list()} == {"a": True, "b": True, "released": False}
        one, many = await store.acquire("a"), await store.acquire_many(["b", "released"])

        assert [each.id for each in listed] == ["a", "b", "released"]
        assert one.died_in == 1
        assert {run: _died_in(each) for run, each in many.items()} == {"b": 1, "released": None}
        assert (await store.find("a")).died_in is None

    @opened
    async def test_a_death_is_told_until_the_run_has_another_event(self, store: OwnedLogStore) -> None:
        await write(store, first("a"), first("b"))
        await self.crash(store)
        await store.open()

        told = [(await store.acquire("a")).died_in, (await store.acquire("a")).died_in]  # the first answer may be lost
        await store.release(["a"])  # the run could not be loaded
        told.append((await store.acquire("a")).died_in)
        await self.crash(store)  # before it could say something
        await store.open()
        told += [_died_in(each) for each in (await store.acquire_many(["a"])).values()]
        await write(store, more("a", 1, epoch=5))
        told.append((await store.acquire("a")).died_in)
        await self.crash(store)
        await store.open()
        told.append((await store.acquire("a")).died_in)

        assert told == [1, 1, 1, 1, None, 6]

    @opened
    async def test_an_owner_that_has_released_a_run_has_not_died(self, store: OwnedLogStore) -> None:
        await write(store, first("a"), first("b"), first("c"))
        await store.release(["a"])
        await write(store, more("b", 1, release=True))

        assert (await store.acquire("a")).died_in is None
        assert (await store.acquire("b")).died_in is None
        assert (await store.acquire("c")).died_in is None  # its owner takes it again
        await store.close()
        await store.open()
        taken = await store.acquire_many("abc")
        assert [_died_in(each) for each in taken.values()] == [None] * 3

    @in_a_loop
    async def test_a_run_that_kills_its_owners_is_parked_although_one_of_them_has_started_nothing(
        self, store: OwnedLogStore
    ) -> None:
        """Five owners die: of what they start, but for the third, which only has the run."""
        begun: asyncio.Queue[str] = asyncio.Queue()

        async def kills(name: str) -> None:
            begun.put_nowait(name)
            await asyncio.Event().wait()

        fatal = Workflow("fatal", step(kills))
        starts: list[str] = []
        for life in ("starts", "starts", "is busy", "starts", "is notified"):
            runner = await AsyncRunner(store, executors={"async": TaskExecutor(capacity=1)}).open()
            if life == "is busy":
                await runner.start(fatal, "busy", id="busy")
                assert await begun.get() == "busy"
            if await store.list(workflow="fatal"):
                await runner.resume("a", workflow=fatal)
            else:
                await runner.start(fatal, "a", id="a")
            if life == "starts":
                starts.append(await begun.get())
            else:
                await runner.checkpoint("a")
            is_parked = life == "is notified" and await runner.status("a") == "parked"
            await self.crash(store)
            with suppress(WeftError):  # what is left of that process can write nothing
                await runner.close(grace=0.0)

        assert starts == ["a"] * 3
        assert begun.empty()
        assert is_parked

    @opened
    async def test_only_what_has_something_to_do_is_taken_unless_more_is_asked_for(self, store: OwnedLogStore) -> None:
        statuses: tuple[RunStatus, ...] = ("running", "waiting", "idle", "parked", *sorted(FINISHED))
        await write(store, *(first(status, status=status, at=float(i)) for i, status in enumerate(statuses)))
        await store.release(statuses)

        due = await take_free(store)
        asked = await take_free(store, statuses=["parked", "running"])

        assert [each.id for each in due] == ["running", "waiting"]
        assert [each.id for each in asked] == ["parked"]

    @opened
    async def test_the_oldest_come_first(self, store: OwnedLogStore) -> None:
        await write(store, *(first(f"r{i}", at=100.0 - i, status="waiting" if i % 2 else "running") for i in range(6)))
        await store.release(f"r{i}" for i in range(6))

        some = await take_free(store, limit=2)
        rest = await take_free(store)

        assert [each.id for each in (*some, *rest)] == ["r5", "r4", "r3", "r2", "r1", "r0"]

    @opened
    async def test_many_runs_are_taken_at_once_and_each_is_told_what_became_of_it(self, store: OwnedLogStore) -> None:
        await write(store, *(first(run, b"%d" % i, status="waiting") for i, run in enumerate("abcd")))
        await store.release("ab")

        taken = await store.acquire_many(["b", "nope", "a", "c", "b"])

        assert list(taken) == ["b", "nope", "a", "c"]
        assert isinstance(taken["nope"], RunNotFound)
        for run in "abc":
            record = taken[run]
            assert isinstance(record, RunRecord)
            assert record == await store.find(run)
            assert record.owner
            assert record.epoch == FIRST_EPOCH + 1
        assert (await store.find("d")).epoch == FIRST_EPOCH
        old, new = await store.append([more("a", 1, b"old"), more("a", 1, b"new", epoch=FIRST_EPOCH + 1)])
        assert isinstance(old, OwnershipLost)
        assert new is None
        assert dict(await store.acquire_many([])) == {}

    @opened
    async def test_free_runs_are_listed_and_stay_free(self, store: OwnedLogStore) -> None:
        statuses: tuple[RunStatus, ...] = ("running", "waiting", "idle", "parked", *sorted(FINISHED))
        await write(store, *(first(status, status=status, at=float(i)) for i, status in enumerate(statuses)))
        await write(store, first("mine", at=0.5))
        await store.release(statuses)

        due = await store.list_free()
        asked = await store.list_free(statuses=["parked", "running"])

        assert [each.id for each in due] == ["running", "waiting"]
        assert [each.id for each in asked] == ["running", "parked"]
        assert [await store.find(each.id) for each in due] == list(due)
        assert [each.id for each in await take_free(store)] == ["running", "waiting"]

    @opened
    async def test_free_runs_are_listed_in_pages_oldest_first(self, store: OwnedLogStore) -> None:
        names = [f"r{i:02}" for i in range(20)]
        await write(
            store,
            *(first(run, at=float(i // 2), status="waiting" if i % 3 else "running") for i, run in enumerate(names)),
        )
        await store.release(names[::2])

        pages: list[list[str]] = []
        last: RunRecord | None = None
        while page := await store.list_free(after=last, limit=4):
            pages.append([each.id for each in page])
            last = page[-1]

        assert pages == [names[0:8:2], names[8:16:2], names[16::2]]


def _died_in(answer: RunRecord | StoreError) -> int | None:
    assert isinstance(answer, RunRecord)
    return answer.died_in
