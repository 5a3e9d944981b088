"""The options of a run are stored with it, and hold after a resume; what cannot be stored is said at the start."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from weft import Policy, Runner, Workflow, step
from weft.errors import AnotherGraph, InvalidArgument, InvalidOption, NotPortable
from weft.runner import WorkerHooks
from weft.runner.checkpoints import every_n, pipelined
from weft.runner.options import RunOptions

calls: list[Any] = []


def note(run_id: str, run: Any, *more: Any) -> None:
    """Remember that it was called."""
    calls.append((run_id, run.status, *more))


def triple(x: int) -> int:
    """Return three times *x*."""
    return 3 * x


flow = Workflow("flow", step(triple))


def test_a_run_is_driven_after_a_resume_as_it_was_started(tmp_path: Path) -> None:
    calls.clear()
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(
            flow, id="a", max_concurrency=3, checkpoint=every_n(7), executor="inline", on_complete=note,
            on_complete_args=(5,),
        )  # fmt: skip

    with Runner(tmp_path / "runs.db") as runner:
        runner.resume("a")
        (worker,) = runner._inner._registry
        options = worker.options
        assert (options.max_concurrency, str(options.checkpoints), options.executor) == (3, "every_n(7)", "inline")
        assert runner.send("a", 2).result(20) == 6
        runner.wait("a", 20)

    assert calls == [("a", "idle", 5)]


def test_what_is_said_at_the_resume_goes_before_what_was_said_at_the_start(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(flow, id="a", max_concurrency=3, executor="inline")

    with Runner(tmp_path / "runs.db") as runner:
        runner.resume("a", max_concurrency=9)
        (worker,) = runner._inner._registry
        assert (worker.options.max_concurrency, worker.options.executor) == (9, "inline")


def test_what_was_not_said_is_as_the_runner_says(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db", max_concurrency=2) as runner:
        runner.start(flow, id="a")

    with Runner(tmp_path / "runs.db", max_concurrency=5) as runner:
        runner.resume("a")
        (worker,) = runner._inner._registry
        assert worker.options.max_concurrency == 5


def test_an_executor_that_the_next_runner_does_not_have_is_named(tmp_path: Path) -> None:
    from weft.executors import InlineExecutor

    with Runner(tmp_path / "runs.db", executors={"gpu": InlineExecutor()}) as runner:
        runner.start(flow, id="a", executor="gpu")

    with Runner(tmp_path / "runs.db") as runner:
        with pytest.raises(InvalidOption, match="executor='gpu', and this runner has only 'inline'"):
            runner.resume("a")
        runner.resume("a", executor="thread")


@pytest.mark.parametrize("strategy", ["every_cycle", "manual", "on_complete", "pipelined", every_n(3), pipelined(9)])
def test_a_strategy_is_restored_by_its_name(strategy: Any) -> None:
    options = RunOptions().but(checkpoint=strategy)

    assert RunOptions().restored(options.said).checkpoints == options.checkpoints


LOCAL = Workflow("local", step(lambda x: x, name="here") >> step(triple)).with_policies(
    [("triple", Policy(fallback=lambda *_: None))]
)


def test_what_another_process_could_not_find_is_said_once_for_a_definition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start_many(LOCAL, range(3))
        runner.start(flow, 1)

    (said,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert said.name == "weft.runner"
    assert "the function of 'here', a function in the policy for 'triple' of workflow 'local'" in said.getMessage()
    assert "define functions at the top level of a module" in said.getMessage()


def test_a_definition_that_is_made_again_for_every_run_is_the_same_definition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def made() -> Workflow:
        return Workflow("made", step(lambda x: x, name="here"))

    with Runner(tmp_path / "runs.db") as runner:
        for _ in range(3):
            runner.start(made(), 1)
        assert len(caplog.records) == 1
        for _ in range(3):
            runner.start(made(), 1, hooks=WorkerHooks())

    assert ["the hooks" in record.getMessage() for record in caplog.records] == [False, True]


def test_nothing_is_said_where_no_other_process_can_come(caplog: pytest.LogCaptureFixture) -> None:
    with Runner() as runner:
        runner.start(LOCAL, 1).result(20)

    assert caplog.records == []


@pytest.mark.parametrize(
    ("workflow", "options"),
    [(LOCAL, {}), (flow, {"on_complete": lambda *_: None}), (flow, {"hooks": WorkerHooks()})],
    ids=["a lambda", "a callback", "hooks"],
)
def test_a_start_can_require_that_all_of_it_can_be_found_again(workflow: Workflow, options: dict[str, Any]) -> None:
    with Runner() as runner:
        with pytest.raises(NotPortable):
            runner.start(workflow, 1, portable=True, **options)
        assert runner.count() == 0
        assert runner.start(flow, 1, portable=True, on_complete=note).result(20) == 3


def held(x: int, lock: Any) -> int:
    """Return *x*; the lock is a constant that is not data."""
    return x


def test_a_constant_that_is_not_data_is_said_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    locked = Workflow("locked", step(held).bind(lock=threading.Lock()))
    with Runner(tmp_path / "runs.db") as runner:
        with pytest.raises(NotPortable, match=r"could not find the constant \(lock\) of 'held'"):
            runner.start(locked, 1, portable=True)

        with caplog.at_level(logging.WARNING, "weft.runner"):
            assert runner.start(locked, 1).result(20) == 1
    assert [record for record in caplog.messages if "the constant (lock) of 'held'" in record]


def test_a_run_is_not_resumed_with_another_workflow(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(flow, id="a")

    with Runner(tmp_path / "runs.db") as runner:
        with pytest.raises(InvalidOption, match="workflow='other': run 'a' is a run of 'flow'"):
            runner.resume("a", workflow=Workflow("other", step(triple)))
        assert runner.held == []


def test_a_run_is_not_resumed_with_another_graph(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(flow, id="a")

    with Runner(tmp_path / "runs.db") as runner:
        with pytest.raises(AnotherGraph, match=r"upgrade\('a', workflow, preview=True\) says what is kept"):
            runner.resume("a", workflow=Workflow("flow", step(triple) >> step(abs)))
        assert runner.held == []
        assert runner.find("a").owner is None


def test_a_start_with_another_graph_returns_the_run_that_exists_and_says_that_it_keeps_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(flow, id="a")

    with Runner(tmp_path / "runs.db") as runner:
        runner.start(Workflow("flow", step(triple) >> step(abs)), id="a")
        assert runner.send("a", 1).result(20) == 3
    assert "run 'a' keeps its graph" in caplog.text


@pytest.mark.parametrize("is_open", [False, True], ids=["finished", "held"])
def test_another_workflow_is_not_dropped_without_a_word(is_open: bool, caplog: pytest.LogCaptureFixture) -> None:
    with Runner() as runner:
        runner.start(flow, 1, id="a", open=is_open).wait(20)

        with pytest.raises(InvalidOption, match="workflow='other': run 'a' is a run of 'flow'"):
            runner.resume("a", workflow=Workflow("other", step(triple)))
        with pytest.raises(InvalidArgument, match="takes a workflow"):
            runner.resume("a", workflow=step(triple))  # type: ignore[arg-type]
        runner.resume("a", workflow=flow)
        with pytest.raises(AnotherGraph, match="upgrade"):
            runner.resume("a", workflow=Workflow("flow", step(triple) >> step(abs)))
    assert caplog.messages == []


@pytest.mark.parametrize("is_open", [False, True], ids=["finished", "open"])
def test_a_run_of_another_workflow_is_returned_if_that_is_asked_for(tmp_path: Path, is_open: bool) -> None:
    other = Workflow("other", step(abs))
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(flow, 1, id="a", open=is_open).wait(20)
        assert runner.start(other, 5, id="a", if_exists="return").id == "a"

    with Runner(tmp_path / "runs.db") as runner:
        runner.start(other, 5, id="a", if_exists="return")
        assert runner.result("a", 20) == 3
