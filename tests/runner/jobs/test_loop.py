"""The loop that drives jobs: each run has one message, whatever happens to the processes that drive them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core import events as ev
from weft.errors import StoreError, StoreUnavailable
from weft.log.messages import decode_message
from weft.ports.jobs import StoredJob
from weft.ports.store import Message, RunRecord, RunStatus
from weft.runner.jobs import rows
from weft.runner.jobs.decision import Job, Operation, Place, RunFilter, paused, reason_of
from weft.runner.jobs.loop import LEASE, JobLoop
from weft.stores import MemoryStore
from weft.testing.contracts.cases import first, write

STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)


class Dead(BaseException):
    """The process dies here."""


class Failing(MemoryStore):
    """A store whose callers die or are disconnected, before or after a row is written."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    async def put_job(self, row: StoredJob, messages: Sequence[Message] = ()) -> Sequence[int | StoreError] | None:
        fault = self.faults.pop() if self.faults else ""
        if fault == "dies before":
            raise Dead
        if fault == "gone before":
            raise StoreUnavailable("the store", "gone")
        answers = await super().put_job(row, messages)
        if fault == "dies after":
            raise Dead
        if fault == "gone after":
            raise StoreUnavailable("the store", "gone")
        return answers


async def started(store: MemoryStore, operation: Operation, chosen: RunFilter | None = None) -> None:
    newest = await store.list(limit=1)
    job = Job(
        operation=operation,
        filter=chosen or RunFilter(),
        newest=Place(newest[0].created_at, newest[0].id) if newest else None,
        matched=0,
    )
    await store.put_job(rows.stored(StoredJob(id="j", created_at=0.0, look_at=0.0, body=b""), job, 0.0))


async def found(store: MemoryStore) -> Job:
    (row,) = await store.list_jobs("j")
    return rows.kept(row)


CANCEL = Operation(kind="cancel", message=rows.message_of("j", Operation(kind="cancel", reason="late"), None, 0.0))


