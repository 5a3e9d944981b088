"""Changing the workflow of a live run: what is added, what is removed, and inputs in flight meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from forking import components, double, fork, pair, plus_two, root, total

from weft import (
    Run,
    Workflow,
    all_values,
    context,
    each,
    latest,
    reduce,
    state_of,
    step,
)
from weft.core import events as ev
from weft.errors import (
    DuplicateName,
    MissingContext,
)


def advance(run: Run, *names: str) -> Run:
    """Run everything that is ready now and belongs to *names*."""
    for runnable in run.prepare():
        if runnable.component in names:
            run.apply(runnable.execute())
    return run


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


def test_context_that_only_an_input_in_flight_needs_is_never_made_up() -> None:
    """The component has left again, and the input that is in flight still knows it."""
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


def test_an_input_in_flight_finishes_as_it_began_when_a_component_is_removed() -> None:
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
    """The input in flight pairs as it began to, the next one as the graph is now."""
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


def test_an_input_in_flight_finishes_with_the_code_it_began_with() -> None:
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


def test_a_state_outlives_the_time_without_its_component() -> None:
    run = Workflow("w", total, root).run(5)

    run.remove("total").run(1)
    run.add(total).run(2)

    assert run.values("total") == [5, 7]


def test_what_was_removed_can_be_added_again_live() -> None:
    other = step(lambda x: x + 100, name="plus_two")
    run = fork.run(2)

    run.remove("plus_two").add(other, to="root").run(2)

    assert run.values("plus_two") == [5, 103]


def test_an_input_in_flight_goes_on_reading_in_order_after_its_map_was_removed() -> None:
    double = step(lambda x: x * 2, name="double")
    report = step(lambda x, seen=all_values("double"): seen, name="report")
    run = Workflow("w", each([double, report], name="spread")).plan([1, 2]).react()
    doubles = [runnable for runnable in run.prepare() if runnable.component == "double"]

    for runnable in reversed(doubles):
        run.apply(runnable.execute())
    run.remove("spread").react_until_satisfied()

    assert run.values("report") == [[2, 4], [2, 4]]
