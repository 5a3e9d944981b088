"""The results of an input: what its handle returns, and a handle that belongs to no input (ADR 24)."""

from __future__ import annotations

import pytest
from failing_flows import halting, inverse, positive, two_leaves
from small_flows import chain

from weft import Runner, Workflow, each, reduce, step
from weft.errors import (
    NoInput,
    NothingProduced,
    RunFailed,
    StepFailed,
)

# -- the results of an input ---------------------------------------------------------------------


def test_the_result_of_a_later_input_is_never_that_of_an_earlier_one(runner: Runner) -> None:
    runner.start(positive, id="a")
    five, zero, last = (runner.send("a", value) for value in (5, 0, 7))

    assert five.result(20) == 5
    with pytest.raises(NothingProduced, match="the condition 'is_positive' did not hold"):
        zero.result(20)
    assert (last.result(20), runner.result("a")) == (7, 7)
    assert (five.results(), zero.results(), last.results()) == ({"same": 5}, {}, {"same": 7})
    assert runner.results("a") == {"same": 7}


def test_a_failure_belongs_to_its_input(runner: Runner) -> None:
    runner.start(halting, id="a")
    good, bad, better = (runner.send("a", value) for value in (5, 0, 2))

    with pytest.raises(RunFailed) as failed:
        bad.result(20)
    assert isinstance(failed.value.failures["inverse"].__cause__, ZeroDivisionError)
    assert (good.result(20), better.result(20)) == (2.0, 5.0)


def test_one_leaf_of_two_that_failed_is_raised_with_the_result_of_the_other(runner: Runner) -> None:
    handle = runner.start(two_leaves, 0, id="a")

    for result in (handle.result, lambda: runner.result("a", 20), lambda: runner.gather(["a"])):
        with pytest.raises(RunFailed, match="'inverse' failed: ZeroDivisionError") as failed:
            result()
        assert failed.value.results == {"successor": 1}
        assert [(name, type(why)) for name, why in failed.value.failures.items()] == [("inverse", StepFailed)]
    assert handle.results() == {"successor": 1}


def test_all_failures_of_an_input_are_raised_together(runner: Runner) -> None:
    flow = Workflow("w", step(inverse)).add(step(lambda x: [][x], name="item"))

    with pytest.raises(RunFailed, match="and 1 more") as failed:
        runner.start(flow, 0).result(20)

    causes = {name: type(why.__cause__) for name, why in failed.value.failures.items()}
    assert causes == {"inverse": ZeroDivisionError, "item": IndexError}


def test_that_nothing_was_produced_names_the_failure_that_it_comes_from() -> None:
    run = Workflow("w", step(inverse) >> step(lambda x: x, name="same")).run(0)

    with pytest.raises(NothingProduced, match=r"'inverse', which feeds it, failed \(ZeroDivisionError") as nothing:
        run.value("same")
    assert isinstance(nothing.value.__cause__, StepFailed)


def test_a_key_that_was_seen_returns_the_handle_of_the_first_input_with_it(runner: Runner) -> None:
    runner.start(positive, id="a")
    first = runner.send("a", 5, key="k")
    runner.send("a", 6)

    again = runner.send("a", 7, key="k")

    assert (again, again.result(20)) == (first, 5)


def test_a_handle_of_an_input_is_not_that_of_another_one_or_of_the_run(runner: Runner) -> None:
    first = runner.start(positive, 1, id="a", open=True)
    second = first.send(2)

    assert len({first, second, runner.resume("a")}) == 3
    assert first == runner.start(positive, 1, id="a", open=True)
    assert (repr(first), repr(second)) == ("Handle('a')", "Handle('a', input 2)")


def test_elements_of_a_later_input_are_not_among_those_of_an_earlier_one(runner: Runner) -> None:
    flow = Workflow("w", each(step(lambda x: x * 2, name="twice")) >> reduce(lambda a, b: a + b, init=0, name="sum"))
    runner.start(flow, id="a")
    handles = [runner.send("a", values) for values in ([1, 2], [], [3])]

    assert [handle.result(20) for handle in handles] == [6, 0, 6]


# -- handles that belong to no input ---------------------------------------------------------------


def test_a_handle_without_an_input_has_the_latest_results_and_no_result(runner: Runner) -> None:
    desk = runner.start(chain, id="desk")
    with pytest.raises(NoInput, match=r"use the handle that send\(\) returned, or runner.result\('desk'\)"):
        desk.result(20)
    first, second = runner.send("desk", 1), runner.send("desk", 2)
    assert (first.result(20), second.result(20)) == (3, 5)

    for handle in (desk, runner.resume("desk")):
        with pytest.raises(NothingProduced, match="belongs to no input"):
            handle.result(20)
        with pytest.raises(NoInput):
            runner.gather([handle])
        assert handle.results() == {"increment": 5}
    assert (runner.result("desk"), runner.gather(["desk"])) == (5, [5])


def test_a_handle_without_an_input_of_a_finished_run_with_several_has_no_result_either(runner: Runner) -> None:
    desk = runner.start(chain, id="desk")
    runner.send("desk", 1)
    runner.send("desk", 2)
    runner.finish("desk")
    assert desk.wait(20).status == "completed"

    with pytest.raises(NoInput):
        desk.result(20)
    with pytest.raises(NoInput):
        runner.resume("desk").result(20)
    assert runner.result("desk") == 5


def test_a_handle_of_a_run_that_finishes_with_its_only_input_has_its_result(runner: Runner) -> None:
    runner.start(chain, 1, id="a").wait(20)

    assert runner.resume("a").result(20) == 3
    assert runner.gather([runner.resume("a")]) == [3]
