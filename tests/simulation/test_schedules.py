"""Simulated schedules: random ones hold, and what a broken one does is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from weft.policy import RateLimit, limits
from weft.ports.schedules import StoredSchedule
from weft.runner.schedules import decision, embedded, loop
from weft.stores import MemoryStore
from weft.testing import Weather
from weft.testing.simulation.scenario import Jump
from weft.testing.simulation.schedules import Rule, simulate_schedule

Decide = Callable[..., decision.Decision]


@pytest.mark.parametrize("seed", range(12))
def test_a_schedule_fires_each_time_once_whatever_happens(seed: int) -> None:
    report = simulate_schedule(seed)

    assert report.problems == [], str(report)


def test_the_same_seed_is_the_same_simulation() -> None:
    first, second = simulate_schedule(4), simulate_schedule(4)

    assert (first.story, first.fired) == (second.story, second.fired)


def found(seeds: Iterable[int], rule: Rule | None = None) -> str:
    """Return the first problem that one of the simulations *seeds* finds."""
    return next((problem for seed in seeds for problem in simulate_schedule(seed, rule).problems), "nothing")


def deciding(monkeypatch: pytest.MonkeyPatch, change: Callable[[Decide], Decide]) -> None:
    """Let processes decide in another way."""
    monkeypatch.setattr(loop, "decide", change(decision.decide))


def test_firings_that_a_dead_process_had_decided_and_that_are_forgotten_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(decide: Decide) -> Decide:
        def decided(schedule: Any, state: decision.ScheduleState, now: float, **free: Any) -> decision.Decision:
            return decide(schedule, replace(state, starting=()), now, **free)

        return decided

    deciding(monkeypatch, forgetful)

    assert "nothing had decided that" in found([4])


def test_firings_that_start_before_their_time_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(decide: Decide) -> Decide:
        def decided(schedule: Any, state: decision.ScheduleState, now: float, **free: Any) -> decision.Decision:
            return decide(schedule, state, now + 20.0, **free)

        return decided

    deciding(monkeypatch, hasty)

    assert "before its time" in found([4])


def test_a_clock_that_is_set_back_while_a_run_is_being_created_changes_nothing_that_was_decided() -> None:
    rule = Rule(overlap="queue", weather=Weather(dawdles=0.9), jumps=(Jump(10.0, -180.0), Jump(60.0, -5.0)), runners=2)

    assert found(range(6), rule) == "nothing"


def test_a_run_that_takes_hours_is_waited_for_by_the_runner_that_has_it() -> None:
    lives = ((20.0, 4_200.0),)
    rule = Rule(
        every=600.0,
        overlap="allow",
        catch_up=0,
        tolerance=1_200.0,
        lasts=(1_500.0, 1.0),
        runners=2,
        lives=lives,
        places=1,
    )

    assert found([10576], rule) == "nothing"


def test_runs_that_overlap_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def always(*_: Any) -> bool:
        return True

    monkeypatch.setattr(embedded, "is_finished", always)

    assert "has not finished" in found([1, 3])


def test_firings_that_were_missed_and_are_all_made_up_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def eager(decide: Decide) -> Decide:
        def decided(schedule: decision.Schedule, *given: Any, **free: Any) -> decision.Decision:
            return decide(replace(schedule, catch_up=99), *given, **free)

        return decided

    deciding(monkeypatch, eager)

    assert "later ones were missed too" in found([14, 33])


def test_firings_that_are_dropped_although_there_was_time_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(decide: Decide) -> Decide:
        def decided(schedule: decision.Schedule, *given: Any, **free: Any) -> decision.Decision:
            return decide(replace(schedule, catch_up=0, tolerance=0.0), *given, **free)

        return decided

    deciding(monkeypatch, strict)

    assert "was not fired" in found([12, 14])


def test_a_time_that_is_decided_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    put = MemoryStore.put_schedule

    async def careless(store: MemoryStore, row: StoredSchedule) -> bool:
        present = [each.revision for each in await store.list_schedules(row.name)]
        return await put(store, replace(row, revision=present[0] if present else 0))

    monkeypatch.setattr(MemoryStore, "put_schedule", careless)

    assert "the schedule says that it has fired" in found([58, 59])


def test_steps_of_many_runs_that_exceed_the_places_that_they_share_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(overlap="allow", lasts=(200.0,), places=2)
    assert found([1], rule) == "nothing"

    def careless(_: object, state: limits.UseState | None) -> tuple[limits.UseState, bool]:
        return state or limits.UseState(), True

    monkeypatch.setattr(limits, "place_asked", careless)

    assert found([1], rule) == "3 are in flight where 2 may be"


def test_steps_of_many_runs_that_exceed_the_rate_that_they_share_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(overlap="allow", every=10.0, rate=RateLimit("rate", 1, 20.0))
    assert found([1], rule) == "nothing"

    def at_once(*_: Any, **__: Any) -> float:
        return 0.0

    monkeypatch.setattr(limits, "rate_wait", at_once)

    assert "the rate is" in found([1], rule)
