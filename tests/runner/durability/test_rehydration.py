"""Runs that are resumed from a snapshot: they go on as they would from their log, and load their history when asked."""

from __future__ import annotations

import asyncio
import logging
import operator
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Run, Runner, Workflow, accumulator, current, latest, sleep, step, wait_for
from weft.core.events import ComponentAdded, TimerStarted
from weft.core.lineage.history import PagedLog
from weft.errors import CorruptLog, HistoryNotLoaded, InvalidOption, RunFailed, StoreClosed
from weft.log.snapshot import Snapshot
from weft.ports.store import StoredSnapshot
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import TestRunner

WAYS = ["full", "lazy", "hybrid"]


def double(x: int) -> int:
    """Return twice *x*."""
    return 2 * x


def grow(x: int) -> str:
    """Return a text that is too large for an event."""
    return "x" * (1_000 + x)


def plus_double(x: int, doubled: int = latest("double", default=0)) -> int:
    """Return the sum of *x* and of what ``double`` has made last."""
    return x + doubled


total = accumulator(operator.add, init=0, name="total")
WORKFLOW = Workflow("sums", step(double) >> total, step(double) >> step(grow))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store can be."""
    return tmp_path / "runs.db"


def filled(path: Path, *, inputs: int = 20, every: int | None = 10, workflow: Workflow = WORKFLOW) -> Any:
    """Return the run ``w`` after some inputs, as it was when its runner was closed."""
    with Runner(SQLiteStore(path, synchronous="normal"), executor="inline", snapshot_every=every) as runner:
        runner.start(workflow, id="w")
        for number in range(inputs):
            runner.send("w", number, key=f"k{number}")
        run = runner.wait("w")
        return run, run.values(), run.log()


def opened(path: Path, **options: Any) -> Runner:
    """Return a runner on the store at *path*."""
    return Runner(SQLiteStore(path, synchronous="normal"), executor="inline", **options)


# -- the same run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_on_as_it_was(path: Path, way: Any) -> None:
    _, values, log = filled(path)

    with opened(path) as runner:
        handle = runner.resume("w", rehydration=way)
        again = runner.send("w", 3, key="k3")
        new = runner.send("w", 100)

        assert new.result() == {"total": 2 * sum(range(20)) + 200, "grow": "x" * 1_200}
        assert again.result()["grow"] == "x" * 1_006, "a key that was seen is the first input with it"
        run = handle.wait()
        assert run.state_of("total") == 2 * sum(range(20)) + 200
        assert run.values()[: len(values)] == values
        assert handle.log()[: len(log)] == log
        assert str(run.explain("grow")).startswith("grow = 'xxx")


def test_a_resume_leaves_the_history_in_the_store(path: Path) -> None:
    whole, _, _ = filled(path, inputs=50)
    found = {}
    for way in WAYS:
        with opened(path) as runner:
            runner.resume("w", rehydration=way)  # type: ignore[arg-type]
            found[way] = runner.get("w").resident_facts

    assert found == {"full": whole.resident_facts, "lazy": 0, "hybrid": 2}, (
        "the state, and the latest fact of the other leaf"
    )


def test_without_a_snapshot_everything_is_loaded(path: Path) -> None:
    whole, _, _ = filled(path, every=None)

    with opened(path) as runner:
        runner.resume("w", rehydration="hybrid")

        assert runner.get("w").resident_facts == whole.resident_facts


@pytest.mark.parametrize("way", WAYS)
def test_work_that_was_pending_runs_after_a_resume(path: Path, way: Any) -> None:
    keys: list[str] = []
    begun, released = threading.Event(), threading.Event()

    def slow(x: int) -> int:
        keys.append(current().idempotency_key)
        begun.set()
        if len(keys) == 1:
            released.wait()
        return x

    flow = Workflow("w", step(double) >> total, step(double) >> step(slow) >> step(grow))
    try:
        with Runner(SQLiteStore(path, synchronous="normal"), snapshot_every=1) as runner:
            runner.start(flow, id="w")
            runner.send("w", 7)
            begun.wait()
            runner.wait_until("w", lambda run: bool(run.values("total")))
            runner.stop("w", grace=0)
            runner.resume("w", workflow=flow, rehydration=way)
            run = runner.wait("w")

            assert run.value("grow") == "x" * 1_014
            assert run.value("total") == 14
            assert len(keys) == 2
            assert len(set(keys)) == 1, "the idempotency key is the same after a resume"
    finally:
        released.set()


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_finishes_after_a_resume_has_its_outcome(path: Path, way: Any) -> None:
    filled(path)

    with opened(path) as runner:
        runner.resume("w", rehydration=way)
        runner.finish("w")
        assert runner.result("w") == {"total": 2 * sum(range(20)), "grow": "x" * 1_038}
    with opened(path) as runner:
        assert runner.find("w").status == "completed"
        assert runner.results("w") == {"total": 2 * sum(range(20)), "grow": "x" * 1_038}


def test_failures_are_known_after_a_resume(path: Path) -> None:
    def picky(x: int) -> int:
        if x == 3:
            raise ValueError("three")
        return x

    flow = Workflow("w", step(picky))
    with opened(path, snapshot_every=2) as runner:
        runner.start(flow, id="w")
        handles = [runner.send("w", number) for number in range(6)]
        runner.wait("w")
        assert [handle.ref.input for handle in handles] == [1, 2, 3, 4, 5, 6]

    with opened(path) as runner:
        runner.resume("w", workflow=flow)
        run = runner.get("w")
        assert str(run.failures["picky"].__cause__) == "three"
        runner.finish("w")
        runner.wait("w")
        record = runner.find("w")
        assert (record.status, record.failures) == ("failed", 1)


def test_the_snapshots_go_on_after_a_resume(path: Path) -> None:
    filled(path)
    with opened(path, snapshot_every=10) as runner:
        runner.resume("w")
        for number in range(20):
            runner.send("w", number)
        expected = runner.wait("w").state_of("total")
    position, head = positions(path)
    assert head - 20 < position <= head

    with opened(path) as runner:
        runner.resume("w")
        assert runner.get("w").state_of("total") == expected


def positions(path: Path) -> tuple[int, int]:
    """Return the position of the snapshot of the only run, and its head."""
    db = sqlite3.connect(path)
    ((position,),) = db.execute("select position from snapshots").fetchall()
    ((head,),) = db.execute("select max((place & 4294967295) + count - 1) from segments").fetchall()
    db.close()
    return position, head


def test_a_number_that_was_said_for_a_run_holds_after_a_resume(path: Path) -> None:
    with opened(path) as runner:
        runner.start(WORKFLOW, id="w", snapshot_every=5)
    with opened(path) as runner:
        runner.resume("w")
        for number in range(10):
            runner.send("w", number)
        runner.wait("w")
    position, head = positions(path)
    assert head - 15 < position


@pytest.mark.parametrize("wrong", [{"snapshot_every": 0}, {"snapshot_every": "10"}])
def test_a_number_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="snapshot_every"):
        Runner(**wrong)


def test_a_way_that_does_not_exist_is_refused(path: Path) -> None:
    filled(path, inputs=1)
    with opened(path) as runner, pytest.raises(InvalidOption, match="rehydration='some'"):
        runner.resume("w", rehydration="some")  # type: ignore[arg-type]


# -- snapshots that cannot be used -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("update snapshots set body = x''", "not a snapshot"),
        ("update snapshots set body = cast(substr(body, 1, 8) || x'7f' || substr(body, 10) as blob)", "format 127"),
        ("update snapshots set body = substr(body, 1, length(body) - 1)", "checksum"),
        ("update snapshots set position = position - 1", "kept as one of"),
        ("update snapshots set body = 'text'", "snapshots.body"),
        ("update snapshots set position = 'text'", "snapshots.position"),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_ignored_with_a_warning(
    path: Path, change: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, values, log = filled(path)
    db = sqlite3.connect(path)
    db.execute(change)
    db.commit()
    db.close()

    with opened(path) as runner, caplog.at_level(logging.WARNING, "weft.runner"):
        runner.resume("w")
        run = runner.get("w")

        assert not isinstance(run.memory.log, PagedLog)
        assert (run.values(), run.log()) == (values, log)
    assert why in caplog.text


def test_a_tail_that_was_altered_is_found(path: Path) -> None:
    """The snapshot is not used then, and the log says what is wrong with it."""
    filled(path)
    with opened(path) as runner:
        runner.resume("w")
        runner.send("w", 1)
        runner.wait("w")
    db = sqlite3.connect(path)
    ((place, body),) = db.execute("select place, body from segments order by place desc limit 1").fetchall()
    db.execute("update segments set body = ? where place = ?", (body[:-1] + bytes([body[-1] ^ 1]), place))
    db.commit()
    db.close()

    with opened(path) as runner, pytest.raises(CorruptLog):
        runner.resume("w")


def test_a_definition_that_changed_after_the_snapshot_is_read_from_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(path)
    with opened(path) as runner:
        runner.resume("w", rehydration="hybrid")
        runner.add("w", step(plus_double, name="new"), to="total")
        runner.send("w", 1)
        expected = runner.wait("w").value("new")
        assert any(isinstance(event, ComponentAdded) for event in runner.log("w"))

    with opened(path) as runner, caplog.at_level(logging.WARNING, "weft.runner"):
        runner.resume("w", rehydration="hybrid")

        assert runner.get("w").value("new") == expected
    assert "the run was changed or revised after it" in caplog.text


def test_a_step_can_change_a_run_whose_history_is_not_in_memory(path: Path) -> None:
    def extend(x: int) -> int:
        if x == 99:
            current().add(step(lambda x, seen=latest("double", default=-1): seen, name="new"), to="extend")
        return x

    flow = Workflow("w", step(double) >> total, step(extend))
    filled(path, workflow=flow)

    with opened(path) as runner:
        runner.resume("w", workflow=flow)
        runner.send("w", 99)
        run = runner.wait("w")

        assert run.value("new") == 198


# -- asking for the history ------------------------------------------------------------------------


def test_in_the_event_loop_the_history_has_to_be_awaited(path: Path) -> None:
    _, values, log = filled(path)

    async def main() -> None:
        async with AsyncRunner(SQLiteStore(path), executor="inline") as runner:
            await runner.resume("w")
            run = await runner.get("w")
            resident = run.resident_facts
            assert resident < 10, "the tail, and what the future needs"
            assert run.state_of("total") == 2 * sum(range(20)), "what the future needs is in memory"
            with pytest.raises(HistoryNotLoaded, match=r"await run\.load"):
                run.values()
            await run.load()
            assert run.values() == values
            assert await runner.log("w") == log
            assert (await runner.get("w")).resident_facts == resident, "what was loaded for one caller is not kept"
            assert await runner.wait_until("w", lambda run: len(run.values()) == len(values))

    asyncio.run(main())


def test_after_the_end_of_the_runner_the_history_cannot_be_read(path: Path) -> None:
    filled(path)
    with opened(path) as runner:
        runner.resume("w")
        run = runner.get("w")

    assert run.state_of("total") == 2 * sum(range(20))
    with pytest.raises(StoreClosed):
        run.values()


def test_a_start_of_the_same_run_is_recognised_by_its_first_input(path: Path) -> None:
    with opened(path, snapshot_every=2) as runner:
        runner.start(WORKFLOW, 1, id="w", open=True)
        for number in range(10):
            runner.send("w", number)
        runner.wait("w")
    with opened(path) as runner:
        runner.resume("w")
        assert runner.start(WORKFLOW, 1, id="w", open=True).results()["grow"] == "x" * 1_002


def test_many_runs_can_be_awaited_after_a_resume(path: Path) -> None:
    filled(path)
    with opened(path) as runner:
        runner.resume("w")
        assert runner.gather(["w"]) == [{"total": 2 * sum(range(20)), "grow": "x" * 1_038}]


def test_snapshots_are_kept_in_memory_too() -> None:
    store = MemoryStore()

    async def main() -> None:
        async with store:
            async with AsyncRunner(store, executor="inline", snapshot_every=5) as runner:
                await runner.start(WORKFLOW, id="w")
                for number in range(10):
                    await runner.send("w", number)
                await runner.wait("w")
            stored = await store.load_snapshot("w")
            assert isinstance(stored, StoredSnapshot)
            assert Snapshot.opened(stored.body).position == stored.position
            async with AsyncRunner(store, executor="inline") as runner:
                await runner.resume("w")
                run = await runner.get("w")
                assert run.state_of("total") == 90
                assert run.resident_facts < 10

    asyncio.run(main())


def test_a_run_that_fails_after_a_resume_says_why(path: Path) -> None:
    def picky(x: int) -> int:
        if x > 50:
            raise ValueError("too much")
        return x

    flow = Workflow("w", step(double) >> step(picky))
    filled(path, workflow=flow)
    with opened(path) as runner:
        runner.resume("w", workflow=flow)
        handle = runner.send("w", 99)
        with pytest.raises(RunFailed, match="too much"):
            handle.result()


# -- waits and signals -----------------------------------------------------------------------------


def is_more(value: int, than: int) -> bool:
    """Whether *value* is for the wait that began with *than*."""
    return value > than


GATED = Workflow("gated", step(double) >> wait_for("go", match=is_more, name="go") >> total)


def waiting(path: Path, *, inputs: int = 6) -> None:
    """Let the run ``w`` wait for as many signals as it has had inputs, with a snapshot of that."""
    with opened(path, snapshot_every=1) as runner:
        runner.start(GATED, id="w")
        for number in range(inputs):
            runner.send("w", number)
        runner.signal("w", "go", -1, key="kept")
        runner.wait_until("w", lambda run: len(run.memory.waiting or ()) == inputs)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_waits_takes_signals_after_a_resume(path: Path, way: Any) -> None:
    waiting(path)

    with opened(path) as runner:
        runner.resume("w", workflow=GATED, rehydration=way)
        runner.signal("w", "go", -1, key="kept")
        for value in (1, 3, 5, 7, 9, 11):
            runner.signal("w", "go", value)
        run = runner.wait("w")

        assert run.values("go") == [1, 3, 5, 7, 9, 11], "each goes to the oldest wait that it is for"
        assert [signal.value for signal in (run.memory.signals or {})["go"]] == [-1]
        assert Run.from_log(run.log()) == run


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_from_the_inbox_is_taken_after_a_resume(path: Path, way: Any) -> None:
    waiting(path, inputs=1)
    with opened(path) as other:
        other.signal("w", "go", 5)

    with opened(path) as runner:
        runner.resume("w", workflow=GATED, rehydration=way)
        assert runner.wait("w", 20).state_of("total") == 5


@pytest.mark.parametrize("way", WAYS)
def test_a_timer_that_was_started_is_due_at_its_time_after_a_resume(way: Any) -> None:
    flow = Workflow("w", step(double) >> sleep(60, name="nap") >> total)
    with TestRunner(snapshot_every=1) as runner:
        runner.start(flow, id="w")
        runner.send("w", 4)
        runner.advance(seconds=30)
        (started,) = [event for event in runner.log("w") if isinstance(event, TimerStarted)]
        runner.stop("w")
        runner.resume("w", workflow=flow, rehydration=way)
        assert runner.status("w") == "waiting"
        runner.advance(seconds=29)
        assert runner.status("w") == "waiting"
        runner.advance(seconds=2)

        assert runner.wait("w").state_of("total") == 8
        assert [event for event in runner.log("w") if isinstance(event, TimerStarted)] == [started]


def test_a_run_that_is_resumed_for_each_input_has_its_snapshots(path: Path) -> None:
    """It writes fewer events each time than a snapshot takes, as a run does that sleeps between its inputs."""
    filled(path, inputs=1, every=30)
    for number in range(10):
        with opened(path, snapshot_every=30) as runner:
            known = len(runner.resume("w").log())
            runner.send("w", number)
            assert len(runner.wait("w").log()) - known < 30
    position, head = positions(path)
    assert head - 30 < position


def test_a_long_run_that_was_asleep_comes_back_from_its_snapshot(path: Path) -> None:
    with opened(path, snapshot_every=50, resident=0) as runner:
        runner.start(GATED, id="w")
        for number in range(400):
            runner.send("w", 0)
            runner.signal("w", "go", number + 1)
        runner.send("w", 0)
        runner.wait_until("w", lambda run: run.waiting_for == ["go"] and len(run.log()) > 1_000)
        runner.stop("w")
    with opened(path) as runner:
        assert [handle.id for handle in runner.resume_all()] == ["w"]
        assert runner.get("w").resident_facts < 200
        runner.signal("w", "go", 1)
        assert runner.wait("w").state_of("total") == sum(range(401)) + 1


@pytest.mark.parametrize(("made", "times"), [(double, 1), (grow, 2)], ids=["small", "large"])
def test_a_tail_of_a_few_small_values_is_kept_as_it_is(
    path: Path, made: Any, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, restored = Workflow("w", step(made)), list[object]()
    filled(path, inputs=29, workflow=workflow)
    restore = Snapshot.restore

    def counted(self: Snapshot, *given: Any, **named: Any) -> Any:
        restored.append(self)
        return restore(self, *given, **named)

    monkeypatch.setattr(Snapshot, "restore", counted)
    with opened(path) as runner:
        runner.resume("w")
        runner.send("w", 1)
        runner.wait("w")

    assert len(restored) == times, "large values of the tail leave memory, by way of another snapshot"
