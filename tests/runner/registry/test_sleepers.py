"""Runs that only wait: they leave memory beyond a number, and come back when they are due or sent something."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Workflow, accumulator, collect, current, each, sleep, step, wait_for
from weft.core.fold.scope import Waiting
from weft.errors import InvalidOption, RunOwned
from weft.ports.store import RunRecord
from weft.runner.options import RunOptions
from weft.runner.registry.run_table import RunTable
from weft.runner.registry.sleepers import MOST_SHARED, Sleepers
from weft.stores import MemoryStore, SQLiteStore
from weft.telemetry import attach, detach
from weft.testing import VirtualLoop, run_virtually
from weft.testing.wrapping import FullStore


@step
def double(n: int) -> int:
    return 2 * n


naps = Workflow("naps", double >> sleep(seconds=3600) >> step(lambda n: n + 1, name="after"))
waits = Workflow("waits", double >> wait_for("go") >> step(lambda said: said, name="said"))


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


class LoopClock:
    """The time of the loop, which is virtual."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time(self) -> float:
        return 1_000_000.0 + self._loop.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps here")

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def virtually(main: Callable[[LoopClock], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(main(LoopClock(loop)))
    finally:
        loop.kill()


async def rested(runner: AsyncRunner, *runs: str, in_memory: int = 0) -> None:
    """Wait until *runs* only wait, and that is stored, and the number of runs in memory has fallen to the limit."""
    for run in runs:
        while (await runner.find(run)).status != "waiting":  # noqa: ASYNC110 - the store does not tell
            await asyncio.sleep(0.001)
    while len(list(runner._registry)) > in_memory:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FullStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


def test_those_that_have_waited_longest_leave_memory_and_are_still_here(store: FullStore) -> None:
    async def main() -> None:
        async with AsyncRunner(store, executor="inline", resident=2) as runner:
            for n in range(5):
                await runner.start(waits, n, id=f"w{n}")
                await rested(runner, f"w{n}", in_memory=2)

            assert sorted(runner.held) == [f"w{n}" for n in range(5)]
            assert all(f"w{n}" in runner for n in range(5))
            assert [worker.id for worker in runner._registry] == ["w3", "w4"]
            assert await runner.status("w0") == "waiting"
            assert (await runner.get("w0")).waiting_for == ["go"]
            assert [worker.id for worker in runner._registry] == ["w3", "w4"]  # reading brings nothing back

    asynchronously(main)


def test_a_signal_brings_a_run_back(store: FullStore) -> None:
    async def main() -> None:
        async with AsyncRunner(store, executor="inline", resident=0) as runner:
            handle = await runner.start(waits, 1, id="w")
            await rested(runner, "w")
            assert list(runner._registry) == []

            await runner.signal("w", "go", "now")

            assert await handle.result() == "now"
            assert "w" not in runner

    asynchronously(main)


def test_a_caller_that_waits_keeps_a_run_in_memory_and_brings_it_back(store: FullStore) -> None:
    async def main() -> None:
        async with AsyncRunner(store, executor="inline", resident=0) as runner:
            handle = await runner.start(waits, 1, id="w")
            await rested(runner, "w")
            result = asyncio.ensure_future(handle.result())
            while not any(runner._runtime.waiters.is_awaited(each) for each in runner._registry):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)
            runner._runtime.sleepers._look_again()
            assert [worker.id for worker in runner._registry] == ["w"]

            await runner.signal("w", "go", 5)

            assert await result == 5

    asynchronously(main)


def test_a_run_that_is_asleep_is_not_taken_by_another_runner_on_the_same_open_store(store: FullStore) -> None:
    async def main() -> None:
        async with (
            store,
            AsyncRunner(store, executor="inline", resident=0) as mine,
            AsyncRunner(store, executor="inline") as other,
        ):
            await mine.start(waits, 1, id="w")
            await rested(mine, "w")

            with pytest.raises(RunOwned):
                await other.resume("w", workflow=waits)
            assert await other.resume_all() == []

            await mine.signal("w", "go", 5)
            assert await mine.result("w") == 5

    asynchronously(main)


def test_a_child_that_is_asleep_is_cancelled_with_its_parent_and_leaves(store: FullStore) -> None:
    async def ask(n: int) -> int:
        await current().astart_child(waits, n, id="child")
        return n

    asks = Workflow("asks", step(ask) >> wait_for("never"))

    async def main() -> None:
        async with AsyncRunner(store, resident=0) as runner:
            await runner.start(asks, 1, id="parent")
            await rested(runner, "parent", "child")

            await runner.cancel("parent")

            assert (await runner.find("child")).status == "cancelled"
            assert runner.held == []

    asynchronously(main)


def test_a_run_that_is_asleep_is_owned_stopped_cancelled_and_deleted_like_others(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine, executor="inline", resident=0) as runner, AsyncRunner(theirs) as other:
            for run in ("owned", "stopped", "cancelled", "deleted"):
                await runner.start(waits, 1, id=run)
            await rested(runner, "owned", "stopped", "cancelled", "deleted")

            with pytest.raises(RunOwned):
                await other.resume("owned")
            await runner.stop("stopped")
            await runner.cancel("cancelled")
            await runner.delete("deleted")

            assert runner.held == ["owned"]
            assert (await other.find("stopped")).owner is None
            assert await other.status("cancelled") == "cancelled"
            assert [record.id for record in await other.runs(status="waiting")] == ["stopped", "owned"]
            await other.resume("stopped", workflow=waits)

    asynchronously(main)


def test_a_sleeper_comes_back_when_it_is_due(store: FullStore) -> None:
    if isinstance(store, SQLiteStore):
        pytest.skip("a thread of the store does not know virtual time")

    async def main(clock: LoopClock) -> None:
        async with AsyncRunner(store, executor="inline", resident=0, clock=clock) as runner:
            began = clock.time()
            for n in range(300):
                await runner.start(naps, n, id=f"n{n}")
            await asyncio.sleep(1)
            assert list(runner._registry) == []
            assert (await runner.find("n7")).wake_at == pytest.approx(began + 3600, abs=1)

            await asyncio.sleep(3600)

            assert [await runner.result(f"n{n}") for n in range(300)] == [2 * n + 1 for n in range(300)]
            assert clock.time() < began + 3602

    virtually(main)


def test_of_many_stored_sleepers_only_some_are_loaded_when_all_are_resumed(store: FullStore) -> None:
    async def main() -> None:
        async with store:
            async with AsyncRunner(store, executor="inline") as runner:
                for n in range(20):
                    await runner.start(waits, n, id=f"w{n}")
                await rested(runner, *(f"w{n}" for n in range(20)), in_memory=20)
            async with AsyncRunner(store, executor="inline", resident=4) as runner:
                runner.register(waits)

                resumed = await runner.resume_all()

                assert len(resumed) == 20
                assert sorted(runner.held) == sorted(f"w{n}" for n in range(20))
                await rested(runner, in_memory=4)
                await runner.signal("w19", "go", "late")
                assert await runner.result("w19") == "late"

    asynchronously(main)


def test_a_run_that_leaves_memory_is_reported(store: FullStore) -> None:
    told: list[str] = []

    async def main() -> None:
        async with AsyncRunner(store, executor="inline", resident=0) as runner:
            await runner.start(waits, 1, id="w")
            await rested(runner, "w")

    attach("test", ["weft.runner.worker.evicted"], lambda _, __, about: told.append(about["workflow_id"]))
    try:
        asynchronously(main)
    finally:
        detach("test")
    assert told == ["w"]


def test_a_number_of_runs_is_asked_for() -> None:
    with pytest.raises(InvalidOption, match="resident=-1"):
        AsyncRunner(resident=-1)


def test_callers_of_several_evicted_runs_do_not_evict_each_others() -> None:
    async def main() -> None:
        workflow = Workflow("w", wait_for("go"))
        async with AsyncRunner(MemoryStore(), executor="inline", resident=0) as runner:
            handles = [await runner.start(workflow, 1, id=name) for name in "abc"]
            await asyncio.sleep(1)
            assert list(runner._runtime.registry) == []

            await asyncio.gather(*(runner.signal(name, "go", name) for name in "abc"))

            assert [await handle.result() for handle in handles] == ["a", "b", "c"]

    run_virtually(main())


def test_many_waits_of_one_run_are_not_all_looked_at_whenever_one_of_them_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    next_at = Waiting.next_at.fget
    assert next_at is not None

    def counted(waiting: Waiting) -> float | None:
        nonlocal looks
        looks += 1
        return next_at(waiting)

    async def main() -> None:
        many = Workflow("many", each(sleep(lambda x: 1.0 * x, name="nap")) >> collect(name="all"))
        async with AsyncRunner(MemoryStore(), executor="inline", clock=LoopClock(asyncio.get_running_loop())) as runner:
            handle = await runner.start(many, list(range(1, 401)))
            assert await handle.result() == list(range(1, 401))

    monkeypatch.setattr(Waiting, "next_at", property(counted))
    run_virtually(main())

    assert looks < 20 * 400


def test_many_that_are_due_at_once_are_loaded_together_and_neither_acquired_again_nor_stored_one_by_one() -> None:
    asked: list[str] = []
    store = MemoryStore()

    async def main(clock: LoopClock) -> None:
        async with AsyncRunner(store, executor="inline", resident=0, clock=clock) as runner:
            handles = await runner.start_many(naps, list(range(600)))
            await asyncio.sleep(60)
            assert list(runner._registry) == []
            asked.clear()

            await asyncio.sleep(3600)

            calls = Counter(asked)
            assert runner.held == []
            assert [await handle.result() for handle in handles[-3:]] == [1195, 1197, 1199]
        assert calls["acquire"] == calls["acquire_many"] == calls["release"] == 0
        assert calls["load_many"] <= 5
        assert calls["append"] <= 600 / 8 * 3  # a few at a time come in before the others have their turn
        assert calls["load_definitions"] <= 1

    attach("test", ["weft.runner.store.start"], lambda _, __, about: asked.append(about["operation"]))
    try:
        virtually(main)
    finally:
        detach("test")


def test_a_run_whose_log_was_truncated_comes_back_too(store: FullStore) -> None:
    many = Workflow("many", double >> accumulator(lambda total, n: total + n, init=0) >> wait_for("go"))

    async def main() -> None:
        async with AsyncRunner(store, executor="inline", resident=0, snapshot_every=10) as runner:
            handle = await runner.start(many, id="w")
            for n in range(20):
                await handle.send(n)
                await rested(runner, "w")
                await runner.signal("w", "go", n)
            last = await handle.send(100)
            await rested(runner, "w")
            assert await runner.truncate("w") > 0
            await rested(runner, "w")

            await runner.signal("w", "go", "now")

            assert await last.result() == "now"

    asynchronously(main)


# -- what is known of runs that are asleep ---------------------------------------------------------


def record_of(run: str, *, head: int = 3) -> RunRecord:
    """Return the record of a run that only waits."""
    return RunRecord(id=run, workflow="waits", head=head, epoch=1, created_at=0.0, updated_at=0.0, status="waiting")


class Bed:
    """The sleepers of a runner; *on_return* is called with them and with the runs that are brought back."""

    def __init__(self, on_return: Callable[[Sleepers, Collection[str]], None] = lambda *_: None) -> None:
        self.brought: list[str] = []

        async def bring_back(runs: Collection[str], _: RunOptions) -> None:
            self.brought += runs
            on_return(self.sleepers, runs)

        timers: Any = None  # no run here is due at a time
        self.sleepers = Sleepers(RunTable(), 0, timers, lambda: 0.0, put_to_sleep=lambda _: True, bring_back=bring_back)


def test_runs_of_which_the_same_is_known_share_it() -> None:
    bed, options, others = Bed(), RunOptions(), RunOptions(executor="inline")
    for run in ("a", "b"):
        bed.sleepers.put_stored(record_of(run), options)
    bed.sleepers.put_stored(record_of("longer", head=4), options)
    bed.sleepers.put_stored(record_of("other"), others)

    known = {run: bed.sleepers.get(run) for run in bed.sleepers}

    assert known["a"] is known["b"]
    assert [(each.head, each.options) for each in known.values() if each is not None] == [
        *[(3, options)] * 2,
        (4, options),
        (3, others),
    ]


def test_a_run_that_is_disowned_does_not_disown_those_that_are_alike() -> None:
    bed, options = Bed(), RunOptions()
    for run in ("a", "b"):
        bed.sleepers.put_stored(record_of(run), options)

    bed.sleepers.disown("a")

    assert bed.sleepers.owned("a") is None
    assert bed.sleepers.owned("b") is not None


def test_what_is_known_stays_right_when_very_many_runs_differ() -> None:
    bed, options = Bed(), RunOptions()
    heads = {f"r{i}": i % (2 * MOST_SHARED) for i in range(5 * MOST_SHARED)}
    for run, head in heads.items():
        bed.sleepers.put_stored(record_of(run, head=head), options)

    assert {run: owned.head for run in heads if (owned := bed.sleepers.owned(run)) is not None} == heads


def test_a_runner_in_which_no_run_sleeps_keeps_nothing_of_those_that_did() -> None:
    bed = Bed()
    bed.sleepers.put_stored(record_of("a"), RunOptions())

    bed.sleepers.woken("a")

    assert not bed.sleepers._shared


def test_only_a_run_that_could_not_be_brought_back_is_forgotten() -> None:
    options = RunOptions()

    def come_back(sleepers: Sleepers, _: Collection[str]) -> None:
        sleepers.woken("came")
        sleepers.woken("slept again")
        sleepers.put_stored(record_of("slept again"), options)  # the same is known of it as before
        sleepers.disown("visited")

    bed = Bed(come_back)
    for run in ("came", "slept again", "visited", "broken", "not asked for"):
        bed.sleepers.put_stored(record_of(run), options)

    asyncio.run(bed.sleepers.awaken(["came", "slept again", "visited", "broken"]))

    assert bed.brought == ["came", "slept again", "visited", "broken"]
    assert set(bed.sleepers) == {"slept again", "visited", "not asked for"}
