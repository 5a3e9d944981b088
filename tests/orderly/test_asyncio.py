"""Tasks that cancel every call within milliseconds, also close: nothing is lost, no call hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_tasks import problems_of_tasks

SEEDS = 8
"""The odd ones are on a store that is slow, fails and lies.  ``make simulate`` tries others."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_done_twice_when_callers_cancel_every_call(seed: int, tmp_path: Path) -> None:
    problems, _ = problems_of_tasks(seed, tmp_path / "runs.db")

    assert problems == []


def test_some_calls_return_and_others_are_cut_off(tmp_path: Path) -> None:
    _, ledger = problems_of_tasks(0, tmp_path / "runs.db", lives=1)

    assert sum(map(len, ledger.taken.values())) > 0
    assert sum(ledger.executions.values()) > 0
    assert sum(ledger.outcomes.values()) < 300
