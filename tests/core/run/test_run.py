"""Runs: the three phases, what one may ask, further input, live changes, and merging two advances."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable
from types import FunctionType, ModuleType

import msgspec
import pytest

from weft import (
    INPUT,
    Outcome,
    Run,
    Workflow,
    accumulator,
    all_values,
    condition,
    context,
    each,
    latest,
    reduce,
    rule,
    state_of,
    step,
)
from weft.core import events as ev
from weft.core.run.runnable import RunnableRef
from weft.errors import (
    DuplicateName,
    InvalidEvent,
    MissingContext,
    NothingProduced,
    UnknownComponent,
    UnknownRunnable,
)

root = step(lambda x: x + 1, name="root")
plus_two = step(lambda x: x + 2, name="plus_two")
plus_four = step(lambda x: x + 4, name="plus_four")
double = step(lambda x: x * 2, name="double")
pair = step(lambda a, b: (a, b), name="pair")
broken = step(lambda x: x / 0, name="broken")
never = condition(lambda _: False, name="never")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
fork = Workflow("fork", root >> [plus_two, plus_four])


def components(run: Run) -> list[str]:
    """What could run now."""
    return [runnable.component for runnable in run.prepare()]


# -- dataflow ------------------------------------------------------------------------------------


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


# -- feeding back --------------------------------------------------------------------------------


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


# -- prepare, execute, apply ---------------------------------------------------------------------


def test_planning_runs_nothing() -> None:
    calls: list[int] = []

    run = Workflow("w", step(calls.append, name="call")).plan(1)

    assert calls == []
    assert run.is_runnable
    assert run.status == "running"


def test_preparing_again_changes_nothing() -> None:
    run = fork.plan(2)
    log = run.log()

    first, second = run.prepare(), run.prepare()

    assert [r.id for r in first] == [r.id for r in second]
    assert run.log() == log


def test_a_runnable_needs_nothing_of_its_run() -> None:
    run = Workflow("w", double).plan(21)
    [runnable] = run.prepare()

    del run

    assert runnable.execute().result == 42


def test_a_runnable_holds_no_reference_to_its_run() -> None:
    """It can run anywhere; of the run it shares only the log, which never changes, to say what it is."""
    run = fork.plan(2).react()
    seen: dict[int, object] = {}
    stack: list[object] = [run.prepare()[0]]

    while stack:
        thing = stack.pop()
        if id(thing) not in seen and not isinstance(thing, type | ModuleType | FunctionType):
            seen[id(thing)] = thing
            stack.extend(gc.get_referents(thing))

    assert id(run) not in seen
    assert id(run.memory) not in seen


def test_executing_changes_nothing_before_it_is_applied() -> None:
    run = Workflow("w", double).plan(21)
    [runnable] = run.prepare()

    outcome = runnable.execute()

    assert run.values() == []
    assert run.apply(outcome).values() == [42]


def test_executing_never_raises_what_the_function_raises() -> None:
    [runnable] = Workflow("w", broken).plan(1).prepare()

    outcome = runnable.execute()

    assert outcome.status == "failed"
    assert isinstance(outcome.error, ZeroDivisionError)


def test_applying_an_outcome_twice_changes_nothing() -> None:
    run = fork.plan(2)
    outcome = run.prepare()[0].execute()
    run.apply(outcome)
    log = run.log()

    run.apply(outcome)

    assert run.log() == log


def test_a_second_outcome_of_the_same_work_changes_nothing() -> None:
    """Executed twice, applied once: the first one stands, also a failure."""
    run = Workflow("w", double).plan(1)
    [runnable] = run.prepare()
    run.apply(Outcome(runnable.component, runnable.inputs, "completed", "first"))

    run.apply(Outcome(runnable.component, runnable.inputs, "completed", "second"))
    run.apply(Outcome(runnable.component, runnable.inputs, "failed", error=ValueError("late")))

    assert run.values() == ["first"]
    assert not run.failed


def test_a_second_outcome_changes_nothing_after_a_restore() -> None:
    run = fork.plan(2)
    outcome = run.prepare()[0].execute()
    run.apply(outcome)

    rebuilt = Run.from_log(run.log()).apply(outcome)

    assert rebuilt == run


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("nobody", (2,), "completed", 1),
        Outcome("root", (99,), "completed", 1),
        Outcome("plus_two", (2,), "failed"),
    ],
    ids=["component", "inputs", "not yet"],
)
def test_an_outcome_of_work_that_was_never_offered_is_an_error(outcome: Outcome) -> None:
    run = fork.plan(2)
    log = run.log()

    with pytest.raises(UnknownRunnable, match=f"has never offered '{outcome.component}'"):
        run.apply(outcome)

    assert run.log() == log


def test_an_outcome_of_another_run_is_an_error() -> None:
    """Also if it would fit: addresses are those of its own log."""
    one, other = Workflow("w", double).plan(1), Workflow("w", double).plan(100)
    [runnable] = other.prepare()

    with pytest.raises(UnknownRunnable):
        one.apply(runnable.execute())

    assert one.values() == []


def test_a_skipped_outcome_ends_the_branch_and_fails_nothing() -> None:
    run = fork.plan(2)
    [runnable] = run.prepare()

    run.apply(Outcome(runnable.component, runnable.inputs, "skipped"))

    assert run.skipped == ["root"]
    assert (run.failed, run.status, run.values()) == (False, "idle", [])


# -- references to runnables ---------------------------------------------------------------------


def test_a_runnable_can_be_prepared_again_from_its_reference() -> None:
    run = fork.plan(2).react()
    original = run.prepare()[1]

    again = run.runnable(original.ref())

    assert again.id == original.id
    assert again.execute().result == 7


def test_a_reference_is_plain_data_and_outlives_the_process() -> None:
    run = fork.plan(2).react()
    sent = msgspec.msgpack.encode(run.prepare()[1].ref())
    rebuilt = Run.from_log(run.log())

    received = msgspec.msgpack.decode(sent, type=RunnableRef)

    assert rebuilt.runnable(received).execute().result == 7


def test_a_reference_to_an_element_is_plain_data() -> None:
    run = Workflow("w", each(double)).plan([1, 2]).react()
    sent = msgspec.msgpack.encode(run.prepare()[1].ref())

    received = msgspec.msgpack.decode(sent, type=RunnableRef)

    assert run.runnable(received).execute().result == 4


def test_a_reference_to_work_that_is_done_is_an_error() -> None:
    run = fork.plan(2)
    ref = run.prepare()[0].ref()
    run.react()

    with pytest.raises(UnknownRunnable, match=r"'root' .*is not ready in run"):
        run.runnable(ref)


# -- ids and keys --------------------------------------------------------------------------------


def test_the_same_work_has_the_same_id_in_every_run() -> None:
    one, other = fork.plan(1), fork.plan(1)

    assert one.prepare()[0].id == other.prepare()[0].id
    assert one.prepare()[0].id != fork.plan(2).prepare()[0].id


def test_everything_that_is_ready_has_an_id_and_a_key_of_its_own() -> None:
    run = Workflow("w", double, each(root), total).plan([1, 1]).plan([1, 1]).react()

    runnables = run.prepare()

    assert len(runnables) > 2
    assert len({r.id for r in runnables}) == len(runnables)
    assert len({r.idempotency_key for r in runnables}) == len(runnables)


def test_a_run_has_the_id_it_is_given_and_else_one_of_its_own() -> None:
    assert fork.run(1, id="mine").id == "mine"
    assert fork.run(1).id != fork.run(1).id


# -- what one may ask ----------------------------------------------------------------------------


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


def test_results_do_not_depend_on_who_finished_last(finish: Callable[[Run], Run]) -> None:
    """Of several values that one leaf made of one input, the one that the wiring puts last."""
    sink = step(lambda x: x, name="sink")

    run = finish(Workflow("w", root >> sink, double >> sink).plan(10))

    assert run.results() == {"sink": 20}
    assert run.output == 20


def test_a_leaf_that_made_nothing_is_not_among_the_results() -> None:
    assert Workflow("w", double, never >> root).run(1).results() == {"double": 2}


def test_the_output_is_the_value_of_the_only_leaf_or_all_results() -> None:
    assert Workflow("w", root >> double).run(1).output == 4
    assert fork.run(1).output == {"plus_two": 4, "plus_four": 6}
    with pytest.raises(NothingProduced, match=r"'root' has produced nothing: .*gated off"):
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
        (Workflow("w", never >> double).run(1), "double", "gated off"),
        (Workflow("w", broken >> double).run(1), "double", "what feeds it failed"),
    ],
    ids=["failed", "ready", "no input", "gated", "behind a failure"],
)
def test_the_value_of_what_made_nothing_is_an_error_that_says_why(run: Run, name: str, why: str) -> None:
    with pytest.raises(NothingProduced, match=f"'{name}' has produced nothing: .*{why}.*default="):
        run.value(name)

    assert run.value(name, default="none") == "none"
    assert run.value(name, default=None) is None
    assert run.values(name) == []


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


# -- further input -------------------------------------------------------------------------------


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


# -- a purged run --------------------------------------------------------------------------------


def test_the_definition_of_a_run_starts_afresh_without_its_facts() -> None:
    """J100g: the structure stays, with what was added live; the facts are gone."""
    run = Workflow("w", root).run(1).add(double, to="root")

    fresh = run.workflow.plan()

    assert fresh.facts() == []
    assert fresh.workflow.hash == run.workflow.hash
    assert fresh.run(1).output == 4


# -- changing a live run -------------------------------------------------------------------------


def test_adding_to_a_live_run_is_an_event() -> None:
    run = Workflow("w", root).run(1)

    run.add(double, to="root")

    event = run.log()[-1]
    assert isinstance(event, ev.ComponentAdded)
    assert event.components == ("double",)


def test_what_is_added_gets_what_comes_from_now_on() -> None:
    run = Workflow("w", root).run(1)
    run.plan(10)

    run.add(double, to="root").react_until_satisfied()

    assert run.values("double") == [22]


def test_adding_changes_this_run_alone() -> None:
    workflow = Workflow("w", root)
    run, other = workflow.plan(1), workflow.plan(1)

    run.add(double, to="root")

    assert "double" in run.workflow
    assert "double" not in workflow
    assert other.react_until_satisfied().results() == {"root": 2}


def test_adding_something_that_cannot_work_leaves_the_run_as_it_was() -> None:
    run = Workflow("w", root).plan(1)
    log = run.log()

    with pytest.raises(DuplicateName):
        run.add(step(lambda x: x + 9, name="root"))

    assert run.log() == log
    assert run.react_until_satisfied().results() == {"root": 2}


def test_a_join_that_is_added_does_not_fire_for_an_input_it_has_half_seen() -> None:
    run = Workflow("w", root, double).plan(1)
    run.apply(run.prepare()[0].execute())

    run.add(pair, to=["root", "double"]).react_until_satisfied()
    run.run(10)

    assert run.values("pair") == [(11, 20)]
    assert run.status == "idle"


def test_a_component_that_is_added_may_need_context() -> None:
    run = Workflow("w", root).plan(1)
    key = context("key")

    run.add(step(lambda x, k=key: (x, k), name="use"), to="root")

    with pytest.raises(MissingContext, match=r"'key' \(for use\)"):
        run.react()
    assert run.values() == []


def test_context_that_only_an_input_under_way_needs_is_never_made_up() -> None:
    """The component has left again, and the input that is under way still knows it."""
    seen: list[object] = []
    use = step(lambda x, key: seen.append(key), name="use").bind(key=context("key"))
    run = Workflow("w", root).plan(1)

    run.add(use, to="root").remove("use")
    with contextlib.suppress(MissingContext):
        run.react_until_satisfied()

    assert seen == []


def test_a_reader_that_is_added_reads_what_is_there() -> None:
    run = Workflow("w", total).run(5)
    so_far = state_of("total")

    run.add(step(lambda x, s=so_far: (x, s), name="reader")).run(1)

    assert run.values("reader") == [(1, 6)]


def test_removing_from_a_live_run_is_an_event() -> None:
    run = fork.plan(2)

    run.remove("plus_two").react_until_satisfied()

    assert run.log()[2] == ev.ComponentRemoved(3, "plus_two", run.workflow)
    assert run.results() == {"plus_four": 7}


def test_an_input_under_way_finishes_as_it_began_when_a_component_is_removed() -> None:
    run = fork.plan(2).react()

    run.remove(plus_two)
    under_way = components(run)
    run.react_until_satisfied().run(2)

    assert under_way == ["plus_two", "plus_four"]
    assert run.values("plus_two") == [5]
    assert run.values("plus_four") == [7, 7]


def test_what_a_removed_component_made_stays() -> None:
    run = fork.run(2)

    run.remove("plus_two")

    assert run.values("plus_two") == [5]
    assert run.results() == {"plus_four": 7}


def test_a_late_outcome_of_a_removed_component_still_counts() -> None:
    run = fork.plan(2).react()
    under_way = run.prepare()

    run.remove("plus_two")
    for runnable in under_way:
        run.apply(runnable.execute())

    assert run.values() == [3, 5, 7]
    assert run.status == "idle"


def test_removing_a_middle_step_feeds_its_child_from_its_parent() -> None:
    """J100e: for what comes from now on."""
    run = Workflow("w", root >> double >> plus_two).run(5)

    run.remove("double").run(5)

    assert run.values("plus_two") == [14, 8]


def test_removing_something_unknown_changes_nothing() -> None:
    run = fork.run(2)
    log = run.log()

    run.remove("nobody")

    assert run.log() == log


def test_removing_a_parent_of_a_join_leaves_nothing_waiting(finish: Callable[[Run], Run]) -> None:
    """The input under way pairs as it began to, the next one as the graph is now."""
    run = Workflow("w", [root, double] >> pair).plan(1)
    run.apply(run.prepare()[0].execute())

    finish(run.remove("double"))
    finish(run.plan(10))

    assert run.values("pair") == [(2, 2), (11, 10)]
    assert run.status == "idle"


def test_removing_a_step_of_a_batch_in_flight_never_reduces_a_part_of_it() -> None:
    """The first element was doubled, and so are the others."""
    most = reduce(lambda acc, x: acc + x, init=0, name="sum")
    run = Workflow("w", each(double >> root) >> most).plan([1, 2, 3]).react()
    run.apply(run.prepare()[0].execute())

    run.remove("double").react_until_satisfied()
    in_flight = run.values("sum")
    run.run([1, 2, 3])

    assert in_flight == [3 + 5 + 7]
    assert run.values("sum") == [15, 9]
    assert run.status == "idle"


def test_adding_inside_each_reaches_the_elements_in_flight() -> None:
    most = reduce(lambda acc, x: acc + x, init=0, name="sum")
    run = Workflow("w", each(double) >> most).plan([1, 2, 3]).react()

    run.add(plus_two, to="double").react_until_satisfied()

    assert run.values("sum") == [12]
    assert run.values("plus_two") == [4, 6, 8]


def test_adding_while_elements_are_half_done_counts_each_of_them_once(finish: Callable[[Run], Run]) -> None:
    """One branch of every element has ended, the other one has not."""
    most = reduce(lambda acc, x: acc + x, init=0, name="sum")
    run = Workflow("w", each([double, root]), double >> most).plan([1, 2, 3]).react()
    advance(run, "double")
    before = components(run)

    finish(run.add(plus_two, to="root"))

    assert before == ["root", "root", "root", "sum"]
    assert run.values("sum") == [12]
    assert sorted(run.values("plus_two")) == [4, 5, 6]
    assert run.status == "idle"


def test_adding_while_some_elements_are_done_counts_each_of_them_once(finish: Callable[[Run], Run]) -> None:
    most = reduce(lambda acc, x: acc + x, init=0, name="sum")
    run = Workflow("w", each([double, root]), double >> most).plan([1, 2, 3]).react()
    first = next(r for r in run.prepare() if r.component == "double")
    run.apply(first.execute())

    finish(run.add(plus_two, to="root"))

    assert run.values("sum") == [12]
    assert run.status == "idle"


def test_a_reduce_that_is_added_does_not_fire_for_a_batch_it_has_half_seen() -> None:
    most = reduce(lambda acc, x: acc + x, init=0, name="sum")
    run = Workflow("w", each(double)).plan([1, 2, 3]).react()
    run.apply(run.prepare()[0].execute())

    run.add(most, to="double").react_until_satisfied()
    run.run([1, 2])

    assert run.values("sum") == [6]
    assert run.status == "idle"


def test_removing_what_leads_to_something_that_is_read_leaves_no_reader_waiting() -> None:
    made = latest("plus_two")
    reader = step(lambda x, m=made: (x, m), name="reader")
    run = Workflow("w", root >> double >> plus_two, reader).plan(1)

    run.remove("root").react_until_satisfied()
    run.run(5)

    assert run.values("reader") == [(1, 6), (5, 12)]
    assert run.status == "idle"


def test_those_in_line_at_a_stateful_component_are_folded_after_it_was_removed() -> None:
    run = Workflow("w", total, root).plan(1).plan(2).plan(3)

    run.remove("total").react_until_satisfied()
    run.run(10)

    assert run.values("total") == [1, 3, 6]
    assert run.values("root") == [2, 3, 4, 11]
    assert run.status == "idle"


def test_adding_leaves_those_in_line_where_they_were() -> None:
    run = Workflow("w", total).plan(1).plan(2).plan(3)

    run.add(root).react_until_satisfied()

    assert run.values("total") == [1, 3, 6]


def test_an_input_under_way_finishes_with_the_code_it_began_with() -> None:
    other = step(lambda x: x + 100, name="plus_two")
    run = fork.plan(2).react()

    run.remove("plus_two").add(other, to="root").react_until_satisfied()
    run.run(2)

    assert run.values("plus_two") == [5, 103]
    assert Run.from_log(run.log()) == run


def test_a_name_may_stand_for_another_kind_after_it_was_removed() -> None:
    tagged = step(lambda x: ("step", x), name="total")
    run = Workflow("w", total).plan(1).plan(2)

    run.remove("total").add(tagged).plan(3).react_until_satisfied()

    assert sorted(run.values("total"), key=repr) == [("step", 3), 1, 3]
    assert Run.from_log(run.log()) == run


def test_a_state_outlives_the_time_its_component_was_away() -> None:
    run = Workflow("w", total, root).run(5)

    run.remove("total").run(1)
    run.add(total).run(2)

    assert run.values("total") == [5, 7]


def test_what_was_removed_can_be_added_again_live() -> None:
    other = step(lambda x: x + 100, name="plus_two")
    run = fork.run(2)

    run.remove("plus_two").add(other, to="root").run(2)

    assert run.values("plus_two") == [5, 103]


# -- two advances made one -----------------------------------------------------------------------


def parted(run: Run) -> tuple[Run, Run]:
    """Two copies of *run* that go their own ways."""
    return Run.from_log(run.log()), Run.from_log(run.log())


def advance(run: Run, *names: str) -> Run:
    """Run everything that is ready now and belongs to *names*."""
    for runnable in run.prepare():
        if runnable.component in names:
            run.apply(runnable.execute())
    return run


def test_merging_two_advances_unites_their_facts() -> None:
    """J100f."""
    one, other = parted(Workflow("w", root >> [plus_two, plus_four] >> pair).plan(1).react())
    advance(one, "plus_two")
    advance(other, "plus_four")

    one.merge(other)

    assert sorted(one.values()) == [2, 4, 6]
    assert components(one) == ["pair"]
    assert one.react().output == (4, 6)
    assert one.status == "idle"


def test_merging_two_finished_halves_leaves_nothing_pending() -> None:
    """J100f."""
    one, other = parted(fork.plan(1).react())
    advance(one, "plus_two")
    advance(other, "plus_four")

    one.merge(other)

    assert one.status == "idle"
    assert one.results() == {"plus_two": 4, "plus_four": 6}


def test_merging_a_run_with_itself_changes_nothing() -> None:
    """J100f."""
    run = fork.run(1)
    log = run.log()

    run.merge(run)
    run.merge(Run.from_log(log))

    assert run.log() == log


def test_what_both_have_done_counts_once() -> None:
    """J100f."""
    one, other = parted(fork.plan(1))

    one.react_until_satisfied().merge(other.react_until_satisfied())

    assert sorted(one.values()) == [2, 4, 6]
    assert one.status == "idle"


def test_a_reduce_of_elements_that_two_workers_did_fires_once() -> None:
    """C33: the batch survives the merge."""
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    one, other = parted(Workflow("w", each(double) >> collect).plan([1, 2, 3, 4]).react())
    for run, share in ((one, slice(0, None, 2)), (other, slice(1, None, 2))):
        for runnable in run.prepare()[share]:
            run.apply(runnable.execute())

    one.merge(other).react_until_satisfied()

    assert one.values("collect") == [[2, 4, 6, 8]]
    assert one.status == "idle"


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_reduce_that_one_worker_has_made_is_not_made_again(done: int) -> None:
    """C33."""
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    one, other = parted(Workflow("w", each(double) >> collect).plan([1, 2, 3]).react())
    for runnable in one.prepare()[:done]:
        one.apply(runnable.execute())

    one.merge(other.react_until_satisfied()).react_until_satisfied()

    assert one.values("collect") == [[2, 4, 6]]
    assert len(one.values("double")) == 3


def test_inputs_of_both_become_inputs_of_one() -> None:
    one, other = parted(Workflow("w", root >> double).plan())
    one.run(1)
    other.run(10)

    one.merge(other)

    assert one.values("double") == [4, 22]
    assert [fact.index for fact in one.facts() if fact.is_input] == [1, 2]
    assert one.status == "idle"


def test_an_input_with_a_key_that_both_have_is_one_input() -> None:
    one, other = parted(Workflow("w", root >> double).plan())
    one.run(1, key="a")
    other.run(1, key="a")

    one.merge(other).react_until_satisfied()

    assert one.values("double") == [4]


def test_merging_loses_no_update_of_a_state() -> None:
    one, other = parted(Workflow("w", total).run(1))
    one.run(10)
    other.run(100)

    one.merge(other).react_until_satisfied()

    assert one.state_of("total") == 111
    assert len(one.values("total")) == 3


def test_work_that_the_other_run_dispatched_and_completed_is_taken_over() -> None:
    one, other = parted(Workflow("w", root >> double).plan(1))
    [runnable] = other.prepare()
    other.record_dispatch(runnable).apply(runnable.execute())

    one.merge(other.react_until_satisfied())

    assert one.values() == [2, 4]
    assert one.status == "idle"


def test_a_failure_that_is_taken_over_brings_its_own_cause() -> None:
    def refuse(x: int) -> None:
        raise (ValueError if x == 1 else LookupError)(f"on {x}")

    one, other = parted(Workflow("w", step(refuse)).plan())
    one.run(1)
    other.run(2)

    one.merge(other)

    failure = one.failures["refuse"]
    assert "on 2" in str(failure)
    assert isinstance(failure.__cause__, LookupError)


def test_a_merged_run_can_be_rebuilt() -> None:
    one, other = parted(Workflow("w", root >> [plus_two, plus_four] >> pair).plan(1).plan(5))
    advance(one, "root")
    advance(other.react(), "plus_two")
    one.merge(other)

    rebuilt = Run.from_log(one.log())

    assert rebuilt == one
    assert sorted(rebuilt.react_until_satisfied().values("pair")) == [(4, 6), (8, 10)]


def test_merging_in_any_order_gives_the_same_values() -> None:
    """J100f: of three advances."""
    branches = [step(lambda x, k=k: x * k, name=f"times_{k}") for k in (2, 3, 5)]
    begun = Workflow("w", root >> branches >> step(lambda *xs: xs, name="all")).plan(1).react()
    advances = [advance(Run.from_log(begun.log()), branch.name) for branch in branches]

    merged = [
        Run.from_log(first.log()).merge(second).merge(third).react_until_satisfied()
        for first, second, third in itertools.permutations(advances)
    ]

    assert {tuple(run.values("all")) for run in merged} == {((4, 6, 10),)}


def test_runs_without_a_common_beginning_cannot_be_merged() -> None:
    with pytest.raises(InvalidEvent, match="different runs"):
        fork.run(1).merge(fork.run(1))


def test_a_run_that_was_changed_since_cannot_be_merged() -> None:
    one, other = parted(fork.plan(1))

    with pytest.raises(InvalidEvent, match="changed since they parted"):
        one.merge(other.add(double, to=INPUT))


# -- equality ------------------------------------------------------------------------------------


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


def test_an_input_under_way_goes_on_reading_in_order_after_its_map_was_removed() -> None:
    double = step(lambda x: x * 2, name="double")
    report = step(lambda x, seen=all_values("double"): seen, name="report")
    run = Workflow("w", each([double, report], name="spread")).plan([1, 2]).react()
    doubles = [runnable for runnable in run.prepare() if runnable.component == "double"]

    for runnable in reversed(doubles):
        run.apply(runnable.execute())
    run.remove("spread").react_until_satisfied()

    assert run.values("report") == [[2, 4], [2, 4]]
