"""Hooks, context, compounds, telemetry and retention in a runner."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from small_flows import chain, double

from weft import AsyncRunner, Policy, Run, Runner, Saga, Workflow, reduce, step, telemetry
from weft.errors import (
    AnotherGraph,
    CorruptLog,
    InvalidOption,
    MissingContext,
    RunClosed,
    RunFrozen,
    RunNotFound,
    RunNotHeld,
    RunParked,
    UnresolvedFunction,
)
from weft.policy import Value
from weft.ports.store import LogStore
from weft.runner import WorkerHooks
from weft.stores import SQLiteStore

# -- hooks and context ---------------------------------------------------------------------------


def test_hooks_are_told_what_the_worker_does(store: LogStore) -> None:
    """CONFORMANCE 95."""
    told: list[Any] = []

    def broken(x: int) -> int:
        raise OSError("no")

    hooks = WorkerHooks(
        on_dispatch=lambda runnable: told.append(("dispatch", runnable.component)),
        on_complete=lambda runnable, seconds: told.append(("complete", runnable.component, seconds >= 0)),
        on_failed=lambda runnable, error: told.append(("failed", runnable.component, type(error).__name__)),
        on_idle=lambda run: told.append(("idle", run.id)),
    )
    with Runner(store) as runner:
        runner.start(Workflow("w", double >> step(broken)), 5, id="a", hooks=hooks).wait(20)

    assert told == [
        ("dispatch", "double"),
        ("complete", "double", True),
        ("dispatch", "broken"),
        ("failed", "broken", "OSError"),
        ("idle", "a"),
    ]


def test_on_idle_gets_the_run_frozen() -> None:
    given: list[Run] = []
    with Runner() as runner:
        handle = runner.start(chain, 5, id="a", open=True, hooks=WorkerHooks(on_idle=given.append))
        handle.wait(20)
        runner.send("a", 6)
        handle.wait(20)

    first, second = given
    assert (first.values("double"), second.values("double")) == ([10], [10, 12])
    with pytest.raises(RunFrozen, match=r"runner\.send\('a', value\)"):
        first.plan(1)


def test_on_idle_asks_the_runner_to_change_the_run() -> None:
    async def main() -> list[Any]:
        tasks: list[asyncio.Future[Any]] = []

        def again(run: Run) -> None:
            if len(run.values("double")) < 2:
                tasks.append(asyncio.ensure_future(runner.send(run.id, 7)))

        async with AsyncRunner() as runner:
            await runner.start(chain, 5, id="a", open=True, hooks=WorkerHooks(on_idle=again))
            run = await runner.wait_until("a", lambda run: len(run.values("increment")) == 2, timeout=20)
            return run.values("double")

    assert run_async(main) == [10, 14]


def test_hooks_that_fail_change_nothing(store: LogStore) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("no")

    hooks = WorkerHooks(on_dispatch=fails, on_complete=fails, on_failed=fails, on_idle=fails, transform=fails)
    with Runner(store) as runner:
        assert runner.start(chain, 5, hooks=hooks).result(20) == 11


@pytest.mark.parametrize(
    "junk",
    [
        lambda runnables: None,
        lambda runnables: 5,
        lambda runnables: ["double"],
        lambda runnables: [None, *runnables],
        lambda runnables: [*Workflow("other", step(lambda x: x, name="other")).plan(1).prepare(), *runnables],
    ],
)
def test_a_transform_that_returns_junk_changes_nothing(junk: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Runner() as runner:
        handle = runner.start(chain, 5, hooks=WorkerHooks(transform=junk))

        assert (handle.result(20), handle.status()) == (11, "completed")

    assert "the hook transform of run" in caplog.text
    assert "TypeError: transform returned" in caplog.text
    assert "crashed" not in caplog.text


def test_a_hook_puts_what_is_ready_into_another_order(store: LogStore) -> None:
    order: list[str] = []
    steps = [step(lambda x, n=n: order.append(n), name=n) for n in ("a", "b", "c")]
    hooks = WorkerHooks(transform=lambda runnables: sorted(runnables, key=lambda r: r.component, reverse=True))
    with Runner(store, executor="inline") as runner:
        runner.start(Workflow("w", *steps), 1, hooks=hooks).wait(20)

    assert order == ["c", "b", "a"]


def test_context_is_given_by_the_runner_or_the_run_and_never_stored(tmp_path: Path) -> None:
    from weft import context

    tell = step(lambda x, who=context("who"), what=context("what"): f"{what} of {who}", name="tell")
    workflow, path = Workflow("w", tell), tmp_path / "runs.db"
    with Runner(SQLiteStore(path), context={"who": "secret-runner"}) as runner:
        with pytest.raises(MissingContext, match="what"):
            runner.start(workflow, 1)
        assert runner.start(workflow, 1, context={"what": "thing"}).result() == "thing of secret-runner"
        runner.start(workflow, id="later", context={"what": "secret-thing"})

    with Runner(SQLiteStore(path)) as runner, pytest.raises(MissingContext):
        runner.resume("later", workflow=workflow)
    assert b"secret-thing" not in path.read_bytes()


@pytest.mark.parametrize(
    "options",
    [{"executor": "nowhere"}, {"max_concurrency": 0}, {"checkpoint": "sometimes"}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Runner(**options)
    with Runner() as runner, pytest.raises(InvalidOption):
        runner.start(chain, id="a", **options)


def test_an_async_runner_has_the_same_methods() -> None:
    names = {name for name in dir(Runner) if not name.startswith("_")}

    assert names == {name for name in dir(AsyncRunner) if not name.startswith("_")}


def run_async(main: Callable[[], Awaitable[Any]]) -> Any:
    async def wrapped() -> Any:
        return await main()

    return asyncio.run(wrapped())


def test_an_async_runner_serves_many_tasks(store: LogStore) -> None:
    async def main() -> list[int]:
        async with AsyncRunner(store) as runner:
            handles = await asyncio.gather(*(runner.start(chain, n, id=f"r{n}") for n in range(100)))
            return list(await asyncio.gather(*(handle.result() for handle in handles)))

    assert run_async(main) == [2 * n + 1 for n in range(100)]


# -- compounds, telemetry, retention -------------------------------------------------------------


def trip(undo: Callable[[], None]) -> Workflow:
    saga = Saga("trip")

    @saga.transaction
    def book(request: dict[str, Any], results: dict[str, Any]) -> str:
        return "seat 5"

    @book.compensate
    def cancel(request: dict[str, Any], results: dict[str, Any]) -> str:
        undo()
        return "free again"

    @saga.transaction(compensate=None)
    def pay(request: dict[str, Any], results: dict[str, Any]) -> str:
        raise ValueError("declined")

    return Workflow("w", saga)


def test_a_saga_is_undone_in_a_runner(store: LogStore) -> None:
    with Runner(store) as runner:
        outcome = runner.start(trip(lambda: None), {"funds": 1}).wait(20).state_of("trip")

    assert (outcome.status, outcome.compensated) == ("aborted", ["book"])


def test_a_saga_that_cannot_be_undone_parks_its_run_until_it_is_retried(store: LogStore) -> None:
    is_up = threading.Event()

    def undo() -> None:
        if not is_up.is_set():
            raise ConnectionError("down")

    workflow = trip(undo)
    with Runner(store) as runner:
        runner.start(workflow, {"funds": 1}, id="a")
        with pytest.raises(RunParked, match=r"'trip\.cancel' failed for good, ConnectionError: down"):
            runner.wait("a", timeout=20)
        assert [(record.status, "cannot be undone" in record.reason) for record in runner.runs()] == [("parked", True)]
        with pytest.raises(RunClosed, match="finishes with the input that it has"):
            runner.send("a", {"funds": 2})

    with Runner(store) as runner:
        assert runner.resume_all() == []
        runner.resume("a", workflow=workflow)
        with pytest.raises(RunParked):
            runner.wait("a", timeout=20)
        is_up.set()
        runner.retry("a")
        assert runner.wait("a", timeout=20).state_of("trip").status == "aborted"
        assert [record.status for record in runner.runs()] == ["completed"]


def test_a_fallback_is_told(runner: Runner) -> None:
    def broken(x: int) -> int:
        raise OSError("no")

    told: list[Any] = []
    policy = Policy(max_retries=1, fallback=lambda runnable, error: Value(0))
    telemetry.attach("fallbacks", "weft.runner.runnable.fallback", lambda *event: told.append(event))
    try:
        runner.start(Workflow("w", step(broken)).with_policies([("broken", policy)]), 1, id="a").wait(20)
    finally:
        telemetry.detach("fallbacks")

    [(_, _, metadata)] = told
    assert (metadata["component"], metadata["workflow_id"], str(metadata["error"])) == ("broken", "a", "no")


def test_a_run_can_be_forgotten(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 1, id="a").wait()
        runner.start(chain, id="b").cancel()
        runner.stop("b")

        runner.delete("a")
        assert runner.purge(before=2e10) == 1

        assert [each.id for each in runner.runs()] == []
        with pytest.raises(RunNotFound, match="no run 'a' is stored here"):
            runner.delete("a")


def test_a_log_that_was_altered_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, 1, id="a", open=True).wait()
        runner.start(chain, 2, id="b", open=True).wait()
    with closing(sqlite3.connect(path)) as db, db:
        [(table,)] = db.execute("select name from sqlite_master where type = 'table' and name like '%segment%'")
        rows = db.execute(f"select rowid, body from {table} order by rowid").fetchall()  # noqa: S608
        (first, one), (second, other) = rows[1], rows[-1]
        db.execute(f"update {table} set body = ? where rowid = ?", (other, first))  # noqa: S608
        db.execute(f"update {table} set body = ? where rowid = ?", (one, second))  # noqa: S608

    with Runner(SQLiteStore(path)) as runner, pytest.raises(CorruptLog):
        runner.resume("a", workflow=chain)


def test_a_log_whose_end_was_cut_off_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, 1, id="a", open=True).wait()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("delete from segments where place = (select max(place) from segments)")

    with Runner(SQLiteStore(path)) as runner, pytest.raises(CorruptLog, match="not as far as they did"):
        runner.resume("a", workflow=chain)


def test_a_run_whose_code_is_not_here_is_left_as_it_is(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(Workflow("w", step(lambda x: x + 1, name="hidden")), id="a")

    with Runner(store) as runner:
        with pytest.raises(UnresolvedFunction, match="'hidden'") as unresolved:
            runner.resume("a")
        assert str(unresolved.value).endswith(
            "<lambda> of 'hidden' is a lambda or local function; hand the workflow over: "
            "resume('a', workflow=the_workflow), or register(the_workflow) before resume_all()"
        )
        runner.resume("a", workflow=Workflow("w", step(lambda x: x + 1, name="hidden")))
        runner.send("a", 1)
        assert runner.result("a", 20) == 2


@pytest.mark.parametrize(
    "other",
    [
        Workflow("w", step(lambda x: x, name="shown")),
        Workflow("w", reduce(lambda x, y: x + y, init=0, name="hidden")),
    ],
)
def test_a_run_that_is_handed_another_workflow_says_so(store: LogStore, other: Workflow) -> None:
    with Runner(store) as runner:
        runner.start(Workflow("w", step(lambda x: x + 1, name="hidden")), id="a")

    followed = "run 'a' follows another graph than the workflow 'w' that was passed"
    with Runner(store) as runner, pytest.raises(AnotherGraph, match=followed):
        runner.resume("a", workflow=other)


def test_a_run_that_is_not_here_is_said_to_be_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        runner.start(chain, 1, id="a", open=True).wait()
        held = rf"run 'a' is stored, and this runner does not drive it; .*{os.getpid()}.* owns it: use it there"

        with pytest.raises(RunNotHeld, match=held) as refused:
            other.checkpoint("a")
        assert refused.value.owner is not None
        assert (other.status("a"), other.wait("a").value("increment"), "a" in other) == ("idle", 3, False)
        with pytest.raises(RunNotFound, match=r"no run 'nope' is stored here; start\(\) it first"):
            other.status("nope")
        with pytest.raises(RunNotFound, match=r"no run 'nope' is stored here; start\(\) it first"):
            other.resume("nope")

        runner.stop("a")
        with pytest.raises(RunNotHeld, match=r"does not drive it; resume\('a'\) it first"):
            other.checkpoint("a")
