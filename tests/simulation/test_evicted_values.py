"""Values that leave memory all the time, in simulation: runs do not notice, and evicting too much is found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from world import draw

from weft.runner.durability import residency
from weft.telemetry import attach, detach
from weft.testing import Scenario, simulate
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
