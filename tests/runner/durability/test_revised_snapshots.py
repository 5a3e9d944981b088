"""Runs with a snapshot that are retried, forked, upgraded, compared, exported, and called with changed code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from weft import AsyncRunner, Runner, Workflow, accumulator, step
from weft.core import events as ev
from weft.log.snapshot import Snapshot
from weft.runner.durability.rehydration import is_partial
from weft.stores import SQLiteStore

WAYS: Sequence[Literal["lazy", "hybrid"]] = ["lazy", "hybrid"]


class Broken:
    """A function that fails for 7 until it is fixed."""

    def __init__(self) -> None:
        self.is_broken = True

    def __call__(self, x: int) -> int:
        """Return *x*, or fail."""
        if self.is_broken and x == 7:
            raise ValueError("no 7")
        return x


def plus(total: int, x: int) -> int:
    """Return the sum of both."""
    return total + x


def flow(work: Any) -> Workflow:
    """Return a workflow whose first step calls *work*."""
    return Workflow("w", step(work, name="work") >> accumulator(plus, init=0, name="total"))


def opened(path: Path, **options: Any) -> Runner:
    """Return a runner on the store at *path*, which writes a snapshot after ten events."""
    return Runner(SQLiteStore(path, synchronous="normal"), executor="inline", snapshot_every=10, **options)


def filled(path: Path, workflow: Workflow, inputs: int = 12) -> None:
    """Let the run ``w`` have some inputs, and close its runner."""
    with opened(path) as runner:
        runner.start(workflow, id="w")
        for number in range(inputs):
            runner.send("w", number)
        runner.wait("w")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store can be."""
    return tmp_path / "runs.db"


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_in_the_history_is_retried(path: Path, way: Any) -> None:
    work = Broken()
    filled(path, flow(work))
    with opened(path) as runner:
        runner.resume("w", workflow=flow(work), rehydration=way)
        assert is_partial(runner.get("w"))
        work.is_broken = False

        runner.retry("w")
        run = runner.wait("w")

        assert run.state_of("total") == sum(range(12))
        assert not run.failed
        log = runner.log("w")
    with opened(path) as runner:
        assert runner.log("w") == log, "what was written is what was in memory"
        assert runner.resume("w", workflow=flow(work), rehydration="full").wait().state_of("total") == sum(range(12))


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_was_retried_makes_snapshots_and_goes_on_from_them(
    path: Path, way: Any, caplog: pytest.LogCaptureFixture
) -> None:
    work = Broken()
    filled(path, flow(work))
    with opened(path) as runner:
        runner.resume("w", workflow=flow(work), rehydration=way)
        work.is_broken = False
        runner.retry("w")
        for number in range(12):
            runner.send("w", number)
        runner.wait("w")

    with opened(path) as runner, caplog.at_level(logging.WARNING, "weft.runner"):
        runner.resume("w", workflow=flow(work), rehydration=way)

        assert is_partial(runner.get("w"))
        assert runner.send("w", 100).result() == 2 * sum(range(12)) + 100
        assert not runner.get("w").failed
    assert "cannot be used" not in caplog.text


def test_a_snapshot_from_before_a_retry_is_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    work = Broken()
    filled(path, flow(work))
    with Runner(SQLiteStore(path, synchronous="normal"), executor="inline") as runner:  # which writes no snapshots
        runner.resume("w", workflow=flow(work))
        work.is_broken = False
        runner.retry("w")
        runner.wait("w")

    with opened(path) as runner, caplog.at_level(logging.WARNING, "weft.runner"):
        runner.resume("w", workflow=flow(work), rehydration="hybrid")

        assert not is_partial(runner.get("w"))
        assert runner.wait("w").state_of("total") == sum(range(12))
    assert "was changed or revised after it" in caplog.text


@pytest.mark.parametrize("way", WAYS)
def test_a_fork_of_a_run_with_a_snapshot_has_its_whole_history(path: Path, way: Any) -> None:
    work = Broken()
    work.is_broken = False
    filled(path, flow(work))
    with opened(path) as runner:
        runner.resume("w", workflow=flow(work), rehydration=way)
        log = runner.log("w")

        preview = runner.fork("w", at=2, value=1_000, preview=True)
        fork = runner.fork("w", "f", at=2, value=1_000)

        assert preview.runs
        assert fork.wait().state_of("total") == sum(range(12)) + 1_000
        assert fork.log()[1 : len(log)] == log[1:]
        assert is_partial(runner.get("w")), "the original is as it was"
    with opened(path) as runner:
        stored = Snapshot.opened(_snapshot(path, "f"))
        runner.resume("f", workflow=flow(work), rehydration=way)
        again = runner.get("f")

        assert is_partial(again)
        assert stored.position > len(log)
        assert runner.send("f", 1).result() == sum(range(12)) + 1_001
        assert runner.get("f").state_of("total") == sum(range(12)) + 1_001
        assert runner.log("f")[1 : len(log)] == log[1:], "the log is not edited"


