"""How many runs there are, by workflow, status and time."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft import Runner, Workflow, step
from weft.errors import InvalidOption
from weft.stores import MemoryStore
from weft.testing import TestRunner


def fails(x: int) -> int:
    raise ValueError(x)


good = Workflow("good", step(abs))
bad = Workflow("bad", step(fails))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_runs_are_counted_by_workflow_and_status(kind: str, tmp_path: Path) -> None:
    with Runner(MemoryStore() if kind == "memory" else tmp_path / "runs.db") as runner:
        runner.start_many(good, [1, 2, 3]).gather()
        runner.start_many(bad, [1, 2]).gather(return_exceptions=True)
        runner.start(good, id="open")

        assert runner.tally() == {("good", "completed"): 3, ("bad", "failed"): 2, ("good", "idle"): 1}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_runs_of_a_workflow_are_counted_by_version(kind: str, tmp_path: Path) -> None:
    longer = Workflow("good", step(abs) >> step(str))
    with Runner(MemoryStore() if kind == "memory" else tmp_path / "runs.db") as runner:
        runner.start_many(good, [1, 2, 3]).gather()
        runner.start(longer, 1).result()

        assert runner.count_versions("good") == {good.version: 3, longer.version: 1}
        assert runner.count_versions("none") == {}
        with pytest.raises(InvalidOption, match="name of a workflow"):
            runner.count_versions(good)  # type: ignore[arg-type]


def test_runs_are_counted_by_when_they_were_created() -> None:
    with TestRunner() as runner:
        begin = runner.now
        for _ in range(3):
            runner.start(good, 1)
            runner.advance(minutes=1)
        runner.start(bad, 1)

        assert runner.histogram(since=begin, width=120) == {(0, "completed"): 2, (1, "completed"): 1, (1, "failed"): 1}
        assert runner.histogram(since=begin, width=120, workflow="bad") == {(1, "failed"): 1}


def test_a_period_has_a_length() -> None:
    with Runner() as runner, pytest.raises(InvalidOption, match="seconds above 0"):
        runner.histogram(since=0, width=0)
