"""The simulation of docs/explanation/scale.md: it repeats itself, and the page shows what it says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scale() -> Any:
    spec = importlib.util.spec_from_file_location("scale", ROOT / "benchmarks" / "scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["scale"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_simulation_says(scale: Any) -> None:
    page = (ROOT / "docs" / "explanation" / "scale.md").read_text(encoding="utf-8")

    for number in (0, 6):
        case = scale.CASES[number]
        assert f"| {' | '.join(scale.row(case, scale.simulate(case, 1)))} |" in page
    assert all(f"| {case.workers:,} | {case.shards:,} |" in page for case in scale.CASES)


def test_it_repeats_itself_and_databases_share_the_work(scale: Any) -> None:
    one = scale.Case("", 20, 1, 0.5, span=2.0)
    four = scale.Case("", 20, 4, 0.5, span=2.0)

    tally, again, spread = scale.simulate(one, 7), scale.simulate(one, 7), scale.simulate(four, 7)

    assert tally == again
    assert tally.steps > 0
    assert spread.busy / 4 < tally.busy
    assert max(spread.waits) <= max(tally.waits)


def test_the_runs_of_dead_workers_are_claimed_after_their_leases(scale: Any) -> None:
    assert 0 < scale.takeover(1, workers=6, deaths=1) <= scale.LEASE + 2.5