def _snapshot(path: Path, run: str) -> bytes:
    async def load() -> bytes:
        store = SQLiteStore(path)
        await store.open()
        try:
            found = await store.load_snapshot(run)
            assert found is not None
            return found.body
        finally:
            await store.close()

    return asyncio.run(load())


@pytest.mark.parametrize("way", WAYS)
def test_a_run_with_a_snapshot_moves_to_another_version_of_its_workflow(path: Path, way: Any) -> None:
    work = Broken()
    filled(path, flow(work))
    new = Workflow("w", step(work, name="work") >> step(abs, name="more") >> accumulator(plus, init=0, name="total"))
    with opened(path) as runner:
        runner.resume("w", workflow=flow(work), rehydration=way)

        preview = runner.upgrade("w", new, preview=True)
        runner.upgrade("w", new)
        work.is_broken = False
        runner.retry("w")
        runner.send("w", -5)

        assert preview is not None
        assert runner.wait("w").state_of("total") == sum(range(12)) + 5
        for _ in range(6):
            runner.send("w", -1)
        runner.wait("w")
    with opened(path) as runner:
        runner.resume("w", workflow=new, rehydration=way)

        assert is_partial(runner.get("w"))
        assert runner.send("w", -1).result() == sum(range(12)) + 12


def test_runs_with_snapshots_are_compared_and_exported_as_a_whole(path: Path, tmp_path: Path) -> None:
    work = Broken()
    filled(path, flow(work))
    with opened(path) as runner:
        runner.resume("w", workflow=flow(work), rehydration="hybrid")
        fork = runner.fork("w", "f", at=2, value=50)
        fork.wait()

        found = runner.diff("w", "f")
        runner.export("w", tmp_path / "w.run")
        runner.import_run(tmp_path / "w.run", "copy")

        assert found.first is not None
        assert runner.log("copy")[1:-1] == runner.log("w")[1:]


def version_of(text: str) -> Workflow:
    """Return a workflow with one function whose code is *text*, as an edited module would have it."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(text, scope)  # noqa: S102 - it stands for another version of a module
    return flow(scope["work"])


@pytest.mark.parametrize("way", WAYS)
def test_changed_code_leaves_the_history_in_the_store(path: Path, way: Any, caplog: pytest.LogCaptureFixture) -> None:
    old, new = version_of("def work(x): return x"), version_of("def work(x): return -x")
    filled(path, old)
    for times in range(3):
        with opened(path) as runner, caplog.at_level(logging.WARNING, "weft.runner"):
            runner.resume("w", workflow=new, rehydration=way)

            assert is_partial(runner.get("w"))
            assert runner.send("w", 1).result() == sum(range(12)) - times - 1
            log = runner.log("w")
    assert [event.components for event in log if isinstance(event, ev.CodeChanged)] == [("work",)]
    assert "cannot be used" not in caplog.text


def test_a_retry_that_comes_from_another_process_finds_the_history(path: Path) -> None:
    async def main() -> None:
        work = Broken()
        mine, theirs = SQLiteStore(path), SQLiteStore(path)
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.resume("w", workflow=flow(work), rehydration="hybrid")
            assert is_partial(await owner.get("w"))
            work.is_broken = False

            await other.retry("w", by="web")
            await owner.wait_until("w", lambda run: not run.failed and not run.is_runnable)

            assert (await owner.get("w")).state_of("total") == sum(range(12))

    filled(path, flow(Broken()))
    asyncio.run(asyncio.wait_for(main(), 120))


def test_what_is_in_flight_is_not_disturbed_when_the_history_is_loaded_for_a_retry(path: Path) -> None:
    calls: list[int] = []
    begun, released = asyncio.Event(), asyncio.Event()
    work = Broken()

    async def slow(x: int) -> int:
        calls.append(x)
        if x == 99:
            begun.set()
            await released.wait()
        return work(x)

    async def main() -> None:
        async with AsyncRunner(SQLiteStore(path)) as runner:
            await runner.resume("w", workflow=flow(slow), rehydration="hybrid")
            await runner.send("w", 99)
            await begun.wait()
            work.is_broken = False

            await runner.retry("w")
            is_whole = not is_partial(await runner.get("w"))
            released.set()
            run = await runner.wait("w")

            assert is_whole
            assert run.state_of("total") == sum(range(12)) + 99
            assert sorted(calls) == [7, 99]

    filled(path, flow(work))
    calls.clear()
    asyncio.run(asyncio.wait_for(main(), 120))
