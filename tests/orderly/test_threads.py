"""Fifty threads, eight runs, every method of a blocking runner: nothing is lost or done twice, and no call hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_threads import problems_of_threads

SEEDS = 4
"""``make simulate`` tries others."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_done_twice_when_fifty_threads_use_every_method(seed: int, tmp_path: Path) -> None:
    problems, _ = problems_of_threads(seed, tmp_path / "runs.db", calls=20)

    assert problems == []


def test_every_method_is_called_and_most_of_them_return(tmp_path: Path) -> None:
    _, ledger = problems_of_threads(SEEDS, tmp_path / "runs.db", calls=20)

    called = {outcome.partition(" ")[0] for outcome in ledger.outcomes}
    assert len(called) >= 20
    assert sum(map(len, ledger.taken.values())) > 20
    assert sum(ledger.executions.values()) > 50
