"""Many stored runs that are brought back at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from virtual_time import GatedStore, double, now, runner_on, virtually

from weft.runner import slices
from weft.stores import MemoryStore

COUNT = 60


@asynccontextmanager
async def interrupted(count: int) -> AsyncIterator[MemoryStore]:
    """Yield a store with *count* runs whose step was left in flight."""
    async with MemoryStore() as store:
        async with runner_on(store, lasts=100.0, grace=0.0) as runner:
            await runner.start_many(double, range(count), ids=[f"r{i:02}" for i in range(count)])
        yield store


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return when the thread of the loop has slept to let others run."""
    slept: list[float] = []
    monkeypatch.setattr(slices, "let_threads_run", lambda: slept.append(now()))
    return slept


def test_while_nothing_is_written_the_thread_does_not_sleep_between_two_runs(sleeps: list[float]) -> None:
    async def act() -> None:
        async with interrupted(COUNT) as store, runner_on(store, lasts=100.0, grace=0.0) as runner:
            sleeps.clear()
            runner.register(double)

            assert len(await runner.resume_all()) == COUNT
            assert sleeps == []

    virtually(act)()


@pytest.mark.parametrize("in_a_thread", [True, False])
def test_while_a_thread_writes_the_loop_lets_it_run(sleeps: list[float], *, in_a_thread: bool) -> None:
    async def act() -> None:
        async with interrupted(COUNT) as inner:
            store = GatedStore(inner)
            store.writes_in_a_thread = in_a_thread  # type: ignore[attr-defined]
            async with runner_on(store, lasts=100.0, grace=0.0) as runner:
                runner.register(double)
                gate = store.hold("append", times=1)
                other = asyncio.create_task(runner.start(double, 1, id="other"))
                await gate.reached.wait()
                sleeps.clear()

                assert len(await runner.resume_all()) == COUNT
                assert bool(sleeps) == in_a_thread
                gate.open()
                await other

    virtually(act)()


@virtually
async def test_other_tasks_have_their_turn_while_a_page_of_runs_comes_in() -> None:
    async with interrupted(COUNT) as store, runner_on(store, lasts=100.0, grace=0.0) as runner:
        runner.register(double)
        seen: list[int] = []

        async def look() -> None:
            while True:
                seen.append(len(runner.held))
                await asyncio.sleep(0)

        looks = asyncio.create_task(look())
        await runner.resume_all()
        looks.cancel()

        assert len({count for count in seen if 0 < count < COUNT}) >= 3
