"""Workflows: looking at them, adding, removing, replacing, merging."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from arithmetic import add_one, double, is_even, minus_one, pair, root, total

from weft import (
    INPUT,
    Workflow,
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

# -- looking ---------------------------------------------------------------------------------------


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


# -- adding ----------------------------------------------------------------------------------------


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


# -- removing --------------------------------------------------------------------------------------


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


# -- replacing -------------------------------------------------------------------------------------


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


# -- merging ---------------------------------------------------------------------------------------


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


def test_merging_numbers_unnamed_components_again() -> None:
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


# -- large -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", [lambda a, b: a >> b, lambda a, b: b.__rrshift__(a)])
def test_a_long_chain_is_not_a_problem(combine: Callable[[object, Step], object]) -> None:
    flow: object = step(lambda x: x + 1, name="s0")
    for number in range(1, 3000):
        flow = combine(flow, step(lambda x: x + 1, name=f"s{number}"))

    run = Workflow("w", flow).run(0)

    assert run.output == 3000
    assert len(run.lineage(run.fact("s2999"))) == 3001
