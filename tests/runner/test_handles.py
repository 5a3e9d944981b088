"""A handle stays with its run: when another run has the id since, it says so and does not answer for that one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Runner, Workflow, step, wait_for
from weft.errors import InvalidArgument, RunClosed, RunNotFound, RunReplaced
from weft.runner import Handle
from weft.stores import SQLiteStore
from weft.testing import TestRunner


@step
def double(x: int) -> int:
    """Return twice *x*."""
    return 2 * x


FLOW = Workflow("flow", double)
GATED = Workflow("gated", wait_for("go") >> double)

CALLS: dict[str, Callable[[Handle[Any]], object]] = {
    "result": lambda handle: handle.result(),
    "results": lambda handle: handle.results(),
    "wait": lambda handle: handle.wait(),
    "status": lambda handle: handle.status(),
    "log": lambda handle: handle.log(),
    "events": lambda handle: list(handle.events()),
    "stream": lambda handle: list(handle.stream("s")),
    "progress": lambda handle: handle.progress(),
    "send": lambda handle: handle.send(5),
    "signal": lambda handle: handle.signal("go", 5),
    "finish": lambda handle: handle.finish(),
    "cancel": lambda handle: handle.cancel(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_handle_of_a_run_that_was_restarted_says_so(runner: Runner, call: Callable[[Handle[Any]], object]) -> None:
    old = runner.start(FLOW, 1, id="a")
    assert old.result() == 2
    new = runner.start(FLOW, 10, id="a", if_exists="restart")
    assert new.result() == 20

    with pytest.raises(RunReplaced, match="the run 'a' of this handle was deleted, and another run of this id"):
        call(old)
    assert (new.result(), new.status(), runner.result("a")) == (20, "completed", 20)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_handle_of_a_deleted_run_changes_nothing_in_the_next_one(
    runner: Runner, call: Callable[[Handle[Any]], object]
) -> None:
    old = runner.start(GATED, id="a")
    runner.delete("a")
    with pytest.raises(RunNotFound) as missing:
        call(old)
    assert type(missing.value) is RunNotFound
    new = runner.start(GATED, id="a")
    head = runner.find("a").head

    with pytest.raises(RunReplaced):
        call(old)
    assert (new.status(), runner.find("a").head, runner.unread("a")) == ("idle", head, [])


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_handle_of_a_stored_run_says_so_too(tmp_path: Path, call: Callable[[Handle[Any]], object]) -> None:
    """Neither the runner that has the handle nor its memory knows of the new run: the store does."""
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as one, Runner(SQLiteStore(path)) as other:
        old = one.start(GATED, id="a")
        one.stop("a")
        other.delete("a")
        other.start(GATED, id="a")

        with pytest.raises(RunReplaced):
            call(old)
        assert other.unread("a") == []


def test_handles_of_sent_inputs_and_of_resumed_runs_stay_with_their_run(runner: Runner) -> None:
    runner.start(FLOW, id="a")
    sent = runner.send("a", 1)
    runner.stop("a")
    posted = runner.send("a", 2)
    resumed = runner.resume("a", workflow=FLOW)
    assert (sent.result(), posted.result()) == (2, 4)
    (again,) = [handle for handle in (resumed,) if handle.status() == "idle"]
    runner.delete("a")
    runner.start(FLOW, id="a")
    runner.send("a", 100)
    runner.send("a", 200)

    for handle in (sent, posted, again):
        with pytest.raises(RunReplaced):
            handle.results()
    with pytest.raises(RunReplaced):
        runner.gather([sent])
    assert [type(each) for each in runner.gather([sent, posted], return_exceptions=True)] == [RunReplaced] * 2


def test_a_handle_stays_with_its_run_through_a_retry_and_a_resume(runner: Runner) -> None:
    attempts: list[int] = []

    def picky(x: int) -> int:
        attempts.append(x)
        if len(attempts) == 1:
            raise ValueError("no")
        return x

    flow = Workflow("picky", step(picky))
    handle = runner.start(flow, 1, id="a")
    handle.wait()
    assert handle.status() == "failed"
    runner.retry("a")
    assert handle.result() == 1

    gated = runner.start(GATED, 1, id="b")
    for _ in range(2):
        runner.stop("b")
        runner.resume("b", workflow=GATED)
    gated.signal("go", 4)
    assert gated.result() == 8
    with pytest.raises(RunClosed):
        gated.send(1)


def test_a_handle_can_be_passed_where_an_id_can(runner: Runner) -> None:
    handle = runner.start(GATED, id="a")
    sent = runner.send(handle, 1)
    runner.signal(handle, "go", 4)
    assert sent.result() == 8
    runner.finish(handle)
    assert handle.wait().status == "completed"
    other = runner.start(GATED, 1, id="b")
    runner.cancel(other, "enough")
    assert other.status() == "cancelled"


def test_an_id_means_whichever_run_has_it(runner: Runner) -> None:
    runner.start(FLOW, 1, id="a").result()
    runner.start(FLOW, 10, id="a", if_exists="restart")
    assert runner.result("a") == 20


def test_a_run_that_is_restarted_while_time_stands_still_is_another_one() -> None:
    with TestRunner() as runner:
        old = runner.start(FLOW, 1, id="a")
        new = runner.start(FLOW, 10, id="a", if_exists="restart")
        assert new.result() == 20
        with pytest.raises(RunReplaced):
            old.result()


def test_the_events_of_a_run_end_with_an_error_when_another_one_takes_its_id(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> None:
        async with AsyncRunner(SQLiteStore(path)) as one, AsyncRunner(SQLiteStore(path)) as other:
            old = await one.start(GATED, id="a")
            await one.stop("a")
            events = old.events()
            await anext(events)
            await other.delete("a")
            await other.start(GATED, 1, id="a")
            with pytest.raises(RunReplaced):
                async for _ in events:
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("call", ["upgrade", "start_many", "resume", "start"])
def test_an_error_about_a_workflow_names_the_call_that_was_made(runner: Runner, call: str) -> None:
    runner.start(FLOW, id="a")
    calls: dict[str, Callable[[], object]] = {
        "upgrade": lambda: runner.upgrade("a", 5),  # type: ignore[call-overload]
        "start_many": lambda: runner.start_many(5, [1]),  # type: ignore[arg-type, var-annotated]
        "resume": lambda: runner.resume("a", workflow=5),  # type: ignore[arg-type]
        "start": lambda: runner.start(5, 1),  # type: ignore[arg-type, var-annotated]
    }
    with pytest.raises(InvalidArgument, match=rf"^{call}\(\) takes a workflow, got 5"):
        calls[call]()


@pytest.mark.parametrize(
    "call",
    [
        lambda runner, run, _: runner.checkpoint(run),
        lambda runner, run, _: runner.preview(run, []),
        lambda runner, run, _: runner.set_policies(run, []),
        lambda runner, run, _: runner.add(run, step(lambda x: x, name="more")),
        lambda runner, run, path: runner.export(run, path / "run.weft"),
        lambda runner, run, _: runner.compact(run),
        lambda runner, run, _: runner.fork(run),
        lambda runner, run, _: runner.retry(run),
        lambda runner, run, _: runner.evict(run),
        lambda runner, run, _: runner.finish(run),
        lambda runner, run, _: runner.stop(run),
    ],
)
def test_every_call_takes_a_handle_or_an_id_and_says_what_else_it_was_given(call: Any, tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        handle = runner.start(Workflow("w", step(lambda x: x, name="same")), 1, id="w", open=True)
        handle.wait()

        with pytest.raises(RunNotFound, match="an id is text"):
            call(runner, runner.get("w"), tmp_path)
        with pytest.raises(RunNotFound, match="no run 5 is stored here; an id is text"):
            call(runner, 5, tmp_path)
        call(runner, handle, tmp_path)
        call(runner, runner.start(Workflow("x", step(abs)), 1, id="x", open=True).id, tmp_path)


def test_a_run_is_stopped_by_its_handle() -> None:
    with Runner() as runner:
        handle = runner.start(Workflow("w", step(abs)), id="w")

        runner.stop(handle)

        assert "w" not in runner
