"""
The laws of a run, on generated workflows.

What holds in general is checked here on graphs of all kinds, driven in all orders.  A failing
example prints the description of its graph, from which ``building.build`` makes the workflow again.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import samples
from building import build
from cases import TURNS, Case, budget, cases, made_of, rebuilt
from description import Accumulator, Condition, Graph
from doubts import Doubt
from driving import Driver, drive, look, multiset, outline, outline_of, owner, strange
from evaluator import evaluate
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import Schedule, schedules

from weft import Run, Step, Workflow, accumulator, collect, condition, each, fact_count, group_by, reduce, step
from weft.errors import DefinitionError

# -- the fold ------------------------------------------------------------------------------------


@budget(0.5)
@given(cases(), schedules())
def test_a_run_is_the_fold_of_its_log_at_every_moment(case: Case, schedule: Schedule) -> None:
    calls: Counter[str] = Counter()
    run = case.plan(calls)
    sights = [look(run, case.graph), *(look(run, case.graph) for _ in Driver(run, schedule).advance())]
    called = Counter(calls)

    twins = [rebuilt(run, sight.events) for sight in sights]

    assert [sight.events for sight in sights] == list(range(2, len(sights) + 2)), "one event per reaction"
    for sight, twin in zip(sights, twins, strict=True):
        assert look(twin, case.graph) == sight
    assert twins[-1] == run
    assert calls == called, "a fold calls no user function"


@budget(0.2)
@given(cases(), schedules(), TURNS)
def test_a_run_knows_what_was_dispatched_and_never_came_back(case: Case, schedule: Schedule, turns: int) -> None:
    driver = Driver(case.plan(), schedule, durable=True)
    run = driver.drive(turns)

    again = rebuilt(run)

    assert again == run
    assert {runnable.ref() for runnable in again.pending_runnables()} == driver.under_way
    finished = driver.drive()
    assert finished.pending_runnables() == []
    assert rebuilt(finished) == finished


@budget(0.4)
@given(cases(), schedules(), schedules(), TURNS)
def test_a_run_that_was_stopped_anywhere_finishes_as_if_it_had_not_been(
    case: Case, before: Schedule, after: Schedule, turns: int
) -> None:
    doubt = evaluate(case.graph, case.value).racy
    stopped = drive(case.plan(), before, turns=turns)

    again = rebuilt(stopped)
    assert [(r.id, r.idempotency_key) for r in again.prepare()] == [
        (r.id, r.idempotency_key) for r in stopped.prepare()
    ]
    resumed = drive(again, after)

    serial = case.plan().react_until_satisfied()
    assert outline(resumed, case.graph, doubt) == outline(serial, case.graph, doubt)
    assert resumed.log()[: len(stopped.log())] == stopped.log()


# -- order ---------------------------------------------------------------------------------------


@budget(1.0)
@given(cases())
def test_a_run_makes_of_an_input_what_the_evaluator_says(case: Case) -> None:
    calls: Counter[str] = Counter()
    expected = evaluate(case.graph, case.value)

    run = case.plan(calls).react_until_satisfied()

    assert outline(run, case.graph, expected.untold) == outline_of(expected)
    assert not strange(run)
    assert certain(calls, expected.untold) == certain(expected.calls, expected.untold)


def certain(calls: Mapping[str, int], *doubts: Doubt) -> dict[str, int]:
    """Return the *calls* that are not in doubt."""
    return {name: count for name, count in calls.items() if not any(owner(name) in d.calls for d in doubts)}


@budget(1.0)
@given(cases(), schedules())
def test_any_order_of_completions_gives_the_same(case: Case, schedule: Schedule) -> None:
    doubt = evaluate(case.graph, case.value).racy
    serial = case.plan().react_until_satisfied()

    run = drive(case.plan(), schedule)

    assert outline(run, case.graph, doubt) == outline(serial, case.graph, doubt)
    if not has_races(case.graph):
        assert identities(run, case.graph, doubt) == identities(serial, case.graph, doubt)


def has_races(graph: Graph) -> bool:
    """Whether a join of *graph* waits for some of its parents: then values may be equal and causes not."""
    return any(inlet.wait not in ("all", "all_done") for part in graph.parts for inlet in part.inlets)


def identities(run: Run, graph: Graph, doubt: Doubt) -> dict[str, Counter[str]]:
    """Return the hashes of the facts of *run*: values with their whole ancestry."""
    names = [part.name for part in graph.parts if part.makes_facts and part.name not in doubt.values]
    return {name: multiset([run.hash_of(fact) for fact in run.facts(name)]) for name in names}


@budget(0.1)
@given(cases())
def test_threads_and_an_event_loop_give_the_same(case: Case) -> None:
    expected = evaluate(case.graph, case.value)
    workflow = build(case.graph)

    threaded = workflow.run(case.value, context=case.context, parallel=4)
    awaited = asyncio.run(workflow.arun(case.value, context=case.context))

    assert outline(threaded, case.graph, expected.untold) == outline_of(expected)
    assert outline(awaited, case.graph, expected.untold) == outline_of(expected)


@budget(0.3)
@given(cases(), schedules())
def test_planning_eagerly_asks_conditions_and_runs_nothing_else(case: Case, schedule: Schedule) -> None:
    calls: Counter[str] = Counter()
    expected = evaluate(case.graph, case.value)
    tests = {part.name for part in case.graph.parts if isinstance(part, Condition)}

    run = build(case.graph, calls).plan_eagerly(case.value, context=case.context)

    assert {name for name in calls if not name.endswith(".when")} <= tests
    assert not any(runnable.is_condition for runnable in run.prepare())
    assert outline(drive(run, schedule), case.graph, expected.untold) == outline_of(expected)


@budget(0.5)
@given(cases(), schedules())
def test_nothing_is_left_waiting_when_nothing_is_ready(case: Case, schedule: Schedule) -> None:
    run = drive(case.plan(), schedule)

    assert not run.memory.blocked
    assert run.status == "idle"


@budget(0.4)
@given(cases(), schedules())
def test_preparing_and_applying_again_change_nothing(case: Case, schedule: Schedule) -> None:
    run = case.plan()

    for outcome in Driver(run, schedule).advance():
        once = look(run, case.graph)
        run.apply(outcome)
        run.prepare()
        assert look(run, case.graph) == once


# -- several inputs ------------------------------------------------------------------------------


def give_all(case: Case, schedule: Schedule, turns: int, calls: Counter[str] | None = None) -> Run:
    """Return a finished run of all inputs of *case*, each given *turns* after the one before."""
    driver = Driver(case.plan(calls), schedule)
    for value in case.values[1:]:
        driver.drive(turns).plan(value)
    return driver.drive()


@budget(0.5)
@given(cases(count=3, stateful=False, readers=False), schedules(), TURNS)
def test_inputs_in_flight_together_do_not_meet(case: Case, schedule: Schedule, turns: int) -> None:
    calls: Counter[str] = Counter()
    expected = [evaluate(case.graph, value) for value in case.values]

    run = give_all(case, schedule, turns, calls)

    for ordinal, alone in enumerate(expected, start=1):
        made = {name: made_of(run, ordinal, name) for name in alone.values if name not in alone.untold.values}
        assert made == outline_of(alone).values
    for fact in run.productions():
        assert sum(cause.is_input for cause in run.lineage(fact)) == 1
    doubts = [alone.untold for alone in expected]
    called = sum((alone.calls for alone in expected), Counter[str]())
    failed = Counter(name for alone in expected for name in alone.failed)
    assert certain(calls, *doubts) == certain(called, *doubts)
    assert certain(Counter(run.failures.keys()), *doubts).keys() == certain(failed, *doubts).keys()


@budget(0.4)
@given(cases(count=3, readers=False), schedules(), TURNS)
def test_a_state_is_the_fold_of_all_inputs(case: Case, schedule: Schedule, turns: int) -> None:
    graph = case.graph
    expected = [evaluate(graph, value) for value in case.values]

    run = give_all(case, schedule, turns)

    accumulators = [part for part in graph.parts if isinstance(part, Accumulator)]
    for part in accumulators:
        fed_by_state = any(part.name in graph.downstream[other.name] for other in accumulators if other is not part)
        if not fed_by_state and not any(part.name in alone.untold.states for alone in expected) and part.commutes:
            folded = [value for alone in expected for value in alone.folded[part.name]]
            assert run.state_of(part.name) == state_after(graph, part, folded)


def state_after(graph: Graph, part: Accumulator, folded: list[Any]) -> int:
    """Return the state of *part* after all of *folded*; what it fails on leaves it as it was."""
    seen = tuple(graph.given(part.name, read.target) for read in part.code.reads)
    state = part.init
    for value in folded:
        with suppress(ValueError):
            state = part.fold((state, value), seen, part.code.k)
    return state


@budget(0.3)
@given(cases(count=3), schedules(), TURNS)
def test_no_two_runnables_of_a_run_share_an_id_or_a_key(case: Case, schedule: Schedule, turns: int) -> None:
    driver = Driver(case.plan(), schedule)
    offered = {runnable.ref(): runnable for runnable in driver.run.prepare()}

    for value in (*case.values[1:], None):
        for _ in driver.advance(None if value is None else turns):
            offered |= {runnable.ref(): runnable for runnable in driver.run.prepare()}
        if value is not None:
            driver.run.plan(value)
            offered |= {runnable.ref(): runnable for runnable in driver.run.prepare()}

    assert len({runnable.id for runnable in offered.values()}) == len(offered)
    assert len({runnable.idempotency_key for runnable in offered.values()}) == len(offered)


# -- nesting -------------------------------------------------------------------------------------


def nested_context(case: Case) -> dict[str, int]:
    """Return the context of *case* for a workflow in which its parts are called ``drawn.name``."""
    return {f"drawn.{key}" if "." in key else key: value for key, value in case.context.items()}


@budget(0.3)
@given(cases(), schedules())
def test_a_nested_workflow_does_what_it_does_alone(case: Case, schedule: Schedule) -> None:
    expected = evaluate(case.graph, case.value)
    outer = Workflow("outer", build(case.graph))

    run = drive(outer.plan(case.value, context=nested_context(case)), schedule)

    told = outline_of(expected).values
    assert {name: multiset(run.values(f"drawn.{name}")) for name in told} == told
    assert not run.memory.blocked


@budget(0.3)
@given(cases(count=3, stateful=False, readers=False), schedules())
def test_a_workflow_in_a_map_does_for_each_element_what_it_does_alone(case: Case, schedule: Schedule) -> None:
    inner = build(case.graph)
    assume(inner.roots)
    outer = Workflow("outer", each(inner, name="map"))

    run = drive(outer.plan(case.values, context=nested_context(case)), schedule)

    for index, value in enumerate(case.values):
        told = outline_of(evaluate(case.graph, value)).values
        assert {name: made_of_element(run, index, f"drawn.{name}") for name in told} == told
    assert not run.memory.blocked


def made_of_element(run: Run, index: int, name: str) -> Counter[str]:
    """Return what *name* has made of one element of the outermost map, by lineage."""
    facts = [fact for fact in run.facts(name) if ("map", index) in {(f.producer, f.index) for f in run.lineage(fact)}]
    return multiset([fact.value for fact in facts])


# -- identity ------------------------------------------------------------------------------------


def test_identity_is_the_same_in_another_process() -> None:
    """Another hash seed, another module name: ``__main__`` there."""
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"

    done = subprocess.run(
        [sys.executable, Path(samples.__file__)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(samples.identities()))


@budget(0.4)
@given(cases(), st.lists(st.integers(0, 99), min_size=2, max_size=20))
def test_a_graph_said_in_another_order_is_the_same_or_has_another_hash(case: Case, said: list[int]) -> None:
    expected = evaluate(case.graph, case.value)
    workflow, other = build(case.graph), build(case.graph, said=said)

    run = other.run(case.value, context=case.context)

    if all(len(part.inlets) < 2 for part in case.graph.parts):
        assert other.hash == workflow.hash
    if other.hash == workflow.hash:
        assert other == workflow
        assert other.version == workflow.version
        assert outline(run, case.graph, expected.untold) == outline_of(expected)


# -- changes of a live run -------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True):
    """Something added to a run or removed from it, chosen by numbers among what the graph has."""

    how: str
    picks: tuple[int, int]

    def apply(self, run: Run, graph: Graph) -> None:
        """Change *run*, whose workflow was made of *graph*."""
        first, second = (graph.parts[pick % len(graph.parts)].name for pick in self.picks)
        if self.how == "remove":
            run.remove(first)
        else:
            run.add(ADDITIONS[self.how](second), to=[first, second] if self.how == "joined step" else first)


def counting(other: str) -> Step[..., int]:
    """Return a step that counts the facts of *other*."""
    return step(lambda *xs, n: n, name="new").bind(n=fact_count(other))


ADDITIONS: dict[str, Callable[[str], object]] = {
    "step": lambda _: step(lambda *xs: len(xs), name="new"),
    "joined step": lambda _: step(lambda *xs: len(xs), name="new"),
    "reader": counting,
    "accumulator": lambda _: accumulator(lambda state, x: state + 1, init=0, name="new"),
    "condition": lambda _: condition(lambda *xs: True, name="new") >> step(lambda *xs: len(xs), name="after"),
    "reduce": lambda _: reduce(lambda acc, x: acc + 1, init=0, name="new"),
    "collect": lambda _: collect(name="new"),
    "group_by": lambda _: group_by(lambda x: 1, name="new"),
    "map": lambda _: each(step(lambda x: x, name="new")) >> reduce(lambda acc, x: acc + 1, init=0, name="sum"),
}


def changes() -> st.SearchStrategy[Change]:
    """Return changes; half of them remove something."""
    how = st.sampled_from(["remove", *ADDITIONS]) | st.just("remove")
    return st.builds(Change, how, st.tuples(st.integers(0, 11), st.integers(0, 11)))


@budget(0.6)
@given(cases(), st.lists(changes(), min_size=1, max_size=2), schedules(), TURNS)
def test_a_live_run_that_is_changed_is_still_its_log_and_finishes(
    case: Case, changes: list[Change], schedule: Schedule, turns: int
) -> None:
    driver = Driver(case.plan(), schedule)
    sights = []

    for change in changes:
        before = driver.drive(turns).log()
        try:
            change.apply(driver.run, case.graph)
        except DefinitionError:
            assert driver.run.log() == before, "a change that is refused leaves no trace"
        sights.append(look(driver.run, case.graph))
    sights.extend(look(driver.run, case.graph) for _ in driver.advance())

    for sight in sights:
        assert look(rebuilt(driver.run, sight.events), case.graph) == sight
    assert rebuilt(driver.run) == driver.run
    assert not driver.run.memory.blocked
    assert not strange(driver.run)


@budget(0.4)
@given(cases(), changes(), schedules(), TURNS)
def test_an_input_in_flight_finishes_as_it_began(case: Case, change: Change, schedule: Schedule, turns: int) -> None:
    expected = evaluate(case.graph, case.value)
    driver = Driver(case.plan(), schedule)

    with suppress(DefinitionError):
        change.apply(driver.drive(turns), case.graph)

    made: dict[str, list[Any]] = {name: [] for name in expected.values}
    for fact in driver.drive().facts():
        made.setdefault(str(fact.producer), []).append(fact.value)
    stable = expected.values.keys() - expected.untold.values
    assert {name: multiset(made[name]) for name in stable} == {name: multiset(expected.values[name]) for name in stable}


@budget(0.4)
@given(cases(count=2, stateful=False, readers=False, races=False), changes(), schedules(), TURNS)
def test_an_input_after_a_change_follows_the_new_definition(
    case: Case, change: Change, schedule: Schedule, turns: int
) -> None:
    driver = Driver(case.plan(), schedule)

    with suppress(DefinitionError):
        change.apply(driver.drive(turns), case.graph)
    run = driver.run.plan(case.values[1])
    driver.drive()

    fresh = run.workflow.run(case.values[1], context=case.context)
    names = [name for name, component in run.workflow.components.items() if component.makes_facts]
    if change.how not in ("reader", "accumulator"):
        assert {n: made_of(run, 2, n) for n in names} == {n: made_of(fresh, 1, n) for n in names}
    assert not run.memory.blocked
    assert not fresh.memory.blocked


# -- merging -------------------------------------------------------------------------------------


@budget(0.5)
@given(cases(stateful=False), schedules(), schedules(), st.tuples(TURNS, TURNS, TURNS))
def test_two_advances_of_a_run_merge_into_one_that_never_diverged(
    case: Case, here: Schedule, there: Schedule, turns: tuple[int, int, int]
) -> None:
    expected = evaluate(case.graph, case.value)
    base = drive(case.plan(), here, turns=turns[0])
    left = drive(rebuilt(base), here, turns=turns[1])
    right = drive(rebuilt(base), there, turns=turns[2])

    merged = left.merge(right)

    assert rebuilt(merged) == merged
    assert outline(drive(merged, there), case.graph, expected.untold) == outline_of(expected)
    assert not merged.memory.blocked


@budget(0.3)
@given(cases(count=2, stateful=False, readers=False), schedules(), st.tuples(TURNS, TURNS))
def test_merging_takes_over_the_inputs_of_the_other(case: Case, schedule: Schedule, turns: tuple[int, int]) -> None:
    expected = [evaluate(case.graph, value) for value in case.values]
    left = drive(case.plan(), schedule, turns=turns[0])
    right = drive(rebuilt(left).plan(case.values[1]), schedule, turns=turns[1])

    merged = drive(left.merge(right), schedule)

    for ordinal, alone in enumerate(expected, start=1):
        made = {name: made_of(merged, ordinal, name) for name in alone.values if name not in alone.untold.values}
        assert made == outline_of(alone).values
    assert rebuilt(merged) == merged


@budget(0.2)
@given(cases(), schedules(), TURNS, TURNS)
def test_merging_a_run_with_itself_or_its_past_changes_nothing(
    case: Case, schedule: Schedule, turns: int, more: int
) -> None:
    run = drive(case.plan(), schedule, turns=turns)
    past = rebuilt(run)
    drive(run, schedule, turns=more)
    before = look(run, case.graph)

    run.merge(past).merge(rebuilt(run)).merge(run)

    assert look(run, case.graph) == before
