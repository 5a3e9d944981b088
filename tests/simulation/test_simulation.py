"""Whole lives of a runner in simulation: crashes, bad stores and bad steps leave no trace in what a run comes to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

import pytest
from world import draw

from weft import Workflow, step
from weft.errors import StoreError
from weft.ports.store import Append
from weft.runner.flight import Flight
from weft.runner.office import Office
from weft.runner.worker import Worker
from weft.stores import MemoryStore
from weft.testing import Plot, Trial, simulate

FIXED = 300
"""How many seeds are always the same."""
RANDOM = 100
"""How many are new every time."""
BATCHES = 4
SEED = 38
"""A case of several lives."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_runs_survive_what_was_drawn_for_them(batch: int) -> None:
    reports = [simulate(seed, draw) for seed in range(batch, FIXED, BATCHES)]

    assert [str(report) for report in reports if report.problems] == []


@pytest.mark.skipif("CI" in os.environ, reason="CI must give the same verdict twice")
def test_runs_survive_what_nobody_has_tried_before() -> None:
    seeds = [SystemRandom().randrange(10**9) for _ in range(RANDOM)]

    failed = [str(report) for report in (simulate(seed, draw) for seed in seeds) if report.problems]

    assert failed == [], "repeat it with: make simulate ARGS='--seed N --cases 1'"


def test_the_same_seed_is_the_same_story() -> None:
    first, second = simulate(SEED, draw), simulate(SEED, draw)

    assert first.story == second.story
    assert first.lives > 1


def test_the_same_seed_is_the_same_story_in_another_process() -> None:
    code = "import conftest; from world import draw; from weft.testing import simulate; print(simulate(38, draw))"
    stories = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert stories[0] == stories[1]
    assert "life 2" in stories[0]


def test_a_wrong_result_is_found_and_told() -> None:
    wrong = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,), lambda run: [f"it made {run.output}"])

    report = simulate(1, lambda _: wrong, plot=Plot(crashes=(12,)))

    assert report.problems == ["a: it made 2"]
    assert "crash at turn 12" in str(report)
    assert "a executes more(2,), attempt 1" in str(report)


class Liar(MemoryStore):
    """Says that every third append is written, and writes it not."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        self.count += 1
        return await super().append(batch) if self.count % 3 else [None for _ in batch]


def test_a_store_that_loses_what_it_has_acknowledged_is_found() -> None:
    trial = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,))

    report = simulate(1, lambda _: trial, plot=Plot(), store=Liar())

    assert "a: reported with 3 events when only 2 were durable" in report.problems


def test_a_step_that_is_started_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,))
    submit = Office.submit

    def submit_twice(office: Office, worker: Worker, flight: Flight) -> None:
        submit(office, worker, flight)
        submit(office, worker, flight)

    monkeypatch.setattr(Office, "submit", submit_twice)
    report = simulate(1, lambda _: trial, plot=Plot())

    assert "a: more(2,) is under way and is executed again" in report.problems
