"""Whole lives of a runner in simulation: crashes, bad stores and bad steps leave no trace in what a run comes to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from families import Child, Family, Start
from msgspec.structs import replace
from network import Network, Place, Verdict
from remedies import FALLBACKS, UNDOING, Fragile, Spare
from world import draw, wired

from weft import AsyncRunner, Policy, Run, Runnable, Workflow, step
from weft.core.events import ChildStarted
from weft.core.fold.fold import record
from weft.errors import StoreError
from weft.policy import DEFAULT, ConcurrencyLimit, driver, limits
from weft.policy.decision import Fallback
from weft.policy.run_policies import RunPolicies
from weft.ports.store import Append
from weft.runner.checkpoints import as_checkpoints
from weft.runner.durability.takeover import Takeover
from weft.runner.execution import worker as worker_module
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.executor_queue import ExecutorQueue
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.timeouts import Timeouts
from weft.runner.execution.worker import Worker
from weft.runner.registry import children
from weft.runner.registry.children import ChildRuns
from weft.runner.waiting.waiters import Waiters
from weft.stores import MemoryStore
from weft.testing import Scenario, Trial, Weather, simulate
from weft.testing.simulation.scenario import TIMEOUT, Closing
from weft.testing.simulation.scenario_draw import draw_scenario

IS_THOROUGH = "WEFT_THOROUGH" in os.environ
"""Whether more is tried: see ``make thorough``."""
FIXED = 400 if IS_THOROUGH else 24
"""How many seeds are always the same."""
RANDOM = 200 if IS_THOROUGH else 8
"""How many are new every time."""
BATCHES = 4
SEED = 42
"""A case of several lives."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_runs_survive_what_was_drawn_for_them(batch: int) -> None:
    reports = [simulate(seed, draw) for seed in range(batch, FIXED, BATCHES)]

    assert [str(report) for report in reports if report.problems] == []


@pytest.mark.skipif("CI" in os.environ, reason="CI must give the same verdict twice")
def test_runs_survive_what_nobody_has_tried_before() -> None:
    seeds = [SystemRandom().randrange(10**9) for _ in range(RANDOM)]

    failed = [str(report) for report in (simulate(seed, draw) for seed in seeds) if report.problems]

    assert failed == [], "repeat it with: make simulate ARGS='--seed N --cases 1'"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(519148328, id="a cancel is taken in while on_complete is still to be called"),
        pytest.param(5230, id="the second of two starts of one run comes when it has finished"),
    ],
)
def test_what_the_simulation_once_took_for_a_problem_is_none(seed: int) -> None:
    report = simulate(seed, draw)

    assert report.problems == [], str(report)


def test_the_same_seed_is_the_same_story() -> None:
    first, second = simulate(SEED, draw), simulate(SEED, draw)

    assert first.story == second.story
    assert first.lives > 1


def test_the_same_seed_is_the_same_story_in_another_process() -> None:
    code = f"import conftest; from world import draw; from weft.testing import simulate; print(simulate({SEED}, draw))"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    story = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert story == f"{simulate(SEED, draw)}\n"
    assert "life 2" in story


def test_the_same_seed_is_the_same_story_on_a_file() -> None:
    scenario = Scenario(store="file", crashes=(20, 30), weather=Weather(0.1, 0.1, 0.3))

    first, second = (simulate(SEED, draw, scenario=scenario) for _ in range(2))

    assert first.problems == []
    assert first.story == second.story
    assert first.lives == 3


def test_a_wrong_result_is_found_and_told() -> None:
    wrong = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,), lambda run: [f"it made {run.output}"])

    report = simulate(1, lambda _: wrong, scenario=Scenario(crashes=(12,)))

    assert report.problems == ["a: it made 2"]
    assert "crash at turn 12" in str(report)
    assert "a executes more(2,), attempt 1" in str(report)


