"""A runner on a store that can only put and get whole logs."""

from __future__ import annotations

import asyncio

import pytest

from weft import Runner, Workflow, step
from weft.errors import BrokenChain, CorruptLog, InvalidOption, RunExists, RunNotFound
from weft.ports.store import LoadedRun, LogStore, RunRecord, Segment, Store
from weft.stores.whole_log import WholeLogAdapter
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
