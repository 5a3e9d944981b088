"""The loop that fires schedules, while callers change them."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from weft.runner.schedules import rows
from weft.runner.schedules.decision import Schedule, ScheduleState
from weft.runner.schedules.loop import ScheduleLoop
from weft.runner.schedules.timing import Every
from weft.stores import MemoryStore

NOW = 1_790_000_000.0


def test_a_schedule_that_is_paused_while_it_fires_is_done_with_that_firing_at_once() -> None:
    async def main() -> None:
        async with MemoryStore() as store:
            schedule, started = Schedule(name="often", workflow="report", timing=Every(60.0)), list[float]()
            await store.put_schedule(rows.stored(schedule, ScheduleState(cursor=NOW - 60.0), NOW, 0))

            async def start(_: Schedule, at: float) -> None:
                started.append(at)
                (row,) = await store.list_schedules("often")
                state = replace(rows.kept(row).state, is_paused=True)
                assert state.starting == (at,)
                assert await store.put_schedule(rows.stored(schedule, state, NOW, row.revision))

            async def cancel(_: str, __: str) -> None:
                raise AssertionError

            async def is_finished(_: str) -> bool:
                return True

            await ScheduleLoop(store, lambda: {"report"}, start, cancel, is_finished, lambda: NOW).poll()

            (row,) = await store.list_schedules("often")
            state = rows.kept(row).state
            assert (len(started), state.fired, state.starting, state.is_paused) == (1, 1, (), True)
            assert row.look_at == float("inf")

    asyncio.run(main())
