"""Resuming all runs that have something to do, beside other callers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from callers import owned, started
from virtual_time import GatedStore, double, runner_on, until_nothing_moves, virtually

from weft import AsyncRunner, Runnable, Runner, Workflow, accumulator, step
from weft.errors import RunParked, WaitTimeout
from weft.stores import MemoryStore

addition = Workflow("addition", accumulator(lambda total, x: total + x, init=0, name="sum"))

# -- runs that cannot go on ------------------------------------------------------------------------


def test_a_run_that_resume_all_refuses_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def endless(_: int) -> None:
            await asyncio.Event().wait()

        store = MemoryStore()
        async with AsyncRunner(store, grace=0) as runner:
            await runner.start(Workflow("w", step(endless)), 1, id="a")
        async with AsyncRunner(store) as runner:
            assert await runner.resume_all() == []

    asyncio.run(main())

    [record] = caplog.records
    assert record.message.startswith("run 'a' could not be resumed: UnresolvedFunction: the function ")
    assert record.exc_info is None


@virtually
async def test_a_run_that_was_parked_in_another_process_comes_back_when_parked_runs_are_resumed_too() -> None:
    inner = MemoryStore()
    async with runner_on(inner, refuses=lambda _: True) as runner:
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()

    async with runner_on(inner) as runner:
        runner.register(double)
        assert [handle.id for handle in await runner.resume_all()] == []
        [handle] = await runner.resume_all(parked=True)
        assert await handle.result() == 2


# -- beside other callers --------------------------------------------------------------------------


async def two_interrupted(inner: MemoryStore) -> None:
    """Leave two runs in the store that have something to do."""
    async with runner_on(inner, lasts=60.0, grace=0.0) as runner:
        for run in ("first", "second"):
            await runner.start(double, 1, id=run)


MOMENTS = {
    "listing": ("list_free",),
    "taking": ("acquire_many",),
    "loading": ("load_many", "load_since"),
}
"""Calls of the store that resuming everything makes, by purpose: in pages, or one by one if it must."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", ["resume", "start"])
@virtually
async def test_resuming_everything_brings_back_only_what_it_owns(way: str, moment: str) -> None:
    inner = MemoryStore()
    await two_interrupted(inner)
    executed: list[str] = []

    def lasts(runnable: Runnable) -> float:
        executed.append(runnable.run_id)
        return 5.0

    store = GatedStore(inner)
    async with runner_on(store, lasts=lasts, grace=0.0) as runner:
        runner.register(double)
        gate = store.hold(*MOMENTS[moment], times=1)
        everything = started(runner.resume_all())
        await gate.reached.wait()

        async def in_between() -> None:
            if way == "resume":
                await runner.resume("second")
            else:
                await runner.start(double, 1, id="second")
            await runner.stop("second", grace=60.0)

        between = started(in_between())
        await asyncio.sleep(10.0)
        gate.open()
        await asyncio.gather(everything, between)

        assert sorted(await owned(inner)) == sorted(runner.held)
        for run in runner.held:
            assert (await runner.wait(run)).values("double") == [2]
        assert executed.count("second") == 1
        assert executed.count("first") == 1


@pytest.mark.parametrize("moment", MOMENTS)
@virtually
async def test_resuming_everything_leaves_no_run_owned_that_is_not_here_when_its_caller_is_cancelled(
    moment: str,
) -> None:
    inner = MemoryStore()
    await two_interrupted(inner)
    store = GatedStore(inner)
    async with runner_on(store, lasts=5.0) as runner:
        runner.register(double)
        gate = store.hold(*MOMENTS[moment], times=1)
        everything = started(runner.resume_all())
        await gate.reached.wait()
        everything.cancel()
        await until_nothing_moves()
        gate.open()
        await until_nothing_moves()

        assert sorted(await owned(inner)) == sorted(runner.held)
        await runner.resume_all()
        assert sorted(runner.held) == ["first", "second"]
        assert [await runner.result(run) for run in ("first", "second")] == [2, 2]


def test_an_idle_run_that_was_sent_something_while_no_process_drove_it_is_resumed(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with Runner(file) as runner:
        runner.register(addition)
        for id in ("asked", "quiet"):
            runner.start(addition, 1, id=id, open=True).result(20)
    with Runner(file) as runner:
        runner.register(addition)
        sent = runner.send("asked", 41)
        assert runner.status("asked") == "idle"
        with pytest.raises(WaitTimeout):  # it has something to do, and no process drives it
            runner.wait("asked", timeout=0.1)

        resumed = runner.resume_all()

        assert [handle.id for handle in resumed] == ["asked"]
        assert sent.result(20) == 42
        assert runner.result("asked", 20) == 42
