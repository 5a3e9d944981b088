"""The differences of two runs, and of two workflows."""

from __future__ import annotations

import pytest

from weft import Workflow, condition, diff, each, reduce, step
from weft.errors import InvalidArgument

double = step(lambda x: x * 2, name="double")
add_one = step(lambda x: x + 1, name="add_one")
pair = step(lambda a, b: (a, b), name="pair")
both = Workflow("both", double, add_one, [double, add_one] >> pair)


def test_a_run_does_not_differ_from_another_one_that_did_the_same_in_another_order() -> None:
    one, other = both.run(3), both.plan(3)
    for runnable in reversed(other.prepare()):
        other.apply(runnable.execute())
    other.react_until_satisfied()

    found = diff(one, other)

    assert not found
    assert (found.first, found.same) == (None, 4)
    assert str(found) == "no difference in 4 outcomes"


def test_the_first_divergence_and_the_values_that_differ() -> None:
    run = both.run(3)
    found = diff(run, run.fork(at="add_one", value=0).react_until_satisfied())

    assert [(each.component, each.input, each.one, each.other) for each in found.differences] == [
        ("add_one", 1, 4, 0),
        ("pair", 1, (6, 4), (6, 0)),
    ]
    assert found.first is not None
    assert str(found.first) == "add_one of input 1: 4 and 0"
    assert found.same == 2


def test_components_that_ran_only_in_one_of_two_runs() -> None:
    flow = Workflow("w", condition(lambda x: x > 3, name="large") >> double)
    found = diff(flow.run(5), flow.run(1))

    assert found.only_in_first == {"double": 1}
    assert found.only_in_second == {}
    assert str(found).splitlines() == [
        "first: input of input 1: 5 and 1",
        "large of input 1: True and False",
        "double of input 1: 10, only in the first",
    ]
    assert diff(flow.run(1), flow.run(5)).only_in_second == {"double": 1}


def test_a_failure_differs_from_a_value() -> None:
    bad = [True]

    def work(x: int) -> int:
        if bad:
            raise ValueError("no")
        return x

    run = Workflow("w", each(step(work, name="work")) >> reduce(max, init=0, name="most")).run([1, 2])
    before = run.frozen_copy()
    bad.clear()
    found = diff(before, run.retry().react_until_satisfied())

    assert found.first is not None
    assert (found.first.one, found.first.other) == ("failed: ValueError: no", 1)
    assert found.only_in_second == {"most": 1}


def test_workflows_differ_in_code_wiring_and_components() -> None:
    old = Workflow("w", double >> add_one, step(lambda x: x, name="gone"), step(lambda x: 1, name="code"))
    new = Workflow("w", double >> pair_up >> add_one, step(lambda x: 2, name="code"))

    found = diff(old, new)

    assert (found.same, found.changed, found.rewired, found.new, found.gone) == (
        ("double",),
        ("code",),
        ("add_one",),
        ("pair_up",),
        ("gone",),
    )
    assert str(found) == "same: double\nchanged: code\nrewired: add_one\nnew: pair_up\ngone: gone"
    assert not diff(old, old)
    run, other = old.run(1), new.run(1)
    assert diff(run, other).workflows == found


pair_up = step(lambda x: x, name="pair_up")


def test_a_run_is_not_compared_with_a_workflow() -> None:
    with pytest.raises(InvalidArgument, match="two runs or two workflows"):
        diff(both.run(1), both)  # type: ignore[call-overload]