@settings(max_examples=60, deadline=None)
@given(
    statuses=st.lists(st.sampled_from(STATUSES), max_size=12),
    faults=st.lists(st.sampled_from(["", "", "dies before", "dies after", "gone before", "gone after"]), max_size=8),
    size=st.integers(1, 4),
)
def test_each_run_has_one_message_whenever_drivers_die(statuses: list[RunStatus], faults: list[str], size: int) -> None:
    async def main() -> None:
        store, now = Failing(), [1000.0]
        async with store:
            await write(store, *(first(f"r{n}", at=float(n // 3), status=status) for n, status in enumerate(statuses)))
            await started(store, CANCEL)
            store.faults = list(faults)
            for number in range(len(faults) + 2):
                with suppress(Dead, StoreUnavailable):
                    await JobLoop(store, f"driver {number}", lambda: now[0], page=size).poll()
                now[0] += LEASE + 1
            job = await found(store)
            messages = Counter(each.run for each in await store.messages([f"r{n}" for n in range(len(statuses))]))

        wanted = [f"r{n}" for n, each in enumerate(statuses) if each not in ("completed", "failed", "cancelled")]
        assert job.state == "completed"
        assert messages == Counter(wanted)
        assert (job.sent, job.visited) == (len(wanted), len(statuses))

    asyncio.run(main())


def on_memory(act: Any) -> None:
    async def main() -> None:
        async with Failing() as store:
            await act(store)

    asyncio.run(main())


def test_two_drivers_at_once_send_nothing_twice() -> None:
    async def act(store: Failing) -> None:
        await write(store, *(first(f"r{n:02}", at=1.0) for n in range(40)))
        await started(store, CANCEL)

        await asyncio.gather(*(JobLoop(store, f"d{n}", lambda: 5.0, page=3).poll() for n in range(4)))

        assert (await found(store)).sent == 40
        assert (
            Counter(each.run for each in await store.messages([f"r{n:02}" for n in range(40)])).most_common(1)[0][1]
            == 1
        )

    on_memory(act)


def test_a_run_that_was_created_later_is_not_touched_and_the_filter_is_judged_when_its_turn_comes() -> None:
    async def act(store: Failing) -> None:
        await write(store, first("old", at=1.0), first("older", at=0.5), first("done", at=0.7, status="completed"))
        await started(store, CANCEL, RunFilter(statuses=("running",)))
        await write(store, first("new", at=2.0), first("same time", at=1.0))

        await JobLoop(store, "d", lambda: 5.0).poll()

        job = await found(store)
        assert (job.sent, job.skipped) == (2, {})
        assert {each.run for each in await store.messages(["new", "old", "older", "same time", "done"])} == {
            "old",
            "older",
        }

    on_memory(act)


def test_a_run_that_is_deleted_between_its_page_and_its_message_is_counted_as_such() -> None:
    async def act(store: Failing) -> None:
        await write(store, first("a", at=1.0), first("b", at=2.0))
        await started(store, CANCEL)
        listed = store.list

        async def gone(**asked: Any) -> Sequence[RunRecord]:
            page = await listed(**asked)
            if await store.exists("a"):
                await store.delete("a")
            return page

        store.list = gone  # type: ignore[method-assign,assignment]

        await JobLoop(store, "d", lambda: 5.0).poll()

        job = await found(store)
        assert (job.state, job.sent, job.skipped) == ("completed", 1, {"was deleted meanwhile": 1})

    on_memory(act)


def test_a_job_that_is_paused_meanwhile_sends_nothing_more() -> None:
    async def act(store: Failing) -> None:
        await write(store, *(first(f"r{n}", at=float(n)) for n in range(6)))
        await started(store, CANCEL)
        listed = store.list

        async def pause_first(**asked: Any) -> Sequence[RunRecord]:
            if asked["after"].id == "r4":
                (row,) = await store.list_jobs("j")
                await store.put_job(rows.stored(row, paused(rows.kept(row)), 0.0))
            return await listed(**asked)

        store.list = pause_first  # type: ignore[method-assign,assignment]

        await JobLoop(store, "d", lambda: 5.0, page=2).poll()

        job = await found(store)
        assert (job.state, job.sent) == ("paused", 2)
        assert (await store.due_jobs(1e9)).found == ()

    on_memory(act)


def test_a_driver_that_stops_leaves_the_job_to_the_next_one_at_once() -> None:
    async def act(store: Failing) -> None:
        await write(store, *(first(f"r{n}", at=float(n)) for n in range(6)))
        await started(store, CANCEL)
        loop = JobLoop(store, "d", lambda: 5.0, page=2)
        listed = store.list

        async def stop_then(**asked: Any) -> Sequence[RunRecord]:
            loop.stop()
            return await listed(**asked)

        store.list = stop_then  # type: ignore[method-assign,assignment]
        await loop.poll()
        store.list = listed  # type: ignore[method-assign]

        assert (await found(store)).sent == 2
        await JobLoop(store, "e", lambda: 6.0, page=2).poll()
        job = await found(store)
        assert (job.state, job.sent, job.driver) == ("completed", 6, "e")

    on_memory(act)


def test_a_page_that_cannot_be_read_is_told_and_tried_again() -> None:
    async def act(store: Failing) -> None:
        await write(store, first("a", at=1.0))
        await started(store, CANCEL)
        listed = store.list

        async def damaged(**_: Any) -> Sequence[RunRecord]:
            raise StoreError("row 7 is damaged")

        store.list = damaged  # type: ignore[method-assign,assignment]
        await JobLoop(store, "d", lambda: 5.0).poll()
        job = await found(store)
        assert (job.state, job.problem) == ("running", "StoreError: row 7 is damaged")

        store.list = listed  # type: ignore[method-assign]
        await JobLoop(store, "d", lambda: 50.0).poll()
        job = await found(store)
        assert (job.state, job.problem, job.sent) == ("completed", "", 1)

    on_memory(act)


def test_a_retry_names_how_far_the_run_has_come() -> None:
    async def act(store: Failing) -> None:
        await write(store, first("a", at=1.0, status="failed"))
        await started(store, Operation(kind="retry", component="charge", by="ada"))

        await JobLoop(store, "d", lambda: 5.0).poll()

        (message,) = await store.messages(["a"])
        assert message.kind == "retry"
        assert decode_message(message.body) == ev.RunnableRetried(1, "charge", (), None, None, "ada")

    on_memory(act)


@pytest.mark.parametrize("status", STATUSES)
def test_a_job_visits_what_its_filter_matches(status: RunStatus) -> None:
    async def act(store: Failing) -> None:
        await write(store, *(first(each, at=float(n), status=each) for n, each in enumerate(STATUSES)))
        await started(store, CANCEL, RunFilter(statuses=(status,)))

        await JobLoop(store, "d", lambda: 5.0, page=1).poll()

        job = await found(store)
        assert job.visited == 1
        assert job.sent == (reason_of("cancel", await store.find(status)) is None)

    on_memory(act)
