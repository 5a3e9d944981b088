"""The contract of stores that list and delete runs."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import InvalidStoreOption, MissingContent, RunNotFound
from weft.ports.store import FINISHED, RunStatus
from weft.testing.contracts.cases import ListableLogStore, bodies, first, more, opened, write


class ListableStoreContract:
    """The contract of listings and retention."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_a_run_is_found_by_its_id(self, store: ListableLogStore) -> None:
        await write(store, first("r"))

        assert await store.find("r") == (await store.load("r")).record
        assert await store.exists("r")
        assert not await store.exists("nope")
        with pytest.raises(RunNotFound):
            await store.find("nope")

    @opened
    async def test_runs_are_listed_newest_first_and_page_by_page(self, store: ListableLogStore) -> None:
        await write(store, *(first(f"r{i}", at=float(i // 2), status="idle" if i % 3 else "failed") for i in range(9)))

        pages: list[list[str]] = []
        last = None
        while page := await store.list(after=last, limit=4):
            pages.append([each.id for each in page])
            last = page[-1]

        assert pages == [["r8", "r7", "r6", "r5"], ["r4", "r3", "r2", "r1"], ["r0"]]

    @opened
    async def test_a_page_goes_on_where_a_deleted_run_was(self, store: ListableLogStore) -> None:
        await write(store, *(first(f"r{i}", at=float(i)) for i in range(4)))
        *_, last = await store.list(limit=2)

        await store.delete(last.id)

        assert [each.id for each in await store.list(after=last)] == ["r1", "r0"]

    @opened
    async def test_runs_that_are_added_between_two_pages_are_on_neither(self, store: ListableLogStore) -> None:
        await write(store, *(first(f"r{i}", at=float(i)) for i in range(4)))
        one = await store.list(limit=2)

        await write(store, first("new", at=9.0), first("newer", at=10.0))
        two = await store.list(after=one[-1], limit=2)

        assert [each.id for each in (*one, *two)] == ["r3", "r2", "r1", "r0"]
        assert await store.list(after=two[-1], limit=2) == []

    @opened
    async def test_a_listing_is_of_the_statuses_and_the_workflow_asked_for(self, store: ListableLogStore) -> None:
        await write(
            store,
            first("a", status="idle", workflow="x"),
            first("b", status="failed", workflow="x"),
            first("c", status="idle", workflow="y"),
        )

        async def listed(**asked: Any) -> list[str]:
            return [each.id for each in await store.list(**asked)]

        assert await listed() == ["c", "b", "a"]
        assert await listed(statuses=["idle"]) == ["c", "a"]
        assert await listed(statuses=["idle", "failed"], workflow="x") == ["b", "a"]
        assert await listed(statuses=[]) == []
        assert await listed(workflow="z") == []

    @opened
    async def test_runs_with_failures_are_told_from_those_without_whatever_their_status(
        self, store: ListableLogStore
    ) -> None:
        await write(
            store,
            first("well", status="completed", workflow="x", at=1.0),
            first("in part", status="completed", failures=1, workflow="x", at=2.0),
            first("open", status="idle", failures=2, dead_letters=2, workflow="y", at=3.0),
            first("lost", status="failed", failures=1, workflow="y", at=4.0),
            first("stopped", status="cancelled", workflow="y", at=5.0),
        )

        async def asked(**asked: Any) -> list[str]:
            found = [each.id for each in await store.list(**asked)]
            assert await store.count(**asked) == len(found)
            return found

        assert await asked(failed=True) == ["lost", "open", "in part"]
        assert await asked(failed=False) == ["stopped", "well"]
        assert await asked(failed=True, statuses=["completed", "idle"]) == ["open", "in part"]
        assert await asked(failed=True, workflow="y") == ["lost", "open"]
        assert await asked(failed=False, statuses=["failed"]) == []

    @opened
    async def test_a_run_without_failures_since_its_last_status_has_none(self, store: ListableLogStore) -> None:
        await write(store, first("r", status="failed", failures=1))
        await write(store, more("r", 1, status="running"))

        assert await store.list(failed=True) == []
        assert [each.id for each in await store.list(failed=False)] == ["r"]

    @opened
    async def test_runs_that_were_created_since_a_time_are_listed_and_counted(self, store: ListableLogStore) -> None:
        await write(store, *(first(f"r{i}", at=float(i), status="idle", workflow=f"w{i % 2}") for i in range(6)))
        await write(store, more("r0", 1, at=9.0))
        *_, last = await store.list(since=2.0, limit=2)

        async def asked(**asked: Any) -> list[str]:
            found = [each.id for each in await store.list(**asked)]
            assert await store.count(**asked) == len(found)
            return found

        assert await asked(since=3.0) == ["r5", "r4", "r3"]
        assert await asked(since=3.5) == ["r5", "r4"]
        assert await asked(since=2.0, workflow="w0", statuses=["idle", "failed"]) == ["r4", "r2"]
        assert await asked(since=6.0) == []
        assert [each.id for each in await store.list(since=2.0, after=last)] == ["r3", "r2"]

    @opened
    async def test_runs_are_counted_as_they_are_listed(self, store: ListableLogStore) -> None:
        await write(
            store,
            *(first(f"x{i}", status="idle" if i % 3 else "failed", workflow="x") for i in range(7)),
            first("y", status="running", workflow="y", release=True),
        )
        await write(store, more("x1", 1, status="completed"))
        await store.delete("x2")

        assert await store.count() == 7
        assert await store.count(workflow="x") == 6
        assert await store.count(statuses=["failed"]) == 3
        assert await store.count(statuses=["idle", "running", "idle"]) == 3
        assert await store.count(statuses=["completed", "idle"], workflow="x") == 3
        assert await store.count(statuses=["running"], workflow="x") == 0
        assert await store.count(statuses=[]) == 0
        assert await store.count(workflow="z") == 0

    @opened
    async def test_deleting_removes_the_log_and_the_facts(self, store: ListableLogStore) -> None:
        await write(store, first("r", b"old", facts={b"h": b"x"}), more("r", 1), first("s"))

        await store.delete("r")

        assert [each.id for each in await store.list()] == ["s"]
        with pytest.raises(RunNotFound):
            await store.load("r")
        with pytest.raises(RunNotFound):
            await store.delete("r")
        (refused,) = await store.append([more("r", 2)])
        assert isinstance(refused, RunNotFound)

    @opened
    async def test_a_deleted_id_can_be_used_again(self, store: ListableLogStore) -> None:
        await write(store, first("r", b"old", facts={b"h": b"x"}), more("r", 1))
        await store.delete("r")

        await write(store, first("r", b"new"))

        assert bodies(await store.load("r")) == [b"new"]
        with pytest.raises(MissingContent):
            await store.load_facts("r", [b"h"])

    @opened
    async def test_purging_forgets_what_is_closed_and_old(self, store: ListableLogStore) -> None:
        statuses: tuple[RunStatus, ...] = ("running", "waiting", "idle", "parked", *sorted(FINISHED))
        await write(store, *(first(status, status=status, at=1.0, release=True) for status in statuses))
        await write(store, first("young", status="completed", at=9.0, release=True))
        await write(store, first("touched", status="running", at=1.0))
        await write(store, more("touched", 1, status="completed", at=9.0, release=True))

        gone = await store.purge(before=5.0)

        assert gone == len(FINISHED)
        left = {each.id for each in await store.list()}
        assert left == {"running", "waiting", "idle", "parked", "young", "touched"}

    @opened
    async def test_purging_goes_no_further_than_asked(self, store: ListableLogStore) -> None:
        await write(store, *(first(f"r{i:03}", status="idle", at=float(i), release=True) for i in range(450)))

        some = await store.purge(before=1000.0, statuses=["idle"], limit=3)
        rest = await store.purge(before=440.0, statuses=["idle"])

        assert (some, rest) == (3, 437)
        assert len(await store.list()) == 10

    @opened
    async def test_purging_leaves_what_is_owned(self, store: ListableLogStore) -> None:
        await write(store, first("held", status="completed"), first("free", status="completed", release=True))

        assert await store.purge(before=5.0) == 1
        assert await store.exists("held")

    @opened
    async def test_unfinished_work_is_never_purged(self, store: ListableLogStore) -> None:
        unfinished: tuple[RunStatus, ...] = ("running", "waiting", "parked")
        for status in unfinished:
            with pytest.raises(InvalidStoreOption, match=status):
                await store.purge(before=5.0, statuses=["completed", status])
