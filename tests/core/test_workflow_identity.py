"""The hash and the version of a workflow: what counts and what does not."""

from __future__ import annotations

import pytest
from arithmetic import add_one, double, is_even, minus_one, pair, root

from weft import (
    Workflow,
    accumulator,
    context,
    join,
    reduce,
    rule,
    step,
)
from weft.core.components.step import Step
from weft.core.compose.component import Component


def hash_of(component: Component) -> str:
    return Workflow("w", component).hash


def plus(constant: int) -> Step:
    return step(lambda x, y: x + y, name="plus").bind(y=constant)


def test_a_hash_has_128_bits() -> None:
    assert len(bytes.fromhex(Workflow("w", root).hash)) == 16
    assert len(bytes.fromhex(Workflow("w", root).version)) == 16


def test_the_same_definition_has_the_same_hash_wherever_it_is_written() -> None:
    """J100a."""

    def written_here() -> Workflow:
        def triple(x: int) -> int:
            return x * 3

        return Workflow("w", step(triple) >> plus(1))

    def written_there() -> Workflow:
        # Another line, another nesting, another enclosing function.
        class Place:
            @staticmethod
            def triple(x: int) -> int:
                return x * 3

        return Workflow("w", step(Place.triple) >> plus(1))

    assert written_here().hash == written_there().hash


ONE, TWO = context("a", default=1), context("a", default=2)

module_level = step(lambda x: x * 7 + 1, name="place")


def test_a_function_of_a_module_and_one_inside_a_function_have_the_same_hash() -> None:
    """J100a."""
    local = step(lambda x: x * 7 + 1, name="place")

    assert hash_of(local) == hash_of(module_level)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (plus(1), plus(2)),
        (plus(1), plus(1.0)),
        (plus(1), plus(1).named("more")),
        (step(lambda x, k=1: x, name="s"), step(lambda x, k=2: x, name="s")),
        (step(lambda x, *, k=1: x, name="s"), step(lambda x, *, k=2: x, name="s")),
        (step(lambda x: x + 1, name="s"), step(lambda x: x + 2, name="s")),
        (step(lambda x: x.a, name="s"), step(lambda x: x.b, name="s")),
        (step(lambda x: x, name="s"), rule(then=lambda x: x, name="s")),
        (step(lambda *x: x, name="s"), step(lambda *x: x, name="s", spread=True)),
        (
            step(lambda x, k=ONE: x, name="s"),
            step(lambda x, k=TWO: x, name="s"),
        ),
        (
            step(lambda x, k: x, name="s").bind(k=context("a")),
            step(lambda x, k: x, name="s").bind(k=context("b")),
        ),
        (
            accumulator(lambda s, x: s + x, init=0, name="s"),
            accumulator(lambda s, x: s + x, init=1, name="s"),
        ),
        (reduce(lambda s, x: s, init=list, name="s"), reduce(lambda s, x: s, init=dict, name="s")),
        (rule(when=is_even, then=lambda x: x, name="s"), rule(when=~is_even, then=lambda x: x, name="s")),
        (
            rule(when=lambda x: x > 1, then=lambda x: x, name="s"),
            rule(when=lambda x: x > 2, then=lambda x: x, name="s"),
        ),
    ],
    ids=[
        *("bound value", "type of a bound value", "name", "default", "keyword default", "code", "attribute"),
        *("kind", "spread", "default of a context", "bound context", "initial value", "function for it"),
        *("expression", "condition"),
    ],
)
def test_what_differs_has_another_hash(one: Component, other: Component) -> None:
    """J100a."""
    assert hash_of(one) != hash_of(other)


def test_a_bound_value_that_is_equal_gives_the_same_hash() -> None:
    """J100a."""
    assert hash_of(plus(1)) == hash_of(plus(1))


def closing_over(constant: object) -> Step:
    return step(lambda x: (x, constant), name="s")


def test_a_constant_in_a_closure_counts() -> None:
    """J100a."""
    assert hash_of(closing_over(1)) == hash_of(closing_over(1))
    assert hash_of(closing_over(1)) != hash_of(closing_over(2))
    assert hash_of(closing_over((1, "a"))) != hash_of(closing_over((1, "b")))
    assert hash_of(closing_over((1, 2))) != hash_of(closing_over((2, 1)))
    assert hash_of(closing_over(frozenset("abc"))) == hash_of(closing_over(frozenset("cab")))


@pytest.mark.parametrize("contents", [[1], {1: 2}, {"a": 1}, {1}, object()])
def test_what_can_change_in_a_closure_does_not_count(contents: object) -> None:
    assert hash_of(closing_over(contents)) == hash_of(closing_over([]))


@pytest.mark.parametrize("default", [[1], {1: 2}, {"a": 1}, object()])
def test_a_default_that_can_change_does_not_count(default: object) -> None:
    one = step(lambda x, d=default: (x, d), name="s")
    other = step(lambda x, d=[]: (x, d), name="s")

    assert hash_of(one) == hash_of(other)


def test_the_context_of_a_run_never_counts() -> None:
    """J100a."""
    limit = context("limit")
    workflow = Workflow("w", step(lambda x, n=limit: n, name="a"))

    one, other = workflow.run(1, context={"limit": 1}), workflow.run(1, context={"limit": 2})

    assert one.workflow.hash == other.workflow.hash


def test_neither_does_the_order_in_which_fragments_are_written() -> None:
    one = Workflow("w", root >> add_one, root >> double, [add_one, double] >> pair)
    other = Workflow("w", [add_one, double] >> pair, root >> double, root >> add_one)

    assert one.hash == other.hash
    assert one.version == other.version


@pytest.mark.parametrize(
    "other",
    [
        Workflow("v", root >> add_one >> double),
        Workflow("w", root >> add_one, root >> double),
        Workflow("w", root >> double >> add_one),
        Workflow("w", root >> add_one >> double, root >> double),
        Workflow("w", root >> add_one >> double, minus_one),
    ],
    ids=["name", "edge", "order", "one more edge", "one more component"],
)
def test_another_wiring_is_another_hash_and_another_version(other: Workflow) -> None:
    workflow = Workflow("w", root >> add_one >> double)

    assert workflow.hash != other.hash
    assert workflow.version != other.version


@pytest.mark.parametrize(
    "other",
    [[double, add_one], join(add_one, double, wait="any"), join(add_one, double, wait="all_done")],
    ids=["order", "any", "all_done"],
)
def test_what_a_join_waits_for_and_in_which_order_is_wiring(other: object) -> None:
    show = step(lambda *xs: xs, name="show")
    workflow = Workflow("w", root >> [add_one, double], [add_one, double] >> show)

    changed = Workflow("w", root >> [add_one, double]).add(show, to=other)

    assert workflow.hash != changed.hash
    assert workflow.version != changed.version


def test_a_version_does_not_cover_code() -> None:
    one = Workflow("w", root >> step(lambda x: x + 1, name="a"))
    other = Workflow("w", root >> step(lambda x: x + 2, name="a"))

    assert one.version == other.version
    assert one.hash != other.hash


def test_a_version_covers_names_and_kinds() -> None:
    one = Workflow("w", root >> add_one)

    assert one.version != Workflow("w", root >> add_one.named("plus_one")).version
    assert one.version != Workflow("w", root >> rule(then=lambda x: x + 1, name="add_one")).version


def test_workflows_are_equal_if_their_hashes_are() -> None:
    one, other = Workflow("w", root >> add_one), Workflow("w", root >> add_one)

    assert one == other
    assert {one, other} == {one}
    assert one != Workflow("w", root)
