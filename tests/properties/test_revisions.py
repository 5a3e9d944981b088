"""
The laws of revisions, on generated workflows: a fork with the same value, and a retry after a repair, come to what an
undisturbed run comes to; and a run is the fold of its log, whatever was revised.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from building import build
from cases import TURNS, Case, budget, cases, rebuilt
from driving import Driver, drive, look, outline
from evaluator import evaluate
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import Schedule, schedules

from weft import Run, events


class Trouble(Counter[str]):
    """Counts the calls of functions; while it *is_on*, every call of the functions in *broken* fails."""

    def __init__(self, broken: frozenset[str]) -> None:
        super().__init__()
        self.broken, self.is_on = broken, True

    def __setitem__(self, name: str, count: int) -> None:
        if self.is_on and name.removesuffix(".when") in self.broken:
            raise ValueError(f"{name} is broken")
        super().__setitem__(name, count)


def checked(run: Run, case: Case) -> Run:
    """Return *run*, which is the fold of its log: alike in everything that can be seen of it."""
    twin = rebuilt(run)
    assert twin == run
    assert look(twin, case.graph) == look(run, case.graph)
    return run


def troubled(case: Case, data: st.DataObject) -> tuple[Run, Trouble]:
    names = [part.name for part in case.graph.parts]
    trouble = Trouble(data.draw(st.frozensets(st.sampled_from(names), max_size=3), label="broken"))
    run = build(case.graph, trouble).plan(case.value, context=case.context, id="law")
    return run, trouble


@budget(1.0)
@given(cases(), schedules(), schedules(), TURNS | st.just(1000), st.data())
def test_a_retry_after_a_repair_comes_to_what_a_run_without_trouble_comes_to(
    case: Case, before: Schedule, after: Schedule, turns: int, data: st.DataObject
) -> None:
    doubt = evaluate(case.graph, case.value).racy
    run, trouble = troubled(case, data)
    drive(run, before, turns=turns)

    trouble.is_on = False
    checked(run.retry(), case)
    drive(run, after)

    serial = case.plan().react_until_satisfied()
    assert outline(checked(run, case), case.graph, doubt) == outline(serial, case.graph, doubt)


@budget(0.5)
@given(cases(), schedules(), st.data())
def test_what_completed_and_does_not_depend_on_a_failure_is_not_called_again(
    case: Case, schedule: Schedule, data: st.DataObject
) -> None:
    run, trouble = troubled(case, data)
    drive(run, schedule)
    assume(run.failed)
    completed = {
        (event.component, event.inputs)
        for event in run.log()
        if isinstance(event, events.ReactionOccurred | events.FannedOut | events.ConditionEvaluated)
    }

    trouble.is_on = False
    run.retry()

    revised = [event for event in run.log() if isinstance(event, events.RunRetried)]
    void = {seq for event in revised for first, last in event.void for seq in range(first, last + 1)}
    again = {
        (event.component, event.inputs)
        for event in run.log()
        if event.seq in void and isinstance(event, events.Activated)
    }
    pending = {(runnable.component, runnable.inputs) for runnable in run.prepare()}
    assert not pending & (completed - again)


@budget(0.5)
@given(cases(count=3), schedules(), schedules(), TURNS | st.just(1000), st.data())
def test_a_fork_with_the_same_value_comes_to_the_same(
    case: Case, before: Schedule, after: Schedule, turns: int, data: st.DataObject
) -> None:
    run = drive(case.plan(), before, turns=turns)
    seen = look(run, case.graph)
    done = [
        event
        for event in run.log()
        if isinstance(
            event, events.InputReceived | events.ReactionOccurred | events.FannedOut | events.ConditionEvaluated
        )
    ]
    event: Any = data.draw(st.sampled_from(done), label="edited")
    value = event.holds if isinstance(event, events.ConditionEvaluated) else event.value

    fork = run.fork(at=event.seq, value=value, id="fork")
    checked(fork, case)
    drive(fork, after)

    doubt = evaluate(case.graph, case.value).racy
    serial = case.plan().react_until_satisfied()
    assert outline(checked(fork, case), case.graph, doubt) == outline(serial, case.graph, doubt)
    assert look(run, case.graph) == seen, "the original is untouched"


@budget(0.4)
@given(cases(), schedules(), schedules(), st.data())
def test_a_fork_with_another_input_comes_to_what_a_run_of_that_input_comes_to(
    case: Case, before: Schedule, after: Schedule, data: st.DataObject
) -> None:
    other = data.draw(cases_of(case), label="other input")
    run = drive(case.plan(), before)

    fork = drive(run.fork(at=2, value=other), after)

    doubt = evaluate(case.graph, other).racy
    serial = build(case.graph).run(other, context=case.context)
    assert outline(checked(fork, case), case.graph, doubt) == outline(serial, case.graph, doubt)


def cases_of(case: Case) -> st.SearchStrategy[Any]:
    from strategies import inputs

    return inputs(case.graph)


@budget(0.4)
@given(cases(), schedules(), schedules(), TURNS)
def test_a_fork_at_an_event_continues_from_there(case: Case, before: Schedule, after: Schedule, turns: int) -> None:
    run = drive(case.plan(), before)
    at = min(2 + turns, len(run.log()))

    fork = drive(checked(run.fork(at=at), case), after)

    doubt = evaluate(case.graph, case.value).racy
    assert fork.log()[1:at] == run.log()[1:at]
    assert outline(checked(fork, case), case.graph, doubt) == outline(run, case.graph, doubt)


@budget(0.3)
@given(cases(), schedules(), st.data())
def test_a_run_is_the_fold_of_its_log_after_several_revisions(
    case: Case, schedule: Schedule, data: st.DataObject
) -> None:
    run, trouble = troubled(case, data)
    driver = Driver(run, schedule)
    for _ in range(3):
        driver.drive(data.draw(TURNS, label="turns"))
        trouble.is_on = data.draw(st.booleans(), label="trouble")
        step = data.draw(st.sampled_from(["retry", "fork", "nothing"]), label="revision")
        if step == "retry":
            run.retry()
        elif step == "fork":
            facts = run.facts()
            fact = data.draw(st.sampled_from(facts), label="fact")
            run = run.fork(at=fact, value=fact.value)
            driver = Driver(run, schedule)
        checked(run, case)
    trouble.is_on = False
    drive(run, schedule)
    drive(checked(run.retry(), case), schedule)

    doubt = evaluate(case.graph, case.value).racy
    serial = case.plan().react_until_satisfied()
    assert outline(checked(run, case), case.graph, doubt) == outline(serial, case.graph, doubt)


@budget(0.3)
@given(cases(), schedules(), schedules(), TURNS)
def test_an_upgrade_to_the_same_graph_changes_nothing(
    case: Case, before: Schedule, after: Schedule, turns: int
) -> None:
    calls: Counter[str] = Counter()
    run = drive(build(case.graph).plan(case.value, context=case.context), before, turns=turns)
    seen = look(run, case.graph)

    run.upgrade(build(case.graph, calls))

    checked(run, case)
    again = look(run, case.graph)
    seen.events += 1
    assert again == seen
    drive(run, after)
    doubt = evaluate(case.graph, case.value).racy
    serial = case.plan().react_until_satisfied()
    assert outline(checked(run, case), case.graph, doubt) == outline(serial, case.graph, doubt)
