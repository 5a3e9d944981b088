"""Workflows as values: composing, changing, nesting, names and identity."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft import (
    INPUT,
    Workflow,
    accumulator,
    condition,
    context,
    each,
    join,
    latest,
    reduce,
    rule,
    state_of,
    step,
)
from weft.core.components.step import Step
from weft.core.compose.component import Component
from weft.errors import (
    CyclicWorkflow,
    DefinitionError,
    DuplicateName,
    InvalidJoin,
    MixedRegions,
    UnknownComponent,
    UnknownReference,
    WrongArity,
)

root = step(lambda x: x, name="root")
add_one = step(lambda x: x + 1, name="add_one")
double = step(lambda x: x * 2, name="double")
minus_one = step(lambda x: x - 1, name="minus_one")
pair = step(lambda a, b: (a, b), name="pair")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")


# -- looking -------------------------------------------------------------------------------------


def test_a_workflow_knows_its_components_edges_roots_and_leaves() -> None:
    workflow = Workflow("w", root >> [add_one, double] >> pair)

    assert list(workflow.components) == ["root", "add_one", "double", "pair"]
    assert workflow.edges() == {
        ("root", "add_one"),
        ("root", "double"),
        ("add_one", "pair"),
        ("double", "pair"),
    }
    assert workflow.roots == ("root",)
    assert workflow.leaves == ("pair",)


def test_a_component_can_be_asked_for_by_name_or_by_object() -> None:
    workflow = Workflow("w", root >> add_one)

    assert "add_one" in workflow
    assert add_one in workflow
    assert double not in workflow
    assert workflow.component("add_one") is workflow.component(add_one)


def test_an_unnamed_component_can_be_asked_for_by_object() -> None:
    unnamed = step(lambda x: x + 1)

    workflow = Workflow("w", root >> unnamed)

    assert workflow.name_of(unnamed) == "step_1"
    assert workflow.run(1).value(unnamed) == 2


def test_an_unknown_component_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownComponent, match="no component 'double' in workflow 'w'; it has add_one, root"):
        Workflow("w", root >> add_one).component("double")


def test_components_cannot_be_changed_from_outside() -> None:
    workflow = Workflow("w", root)

    with pytest.raises(TypeError):
        workflow.components["other"] = add_one


def test_a_workflow_without_components_runs() -> None:
    run = Workflow("empty").run(1)

    assert run.results() == {}
    assert run.status == "idle"


@pytest.mark.parametrize("name", ["", None, root])
def test_a_workflow_needs_a_name(name: object) -> None:
    with pytest.raises(DefinitionError, match="name"):
        Workflow(name)


def test_context_keys_are_listed_with_their_defaults() -> None:
    limit, secret = context("limit", default=100), context("secret")
    workflow = Workflow(
        "w",
        step(lambda x, a=limit, b=secret: x, name="a"),
        rule(when=lambda x, n=limit: x > n, then=lambda x, k=secret: x, name="r"),
        add_one,
    )

    keys = workflow.context_keys()

    assert set(keys) == {"a", "r"}
    assert keys["a"]["limit"] == 100
    assert set(keys["r"]) == {"limit", "secret"}


# -- adding --------------------------------------------------------------------------------------


def test_adding_returns_another_workflow() -> None:
    small = Workflow("w", root)

    large = small.add(add_one, to=root)

    assert "add_one" in large
    assert "add_one" not in small
    assert large.run(1).results() == {"add_one": 2}
    assert small.run(1).results() == {"root": 1}


def test_the_same_graph_can_be_said_in_several_ways() -> None:
    by_arrows = Workflow("w", root >> [add_one, double] >> pair)
    by_list = Workflow("w", root >> add_one, root >> double, [add_one, double] >> pair)
    by_name = Workflow("w").add(root).add(add_one, to="root").add(double, to=root).add(pair, to=["add_one", double])
    by_join = Workflow("w").add(root >> [add_one, double]).add(pair, to=join(add_one, double))

    assert by_arrows.hash == by_list.hash == by_name.hash == by_join.hash
    assert by_arrows == by_name


def test_a_whole_flow_can_be_added() -> None:
    workflow = Workflow("w", root).add(add_one >> double, to="root")

    assert workflow.edges() == {("root", "add_one"), ("add_one", "double")}


def test_several_components_can_be_added_to_one_parent() -> None:
    workflow = Workflow("w", root).add([add_one, double], to="root")

    assert workflow.run(5).results() == {"add_one": 6, "double": 10}


def test_what_is_added_without_a_parent_is_a_root() -> None:
    workflow = Workflow("w", root).add(add_one)

    assert workflow.roots == ("root", "add_one")


@pytest.mark.parametrize("to", ["INPUT", INPUT])
def test_the_input_can_be_the_parent_of_what_is_added(to: object) -> None:
    workflow = Workflow("w", root).add(pair, to=[to, "root"])

    assert workflow.run(1).results() == {"pair": (1, 1)}


def test_adding_what_is_there_changes_nothing() -> None:
    workflow = Workflow("w", root >> add_one)

    assert workflow.add(add_one, to=root).hash == workflow.hash
    assert workflow.add(root).hash == workflow.hash


def test_adding_to_something_unknown_is_an_error() -> None:
    with pytest.raises(UnknownComponent, match="no component 'rooot' in workflow 'w'"):
        Workflow("w", root).add(add_one, to="rooot")


def test_a_second_way_into_a_component_can_be_added() -> None:
    workflow = Workflow("w", root >> add_one, double).add(add_one, to="double")

    assert sorted(workflow.run(5).values("add_one")) == [6, 11]


SPENT, NOBODY = state_of("total"), latest("nobody")

GROWN: dict[str, tuple[list[tuple[object, object]], Workflow, object]] = {
    "chain": (
        [(root, None), (add_one, "root"), (double, "add_one")],
        Workflow("w", root >> add_one >> double),
        5,
    ),
    "diamond": (
        [(root, None), (add_one, "root"), (double, root), (pair, ["add_one", "double"])],
        Workflow("w", root >> [add_one, double] >> pair),
        5,
    ),
    "race": (
        [(root, None), (add_one, None), (double, join(root, add_one, wait="any"))],
        Workflow("w", join(root, add_one, wait="any") >> double),
        5,
    ),
    "map and reduce": (
        [(root, None), (each(add_one, name="all"), "root"), (reduce(max, init=0, name="most"), "add_one")],
        Workflow("w", root >> each(add_one, name="all") >> reduce(max, init=0, name="most")),
        [1, 5, 2],
    ),
    "inside each": (
        [(each(add_one, name="all"), None), (double, "add_one"), (pair, ["add_one", "double"])],
        Workflow("w", each(add_one, name="all") >> double, [add_one, double] >> pair),
        [1, 2],
    ),
    "condition": (
        [(root, None), (is_even, "root"), (add_one, "is_even"), (double, "add_one")],
        Workflow("w", root >> is_even >> add_one >> double),
        4,
    ),
    "rules": (
        [
            (rule(when=is_even, then=lambda x: -x, name="r"), None),
            (add_one, "r"),
            (rule(when=is_even & (lambda x: x > 1), then=lambda x: x, name="s"), None),
        ],
        Workflow(
            "w",
            rule(when=is_even, then=lambda x: -x, name="r") >> add_one,
            rule(when=is_even & (lambda x: x > 1), then=lambda x: x, name="s"),
        ),
        4,
    ),
    "a condition that was only asked": (
        [(rule(when=is_even, then=lambda x: -x, name="r"), None), (add_one, "is_even"), (double, "add_one")],
        Workflow("w", rule(when=is_even, then=lambda x: -x, name="r"), is_even >> add_one >> double),
        4,
    ),
    "reader": (
        [
            (root, None),
            (total, "root"),
            (step(lambda x, s=SPENT: (x, s), name="reader"), None),
            (pair, ["reader", root]),
        ],
        Workflow("w", root >> total, [step(lambda x, s=SPENT: (x, s), name="reader"), root] >> pair),
        4,
    ),
    "nested workflow": (
        [(root, None), (Workflow("inner", add_one >> double), "root"), (minus_one, "inner.double")],
        Workflow("w", root >> Workflow("inner", add_one >> double) >> minus_one),
        4,
    ),
    "a second way in": (
        [(root, None), (add_one, None), (double, "root"), (double, "add_one")],
        Workflow("w", root >> double, add_one >> double),
        4,
    ),
}


@pytest.mark.parametrize("case", GROWN)
def test_a_workflow_that_has_grown_is_the_same_as_one_written_at_once(case: str) -> None:
    steps, written, value = GROWN[case]

    grown = Workflow("w")
    for fragment, to in steps:
        grown = grown.add(fragment, to=to)

    assert grown.hash == written.hash
    assert grown.version == written.version
    assert grown.edges() == written.edges()
    assert (set(grown.roots), set(grown.leaves)) == (set(written.roots), set(written.leaves))
    assert grown.run(value).results() == written.run(value).results()


@pytest.mark.parametrize(
    ("grow", "kind"),
    [
        (lambda w: w.add(pair, to="root"), WrongArity),
        (lambda w: w.add(pair), WrongArity),
        (lambda w: w.add(total, to=["root", "last"]), InvalidJoin),
        (lambda w: w.add(pair, to=["root", "inner"]), MixedRegions),
        (lambda w: w.add(w.component("last"), to="inner"), MixedRegions),
        (lambda w: w.add(root, to="last"), CyclicWorkflow),
        (lambda w: w.add(add_one >> double >> add_one), CyclicWorkflow),
        (lambda w: w.add(step(lambda x: x + 9, name="root")), DuplicateName),
        (lambda w: w.add(step(lambda x, m=NOBODY: m, name="reader")), UnknownReference),
        (lambda w: w.add(rule(when="nobody", then=len, name="r")), UnknownReference),
        (lambda w: w.add(each(minus_one), to="root").add(minus_one, to="last"), MixedRegions),
    ],
    ids=[
        *("arity", "arity of a root", "join", "join across a map", "into a map", "cycle", "cycle of what is new"),
        *("name", "reference", "condition", "two regions"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_added(
    grow: Callable[[Workflow], Workflow], kind: type[DefinitionError]
) -> None:
    workflow = Workflow("w", root >> step(lambda x: x, name="last"), each(step(lambda x: x, name="inner")))

    with pytest.raises(kind):
        grow(workflow)


# -- names ---------------------------------------------------------------------------------------


def test_one_name_with_different_code_is_refused() -> None:
    other = step(lambda x: x + 2, name="add_one")

    with pytest.raises(DuplicateName, match=r"called 'add_one' .*give one of them another name"):
        Workflow("w", add_one >> other)


def test_one_name_for_two_kinds_is_refused() -> None:
    other = condition(lambda x: x + 1, name="add_one")

    with pytest.raises(DuplicateName, match="a step and a condition"):
        Workflow("w", root >> add_one, root >> other >> double)


def test_one_name_with_another_constant_is_refused() -> None:
    times = step(lambda x, k: x * k, name="times")

    with pytest.raises(DuplicateName, match="'times'"):
        Workflow("w", times.bind(k=2), times.bind(k=3))


def test_one_name_with_the_same_code_is_one_component() -> None:
    again = step(lambda x: x + 1, name="add_one")

    workflow = Workflow("w", root >> add_one, add_one >> double, root >> again)

    assert workflow.hash == Workflow("w", root >> add_one >> double).hash


def test_unnamed_components_are_numbered_by_kind() -> None:
    workflow = Workflow(
        "w",
        step(lambda x: x + 1) >> step(lambda x: x + 2),
        condition(lambda x: x > 1) >> step(lambda x: x + 3),
        each(step(lambda x: x + 4)) >> reduce(lambda acc, x: acc + x, init=0),
        rule(then=lambda x: x),
        accumulator(lambda s, x: s + x, init=0),
    )

    assert set(workflow.components) == {
        *("step_1", "step_2", "step_3", "step_4"),
        *("condition_1", "map_1", "reduce_1", "rule_1", "accumulator_1"),
    }


def test_a_number_that_is_taken_is_left_out() -> None:
    taken = step(lambda x: x + 1, name="step_1")

    workflow = Workflow("w", taken).add(step(lambda x: x + 2)).add(step(lambda x: x + 3))

    assert list(workflow.components) == ["step_1", "step_2", "step_3"]


# -- removing ------------------------------------------------------------------------------------


def test_removing_a_step_feeds_its_children_from_its_parent() -> None:
    """J100e."""
    workflow = Workflow("w", add_one >> double >> minus_one)

    shorter = workflow.remove("double")

    assert shorter.run(5).values() == [6, 5]
    assert shorter.hash == Workflow("w", add_one >> minus_one).hash
    assert "double" in workflow


def test_removing_keeps_what_others_share() -> None:
    """J100e."""
    workflow = Workflow("w", root >> [add_one, double], [add_one, double] >> pair)

    shorter = workflow.remove(add_one)

    assert shorter.run(5).results() == {"pair": (5, 10)}
    assert "double" in shorter


def test_removing_an_unknown_name_changes_nothing() -> None:
    """J100e."""
    workflow = Workflow("w", root)

    assert workflow.remove("nobody") is workflow


def test_removing_a_root_makes_roots_of_its_children() -> None:
    workflow = Workflow("w", root >> [add_one, double]).remove("root")

    assert workflow.roots == ("add_one", "double")
    assert workflow.hash == Workflow("w", add_one, double).hash


def test_removing_a_leaf_leaves_its_parent() -> None:
    workflow = Workflow("w", root >> add_one).remove("add_one")

    assert workflow.hash == Workflow("w", root).hash


def test_removing_the_last_component_leaves_none() -> None:
    assert len(Workflow("w", root).remove(root).components) == 0


def test_removing_a_component_with_several_parents_feeds_its_child_from_all() -> None:
    sink = step(lambda x: x, name="sink")
    middle = step(lambda x: x, name="middle")

    workflow = Workflow("w", add_one >> middle, double >> middle, middle >> sink).remove("middle")

    assert sorted(workflow.run(5).values("sink")) == [6, 10]


def test_removing_a_condition_opens_the_gate() -> None:
    workflow = Workflow("w", is_even >> double).remove("is_even")

    assert workflow.run(3).results() == {"double": 6}


def test_removing_the_body_of_each_keeps_the_map() -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")

    workflow = Workflow("w", each(add_one >> double) >> collect).remove("double")

    assert workflow.run([1, 2]).output == [2, 3]


def test_removing_all_of_the_body_of_each_leaves_the_elements_as_they_are() -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")

    workflow = Workflow("w", each(add_one) >> collect).remove("add_one")

    assert workflow.run([1, 2]).values("collect") == [[1, 2]]
    assert workflow.run([]).values("collect") == [[]]


def test_removing_a_map_runs_its_body_on_the_whole() -> None:
    workflow = Workflow("w", each(root, name="all")).remove("all")

    assert workflow.run([1, 2]).values("root") == [[1, 2]]


def test_removing_what_another_one_reads_is_refused() -> None:
    spent = state_of("total")
    workflow = Workflow("w", total, step(lambda x, s=spent: s, name="reader"))

    with pytest.raises(UnknownReference, match="'reader' refers to state_of 'total'"):
        workflow.remove("total")


def test_removing_a_condition_that_a_rule_asks_is_refused() -> None:
    workflow = Workflow("w", rule(when=is_even, then=lambda x: x, name="r"))

    with pytest.raises(UnknownReference, match="'r' refers to condition 'is_even'"):
        workflow.remove("is_even")


def test_what_was_removed_can_be_added_again_with_other_code() -> None:
    other = step(lambda x: x + 100, name="add_one")

    workflow = Workflow("w", root >> add_one).remove("add_one").add(other, to="root")

    assert workflow.run(1).output == 101


# -- replacing -----------------------------------------------------------------------------------


def test_a_replacement_stands_where_the_old_one_stood() -> None:
    workflow = Workflow("w", root >> add_one >> minus_one)

    changed = workflow.replace("add_one", double)

    assert changed.run(5).values() == [5, 10, 9]
    assert changed.hash == Workflow("w", root >> double >> minus_one).hash


def test_a_replacement_of_the_same_name_keeps_the_version() -> None:
    other = step(lambda x: x + 100, name="add_one")
    workflow = Workflow("w", root >> add_one)

    changed = workflow.replace(add_one, other)

    assert changed.run(1).output == 101
    assert changed.version == workflow.version
    assert changed.hash != workflow.hash


def test_an_unnamed_replacement_takes_the_name() -> None:
    changed = Workflow("w", root >> add_one).replace("add_one", step(lambda x: x + 100))

    assert changed.run(1).results() == {"add_one": 101}


def test_a_replacement_brings_its_conditions_along() -> None:
    even_only = rule(when=is_even, then=lambda x: x * 100, name="even_only")

    changed = Workflow("w", root >> add_one).replace("add_one", even_only)

    assert changed.run(2).results() == {"even_only": 200}
    assert changed.run(3).results() == {}


def test_a_replacement_inside_each_stays_inside() -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")

    changed = Workflow("w", each(add_one) >> collect).replace("add_one", double)

    assert changed.run([1, 2]).output == [2, 4]


@pytest.mark.parametrize("which", ["all", "add_one"])
def test_a_replacement_that_is_a_map_brings_its_body_along_or_is_refused(which: str) -> None:
    workflow = Workflow("w", each(add_one, name="all") >> step(lambda x: x, name="sink"))

    try:
        changed = workflow.replace(which, each(double, name="doubles"))
    except DefinitionError:
        return
    assert "double" in changed


def test_replacing_by_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(DefinitionError, match="cannot replace 'add_one': 'root' is already in workflow 'w'"):
        Workflow("w", root >> add_one).replace("add_one", root)


def test_replacing_something_unknown_is_an_error() -> None:
    with pytest.raises(UnknownComponent, match="no component 'double'"):
        Workflow("w", root).replace("double", add_one)


def test_a_replacement_must_take_what_arrives() -> None:
    with pytest.raises(WrongArity, match="'pair' takes 2"):
        Workflow("w", root >> add_one).replace("add_one", pair)


# -- merging -------------------------------------------------------------------------------------


def test_merging_keeps_what_both_have_once() -> None:
    calls: list[int] = []

    def count(x: int) -> int:
        calls.append(x)
        return x

    shared = step(count)
    both = Workflow("w", shared >> add_one).merge(Workflow("other", shared >> double))

    run = both.run(5)

    assert run.results() == {"add_one": 6, "double": 10}
    assert calls == [5]
    assert both.name == "w"


def test_merging_unites_the_wiring() -> None:
    first = Workflow("w", root >> add_one)
    second = Workflow("w", root >> double, [add_one, double] >> pair)

    assert first.merge(second).hash == Workflow("w", root >> [add_one, double] >> pair).hash


def test_merging_with_itself_changes_nothing() -> None:
    workflow = Workflow("w", root >> [add_one, double] >> pair)

    assert workflow.merge(workflow).hash == workflow.hash


def test_merging_different_code_under_one_name_is_refused() -> None:
    other = Workflow("w", step(lambda x: x + 2, name="add_one"))

    with pytest.raises(DuplicateName, match="'add_one'"):
        Workflow("w", add_one).merge(other)


def test_merging_a_cycle_is_refused() -> None:
    with pytest.raises(CyclicWorkflow):
        Workflow("w", add_one >> double).merge(Workflow("w", double >> add_one))


def test_merging_numbers_unnamed_components_anew() -> None:
    first = Workflow("w", step(lambda x: x + 1))
    second = Workflow("w", step(lambda x: x + 2) >> step(lambda x: x + 3) >> step(lambda x: x + 4))

    run = first.merge(second).run(0)

    assert sorted(run.values()) == [1, 2, 5, 9]
    assert sorted(run.results().values()) == [1, 9]


def test_merging_brings_maps_conditions_and_reads_along() -> None:
    spent = state_of("total")
    over = rule(when=is_even & (lambda x, s=spent: s > 10), then=lambda x: ("over", x), name="over")
    second = Workflow("w", total, over)
    third = Workflow("w", step(range, name="upto") >> each(add_one) >> reduce(max, init=0, name="most"))

    run = Workflow("w", root).merge(second).merge(third).run(12)

    assert run.results() == {"root": 12, "total": 12, "over": ("over", 12), "most": 12}


# -- nesting -------------------------------------------------------------------------------------


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


# -- identity ------------------------------------------------------------------------------------


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


# -- large ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", [lambda a, b: a >> b, lambda a, b: b.__rrshift__(a)])
def test_a_long_chain_is_no_problem(combine: Callable[[object, Step], object]) -> None:
    flow: object = step(lambda x: x + 1, name="s0")
    for number in range(1, 3000):
        flow = combine(flow, step(lambda x: x + 1, name=f"s{number}"))

    run = Workflow("w", flow).run(0)

    assert run.output == 3000
    assert len(run.lineage(run.fact("s2999"))) == 3001
