"""Values that leave memory all the time, in simulation: runs do not notice, and evicting too much is found."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from world import draw

from weft import Workflow, accumulator, step
from weft.runner.durability import residency
from weft.telemetry import attach, detach
from weft.testing import Scenario, Trial, simulate
from weft.testing.simulation.process import Weather
from weft.testing.simulation.scenario import Closing
from weft.testing.simulation.scenario_draw import draw_scenario

SEEDS = range(7_000, 7_020)
SHARE = SEEDS if "WEFT_THOROUGH" in os.environ else SEEDS[:8]
"""The seeds of ``make test``."""


@pytest.fixture
def evictions() -> Iterator[list[int]]:
    """Return how many facts have left memory, each time that some have."""
    told: list[int] = []
    attach("test", ["weft.runner.values.evicted"], lambda _, measured, __: told.append(measured["facts"]))
    yield told
    detach("test")


def drawn(seed: int, **changed: Any) -> Scenario:
    """Return the scenario that is drawn for *seed*, but for what is *changed*."""
    dice = Random(seed)  # noqa: S311 - nothing is secret
    return replace(draw_scenario(dice, draw(dice)), **changed)


@pytest.mark.parametrize("budget", [1, 3_000])
def test_runs_whose_values_leave_memory_all_the_time_survive_what_was_drawn_for_them(
    budget: int, evictions: list[int]
) -> None:
    reports = [simulate(seed, draw, scenario=drawn(seed, memory_budget=budget)) for seed in SHARE]

    assert [str(report) for report in reports if report.problems] == []
    assert sum(evictions) > (20 if budget == 1 else 0)


def test_events_that_are_evicted_before_they_are_durable_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(self: Any) -> residency.Evicted:
        return self._evict(residency.mark(self._worker.run.memory))

    monkeypatch.setattr(residency.RunValues, "evict", everything)

    assert any(simulate(seed, draw, scenario=drawn(seed, memory_budget=1)).problems for seed in SEEDS)


def test_a_client_that_reads_a_history_while_its_runner_is_closed_comes_back_later() -> None:
    """The store, which the run it was given reads from, is closed with the runner."""
    total = accumulator(operator.add, init=0, name="total")
    trial = Trial(Workflow("sums", step(lambda x: 2 * x, name="double") >> total), (1, 2, 3))
    closings = (Closing(after=2.0, outage=0.0), Closing(after=8.0, outage=0.0))
    scenario = Scenario(
        weather=Weather(dawdles=0.5), closings=closings, memory_budget=1, snapshot_every=1, is_patient=True
    )

    found = [simulate(seed, lambda _: trial, scenario=scenario).problems for seed in range(12)]

    assert list(filter(None, found)) == []
