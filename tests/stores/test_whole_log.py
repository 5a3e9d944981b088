"""A runner on a store that can only put and get whole logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from weft import AsyncRunner, Runner, Workflow, step
from weft.errors import (
    BrokenChain,
    CorruptLog,
    InvalidOption,
    InvalidStoreOption,
    RunExists,
    RunNotFound,
    RunOwned,
)
from weft.ports.store import AT_REST, FINISHED, LoadedRun, LogStore, RunRecord, Segment, Store
from weft.stores.whole_log import WholeLogAdapter, as_log_store
from weft.testing import ListableStoreContract
from weft.testing.contracts.cases import first, more


class Shelf:
    """The least that a store can be."""

    def __init__(self) -> None:
        self.is_open = False
        self.logs: dict[str, tuple[RunRecord, bytes]] = {}

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False

    async def save(self, record: RunRecord, body: bytes) -> None:
        self.logs[record.id] = (record, body)

    async def load(self, run: str) -> LoadedRun:
        if run not in self.logs:
            raise RunNotFound(run)
        record, body = self.logs[run]
        return LoadedRun(record, [Segment(1, record.head, body)])


grow = step(lambda n: "x" * n, name="grow")
size = step(len, name="size")
workflow = Workflow("sizes", grow >> size)


def test_the_least_is_a_store_and_no_log_store() -> None:
    assert isinstance(Shelf(), Store)
    assert not isinstance(Shelf(), LogStore)


def test_runs_outlive_the_runner_with_their_large_values() -> None:
    shelf = Shelf()
    with Runner(shelf) as runner:
        assert runner.start(workflow, 5_000, id="a", open=True).result(20) == 5_000

    with Runner(shelf) as runner:
        runner.resume("a", workflow=workflow)
        assert runner.get("a").value("grow") == "x" * 5_000
        runner.send("a", 7)
        assert runner.wait("a", 20).values("size") == [5_000, 7]
    assert shelf.logs["a"][0].head == 7


def test_an_id_that_is_taken_is_refused() -> None:
    shelf = Shelf()
    with Runner(shelf) as runner:
        runner.start(workflow, 5, id="a").wait(20)

    with Runner(shelf) as runner:
        with pytest.raises(RunExists):
            runner.start(workflow, id="a", if_exists="error")
        assert runner.start(workflow, 6, id="a", if_exists="return").result(20) == 5


def test_what_it_cannot_do_is_said_so() -> None:
    with Runner(Shelf()) as runner:
        with pytest.raises(InvalidOption, match="which runs are free"):
            runner.resume_all()
        with pytest.raises(InvalidOption, match="cannot list"):
            [each.id for each in runner.runs()]


def test_what_is_not_a_log_is_refused() -> None:
    shelf = Shelf()
    with Runner(shelf) as runner:
        runner.start(workflow, 5, id="a").wait(20)
    shelf.logs["a"] = (shelf.logs["a"][0], b"junk")

    with Runner(shelf) as runner, pytest.raises(CorruptLog):
        runner.resume("a", workflow=workflow)


def test_the_record_says_what_came_of_the_run_until_the_next_status() -> None:
    shelf = Shelf()

    async def main() -> list[RunRecord]:
        logs = WholeLogAdapter(shelf)
        batch = [
            first("r", at=1.0),
            more("r", 1, status="failed", reason="why", failures=2, dead_letters=1, outcome=b"errors", at=2.0),
            more("r", 2, at=3.0),
            more("r", 3, status="running", at=4.0),
        ]
        records = list[RunRecord]()
        for each in batch:
            assert await logs.append([each]) == [None]
            records.append(shelf.logs["r"][0])
        return records

    _, failed, later, again = asyncio.run(main())
    for record in (failed, later):
        assert (record.status, record.reason, record.failures, record.dead_letters) == ("failed", "why", 2, 1)
        assert (record.outcome, record.finished_at) == (b"errors", 2.0)
    assert (again.status, again.reason, again.failures, again.dead_letters) == ("running", "", 0, 0)
    assert (again.outcome, again.finished_at) == (b"", None)


def test_events_that_follow_another_link_than_the_last_one_are_refused() -> None:
    async def main() -> list[type]:
        logs = WholeLogAdapter(Shelf())
        batch = [
            first("r", b"a", chain=b"h1", previous=b""),
            more("r", 1, b"b", chain=b"h2", previous=b"h0"),
            more("r", 1, b"b", chain=b"h2", previous=b"h1"),
        ]
        return [type(each) for each in await logs.append(batch)]

    assert asyncio.run(main()) == [type(None), BrokenChain, type(None)]


# -- stores that can list ----------------------------------------------------------------------------


class Catalogue(Shelf):
    """One that can list what it has."""

    def _asked(self, **asked: Any) -> list[RunRecord]:
        statuses, workflow, failed, since = (asked[name] for name in ("statuses", "workflow", "failed", "since"))
        found = [
            record
            for record, _ in self.logs.values()
            if (statuses is None or record.status in statuses)
            and (workflow is None or record.workflow == workflow)
            and (failed is None or failed == (record.failures > 0))
            and (since is None or record.created_at >= since)
        ]
        return sorted(found, key=lambda record: (record.created_at, record.id), reverse=True)

    async def exists(self, run: str) -> bool:
        return run in self.logs

    async def find(self, run: str) -> RunRecord:
        return (await self.load(run)).record

    async def list(self, *, after: RunRecord | None = None, limit: int = 100, **asked: Any) -> Sequence[RunRecord]:
        found = self._asked(**asked)
        if after is not None:
            found = [each for each in found if (each.created_at, each.id) < (after.created_at, after.id)]
        return found[:limit]

    async def count(self, **asked: Any) -> int:
        return len(self._asked(**asked))

    async def delete(self, run: str) -> None:
        await self.load(run)
        del self.logs[run]

    async def purge(self, *, before: float, statuses: Collection[str] = FINISHED, limit: int | None = None) -> int:
        if not set(statuses) <= AT_REST:
            raise InvalidStoreOption(f"runs with work left: {statuses}")
        old = [record for record, _ in self.logs.values() if record.status in statuses and record.updated_at < before]
        for record in sorted(old, key=lambda record: (record.created_at, record.id))[:limit]:
            del self.logs[record.id]
        return len(old) if limit is None else min(limit, len(old))


class TestListableWholeLogAdapter(ListableStoreContract):
    @pytest.fixture
    def store(self) -> WholeLogAdapter:
        return as_log_store(Catalogue())

    test_purging_leaves_what_is_owned: Any = None
    """Such a store knows no owners."""


def test_a_store_that_can_list_its_runs_is_asked_for_them() -> None:
    with Runner(Catalogue()) as runner:
        for number, run in enumerate("abc"):
            runner.start(workflow, number, id=run).wait(20)

        assert {record.id for record in runner.runs()} == {"a", "b", "c"}
        assert (runner.count(status="completed"), runner.find("b").status) == (3, "completed")
        runner.delete("b")
        with pytest.raises(RunNotFound):
            runner.get("b")
        assert runner.start(workflow, 7, id="b").result(20) == 7
        assert runner.purge(before=time.time() + 1) == 3
        assert runner.runs() == []


def test_a_store_that_cannot_list_is_named_in_the_error_and_so_is_what_it_lacks() -> None:
    with Runner(Shelf()) as runner, pytest.raises(InvalidOption, match=r"^Shelf cannot list .*ListableStore$"):
        runner.runs()


def test_runners_that_share_a_store_see_what_the_others_have_written_and_take_nothing_from_them() -> None:
    shelf = Shelf()

    async def main() -> None:
        await shelf.open()
        async with AsyncRunner(shelf) as mine, AsyncRunner(shelf) as other:
            await mine.start(workflow, 3, id="a", open=True)
            assert await other.status("a") in ("running", "idle")
            with pytest.raises(RunOwned):
                await other.resume("a", workflow=workflow)
            await mine.stop("a")
            await other.resume("a", workflow=workflow)
            assert await (await other.send("a", 4)).result() == 4

    asyncio.run(main())
    assert shelf.logs["a"][0].head == 7


def test_a_run_that_has_finished_leaves_no_log_in_memory() -> None:
    async def main() -> int:
        logs = as_log_store(Shelf())
        async with AsyncRunner(logs.adapted) as runner:
            await (await runner.start(workflow, 3)).result()
            return len(logs._known)

    assert asyncio.run(main()) == 0


def test_a_store_that_keeps_no_unique_keys_says_so() -> None:
    with Runner(Shelf()) as runner, pytest.raises(InvalidOption, match="this store keeps no unique keys; use a SQLite"):
        runner.start(Workflow("w", step(abs)), 1, unique="k")
