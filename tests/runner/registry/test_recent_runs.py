"""The runs that have finished lately: how many are kept, and which are dropped."""

from __future__ import annotations

from typing import Any

import pytest

from weft.runner.registry import recent_runs
from weft.runner.registry.recent_runs import EVENTS, RUNS, RecentRuns


class Left:
    """As much of a worker that has left as is looked at."""

    def __init__(self, run: str, events: int = 4) -> None:
        self.id = run
        self.run: Any = self
        self.memory: Any = self
        self.log = [None] * events


def kept(recent: RecentRuns, runs: list[str]) -> list[str]:
    return [run for run in runs if recent.get(run) is not None]


def added(*workers: Left) -> RecentRuns:
    recent = RecentRuns(lambda _: None)
    for worker in workers:
        found: Any = worker
        recent.add(found)
    return recent


def test_the_last_runs_are_kept_and_the_oldest_are_dropped() -> None:
    runs = [f"r{number}" for number in range(RUNS + 10)]

    assert kept(added(*map(Left, runs)), runs) == runs[10:]


def test_long_runs_leave_room_for_fewer_of_them() -> None:
    runs = [f"r{number}" for number in range(5)]

    assert kept(added(*(Left(run, EVENTS // 3) for run in runs)), runs) == runs[2:]


def test_a_run_that_is_longer_than_all_that_is_kept_is_not_kept() -> None:
    assert kept(added(Left("a"), Left("long", EVENTS + 1)), ["a", "long"]) == []


def test_a_run_that_has_finished_again_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_runs, "RUNS", 2)
    last = Left("a")

    recent = added(Left("a"), Left("b"), last, Left("c"))

    assert (kept(recent, ["a", "b", "c"]), recent.get("a")) == (["a", "c"], last)


def test_a_run_that_is_forgotten_makes_room() -> None:
    recent = added(Left("a", EVENTS - 4))
    recent.forget("a")
    recent.forget("never there")
    later: Any = Left("b", EVENTS - 4)
    recent.add(later)

    assert kept(recent, ["a", "b"]) == ["b"]


def test_none_is_kept_after_all_were_dropped() -> None:
    recent = added(Left("a"), Left("b", events=EVENTS - 4))
    recent.clear()
    again: Any = Left("c", events=EVENTS)
    recent.add(again)

    assert kept(recent, ["a", "b", "c"]) == ["c"]
