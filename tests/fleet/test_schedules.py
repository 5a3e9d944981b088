"""Schedules of a fleet: several workers, one firing for each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import fleet_flows as flows
import pytest
from msgspec.structs import replace
from processes import workers

from weft import AsyncClient, Client, registry
from weft.errors import ScheduleNotFound
from weft.fleet import FleetWorker
from weft.ports.schedules import DueSchedules
from weft.runner.schedules import loop, rows
from weft.runner.schedules.timing import firing_id
from weft.stores import PostgresStore

NOON = 1_790_000_000 // 86_400 * 86_400 + 43_200.0


def with_workers(dsn: str, count: int, act: Callable[[AsyncClient], Awaitable[None]]) -> None:
    """Do something with a client while so many workers work."""

    async def main() -> None:
        made = [FleetWorker(dsn, registry.workflows()) for _ in range(count)]
        async with asyncio.timeout(90), AsyncExitStack() as stack:
            client = await stack.enter_async_context(AsyncClient(dsn))
            working = [asyncio.create_task(each.run()) for each in made]
            try:
                await act(client)
            finally:
                for each in made:
                    each.stop()
                await asyncio.gather(*working)

    asyncio.run(main())


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    while not (answer := await found()):  # noqa: ASYNC110 - another task decides when
        await asyncio.sleep(0.02)
    return answer


def test_a_schedule_that_is_changed_to_be_due_earlier_is_fired_then(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is not notified looks after ten seconds; here never."""
    monkeypatch.setattr(loop, "POLL", 3600.0)
    known: list[float] = []
    ask = PostgresStore.due_schedules

    async def asked(store: PostgresStore, *arguments: Any, **named: Any) -> DueSchedules:
        answer = await ask(store, *arguments, **named)
        known.append(answer.next_at)
        return answer

    monkeypatch.setattr(PostgresStore, "due_schedules", asked)

    async def act(client: AsyncClient) -> None:
        await client.schedule("daily", "chain", every=86_400, input=1)

        async def is_known() -> bool:
            return known[-1:] != [float("inf")]

        await until(is_known)
        await client.pause("daily")
        await client.schedule("daily", "chain", every=2, input=1)
        await client.unpause("daily")

        async def has_fired() -> bool:
            return await client.count(status="completed") > 0

        await until(has_fired)

    with_workers(dsn, 1, act)


def test_each_time_is_started_once_by_several_workers(dsn: str) -> None:
    async def act(client: AsyncClient) -> None:
        await client.schedule("often", "chain", every=1, input=1, overlap="allow", jitter=0.5)

        async def enough() -> bool:
            return await client.count(status="completed") >= 4

        await until(enough)
        await client.pause("often")
        found = await client.runs()
        assert all(each.id.startswith("often@") for each in found)
        assert len({each.id for each in found}) == len(found)
        (status,) = await client.schedules()
        assert status.is_paused
        assert status.problem == ""
        first = await client.log(found[-1].id)
        assert first[0].by == "schedule often"  # type: ignore[union-attr]

    with_workers(dsn, 3, act)


def test_a_backfill_is_done_by_the_workers_one_after_the_other(dsn: str) -> None:
    async def act(client: AsyncClient) -> None:
        await client.schedule("daily", flows.chain, cron="0 12 * * *", input=3)
        assert await client.backfill("daily", NOON - 3 * 86_400, NOON) == 3

        results = [await client.result(run, timeout=60) for run in await until(lambda: _ids(client, 3))]
        assert results == [5, 5, 5]
        assert {each.id for each in await client.runs()} == {
            firing_id("daily", NOON - days * 86_400) for days in range(3)
        }

    with_workers(dsn, 2, act)


async def _ids(client: AsyncClient, count: int) -> list[str] | None:
    found = [each.id for each in await client.runs()]
    return found if len(found) == count else None


def test_what_a_dead_worker_has_decided_is_started_by_another(dsn: str) -> None:
    """The row is what a process leaves behind that dies between its decision and the start."""

    async def main() -> None:
        async with AsyncClient(dsn) as client, PostgresStore(dsn) as store:
            await client.schedule("daily", "chain", cron="0 12 * * *", input=3)
            (row,) = await store.list_schedules()
            found = rows.kept(row)
            left = replace(found.state, starting=(NOON,), last_run=firing_id("daily", NOON))
            await store.put_schedule(rows.stored(found.schedule, left, time.time() - 60, row.revision))

    asyncio.run(main())

    async def act(client: AsyncClient) -> None:
        (run,) = await until(lambda: _ids(client, 1))
        assert run == firing_id("daily", NOON)
        assert await client.result(run, timeout=60) == 5

    with_workers(dsn, 2, act)


def test_a_schedule_of_a_workflow_that_no_worker_knows_is_left_alone(dsn: str) -> None:
    async def act(client: AsyncClient) -> None:
        await client.schedule("unknown", "elsewhere", at=1.0)
        await client.schedule("known", "chain", at=1.0, input=1)

        (run,) = await until(lambda: _ids(client, 1))
        assert run.startswith("known@")
        assert await client.result(run, timeout=60) == 1
        by_name = {each.name: each for each in await client.schedules()}
        assert (by_name["known"].fired, by_name["unknown"].fired, by_name["unknown"].problem) == (1, 0, "")
        with pytest.raises(ScheduleNotFound, match="nothing"):
            await client.pause("nothing")

    with_workers(dsn, 1, act)


def test_workers_that_are_killed_lose_and_repeat_no_time(dsn: str, tmp_path: Path) -> None:
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        client.schedule("often", "chain", every=1, input=1, overlap="allow", tolerance=600)
        begun = client.schedules()[0]
        fleet.start()
        fleet.start()
        end = time.monotonic() + 60
        while client.count() < 3:
            assert time.monotonic() < end
            time.sleep(0.01)
        for process in list(fleet.started):
            process.kill()
        fleet.start()
        while client.count() < 5:
            assert time.monotonic() < end
            time.sleep(0.01)
        client.pause("often")

        def all_done() -> bool:
            return client.count(status="completed") == client.count()

        while not all_done():
            assert time.monotonic() < end
            time.sleep(0.01)
        (status,) = client.schedules()
        assert begun.next_at is not None
        assert status.last_at is not None
        first = begun.next_at.timestamp()
        expected = {firing_id("often", first + number) for number in range(int(status.last_at.timestamp() - first) + 1)}
        assert {each.id for each in client.runs(limit=1000)} == expected
