"""
Before, during and after every append: every kind of component, under every strategy, comes to the same as without.

In simulation: a process dies at the chosen moment, and the next one resumes.  What else must hold (nothing that is
durable is executed again, the hash chain, no place or owner left over) is checked by the simulation itself.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import pytest
from kinds import KINDS, Kind, summary
from msgspec.structs import replace

from weft import AsyncRunner, Run, Saga, Workflow
from weft.core.fold import undoing as undoing_of_the_fold
from weft.core.fold.external import ExternalAttempts
from weft.runner import every_n
from weft.runner.checkpoints import Checkpoints, every_cycle, manual, on_complete, pipelined
from weft.testing import Report, Scenario, Trial, simulate
from weft.testing.simulation.process import Moment
from weft.testing.simulation.scenario import Ends

STRATEGIES = [every_cycle, every_n(2), on_complete, manual, pipelined()]
MENDED = 10
"""A value that the step does not fail on."""
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
IS_THOROUGH = "WEFT_THOROUGH" in os.environ
"""Whether everything is tried, and not a share of it: see ``make thorough``."""
ON_FILES = ("reduce", "saga", "wait for signals", "accumulator")
"""The kinds that are also tried on a file."""


def strategies() -> list[Any]:
    """Return pairs of a kind and a strategy: all, or the usual strategy and one of the others for each kind."""
    pairs = [
        (name, strategy)
        for number, name in enumerate(KINDS)
        for place, strategy in enumerate(STRATEGIES)
        if IS_THOROUGH or place in (0, 1 + number % (len(STRATEGIES) - 1))
    ]
    return [pytest.param(*pair, id=f"{pair[0]}-{pair[1]}") for pair in pairs]


def crashes(undisturbed: Report, trial: Trial, scenario: Scenario) -> list[Report]:
    """Simulate a death at every write, at each of the moments, or at one of them in turn."""
    shift = len(trial.workflow.components)
    deaths = [
        (number, moment)
        for number in range(1, undisturbed.writes + 1)
        for place, moment in enumerate(MOMENTS)
        if IS_THOROUGH or place == (number + shift) % len(MOMENTS)
    ]
    return [simulate(1, lambda _: trial, scenario=replace(scenario, dies=death)) for death in deaths]


def trial_of(kind: Kind, expected: Any) -> Trial:
    """Return what has to be simulated: the client also retries what was set aside, and waits for children."""

    def check(run: Run) -> list[str]:
        found = summary(run)
        return [] if expected in (None, found) else [f"it came to {found}, not to {expected}"]

    async def finish(runner: AsyncRunner, run: str) -> None:
        if kind.retries_letters and (await runner.get(run)).dead_letters:
            await runner.retry(run)
        if kind.retries_failures and (await runner.get(run)).failures:
            await runner.retry(run, "picky", input=MENDED)
        for other in runner.held:  # a child that was resumed, and that no caller waits for any more
            await runner.wait(other)

    return Trial(kind.workflow, kind.inputs, check, then=finish, signals=kind.signals)


def reference(kind: Kind) -> dict[str, Any]:
    """Return what *kind* comes to in memory."""
    run = kind.workflow.plan()
    for value in kind.inputs:
        run.run(value)
    if kind.retries_failures:
        run.retry("picky", input=MENDED).react_until_satisfied()
    for signal in kind.signals:
        run.signal(signal.name, signal.value)
    return summary(run.react_until_satisfied())


@pytest.mark.parametrize(("name", "strategy"), strategies())
def test_a_crash_at_any_append_changes_nothing(name: str, strategy: Checkpoints) -> None:
    kind = KINDS[name]
    trial = trial_of(kind, reference(kind))
    number = list(KINDS).index(name)
    ends: Ends = "input" if len(kind.inputs) == 1 else ("told", "open")[number // 2 % 2]
    scenario = Scenario(strategy=strategy, resumes_all=number % 2 == 0, ends=ends)
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)

    crashed = crashes(undisturbed, trial, scenario)

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []
    assert {report.lives for report in crashed} == {2}
    assert undisturbed.writes >= 2


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("resumes_all", [True, False])
def test_a_crash_at_any_append_leaves_no_child_running_whichever_runs_are_resumed(
    resumes_all: bool, strategy: Checkpoints
) -> None:
    """Without ``resume_all``, only the parent is resumed, and its step finds the children that it had started."""
    kind = KINDS["child"]
    trial, scenario = trial_of(kind, reference(kind)), Scenario(strategy=strategy, resumes_all=resumes_all)
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)

    crashed = crashes(undisturbed, trial, scenario)

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []


@pytest.mark.parametrize("resident", [None, 0])
@pytest.mark.parametrize("name", ["sleep", "wait for signals", "wait that times out"])
def test_a_crash_at_any_append_changes_nothing_of_what_waits_and_is_told_through_its_inbox(
    name: str, resident: int | None
) -> None:
    kind = KINDS[name]
    trial, scenario = trial_of(kind, reference(kind)), Scenario(remote=1.0, resident=resident, ends="told")
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)

    crashed = crashes(undisturbed, trial, scenario)

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []
    assert {report.lives for report in crashed} == {2}


@pytest.mark.parametrize(
    ("name", "every"),
    [
        (name, every)
        for place, name in enumerate(KINDS)
        for every in (None, 3)
        if IS_THOROUGH or place % 2 == bool(every)
    ],
)
def test_a_crash_at_any_append_of_a_run_whose_values_leave_memory_changes_nothing(name: str, every: int | None) -> None:
    kind = KINDS[name]
    trial = trial_of(kind, reference(kind))
    ends: Ends = "input" if len(kind.inputs) == 1 else "open"
    scenario = Scenario(memory_budget=1, snapshot_every=every, ends=ends)
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)

    crashed = crashes(undisturbed, trial, scenario)

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []
    assert {report.lives for report in crashed} == {2}


@pytest.mark.parametrize(
    ("name", "store"),
    [
        *((name, "memory") for name in KINDS if name != "halted failure"),  # whose retry needs its history
        *((name, "file") for name in KINDS if name in ON_FILES or (IS_THOROUGH and name != "halted failure")),
    ],
)
def test_a_crash_at_any_append_truncation_or_compaction_changes_nothing(
    name: str, store: Literal["memory", "file"]
) -> None:
    """A log is truncated after every input, while that is worked on, and when the run has nothing left to do."""
    kind = KINDS[name]
    trial = trial_of(kind, reference(kind))
    ends: Ends = "input" if len(kind.inputs) == 1 else "open"
    scenario = Scenario(snapshot_every=1, truncates=1.0, compacts=1.0, store=store, ends=ends)
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)

    crashed = crashes(undisturbed, trial, scenario)

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []
    assert {report.lives for report in crashed} == {2}
    assert any(" events of a were removed" in line for line in undisturbed.story)


@pytest.mark.parametrize("name", KINDS)
def test_a_crash_at_any_append_of_a_run_with_snapshots_changes_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = KINDS[name]
    trial = trial_of(kind, reference(kind))
    ends: Ends = "input" if len(kind.inputs) == 1 else "open"
    scenario = Scenario(snapshot_every=1, ends=ends)
    undisturbed = simulate(1, lambda _: trial, scenario=scenario)

    crashed = crashes(undisturbed, trial, scenario)

    assert [str(report) for report in (undisturbed, *crashed) if report.problems] == []
    assert {report.lives for report in crashed} == {2}
    assert "cannot be used" not in caplog.text, "a snapshot was there and the log was read"


# -- a run that is cancelled ---------------------------------------------------------------------------


def undoing(undone: list[int]) -> Trial:
    """Return what has to be simulated: a saga whose last transaction takes long, and which says what was undone."""
    trip = Saga("trip")
    trip.transaction(lambda request, results: "seat", name="book", compensate=lambda q, results: undone.append(1))
    trip.transaction(lambda request, results: "room", name="stay", compensate=lambda q, results: undone.append(2))
    trip.transaction(lambda request, results: "paid", name="pay", compensate=None)
    return Trial(Workflow("travel", trip), (1,))


def cancelled_in_time(scenario: Scenario) -> tuple[int, Report]:
    """Return a seed in which the run is cancelled when both transactions are done, and its report."""
    for seed in range(1, 200):
        undone: list[int] = []
        trial = undoing(undone)
        report = simulate(seed, lambda _, trial=trial: trial, scenario=scenario)
        assert not report.problems, str(report)
        if undone == [2, 1]:
            return seed, report
    raise AssertionError("no run was cancelled in time")


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_crash_at_any_append_of_a_run_that_is_cancelled_leaves_nothing_to_undo(strategy: Checkpoints) -> None:
    scenario = Scenario(strategy=strategy, cancels=1.0, ends="input")
    seed, undisturbed = cancelled_in_time(scenario)
    reports = []
    for number in range(1, undisturbed.writes + 1):
        for moment in MOMENTS:
            trial = undoing([])
            scenario_of = replace(scenario, dies=(number, moment))
            reports.append(simulate(seed, lambda _, trial=trial: trial, scenario=scenario_of))

    assert [str(report) for report in reports if report.problems] == []


def test_a_transaction_that_is_not_undone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(cancels=1.0, ends="input")
    seed, _ = cancelled_in_time(scenario)
    monkeypatch.setattr(undoing_of_the_fold, "went_back", lambda *_: None)

    report = simulate(seed, lambda _: undoing([]), scenario=scenario)

    assert any("trip.stay.undo has not undone what was done" in each for each in report.problems), str(report)


def test_what_starts_although_its_run_was_cancelled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(cancels=1.0, ends="input")
    seed, _ = cancelled_in_time(scenario)
    monkeypatch.setattr(ExternalAttempts, "fail", lambda *_: None)

    report = simulate(seed, lambda _: undoing([]), scenario=scenario)

    assert any("was started after cancelling the run was acknowledged" in each for each in report.problems)
