"""The ``>>`` language: what may stand beside it and which edges it makes."""

from __future__ import annotations

from typing import Any

import pytest

from weft import INPUT, Workflow, each, join, step
from weft.core.compose.flow import Fragment, as_flow
from weft.errors import CyclicWorkflow, InvalidFragment, InvalidJoin

a, b, c, d = (step(lambda x: x, name=name) for name in "abcd")
both = step(lambda x, y: (x, y), name="both")


def edges(*fragments: object) -> set[tuple[str, str]]:
    return Workflow("w", *fragments).edges()


def test_one_feeds_the_next() -> None:
    assert edges(a >> b >> c) == {("a", "b"), ("b", "c")}


def test_grouping_does_not_matter() -> None:
    assert edges(a >> (b >> c)) == edges((a >> b) >> c)


def test_a_list_on_the_right_is_fed_by_one() -> None:
    assert edges(a >> [b, c]) == {("a", "b"), ("a", "c")}


def test_a_list_on_the_left_is_joined() -> None:
    assert edges([a, b] >> both) == {("a", "both"), ("b", "both")}
    assert Workflow("w", [a, b] >> both).run(1).values("both") == [(1, 1)]


@pytest.mark.parametrize("parents", [(a, b), [a, b], join(a, b), [[a], [b]]])
def test_a_tuple_a_list_and_a_join_are_the_same(parents: object) -> None:
    assert Workflow("w", parents >> both).hash == Workflow("w", [a, b] >> both).hash


def test_a_list_of_one_is_that_one() -> None:
    assert edges([a] >> b) == {("a", "b")}


def test_a_list_in_the_middle_is_fed_and_joined() -> None:
    assert edges(a >> [b, c] >> both) == {("a", "b"), ("a", "c"), ("b", "both"), ("c", "both")}


def test_a_chain_can_stand_in_a_list() -> None:
    """A5: the text pipeline."""
    words = step(str.split, name="words")
    count = step(lambda ws: {w: ws.count(w) for w in ws}, name="count")
    uniques, first, last = (
        step(function, name=name)
        for name, function in [("uniques", len), ("first", lambda ws: ws[0]), ("last", lambda ws: ws[-1])]
    )
    workflow = Workflow("text", words >> [count >> uniques, first, last])

    planned = workflow.plan("anybody want a peanut")
    run = workflow.run("anybody want a peanut")

    assert len(planned.prepare()) == 1
    assert len(run.productions()) == 5
    assert run.results() == {"uniques": 4, "first": "anybody", "last": "peanut"}
    assert run.value("count") == {"anybody": 1, "want": 1, "a": 1, "peanut": 1}


def test_a_chain_that_is_written_again_goes_on_where_it_was() -> None:
    assert edges(a >> b, b >> c, a >> d) == {("a", "b"), ("b", "c"), ("a", "d")}


def test_an_edge_that_is_written_twice_is_one_edge() -> None:
    run = Workflow("w", a >> b, a >> b).run(1)

    assert run.values("b") == [1]


def test_a_flow_can_be_used_twice() -> None:
    flow = a >> b

    assert edges(flow >> c, flow >> d) == {("a", "b"), ("b", "c"), ("b", "d")}


def test_joins_in_a_row() -> None:
    last = step(lambda x, y: (x, y), name="last")

    run = Workflow("w", [a, b] >> both, [both, c] >> last).run(1)

    assert run.output == ((1, 1), 1)


def test_the_input_as_the_only_parent_is_a_root() -> None:
    assert Workflow("w", INPUT >> a).hash == Workflow("w", a).hash


def test_a_root_that_something_feeds_is_not_a_root() -> None:
    workflow = Workflow("w", a, b >> a)

    assert workflow.roots == ("b",)
    assert workflow.run(1).values() == [1, 1]


def test_a_component_can_be_fed_by_the_input_and_by_another_one() -> None:
    plus = step(lambda x: x + 1, name="plus")

    run = Workflow("w", plus >> a, INPUT >> a).run(1)

    assert sorted(run.values("a")) == [1, 2]


def test_a_list_of_fragments_is_a_fragment_of_a_workflow() -> None:
    assert edges([a >> b, c]) == {("a", "b")}


def test_a_workflow_can_stand_beside_an_arrow() -> None:
    inner = Workflow("inner", b >> c)

    assert edges(a >> inner >> d) == {("a", "inner.b"), ("inner.b", "inner.c"), ("inner.c", "d")}


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [5, "a", None, {"a": 1}])
def test_what_is_not_a_fragment_is_refused(thing: object) -> None:
    with pytest.raises(TypeError, match="expected a component, a workflow or a list of these"):
        a >> thing


def test_a_plain_function_is_refused_with_a_hint() -> None:
    with pytest.raises(TypeError, match=r"wrap a function with step\(...\)"):
        a >> len


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidJoin, match="an empty list cannot stand beside >>"):
        a >> []


def test_nothing_goes_into_the_input() -> None:
    with pytest.raises(InvalidJoin, match="nothing goes into the right side"):
        a >> INPUT


def test_a_race_cannot_feed_what_joins_its_input_with_others() -> None:
    inner = Workflow("inner", [INPUT, a] >> both)

    with pytest.raises(InvalidJoin, match="a join that waits for 'any' cannot feed it; put a step between"):
        join(b, c, wait="any") >> inner


def test_nothing_comes_out_of_an_empty_workflow() -> None:
    with pytest.raises(InvalidJoin, match="nothing comes out of the left side"):
        Workflow("empty") >> a


@pytest.mark.parametrize(
    ("fragments", "cycle"),
    [
        ((a >> b, b >> a), {"a", "b"}),
        ((d >> a >> b >> c, c >> a), {"a", "b", "c"}),
        ((a >> each(b), b >> a), {"a", "b", "map_1"}),
    ],
)
def test_a_cycle_is_refused(fragments: tuple[object, ...], cycle: set[str]) -> None:
    with pytest.raises(CyclicWorkflow, match=r"workflow 'w' has a cycle: .* -> .*remove one") as caught:
        Workflow("w", *fragments)

    assert set(caught.value.cycle) == cycle


def test_a_fragment_of_another_kind_only_has_to_give_a_flow() -> None:
    class Doubled(Fragment):
        def flow(self) -> object:
            return as_flow(a >> b)

    assert edges(Doubled() >> c) == {("a", "b"), ("b", "c")}


def test_a_fragment_that_returns_something_else_is_told_what_a_flow_is() -> None:
    class Broken(Fragment):
        def flow(self) -> Any:
            return a

    class Empty(Fragment):
        pass

    for compose in (lambda: Broken() >> b, lambda: b >> Broken(), lambda: Workflow("w", Broken())):
        with pytest.raises(InvalidFragment, match=r"Broken\.flow\(\) returned Step\('a'\); return a flow: a >> b"):
            compose()
    with pytest.raises(NotImplementedError, match=r"override Empty\.flow\(\)"):
        Workflow("w", Empty())
