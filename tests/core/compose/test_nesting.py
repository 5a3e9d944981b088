"""Workflows as parts of others."""

from __future__ import annotations

import pytest
from arithmetic import add_one, double, is_even, minus_one, pair, root, total

from weft import (
    INPUT,
    Workflow,
    context,
    each,
    latest,
    reduce,
    rule,
    state_of,
    step,
)
from weft.errors import (
    DuplicateName,
)


def test_a_nested_workflow_stands_like_a_component() -> None:
    inner = Workflow("inner", add_one >> double)

    run = Workflow("outer", root >> inner >> minus_one).run(5)

    assert run.values() == [5, 6, 12, 11]
    assert [fact.producer for fact in run.productions()] == ["root", "inner.add_one", "inner.double", "minus_one"]


def test_a_nested_workflow_may_be_a_root_or_a_leaf() -> None:
    inner = Workflow("inner", add_one >> double)

    assert Workflow("outer", inner).run(5).results() == {"inner.double": 12}
    assert Workflow("outer", inner >> minus_one).run(5).results() == {"minus_one": 11}


def test_all_roots_of_a_nested_workflow_are_fed() -> None:
    inner = Workflow("inner", add_one, double)

    run = Workflow("outer", root >> inner).run(5)

    assert run.results() == {"inner.add_one": 6, "inner.double": 10}


def test_all_leaves_of_a_nested_workflow_are_joined_by_what_follows() -> None:
    inner = Workflow("inner", add_one, double)

    run = Workflow("outer", root >> inner >> pair).run(5)

    assert run.output == (6, 10)


def test_the_input_of_a_nested_workflow_is_what_precedes_it() -> None:
    inner = Workflow("inner", [INPUT, double] >> pair)

    assert Workflow("outer", add_one >> inner).run(5).output == (6, 12)
    assert Workflow("outer", inner).run(5).output == (5, 10)


def test_a_workflow_can_be_nested_twice_under_two_names() -> None:
    inner = Workflow("inner", add_one >> double)

    run = Workflow("outer", inner >> inner.renamed("again")).run(1)

    assert run.results() == {"again.double": 10}
    assert run.value("inner.double") == 4


def test_workflows_nest_in_nested_workflows() -> None:
    innermost = Workflow("innermost", add_one)
    inner = Workflow("inner", innermost >> double)

    run = Workflow("outer", inner >> minus_one).run(5)

    assert run.value("inner.innermost.add_one") == 6
    assert run.output == 11


def test_references_inside_a_nested_workflow_stay_inside() -> None:
    spent = state_of("total")
    inner = Workflow("inner", total, step(lambda x, s=spent: (x, s), name="reader"))

    run = Workflow("outer", inner).run(5)

    assert run.value("inner.reader") == (5, 5)
    assert run.state_of("inner.total") == 5


def test_a_nested_workflow_can_be_read_from_outside() -> None:
    made = latest("inner.add_one")
    inner = Workflow("inner", add_one)

    run = Workflow("outer", inner, step(lambda x, v=made: (x, v), name="reader")).run(5)

    assert run.value("reader") == (5, 6)


def test_conditions_rules_and_maps_can_be_nested() -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    even = is_even.named("even")
    big = rule(when=even & (lambda x: x > 2), then=lambda x: x * 100, name="big")
    inner = Workflow("inner", each(is_even >> double) >> collect, each(big, name="bigs"))

    run = Workflow("outer", root >> inner).run([1, 2, 3, 4])

    assert run.results() == {"inner.collect": [4, 8], "inner.big": [400]}


def test_context_for_a_nested_component_has_its_full_name() -> None:
    limit = context("limit")
    inner = Workflow("inner", step(lambda x, n=limit: min(x, n), name="cap"))
    outer = Workflow("outer", inner)

    run = outer.run(9, context={"limit": 7, "inner.cap.limit": 5})

    assert run.output == 5
    assert set(outer.context_keys()) == {"inner.cap"}


def test_two_nested_workflows_of_one_name_and_different_code_are_refused() -> None:
    first = Workflow("inner", step(lambda x: x + 1, name="a"))
    second = Workflow("inner", step(lambda x: x + 2, name="a"))

    with pytest.raises(DuplicateName, match=r"'inner\.a'"):
        Workflow("outer", first >> second)


def test_nesting_leaves_the_inner_workflow_as_it_was() -> None:
    inner = Workflow("inner", add_one >> double)
    before = inner.hash

    Workflow("outer", root >> inner)

    assert inner.hash == before
    assert inner.run(1).results() == {"double": 4}
