"""Runs: dataflow, feeding back, further input, and when two runs are equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from forking import broken, components, double, fork, root, total

from weft import (
    Run,
    Workflow,
    latest,
    rule,
    step,
)

# -- dataflow --------------------------------------------------------------------------------------


def test_one_step_makes_one_fact_of_its_input() -> None:
    """A1."""
    run = Workflow("w", double).run(5)

    given, made = run.facts()

    assert run.values() == [10]
    assert (given.value, given.producer, given.parents, given.is_input) == (5, None, (), True)
    assert (made.value, made.producer, made.parents) == (10, "double", (given,))


def test_a_branching_pipeline_makes_every_value_once() -> None:
    """A2."""
    run = fork.run(2)

    assert sorted(run.values()) == [3, 5, 7]
    assert len(run.productions()) == 3
    assert run.prepare() == []


def test_a_run_goes_cycle_by_cycle() -> None:
    """A3."""
    run = fork.plan(2)
    after_plan = (run.values(), len(run.prepare()), run.is_runnable)

    run.react()
    [first] = run.productions()
    after_one = (run.values(), components(run), {r.inputs for r in run.prepare()})
    run.react()

    assert after_plan == ([], 1, True)
    assert after_one == ([3], ["plus_two", "plus_four"], {(first.address,)})
    assert (len(run.productions()), run.is_runnable) == (3, False)


def test_all_ways_of_running_give_the_same() -> None:
    """A6."""
    by_hand = fork.plan(2)
    while by_hand.is_runnable:
        for runnable in by_hand.prepare():
            by_hand.apply(runnable.execute())
    runs = [fork.run(2), fork.run(2, parallel=2), fork.react_until_satisfied(2), by_hand]

    assert {tuple(sorted(run.values())) for run in runs} == {(3, 5, 7)}
    assert {run.status for run in runs} == {"idle"}


def test_all_orders_give_the_same(finish: Callable[[Run], Run]) -> None:
    """A6."""
    assert sorted(finish(fork.plan(2)).values()) == [3, 5, 7]


def test_a_fact_knows_its_depth_and_leads_back_to_the_input() -> None:
    """A8."""
    chain = [step(lambda x: x + 1, name=f"s{n}") for n in range(1, 6)]
    run = Workflow("w", chain[0] >> chain[1] >> chain[2] >> chain[3] >> chain[4]).run(0)

    lineage = run.lineage(run.fact("s5"))

    assert [fact.depth for fact in run.facts()] == [0, 1, 2, 3, 4, 5]
    assert [fact.value for fact in lineage] == [0, 1, 2, 3, 4, 5]
    assert lineage[0].is_input


def test_equal_inputs_are_two_inputs() -> None:
    """A10: both run, both produce."""
    calls: list[int] = []

    def count(x: int) -> int:
        calls.append(x)
        return x + 1

    run = Workflow("w", step(count)).run(1)
    run.run(1)

    assert run.values() == [2, 2]
    assert len(run.facts()) == 4
    assert calls == [1, 1]


def test_a_failing_branch_fails_alone() -> None:
    """A12."""
    after = step(lambda x: x, name="after")
    g1, g2 = step(lambda x: ("g1", x), name="g1"), step(lambda x: ("g2", x), name="g2")

    run = Workflow("w", broken >> after, g1 >> g2).run(1)

    assert list(run.failures) == ["broken"]
    assert run.values("after") == []
    assert run.value("g2") == ("g2", ("g1", 1))
    assert run.status == "idle"


def test_the_failure_of_one_input_cancels_nothing_of_another() -> None:
    invert = step(lambda x: 1 / x, name="invert")
    run = Workflow("w", invert >> double).plan(0).plan(2).plan(0).plan(4)

    run.react_until_satisfied()

    assert run.values("double") == [1.0, 0.5]


# -- feeding back ----------------------------------------------------------------------------------


def letters() -> Workflow:
    return Workflow(
        "w",
        rule(when=lambda x: x == "a", then=lambda _: "b", name="a_to_b"),
        rule(when=lambda x: x == "b", then=lambda _: "c", name="b_to_c"),
    )


def test_what_a_run_made_is_fed_back_only_when_told() -> None:
    """A11."""
    run = letters().run("a")
    first = run.values()

    run.feed_back().react_until_satisfied()

    assert first == ["b"]
    assert run.values() == ["b", "c"]


def test_nothing_is_fed_back_by_a_restore() -> None:
    """A11."""
    run = letters().run("a")

    rebuilt = Run.from_log(run.log()).react_until_satisfied()

    assert rebuilt.values() == ["b"]


def test_a_fact_of_choice_can_be_fed_back() -> None:
    run = Workflow("w", double).run(1)
    run.run(10)

    run.feed_back(run.facts("double")[0]).react_until_satisfied()

    assert run.values() == [2, 20, 4]


def test_feeding_back_takes_the_results_of_the_last_input_alone() -> None:
    run = Workflow("w", root >> double).run(1)
    run.run(2)

    run.feed_back().react_until_satisfied()

    assert run.values("double") == [4, 6, 14]


def test_a_run_without_input_has_nothing_to_feed_back() -> None:
    run = Workflow("w", double).plan()

    assert run.feed_back().is_runnable is False


# -- further input ---------------------------------------------------------------------------------


def test_an_idle_run_takes_more_input() -> None:
    run = fork.run(1)

    assert run.run(10) is run
    assert [fact.index for fact in run.facts() if fact.is_input] == [1, 2]


def test_an_input_with_a_key_that_was_seen_is_ignored() -> None:
    run = Workflow("w", total).plan().run(1, key="a")

    run.run(1, key="a")
    run.run(1, key="b")
    run.run(1)

    assert run.values("total") == [1, 2, 3]


def test_the_key_of_an_input_is_remembered_by_the_log() -> None:
    run = Workflow("w", total).plan().run(1, key="a")

    rebuilt = Run.from_log(run.log()).run(1, key="a")

    assert rebuilt.values("total") == [1]


# -- a purged run ----------------------------------------------------------------------------------


def test_the_definition_of_a_run_starts_afresh_without_its_facts() -> None:
    """J100g: the structure stays, with what was added live; the facts are gone."""
    run = Workflow("w", root).run(1).add(double, to="root")

    fresh = run.workflow.plan()

    assert fresh.facts() == []
    assert fresh.workflow.hash == run.workflow.hash
    assert fresh.run(1).output == 4


# -- equality --------------------------------------------------------------------------------------


def test_runs_are_equal_if_their_histories_are() -> None:
    run = fork.plan(1)
    twin = Run.from_log(run.log())

    assert run == twin
    assert run != twin.react()
    assert run != fork.plan(1)
    assert run != "run"


def test_a_read_that_is_waiting_is_part_of_what_a_run_is() -> None:
    made = latest("double")
    run = Workflow("w", double, step(lambda x, m=made: m, name="reader")).plan(1)

    assert components(run) == ["double"]
    assert Run.from_log(run.log()) == run


def test_runs_without_context_share_one_that_cannot_be_changed() -> None:
    first, second = (Run(Workflow("w", step(abs, name="a"))) for _ in range(2))

    assert first.context is second.context
    with pytest.raises(TypeError):
        first.context["key"] = 1  # type: ignore[index]
