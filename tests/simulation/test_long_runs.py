"""Long-lived runs, in simulation: random ones hold, at every death too, and what a broken runner does is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from weft.core.run import continuation
from weft.runner.execution.run_queue import RunQueue
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore
from weft.testing import Weather
from weft.testing.simulation.long_run_course import Action, Course
from weft.testing.simulation.long_runs import simulate_long_run
from weft.testing.simulation.process import Moment

IS_THOROUGH = "WEFT_THOROUGH" in os.environ
"""Whether more is tried: see ``make thorough``."""
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
CHANGED = Course(
    actions=(
        *("send", "send", "signal", "answer", "send", "upgrade", "pass", "retry", "fork", "refuse", "pass", "answer"),
        *("continue", "send", "upgrade", "pass", "fork", "signal", "continue", "send", "upgrade", "policies", "clock"),
    ),
    breaks=True,
    remote=0.5,
)
SHORTENED = Course(
    actions=(
        *("send", "signal", "continue", "send", "truncate", "send", "answer", "evict", "answer", "truncate"),
        *("signal", "stop", "send", "refuse", "pass", "answer", "compact", "truncate", "pass", "send", "truncate"),
    ),
    remote=0.5,
    snapshot_every=2,
    memory_budget=1,
    resident=0,
)
COURSES = {"changed": (1, CHANGED), "shortened": (1, SHORTENED)}
"""Seeds and courses with which everything that a client tries has an effect."""


@pytest.mark.parametrize("seed", range(60 if IS_THOROUGH else 6))
def test_a_run_that_lives_long_comes_to_what_it_was_given(seed: int) -> None:
    report = simulate_long_run(seed)

    assert report.problems == [], str(report)


def test_the_same_seed_is_the_same_simulation() -> None:
    assert simulate_long_run(4).story == simulate_long_run(4).story


def test_everything_that_a_client_can_do_has_an_effect() -> None:
    done: Counter[str] = Counter()
    for seed, course in COURSES.values():
        done += simulate_long_run(seed, course).done

    assert {*done} == {*get_args(Action)}


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("name", COURSES)
def test_a_death_at_any_write_changes_nothing(name: str, store: Any) -> None:
    seed, course = COURSES[name]
    course = replace(course, store=store)
    undisturbed, share = simulate_long_run(seed, course), 13 if store == "memory" else 37
    deaths = [
        (number, moment)
        for number in range(1, undisturbed.writes + 1)
        for place, moment in enumerate(MOMENTS)
        if IS_THOROUGH or (number % share == 1 and place == number // share % len(MOMENTS))
    ]

    reports = [undisturbed, *(simulate_long_run(seed, replace(course, dies=death)) for death in deaths)]

    assert [str(report) for report in reports if report.problems] == []
    assert undisturbed.writes > 30


# -- what a runner could do wrong ----------------------------------------------------------------


def found(seeds: Iterable[int], course: Course | None = None) -> str:
    """Return the first problem that one of the simulations *seeds* finds."""
    return next((problem for seed in seeds for problem in simulate_long_run(seed, course).problems), "nothing")


def test_work_that_is_kept_and_not_queued_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drop = RunQueue.drop

    def forgetful(queue: RunQueue, kept: Any = ()) -> Any:
        dropped = drop(queue, kept)
        queue.line.clear()
        return dropped

    course = Course(actions=("send", "upgrade", "send", "send", "upgrade"), weather=Weather(dawdles=0.2))
    monkeypatch.setattr(RunQueue, "drop", forgetful)

    assert "does not come to its end" in found([0, 3, 14], course)


def test_signals_that_a_continued_run_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuation, "_kept_signals", lambda _: [])

    course = Course(actions=("signal", "signal", "send", "answer", "continue", "send"))
    assert "does not come to its end" in found(range(10), course)


def test_a_timer_that_is_up_in_a_run_that_is_being_continued_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(worker: Worker, key: Any, due: float) -> None:
        worker.dispatcher.guard(worker, worker._fire, key, due)

    course = Course(actions=("send", "answer", "send", "continue", "send", "continue", "answer", "continue"))
    monkeypatch.setattr(Worker, "time_is_up", at_once)

    assert "when nothing is in flight" in found([34, 38], replace(course, weather=Weather(dawdles=0.9)))


def test_items_of_a_stream_that_are_stored_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    write = MemoryStore.write_chunks

    async def twice(store: MemoryStore, chunks: Any) -> Any:
        await write(store, [replace(each, place=each.place + 1) for each in chunks])
        return await write(store, chunks)

    monkeypatch.setattr(MemoryStore, "write_chunks", twice)

    assert "an execution has written" in found([1], Course(actions=("send",)))


def test_large_values_that_a_truncation_removes_although_they_are_needed_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truncate = MemoryStore.truncate_before

    async def greedily(store: MemoryStore, run: str, first: int, *, facts: Any, **given: Any) -> None:
        await truncate(store, run, first, facts=[*(store._runs[run].facts or ())], **given)

    monkeypatch.setattr(MemoryStore, "truncate_before", greedily)

    course = Course(actions=("send", "send", "send", "truncate", "stop", "pass"), snapshot_every=1)
    assert "no fact" in found(range(3), course)
