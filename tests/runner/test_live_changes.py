"""A run in a runner whose workflow is changed while it is live."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft import Runner, Workflow, step
from weft.core import events as ev
from weft.errors import CyclicWorkflow, DefinitionError, RunClosed, UnknownComponent


def double(x: int) -> int:
    """Return twice *x*."""
    return 2 * x


def square(x: int) -> int:
    """Return *x* times *x*."""
    return x * x


flow = Workflow("flow", step(double))


def test_a_component_that_is_added_to_a_run_gets_the_facts_that_come_from_then_on(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(flow, id="a")
        assert runner.send("a", 3).result(20) == 6

        runner.add("a", step(square), to="double", by="ann")

        assert runner.send("a", 4).result(20) == 64
        (added,) = [event for event in runner.log("a") if isinstance(event, ev.ComponentAdded)]
        assert (added.components, added.by) == (("square",), "ann")

    with Runner(tmp_path / "runs.db") as runner:  # it is an event of the run, and there after a restart
        runner.resume("a")
        assert runner.send("a", 5).result(20) == 100


def test_a_component_that_is_removed_from_a_run_is_asked_no_more() -> None:
    with Runner() as runner:
        runner.start(Workflow("flow", step(double), step(square)), id="a")
        runner.remove("a", "square", by="ann")

        assert runner.send("a", 4).result(20) == 8
        (removed,) = [event for event in runner.log("a") if isinstance(event, ev.ComponentRemoved)]
        assert (removed.component, removed.by) == ("square", "ann")


def test_other_runs_keep_their_workflow() -> None:
    with Runner() as runner:
        runner.start(flow, id="a")
        runner.start(flow, id="b")
        runner.add("a", step(square), to="double")

        assert (runner.send("a", 1).result(20), runner.send("b", 3).result(20)) == (4, 6)


def test_a_change_that_would_not_work_changes_nothing() -> None:
    with Runner() as runner:
        runner.start(flow, id="a")

        with pytest.raises((UnknownComponent, CyclicWorkflow, DefinitionError)):
            runner.add("a", step(square), to="nothing")
        assert len(runner.log("a")) == 1


def test_a_run_that_has_finished_is_not_changed() -> None:
    with Runner() as runner:
        runner.start(flow, 1, id="a").wait(20)

        for change in (lambda: runner.add("a", step(square)), lambda: runner.remove("a", "double")):
            with pytest.raises(RunClosed, match="has completed"):
                change()


@pytest.mark.parametrize("which", ["squara", 5])
def test_a_component_that_a_run_does_not_have_is_not_removed_in_silence(which: object) -> None:
    with Runner() as runner:
        runner.start(flow, id="a")

        with pytest.raises(UnknownComponent, match="double"):
            runner.remove("a", which)
