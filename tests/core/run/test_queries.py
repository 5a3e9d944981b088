"""Questions to a run: values, facts, results, lineage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from forking import broken, double, fork, pair, plus_four, plus_two, root

from weft import Policy, Run, Workflow, collect, condition, each, repeat, step
from weft.errors import NothingProduced, StepFailed, UnknownComponent

never = condition(lambda _: False, name="never")


def test_values_and_facts_are_listed_in_order() -> None:
    run = fork.run(1)
    run.run(10)

    assert run.values("plus_two") == [4, 13]
    assert [fact.value for fact in run.facts(plus_two)] == [4, 13]
    assert [fact.value for fact in run.productions("plus_two")] == [4, 13]
    assert [fact.value for fact in run.facts()] == [1, 2, 4, 6, 10, 11, 13, 15]


def test_a_value_is_the_latest_one() -> None:
    run = fork.run(1)
    run.run(10)

    assert run.value("plus_two") == run.value(plus_two) == run.fact("plus_two").value == 13


def test_results_are_the_latest_values_of_the_leaves() -> None:
    run = fork.run(1)
    run.run(10)

    assert run.results() == {"plus_two": 13, "plus_four": 15}


def test_results_do_not_depend_on_which_finished_last(finish: Callable[[Run], Run]) -> None:
    """Of several values that one leaf made of one input, the one that the wiring puts last."""
    sink = step(lambda x: x, name="sink")

    run = finish(Workflow("w", root >> sink, double >> sink).plan(10))

    assert run.results() == {"sink": 20}
    assert run.output == 20


def test_results_are_facts_if_asked_for() -> None:
    run = fork.run(1)
    run.run(10)

    assert run.results(facts=True) == {"plus_two": run.fact("plus_two"), "plus_four": run.fact("plus_four")}
    assert [fact.value for fact in run.results("plus_two", all=True, facts=True)["plus_two"]] == [4, 13]
    assert run.lineage(run.results(facts=True)["plus_two"])[0].value == 10


def test_results_of_an_each_are_facts_if_asked_for() -> None:
    run = Workflow("w", each(double)).run([1, 2])

    assert [(fact.producer, fact.value) for fact in run.results(facts=True)["double"]] == [("double", 2), ("double", 4)]


def test_facts_of_what_produced_nothing_are_left_out_or_none() -> None:
    run = Workflow("w", double, never >> root).run(1)

    assert list(run.results(facts=True)) == ["double"]
    assert run.results("root", facts=True) == {"root": None}


def test_a_leaf_that_made_nothing_is_not_among_the_results() -> None:
    assert Workflow("w", double, never >> root).run(1).results() == {"double": 2}


def test_the_output_is_the_value_of_the_only_leaf_or_all_results() -> None:
    assert Workflow("w", root >> double).run(1).output == 4
    assert fork.run(1).output == {"plus_two": 4, "plus_four": 6}
    with pytest.raises(NothingProduced, match=r"'root' has produced nothing: the condition 'never' did not hold"):
        _ = Workflow("w", never >> root).run(1).output


def test_the_value_of_an_unknown_component_is_an_error_even_with_a_default() -> None:
    run = fork.run(1)

    for ask in (run.value, run.values, run.facts, run.fact, run.productions, run.state_of):
        with pytest.raises(UnknownComponent, match="no component 'nobody'"):
            ask("nobody")
    with pytest.raises(UnknownComponent):
        run.value("nobody", default=1)


@pytest.mark.parametrize(
    ("run", "name", "why"),
    [
        (Workflow("w", broken).run(1), "broken", "it failed .*division by zero"),
        (Workflow("w", double).plan(1), "double", "it is ready and has not run yet"),
        (Workflow("w", double).plan(), "double", "the run has had no input"),
        (Workflow("w", never >> double).run(1), "double", "the condition 'never' did not hold"),
        (Workflow("w", broken >> double).run(1), "double", "'broken', which feeds it, failed .*division by zero"),
    ],
    ids=["failed", "ready", "no input", "gated", "behind a failure"],
)
def test_the_value_of_what_made_nothing_is_an_error_that_says_why(run: Run, name: str, why: str) -> None:
    with pytest.raises(NothingProduced, match=f"'{name}' has produced nothing: .*{why}.*default="):
        run.value(name)

    assert run.value(name, default="none") == "none"
    assert run.value(name, default=None) is None
    assert run.values(name) == []


def test_only_what_takes_a_default_speaks_of_it() -> None:
    run = Workflow("w", never >> root).run(1)

    for ask in (lambda: run.output, lambda: run.fact("root")):
        with pytest.raises(NothingProduced) as nothing:
            ask()
        assert "default" not in str(nothing.value)


@pytest.mark.parametrize(
    ("workflow", "component"),
    [
        (Workflow("w", broken), "broken"),
        (Workflow("w", repeat(lambda x: 1 // 0, until=bool, at_most=2, name="turns") >> root), "turns.turn"),
        (Workflow("w", repeat(lambda x: 1 // 0, until=bool, at_most=2, name="turns")), "turns.turn"),
        (Workflow("w", step(lambda x: [x], name="one") >> each(broken) >> collect(name="all")), "broken"),
    ],
    ids=["its own", "of a part of what feeds it", "of a part", "of an element"],
)
def test_the_failure_for_which_there_is_no_output_is_named_and_chained(
    workflow: Workflow[Any, Any], component: str
) -> None:
    with pytest.raises(NothingProduced, match=r"failed \(ZeroDivisionError") as nothing:
        _ = workflow.run(0).output

    assert isinstance(cause := nothing.value.__cause__, StepFailed)
    assert cause.component == component
    assert isinstance(cause.__cause__, ZeroDivisionError)


def test_what_was_skipped_is_named_by_what_it_feeds() -> None:
    run = Workflow("w", broken >> root).add_policy("broken", Policy(on_failure="skip")).run(1)

    with pytest.raises(NothingProduced, match=r"'broken', which feeds it, was skipped \(division by zero\)"):
        run.value("root")


def test_none_that_was_made_is_not_the_default() -> None:
    run = Workflow("w", step(lambda _: None, name="nothing")).run(1)

    assert run.value("nothing", default=1) is None


def test_the_lineage_of_a_join_holds_every_cause_once() -> None:
    run = Workflow("w", root >> [plus_two, plus_four] >> pair).run(1)

    lineage = run.lineage(run.fact("pair"))

    assert [fact.producer for fact in lineage] == [None, "root", "plus_two", "plus_four", "pair"]


def test_lists_that_a_run_gives_are_copies() -> None:
    run = fork.run(1)

    run.log().clear()
    run.values().clear()
    run.productions("root").clear()

    assert len(run.log()) == 5
    assert run.values("root") == [2]


def test_a_run_says_what_it_is() -> None:
    assert repr(fork.run(1, id="r1")) == "Run('fork', id='r1', idle, 5 events)"