class Liar(MemoryStore):
    """Says that every third append is written, and writes it not."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        self.count += 1
        return await super().append(batch) if self.count % 3 else [None for _ in batch]


def test_a_store_that_loses_what_it_has_acknowledged_is_found() -> None:
    trial = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,))

    report = simulate(1, lambda _: trial, scenario=Scenario(), store=Liar())

    assert "a: reported with 3 events when only 2 were durable" in report.problems


def test_a_step_that_is_started_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,))
    hand_over = ExecutorQueue.hand_over

    def hand_over_twice(queue: ExecutorQueue, worker: Worker, inflight: InFlight, runnable: Runnable) -> None:
        hand_over(queue, worker, inflight, runnable)
        hand_over(queue, worker, inflight, runnable)

    monkeypatch.setattr(ExecutorQueue, "hand_over", hand_over_twice)
    report = simulate(1, lambda _: trial, scenario=Scenario())

    assert "a: more(2,) is in flight and is executed again" in report.problems


FAILING = Scenario(rules=((DEFAULT, Policy(max_retries=3, backoff="linear", base_delay=50.0)),), retries=3, flakes=1.0)
"""Most attempts fail, and there is time for a crash before the next."""


def problems_of_crashes() -> Iterator[str]:
    """Yield what a crash at one turn or another makes of a step that fails a few times."""
    trial = Trial(Workflow("w", step(lambda x: x + 1, name="more")), (1,))
    for turn in range(10, 40):
        yield from simulate(2, lambda _: trial, scenario=replace(FAILING, crashes=(turn,))).problems


def test_a_step_that_fails_a_few_times_is_retried_on_time_whenever_its_process_crashes() -> None:
    assert list(problems_of_crashes()) == []


def test_attempts_that_a_resume_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunPolicies, "begun", lambda _rules, _key: None)

    assert "a: attempt 1 of more(2,) failed after attempt 1 had" in problems_of_crashes()


def test_a_wait_that_a_resume_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = RunPolicies.begun

    def at_once(rules: RunPolicies, key: Any) -> Any:
        found = begun(rules, key)
        return found and replace(found, retry_at=0.0)

    monkeypatch.setattr(RunPolicies, "begun", at_once)

    assert any("seconds too early" in problem for problem in problems_of_crashes())


def test_a_limit_that_is_not_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "place_asked", lambda _limit, state: (state, True))
    trial = Trial(Workflow("w", step(lambda x: x, name="one"), step(lambda x: x, name="two")), (1,))
    scenario = Scenario(rules=((DEFAULT, Policy(concurrency_limit=ConcurrencyLimit("places", 1))),))

    report = simulate(1, lambda _: trial, scenario=scenario)

    assert "a: two(2,): 2 are in flight where 1 may be" in report.problems


def test_an_attempt_that_is_not_cut_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timeouts, "_timed_out", lambda *_: None)
    trial = Trial(Workflow("w", step(lambda x: x, name="one")), (1,))
    scenario = Scenario(rules=((DEFAULT, Policy(max_retries=3, timeout=TIMEOUT)),), retries=3, flakes=1.0)

    problems = [
        problem for seed in range(10) for problem in simulate(seed, lambda _: trial, scenario=scenario).problems
    ]

    assert "a: one(2,) hung, and was not ended" in problems


def test_what_may_fail_until_it_is_mended_completes_or_is_given_up() -> None:
    def check(run: Run) -> list[str]:
        return [] if run.values("fragile") or run.skipped == ["fragile"] else ["neither"]

    fragile = Workflow("w", step(lambda x: x, name="fragile"))
    trial = Trial(fragile, (1,), check, repairable=frozenset({"fragile"}))
    rules = ((DEFAULT, Policy(on_failure="dead_letter")),)

    tried, given_up = (
        simulate(1, lambda _: trial, scenario=Scenario(rules=rules, breaks=1.0, discards=share)) for share in (0.0, 1.0)
    )

    assert (tried.problems, given_up.problems) == ([], [])
    assert any("a tries fragile(2,) again" in line for line in tried.story)
    assert any("a discards fragile(2,)" in line for line in given_up.story)


def test_a_retry_that_a_crash_loses_is_not_a_second_execution_where_the_log_runs_behind() -> None:
    fragile = Workflow("w", step(lambda x: x, name="fragile"))
    trial = Trial(fragile, (1,), lambda _: [], repairable=frozenset({"fragile"}))
    rules = ((DEFAULT, Policy(on_failure="dead_letter")),)
    scenario = Scenario(rules=rules, breaks=1.0, discards=0.5, strategy=as_checkpoints("on_complete"))
    crashing = [replace(scenario, crashes=(turn,)) for turn in range(10, 40, 2 if IS_THOROUGH else 6)]

    reports = [simulate(seed, lambda _: trial, scenario=each) for seed in range(3) for each in crashing]

    assert [problem for report in reports for problem in report.problems] == []


# -- what a runner could do wrong when it is closed, and with callers that give up or come together --


def twice() -> Trial:
    """Return a trial of two steps and two inputs."""

    def check(run: Run) -> list[str]:
        return [] if sorted(run.values("then")) == [4, 6] else [f"it made {run.values('then')}"]

    first, then = step(lambda x: x + 1, name="first"), step(lambda x: x * 2, name="then")
    return Trial(Workflow("w", first >> then), (1, 2), check)


def orderly(scenario: Scenario, seeds: int = 30) -> Iterator[str]:
    """Yield what is wrong with runs that are closed, stopped and used as *scenario* says."""
    trial = twice()
    for seed in range(seeds):
        yield from simulate(seed, lambda _: trial, scenario=scenario).problems


@pytest.mark.parametrize("strategy", ["every_cycle", "on_complete", "manual"])
@pytest.mark.parametrize("outage", [0.0, 2.0, 30.0])
def test_what_had_completed_when_a_runner_was_closed_is_not_executed_again(outage: float, strategy: str) -> None:
    for after in (0.0, 0.05, 0.5, 2.0):
        scenario = Scenario(
            strategy=as_checkpoints(strategy), closings=(Closing(after, outage), Closing(after, outage))
        )

        assert list(orderly(scenario, seeds=8 if IS_THOROUGH else 2)) == []


@pytest.mark.parametrize("strategy", ["every_cycle", "manual"])
def test_callers_that_give_up_and_come_together_change_nothing(strategy: str) -> None:
    scenario = Scenario(
        strategy=as_checkpoints(strategy), impatience=0.5, crowds=1.0, stops=0.5, weather=Weather(dawdles=0.5)
    )

    seeds = 30 if IS_THOROUGH else 8
    assert list(orderly(scenario, seeds)) == []
    assert list(orderly(replace(scenario, closings=(Closing(2.0, 2.0),)), seeds)) == []


def test_a_runner_that_is_closed_and_does_not_write_what_it_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Worker.checkpoint

    def forgetful(worker: Worker) -> None:
        if not worker.dispatcher.is_closing:
            checkpoint(worker)

    monkeypatch.setattr(Worker, "checkpoint", forgetful)
    scenario = Scenario(strategy=as_checkpoints("manual"), closings=(Closing(1.0),))

    problems = list(orderly(scenario, seeds=10))

    assert problems != []
    assert all("closed" in each or "there was time to write everything" in each for each in problems)


def test_a_run_that_a_cancelled_caller_of_stop_leaves_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unshielded(runner: AsyncRunner, id: str, **_: Any) -> None:
        worker = await runner._runtime.lookup.worker(id)
        worker.stop()
        await asyncio.sleep(2.0)
        await stop(runner, id)

    stop = AsyncRunner.stop
    monkeypatch.setattr(AsyncRunner, "stop", unshielded)

    assert any(orderly(Scenario(stops=1.0, impatience=0.7)))


def test_an_input_that_is_acknowledged_and_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(*_: Any) -> None:
        """Say that it is stored."""

    monkeypatch.setattr(Waiters, "durable", at_once)

    assert any(orderly(Scenario(weather=Weather(dawdles=1.0), closings=(Closing(0.5, 30.0),), grace=0.0)))


# -- what a runner could do wrong with children, and with what policies are asked ----------------


def delegating(*, is_plain: bool = False, fate: Any = "awaited") -> Trial:
    """Return a trial of a step that starts a child, which starts another one."""
    leaf = Start(Child("leaf", 0, False, ()), 1, 1, "left", True, False, True, True)
    middle = Start(Child("middle", 0, False, (leaf,), is_plain), 1, 2, fate, True, False, True, True)
    network = Network((Place(Family("p", (middle,), is_plain), None, "plain"),))
    verdict = Verdict(network, [1])
    return network.told_to(Trial(wired(Workflow("w"), network, None), (1,), verdict), verdict)


RETRYING = Scenario(rules=((DEFAULT, Policy(max_retries=3)),), retries=3, flakes=1.0, runs=("a", "b"), workers=1)


def problems_of(trial: Trial, scenario: Scenario, seeds: int = 20) -> Iterator[str]:
    """Yield what is wrong with *trial* in the first lives of *seeds* seeds, with crashes all over the place."""
    for seed in range(seeds):
        yield from simulate(seed, lambda _: trial, scenario=replace(scenario, crashes=(10 + 7 * seed, 20))).problems


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("fate", ["awaited", "left", "cancelled"])
def test_children_become_what_they_should_whenever_a_process_crashes(fate: str, is_plain: bool) -> None:
    assert list(problems_of(delegating(fate=fate, is_plain=is_plain), RETRYING, seeds=10 if IS_THOROUGH else 5)) == []


def test_a_child_that_no_stored_log_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: ChildRuns, worker: Worker, parent: Runnable, child: str, *, with_parent: bool) -> None:
        record(worker.run.memory, ChildStarted(len(worker.run.memory.log) + 1, *parent.key, child, with_parent))

    monkeypatch.setattr(ChildRuns, "_note", at_once)

    assert any("and no stored log names it" in each for each in problems_of(delegating(), Scenario(), seeds=1))


def test_a_retry_that_starts_other_children_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    named = children._name

    def named_by_attempt(parent: Runnable, inflight: InFlight, workflow: Workflow, known: Container[str]) -> str:
        return f"{named(parent, inflight, workflow, known)}#{parent.attempt}"

    monkeypatch.setattr(children, "_name", named_by_attempt)

    assert any("its children should become" in each for each in problems_of(delegating(), RETRYING, seeds=6))


def test_parents_that_keep_the_places_of_their_children_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatcher, "lend", lambda *_: 0)

    assert any("all tasks wait forever" in each for each in problems_of(delegating(), Scenario(workers=1), seeds=1))


CANCELLING = Scenario(cancels=1.0)
"""A caller cancels every run."""


def cancelled_families(trial: Trial, seeds: int = 5) -> list[int]:
    """Return the seeds in which the run that is cancelled has children that are not done."""
    found: list[int] = []
    for seed in range(seeds):
        story = simulate(seed, lambda _: trial, scenario=CANCELLING).story
        before = story[: next(index for index, line in enumerate(story) if line.endswith(" a cancelled"))]
        found += [seed] if any("executes middle_begin" in line for line in before) else []
    return found


def problems_of_interrupted_cancelling(trial: Trial, seeds: Sequence[int]) -> list[str]:
    """Return what is wrong with families when the process dies at any turn after a caller has begun to cancel them."""
    scenarios = [replace(CANCELLING, interrupts=turns) for turns in range(1, 21, 1 if IS_THOROUGH else 3)]
    reports = [simulate(seed, lambda _: trial, scenario=each) for seed in seeds for each in scenarios]
    assert any(report.lives > 1 for report in reports)
    return [problem for report in reports for problem in report.problems]


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_family_is_cancelled_whenever_a_process_crashes(is_plain: bool) -> None:
    trial = delegating(is_plain=is_plain)
    seeds = cancelled_families(trial)

    assert seeds != []
    assert problems_of_interrupted_cancelling(trial, seeds) == []


def test_children_that_outlive_the_cancelling_of_their_parent_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "orphans", lambda _: ())

    assert any("is reported as cancelled" in each for each in problems_of(delegating(), CANCELLING))


def test_cancelling_that_is_not_continued_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = delegating()
    seeds = cancelled_families(trial)
    monkeypatch.setattr(ChildRuns, "orphaned", lambda *_: None)

    problems = problems_of_interrupted_cancelling(trial, seeds)

    assert any("of its children does not continue" in each for each in problems)


def remedied(remedy: Any) -> tuple[Trial, Scenario]:
    """Return a trial of a step that always fails, for which its policy has a remedy, and a scenario with it."""
    piece = Spare("p", 1, remedy, True, False)
    network = Network((Place(piece, None, "plain"),))
    verdict = Verdict(network, [1])
    trial = network.told_to(Trial(wired(Workflow("w"), network, None), (1,), verdict), verdict)
    rule = ("p", Policy(max_retries=1).merge(piece.policies[""]))
    return trial, Scenario(rules=(rule, (DEFAULT, Policy(max_retries=1))), retries=1)


@pytest.mark.parametrize("remedy", [*FALLBACKS, *UNDOING])
def test_what_a_policy_does_about_a_failure_is_what_comes_of_it(remedy: str) -> None:
    assert list(problems_of(*remedied(remedy), seeds=10 if IS_THOROUGH else 5)) == []


def test_a_fallback_that_comes_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "decide", lambda *_, **__: Fallback())

    assert "a: the fallback of p(3,) was called after 1 attempts, with 1 retries" in problems_of(*remedied("value"))


def test_a_compensation_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver._Driver, "_compensate", lambda *_: iter(()))

    assert any("says that it was compensated for" in each for each in problems_of(*remedied("undone")))


def test_a_dead_letter_that_keeps_its_old_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    trial, scenario = kept_letters()
    told = AsyncRunner.retry

    async def retry(runner: AsyncRunner, id: str, which: object = None, *, policy: Any = None, **_: Any) -> None:
        await told(runner, id, which, policy=policy)

    well = list(problems_of(trial, scenario))
    monkeypatch.setattr(AsyncRunner, "retry", retry)

    assert well == []
    assert "a: 1 dead letters got another input, and the log has 0" in problems_of(trial, scenario)


def kept_letters() -> tuple[Trial, Scenario]:
    """Return a trial of a step that fails until it is fixed, and a scenario in which it then gets another input."""
    network = Network((Place(Fragile("p", True), None, "plain"),))
    verdict = Verdict(network, [1])
    trial = network.told_to(Trial(wired(Workflow("w"), network, None), (1,), verdict), verdict)
    return trial, Scenario(rules=((DEFAULT, Policy(on_failure="dead_letter")),), breaks=0.9, amends=1.0)


def test_runs_whose_processes_keep_dying_are_parked_and_come_to_the_same_when_they_are_resumed() -> None:
    by_hand, failed = 0, list[str]()
    for seed in range(120 if IS_THOROUGH else 8):
        dice = Random(seed)  # noqa: S311 - the same every time
        trial = draw(dice)
        scenario, turn = draw_scenario(dice, trial), dice.randint(5, 60)
        crashes = tuple(turn + dice.randint(-4, 4) for _ in range(9))
        report = simulate(seed, draw, scenario=replace(scenario, crashes=crashes, closings=()))
        by_hand += sum("resumed by hand" in line for line in report.story)
        failed += [str(report)] if report.problems else []

    assert failed == []
    assert by_hand >= (20 if IS_THOROUGH else 1)


def test_a_run_that_is_not_parked_although_its_processes_keep_dying_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Takeover, "is_poison", property(lambda _: False))
    one = Workflow("one", step(lambda x: x, name="one"))

    report = simulate(1, lambda _: Trial(one, (1,)), scenario=Scenario(crashes=(16, 9, 9, 9, 9), resumes_all=True))

    assert "a is started again after 3 processes have died without progress" in report.problems
