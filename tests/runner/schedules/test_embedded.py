"""Schedules of a runner on a file and in memory, mostly on virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from weft import AsyncRunner, Runner, Workflow, step, wait_for
from weft.errors import InvalidOption, ScheduleNotFound, UnencodableValue
from weft.runner.schedules import rows
from weft.runner.schedules.loop import TRIED_AGAIN
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import run_virtually

EPOCH = datetime(2026, 11, 18, 2, 30, tzinfo=UTC)


class LoopClock:
    """The time of day, as the loop counts it."""

    def time(self) -> float:
        return EPOCH.timestamp() + asyncio.get_running_loop().time()


def runner_on(store: MemoryStore) -> AsyncRunner:
    return AsyncRunner(store, executor="inline", clock=LoopClock())


def collecting() -> tuple[Workflow[Any, Any], list[Any]]:
    """Return a workflow that keeps its inputs."""
    seen: list[Any] = []
    return Workflow("report", step(seen.append, name="keep")), seen


def until(done: Callable[[], bool]) -> Any:
    """Wait until something holds, on virtual time."""

    async def main() -> None:
        while not done():  # noqa: ASYNC110 - another task decides when
            await asyncio.sleep(20)

    return main()


def test_a_cron_schedule_starts_a_run_at_each_of_its_times() -> None:
    async def main() -> None:
        flow, seen = collecting()
        async with runner_on(MemoryStore()) as runner:
            status = await runner.schedule("nightly", flow, cron="0 3 * * *")
            assert status.next_at == datetime(2026, 11, 18, 3, tzinfo=UTC)
            await until(lambda: len(seen) == 3)

            assert seen == [datetime(2026, 11, day, 3, tzinfo=UTC) for day in (18, 19, 20)]
            assert [each.id for each in await runner.runs()] == [
                f"nightly@2026-11-{day}T03:00:00Z" for day in (20, 19, 18)
            ]
            (found,) = await runner.schedules()
            assert (found.fired, found.last_run, found.problem) == (3, "nightly@2026-11-20T03:00:00Z", "")

    run_virtually(main())


def test_a_schedule_goes_on_after_a_restart_and_makes_up_for_the_last_time_that_was_missed() -> None:
    store = MemoryStore()
    flow, seen = collecting()

    async def main() -> None:
        async with runner_on(store) as runner:
            await runner.schedule("hourly", flow, every=3600)
            await until(lambda: len(seen) == 1)
        await asyncio.sleep(5.5 * 3600)
        async with runner_on(store) as runner:
            await runner.schedule("hourly", flow, every=timedelta(hours=1))
            await until(lambda: len(seen) == 3)

    run_virtually(main())
    assert [at.hour for at in seen] == [3, 8, 9]


def test_the_input_is_the_one_that_was_given() -> None:
    async def main() -> None:
        flow, seen = collecting()
        async with runner_on(MemoryStore()) as runner:
            await runner.schedule("often", flow, every=100, input={"a": (1, 2)}, jitter=3.0)
            await until(lambda: len(seen) == 2)
            assert seen == [{"a": (1, 2)}] * 2

    run_virtually(main())


def test_one_time_fires_once_also_if_it_is_declared_again() -> None:
    async def main() -> None:
        flow, seen = collecting()
        async with runner_on(MemoryStore()) as runner:
            for _ in range(3):
                status = await runner.schedule("once", flow, at=EPOCH + timedelta(seconds=30))
                await asyncio.sleep(60)
            assert seen == [EPOCH + timedelta(seconds=30)]
            assert status.next_at is None

    run_virtually(main())


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel", "allow"])
def test_a_run_that_lasts_is_skipped_queued_cancelled_or_joined(overlap: Any) -> None:
    async def main() -> None:
        flow = Workflow("slow", wait_for("go"))
        async with runner_on(MemoryStore()) as runner:
            await runner.schedule("s", flow, every=60, overlap=overlap)
            await asyncio.sleep(190)
            statuses = [each.status for each in await runner.runs()]
            (found,) = await runner.schedules()
            if overlap == "skip":
                assert statuses == ["waiting"]
                assert found.skipped == 2
            elif overlap == "queue":
                assert statuses == ["waiting"]
                assert found.pending == 2
                (only,) = await runner.runs()
                await runner.signal(only.id, "go", 1)
                await asyncio.sleep(5)
                assert [each.status for each in await runner.runs()] == ["waiting", "completed"]
            elif overlap == "cancel":
                assert statuses == ["waiting", "cancelled", "cancelled"]
            else:
                assert statuses == ["waiting"] * 3

    run_virtually(main())


def test_a_paused_schedule_fires_nothing_and_goes_on_from_now() -> None:
    async def main() -> None:
        flow, seen = collecting()
        async with runner_on(MemoryStore()) as runner:
            await runner.schedule("s", flow, every=60)
            await runner.pause("s")
            await asyncio.sleep(600)
            assert seen == []
            assert [each.is_paused for each in await runner.schedules()] == [True]
            await runner.unpause("s")
            await asyncio.sleep(125)

            assert seen == [EPOCH + timedelta(seconds=660), EPOCH + timedelta(seconds=720)]

    run_virtually(main())


def test_a_backfill_starts_what_was_not_started_before() -> None:
    async def main() -> None:
        flow, seen = collecting()
        async with runner_on(MemoryStore()) as runner:
            await runner.schedule("s", flow, every=60, overlap="allow")
            await until(lambda: len(seen) == 2)
            span = (EPOCH - timedelta(seconds=180), EPOCH + timedelta(seconds=120))

            assert await runner.backfill("s", *span) == 5
            assert await runner.backfill("s", *span) == 5
            await asyncio.sleep(5)

            assert sorted(seen) == [EPOCH + timedelta(seconds=60 * number) for number in range(-2, 3)]
            with pytest.raises(InvalidOption, match="begins before"):
                await runner.backfill("s", EPOCH, EPOCH)
            with pytest.raises(InvalidOption, match="several shorter"):
                await runner.backfill("s", 0, EPOCH)

    run_virtually(main())


def test_a_process_that_died_after_its_decision_is_followed_by_another() -> None:
    """The row says which runs were decided; another process starts them, and nothing else, before it decides."""
    store = MemoryStore()
    flow, seen = collecting()

    async def main() -> None:
        async with runner_on(store) as runner:
            await runner.schedule("s", flow, every=3600)
        async with store:
            (row,) = await store.list_schedules()
            found = rows.kept(row)
            at = EPOCH.timestamp() - 60
            left = replace(found.state, starting=(at,), last_run="s@left")
            await store.put_schedule(rows.stored(found.schedule, left, EPOCH.timestamp(), row.revision))
        async with runner_on(store) as runner:
            await runner.schedule("s", flow, every=3600)
            await until(lambda: bool(seen))
            await asyncio.sleep(1)
            assert seen == [EPOCH - timedelta(seconds=60)]
            (row,) = await store.list_schedules()
            assert rows.kept(row).state.starting == ()

    run_virtually(main())


def test_a_schedule_that_cannot_fire_says_why_and_holds_up_no_other() -> None:
    async def main() -> None:
        flow, seen = collecting()
        store = MemoryStore()
        async with runner_on(store) as runner:
            await runner.schedule("bad", flow, every=60, input=1)
            await runner.schedule("good", flow, every=60, input=2)
            (row, _) = await store.list_schedules()
            found = rows.kept(row)
            broken = replace(found.schedule, input=b"nonsense")
            await store.put_schedule(rows.stored(broken, found.state, EPOCH.timestamp(), row.revision))
            await asyncio.sleep(70)

            assert seen == [2]
            (bad, good) = await runner.schedules()
            assert "CorruptLog" in bad.problem
            assert good.problem == ""
            await runner.schedule("bad", flow, every=60, input=1)
            await asyncio.sleep(TRIED_AGAIN)
            assert 1 in seen
            assert [each.problem for each in await runner.schedules()] == ["", ""]

    run_virtually(main())


def test_schedules_of_a_file_outlive_its_runner(tmp_path: Path) -> None:
    flow, seen = collecting()
    with Runner(SQLiteStore(tmp_path / "runs.db"), executor="inline") as runner:
        runner.schedule("once", flow, at=1.0, input=5)
        while not runner.runs():
            time.sleep(0.01)
        assert runner.result("once@1970-01-01T00:00:01Z", timeout=60) is None
        runner.schedule("daily", flow, cron="0 3 * * *", timezone="Europe/Berlin")
        runner.pause("daily")
    with Runner(tmp_path / "runs.db") as runner:
        assert [(each.name, each.is_paused) for each in runner.schedules()] == [("daily", True), ("once", False)]
        assert len(runner.next_firings("daily", 3)) == 3
        runner.unschedule("daily")
        with pytest.raises(ScheduleNotFound, match="daily"):
            runner.unpause("daily")
        with pytest.raises(ScheduleNotFound, match="schedules"):
            runner.unschedule("daily")
    assert seen == [5]


def test_several_runners_on_one_file_start_each_run_once(tmp_path: Path) -> None:
    flow, seen = collecting()

    async def main() -> None:
        runners = [AsyncRunner(SQLiteStore(tmp_path / "runs.db"), executor="inline") for _ in range(3)]
        async with asyncio.timeout(60), runners[0], runners[1], runners[2]:
            for runner in runners:
                await runner.schedule("often", flow, every=1, overlap="allow")
            while len(seen) < 4:  # noqa: ASYNC110 - other tasks decide when
                await asyncio.sleep(0.01)
            assert await runners[0].count() >= 4

    asyncio.run(main())
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "one of cron"),
        ({"cron": "0 3 * * *", "every": 5}, "one of cron"),
        ({"cron": "3"}, "not a cron expression"),
        ({"every": 0}, "at least 1"),
        ({"every": "1 h"}, "use seconds"),
        ({"at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is refused
        ({"every": 5, "overlap": "join"}, "overlap='join'"),
        ({"every": 5, "jitter": -1}, "jitter=-1"),
        ({"every": 5, "tolerance": 0}, "tolerance=0: use seconds, 1 or more"),
        ({"every": 5, "catch_up": True}, "catch_up=True"),
        ({"every": 5, "catch_up": 1_000_000}, "catch_up=1000000"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(given: dict[str, Any], why: str) -> None:
    flow, _ = collecting()
    with Runner() as runner, pytest.raises(InvalidOption, match=why):
        runner.schedule("s", flow, **given)


def test_an_input_that_cannot_be_stored_is_refused() -> None:
    flow, _ = collecting()
    with Runner() as runner, pytest.raises(UnencodableValue):
        runner.schedule("s", flow, every=5, input=object())
