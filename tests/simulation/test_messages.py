"""
Signals, timers and messages in simulation: every law about them holds, and a runner that breaks it is found.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from weft import Policy, Run, Workflow, sleep, step, wait_for
from weft.core import events as ev
from weft.core.fold.scope import Key
from weft.core.run import waits
from weft.errors import InvalidEvent
from weft.policy import DEFAULT
from weft.ports.store import Message
from weft.runner.checkpoints import as_checkpoints
from weft.runner.durability.unsaved import UnsavedLog
from weft.runner.execution import intake
from weft.runner.execution import worker as worker_module
from weft.runner.execution.timers import Timers
from weft.runner.execution.worker import Worker
from weft.runner.registry import mailbox, message_handlers
from weft.runner.registry.registry import RunRegistry
from weft.testing import Jump, Scenario, Signal, Trial, Weather, simulate

IS_THOROUGH = "WEFT_THOROUGH" in os.environ
"""Whether more is tried: see ``make thorough``."""
SIGNALS = (Signal("go", 1), Signal("go", 2), Signal("go", 3))


def signalled(timeout: float | None = None) -> Trial:
    """Return a trial of two inputs that wait for one signal each, of three that are sent, in the order of both."""

    def check(run: Run) -> list[str]:
        took = run.values("go")
        return [] if len(took) == 2 or (timeout is not None and run.failed) else [f"it took {took}"]

    workflow = Workflow("w", step(lambda x: x, name="ask") >> wait_for("go", timeout=timeout) >> step(str, name="said"))
    return Trial(workflow, (10, 20), check, signals=SIGNALS, ending_signals=(Signal("go", 9),))


def asleep(seconds: float = 50.0) -> Trial:
    """Return a trial of a sleep."""

    def check(run: Run) -> list[str]:
        return [] if run.values("woken") == [7] else [f"it made {run.values('woken')}"]

    return Trial(Workflow("w", sleep(seconds, name="nap") >> step(lambda x: x, name="woken")), (7,), check)


def problems(
    trial: Trial, scenario: Scenario, seeds: int = 5, crashes: Iterable[int] = (12, 25, 40, 60)
) -> Iterator[str]:
    """Yield what is wrong with *trial* in some seeds, without a crash and with one at each of some turns."""
    every = [scenario, *(replace(scenario, crashes=(turn,)) for turn in crashes)]
    for seed in range(seeds):
        for each in every:
            yield from simulate(seed, lambda _: trial, scenario=each).problems


REMOTE = Scenario(remote=1.0, runs=("a", "b"), repeats=0.3)
"""Everything goes through the inboxes of runs."""
EVICTED = replace(REMOTE, resident=0)
"""The runs leave memory as soon as they only wait."""
HALF_REMOTE = replace(EVICTED, remote=0.5, weather=Weather(0.1, 0.1, 0.3))
"""Some of it does, on a store that fails, and says that it failed when it did not."""


@pytest.mark.parametrize("scenario", [REMOTE, EVICTED, HALF_REMOTE, replace(HALF_REMOTE, store="file")], ids=str)
@pytest.mark.parametrize("timeout", [None, 1.0, 30.0])
def test_messages_have_their_effect_whenever_a_process_crashes(scenario: Scenario, timeout: float | None) -> None:
    assert list(problems(signalled(timeout), scenario, seeds=3 if IS_THOROUGH else 1)) == []


@pytest.mark.parametrize("strategy", ["every_cycle", "on_complete", "manual"])
@pytest.mark.parametrize("resident", [None, 0])
def test_a_sleep_is_over_once_and_in_time_whenever_a_process_crashes(strategy: str, resident: int | None) -> None:
    scenario = Scenario(resident=resident, strategy=as_checkpoints(strategy), weather=Weather(dawdles=0.3))

    assert list(problems(asleep(), scenario, seeds=4 if IS_THOROUGH else 2)) == []


@pytest.mark.parametrize("by", [-5_000.0, -3.0, 3.0, 5_000.0])
@pytest.mark.parametrize("after", [0.0, 10.0])
def test_a_clock_that_is_set_neither_shortens_nor_ends_a_sleep(by: float, after: float) -> None:
    assert list(problems(asleep(), Scenario(jumps=(Jump(after, by),)), seeds=3 if IS_THOROUGH else 1)) == []


# -- what a runner could do wrong ----------------------------------------------------------------


def test_a_message_that_stays_in_the_inbox_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnsavedLog, "take", lambda *_: None)

    assert any("are left in its inbox" in each for each in problems(signalled(), REMOTE, seeds=1))


RULED = replace(REMOTE, rules=((DEFAULT, Policy(max_retries=1)),), retries=1, rulings=1.0)
"""A client changes the policies of the runs, which nothing but the inbox keeps from happening twice."""


def test_a_message_that_is_taken_and_has_no_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(message_handlers._APPLY, ev.PolicyChanged, lambda *_: None)  # type: ignore[index]

    assert any("was accepted, and has no effect" in each for each in problems(signalled(), RULED, seeds=1))


def test_a_message_that_happens_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = UnsavedLog.take
    seen: set[int] = set()

    def take_later(unsaved: UnsavedLog, number: int) -> None:
        """Take a message out only when it comes for the second time."""
        if number in seen:
            take(unsaved, number)
        seen.add(number)

    well = list(problems(signalled(), RULED, seeds=3 if IS_THOROUGH else 1))
    monkeypatch.setattr(UnsavedLog, "take", take_later)

    assert well == []

    def found() -> Iterator[str]:
        for seed, crash in itertools.product(range(3), (60, 300)):
            seen.clear()
            yield from simulate(seed, lambda _: signalled(), scenario=replace(RULED, crashes=(crash,))).problems

    assert any("has 2 effects" in each for each in found())


def test_messages_that_happen_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = message_handlers.deliver

    def backwards(worker: Worker, messages: Iterable[Message]) -> None:
        for message in reversed(list(messages)):
            worker.heard = 0
            deliver(worker, [message])

    scenario = replace(REMOTE, resident=0, weather=Weather(dawdles=0.9))
    monkeypatch.setattr(mailbox, "deliver", backwards)

    assert any("and has its effect before it" in each for each in problems(signalled(), scenario, seeds=12))


def test_a_message_for_an_evicted_run_that_wakes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunRegistry, "is_asleep", lambda *_: False)

    assert any(problems(signalled(), EVICTED, seeds=1, crashes=()))


def test_a_run_that_is_evicted_before_it_is_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "is_stored", property(lambda _: True))
    scenario = replace(EVICTED, remote=0.0, strategy=as_checkpoints("manual"), weather=Weather(dawdles=0.5))

    assert any(problems(signalled(), scenario, seeds=6))


def test_a_timer_that_fires_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add, fire = Timers.add, worker_module.fire_timer

    def early(own: Timers, sleeper: Any, key: Key, due: float, *, is_relative: bool) -> None:
        add(own, sleeper, key, due - 20.0, is_relative=is_relative)

    monkeypatch.setattr(Timers, "add", early)
    monkeypatch.setattr(worker_module, "fire_timer", lambda run, key, now: fire(run, key, now + 20.0))

    found = list(problems(asleep(), Scenario(), seeds=1, crashes=()))

    assert found == ["a: nap(2,) was over 20.000 seconds too early"]


def test_a_timer_that_starts_again_after_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def started_again(run: Any, now: float) -> list[Key]:
        waits = run.memory.waiting or {}
        waits.update({key: replace(waiting, due=None) for key, waiting in waits.items()})
        return begin(run, now)

    begin = intake.begin_waits
    monkeypatch.setattr(intake, "begin_waits", started_again)

    with pytest.raises(InvalidEvent, match=r"'nap' has nothing ready at \(2,\) for TimerStarted"):  # it is in the log
        list(problems(asleep(), Scenario(), seeds=2, crashes=(16,)))


def test_a_sleep_that_follows_a_clock_that_is_set_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Timers.add

    def by_the_clock(own: Timers, sleeper: Any, key: Key, due: float, *, is_relative: bool) -> None:
        add(own, sleeper, key, due, is_relative=False)

    monkeypatch.setattr(Timers, "add", by_the_clock)
    found = problems(asleep(), Scenario(jumps=(Jump(10.0, 5_000.0),)), seeds=1, crashes=())

    assert any("seconds too early" in each for each in found)


def test_a_signal_that_came_early_and_is_not_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_take_early_signal", lambda *_: False)

    found = problems(signalled(30.0), Scenario(), seeds=4, crashes=())

    assert any("has timed out, and the signal at" in each for each in found)
