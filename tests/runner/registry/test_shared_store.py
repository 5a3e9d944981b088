"""Several runners that were handed the same open store: each owns its own runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from callers import started
from virtual_time import GatedStore, double, runner_on, until_nothing_moves, virtually

from weft import AsyncRunner
from weft.errors import RunClosed, RunExists, RunOwned
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import run_virtually

Taking = Callable[[AsyncRunner], Awaitable[Any]]
TAKEN: dict[str, Taking] = {
    "resume": lambda runner: runner.resume("a", workflow=double),
    "delete": lambda runner: runner.delete("a"),
}


@pytest.mark.parametrize("how", TAKEN)
@virtually
async def test_a_run_that_another_runner_drives_is_not_taken_from_it(how: str) -> None:
    async with MemoryStore() as store, runner_on(store) as mine, runner_on(store) as other:
        await mine.start(double, 1, id="a", open=True)
        await mine.wait("a")

        with pytest.raises(RunOwned, match="another runner of this process, which is alive"):
            await TAKEN[how](other)

        assert "a" not in other
        assert await (await mine.send("a", 4)).result() == 8


def test_a_run_in_a_file_that_another_runner_drives_is_not_taken_from_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            SQLiteStore(tmp_path / "runs.db") as store,
            AsyncRunner(store) as mine,
            AsyncRunner(store) as other,
        ):
            await mine.start(double, 1, id="a", open=True)
            for take in TAKEN.values():
                with pytest.raises(RunOwned):
                    await take(other)
            assert await (await mine.send("a", 4)).result() == 8

    asyncio.run(main())


@pytest.mark.parametrize("if_exists", ["same", "return"])
@virtually
async def test_the_same_start_of_a_run_that_another_runner_drives_returns_a_handle_of_it(if_exists: Any) -> None:
    async with MemoryStore() as store, runner_on(store, lasts=1.0) as mine, runner_on(store) as other:
        first = await mine.start(double, 1, id="a")

        again = await other.start(double, 1, id="a", if_exists=if_exists)

        assert ("a" in mine, "a" in other) == (True, False)
        assert (await again.result(), await first.result()) == (2, 2)
        with pytest.raises(RunExists, match="with another input"):
            await other.start(double, 2, id="a")


@virtually
async def test_a_run_that_another_runner_has_released_can_be_taken() -> None:
    async with MemoryStore() as store, runner_on(store) as mine, runner_on(store) as other:
        await mine.start(double, 1, id="a", open=True)
        await mine.stop("a")

        await other.resume("a", workflow=double)

        assert await (await other.send("a", 4)).result() == 8
        sent = await mine.send("a", 5)
        assert await sent.result() == 10
        with pytest.raises(RunOwned):
            await mine.resume("a", workflow=double)


@virtually
async def test_the_runs_of_a_runner_that_was_closed_are_free() -> None:
    async with MemoryStore() as store, runner_on(store) as other:
        async with runner_on(store, lasts=60.0, grace=0.0) as mine:
            await mine.start(double, 1, id="a")
            assert await other.resume_all() == []
        other.register(double)

        [handle] = await other.resume_all()

        assert await handle.result() == 2


@virtually
async def test_of_two_runners_that_resume_a_run_at_once_one_does() -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=60.0, grace=0.0) as first:
        await first.start(double, 1, id="a")
    store = GatedStore(inner)
    async with store, runner_on(store) as mine, runner_on(store) as other:
        gate = store.hold("acquire", "acquire_many", "load_since")
        back = started(mine.resume("a", workflow=double))
        await gate.reached.wait()
        await until_nothing_moves()

        with pytest.raises(RunOwned):
            await other.resume("a", workflow=double)
        assert await other.resume_all() == []

        gate.open()
        assert await (await back).result() == 2


@virtually
async def test_a_run_is_not_taken_while_it_is_being_released() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with store, runner_on(store) as mine, runner_on(store) as other:
        await mine.start(double, 1, id="a", open=True)
        gate = store.hold("release", times=1)
        stop = started(mine.stop("a"))
        await gate.reached.wait()

        with pytest.raises(RunOwned):
            await other.resume("a", workflow=double)

        gate.open()
        await stop
        await other.resume("a", workflow=double)
        await mine.stop("a")  # it is not there, and stays where it is
        assert (await inner.find("a")).owner is not None
        assert await (await other.send("a", 4)).result() == 8


def test_a_runner_that_was_left_open_in_a_loop_that_has_ended_holds_nothing() -> None:
    store, left = MemoryStore(), list[AsyncRunner]()

    async def leave_open() -> None:
        await store.open()
        left.append(await runner_on(store, lasts=60.0).open())
        await left[0].start(double, 1, id="a")

    async def go_on() -> Any:
        async with runner_on(store) as runner:
            return await (await runner.resume("a", workflow=double)).result()

    run_virtually(leave_open())

    assert run_virtually(go_on()) == 2
    assert "a" in left[0]


@virtually
async def test_results_of_an_input_that_went_through_the_inbox_are_those_of_that_input() -> None:
    async with MemoryStore() as store, runner_on(store, lasts=1.0) as mine, runner_on(store) as other:
        await mine.start(double, id="a")
        first = await other.send("a", 1)
        assert await first.result() == 2

        second = await other.send("a", 20)
        assert await second.results() == {}
        assert await second.result() == 40

        assert (await first.results(), await second.results()) == ({"double": 2}, {"double": 40})


@virtually
async def test_an_input_that_came_too_late_has_no_results() -> None:
    async with MemoryStore() as store, runner_on(store, lasts=1.0) as mine, runner_on(store) as other:
        first = await mine.start(double, 1, id="a")
        late = await other.send("a", 2)
        assert await first.result() == 2

        assert await late.results() == {}
        with pytest.raises(RunClosed):
            await late.result()


@virtually
async def test_an_input_that_went_through_the_inbox_has_its_result_in_a_run_whose_history_is_not_loaded() -> None:
    async with MemoryStore() as store, runner_on(store) as mine, runner_on(store) as other:
        await mine.start(double, id="a", snapshot_every=5)
        handles = [await other.send("a", value) for value in range(40)]
        assert await handles[-1].result() == 78
        await mine.stop("a")

        await other.resume("a", workflow=double)

        assert [await handle.result() for handle in handles[:2]] == [0, 2]
        assert [await handle.results() for handle in handles[:2]] == [{"double": 0}, {"double": 2}]
