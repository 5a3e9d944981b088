"""How a workflow becomes a picture."""

from __future__ import annotations

import pytest
from sketches import DEFINITIONS, batch, budget, crawl, one, races, rules, two

from weft import INPUT, Workflow, each, latest, reduce, rule, sleep, step, wait_for
from weft.core.diagrams.workflow import DEEPEST
from weft.core.draw.picture import Box, Edge, Group, Picture


def box(picture: Picture, name: str) -> Box:
    [found] = [box for box in picture.boxes if box.id == name]
    return found


def group_of(picture: Picture, name: str) -> Group:
    [found] = [group for group in picture.groups if group.id == box(picture, name).group]
    return found


def edges(picture: Picture, kind: str) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.target, edge.label) for edge in picture.edges if edge.kind == kind}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_component_is_one_box_and_nothing_internal_is_shown(name: str) -> None:
    workflow = DEFINITIONS[name]()

    shown = [box.id for box in workflow.picture().boxes if box.part_of is None]

    assert sorted(shown) == sorted(["INPUT", *workflow.components])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_flow_is_that_of_the_workflow(name: str) -> None:
    workflow = DEFINITIONS[name]()

    picture = workflow.picture()
    owners = {box.id: box.part_of or box.id for box in picture.boxes}
    pairs = [(owners[edge.source], owners[edge.target]) for edge in picture.edges if edge.is_flow]
    flow = [pair for pair in pairs if pair[0] != pair[1]]

    assert {pair for pair in flow if "INPUT" not in pair} == workflow.edges()
    assert {target for source, target in flow if source == "INPUT"} == set(workflow.roots)
    assert len(flow) == len(set(flow))


def test_what_the_input_feeds_is_shown_from_a_mark_of_its_own() -> None:
    picture = Workflow("w", [INPUT, one("a")] >> two("b")).picture()

    assert picture.boxes[0] == Box("INPUT", "input", "input")
    assert Edge("INPUT", "b", "join") in picture.edges


def test_the_edges_of_a_join_share_an_inlet_and_say_what_they_wait_for() -> None:
    picture = races().picture()

    assert edges(picture, "join") == {
        *(("a", "first", "any"), ("b", "first", "any")),
        *(("a", "most", "2 of 3"), ("b", "most", "2 of 3"), ("c", "most", "2 of 3")),
        *(("a", "tidy", "all done"), ("b", "tidy", "all done")),
    }
    assert {edge.inlet for edge in picture.edges if edge.target == "first"} == {0}
    assert {edge.inlet: edge.source for edge in picture.edges if edge.target == "either"} == {0: "a", 1: "b"}


def test_a_join_beside_another_way_in_says_that_it_waits_for_all() -> None:
    a, b, c = one("a"), one("b"), one("c")
    taker = step(lambda *xs: xs, name="taker")

    picture = Workflow("w", [a, b] >> taker, c >> taker).picture()

    assert edges(picture, "join") == {("a", "taker", "all"), ("b", "taker", "all")}
    assert ("c", "taker", "or") in edges(picture, "flow")


def test_a_condition_that_a_rule_asks_is_not_part_of_the_flow() -> None:
    picture = rules().picture()

    assert edges(picture, "ask") == {(asked, by, "") for asked in ("is_int", "is_even") for by in ("even", "odd")}
    assert box(picture, "odd").note == "when is_int & ~is_even"


def test_the_condition_of_a_rule_is_named_if_it_has_a_name() -> None:
    def is_large(x: int) -> bool:
        return x > 1

    picture = Workflow(
        "w", rule(when=is_large, then=id, name="a"), rule(when=lambda x: x, then=id, name="b"), rule(then=id, name="c")
    ).picture()

    assert [box(picture, name).note for name in "abc"] == ["when is_large", "", ""]


def test_a_read_says_how_and_is_marked_where_it_leads_against_the_flow() -> None:
    reads = {edge.target: edge for edge in budget().picture().edges if edge.kind == "read"}

    assert reads["over_budget"] == Edge("spent", "over_budget", "read", "state_of")
    assert reads["compare"] == Edge("kept", "compare", "read", "latest", is_back=True)


def test_a_map_and_all_that_runs_per_element_is_a_group() -> None:
    picture = batch().picture()

    assert {name: box(picture, name).group for name in ("lines", "total")} == {"lines": None, "total": None}
    assert {group_of(picture, name).label for name in ("map_1", "price", "rounded")} == {"for each"}


def test_a_nested_workflow_is_a_group_in_which_names_are_short() -> None:
    picture = crawl().picture()

    assert group_of(picture, "crawl.fetch") == Group("workflow crawl", "workflow", "crawl")
    assert box(picture, "crawl.fetch").label == "fetch"


def test_a_name_with_a_dot_that_nothing_else_shares_is_not_a_group() -> None:
    picture = Workflow("w", one("v1.2") >> one("other")).picture()

    assert picture.groups == ()
    assert box(picture, "v1.2").label == "v1.2"


def test_a_name_with_a_thousand_dots_is_not_a_thousand_groups() -> None:
    path = ".".join(["x"] * 1_000)

    picture = Workflow("w", one(f"{path}.a") >> one(f"{path}.b")).picture()

    assert len(picture.groups) == DEEPEST


def test_a_map_inside_a_nested_workflow_is_a_group_inside_its_group() -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    inner = Workflow("inner", one("a") >> each(one("b"), name="all") >> total)

    picture = Workflow("w", inner >> one("after")).picture()

    assert picture.groups == (
        Group("workflow inner", "workflow", "inner"),
        Group("map inner.all", "map", "for each", "workflow inner"),
    )
    assert box(picture, "inner.b").group == "map inner.all"


def test_a_nested_workflow_inside_a_map_is_a_group_inside_its_group() -> None:
    inner = Workflow("inner", one("a") >> one("b"))

    picture = Workflow("w", each(inner, name="all")).picture()

    assert [(group.id, group.parent) for group in picture.groups] == [
        ("map all", None),
        ("workflow inner", "map all"),
    ]


def test_a_map_that_reaches_out_of_its_nested_workflow_is_a_group_around_what_it_takes_of_it() -> None:
    inner = Workflow("inner", one("a") >> one("a2") >> each(one("b"), name="all"))

    picture = Workflow("w", inner >> one("after")).picture()

    assert group_of(picture, "after").id == "map inner.all"
    assert [(group.id, group.parent) for group in picture.groups] == [
        ("workflow inner", None),
        ("map inner.all", None),
        ("workflow inner'", "map inner.all"),
    ]


def test_a_component_that_reads_itself_has_an_edge_to_itself() -> None:
    picture = Workflow("w", step(lambda x, before=latest("a"): x, name="a")).picture()

    assert Edge("a", "a", "read", "latest", is_back=True) in picture.edges


def test_an_error_route_is_an_edge_that_says_what_it_handles() -> None:
    fetch, parse = step(lambda x: x, name="fetch"), step(lambda x: x, name="parse")
    handle, other = step(lambda f: f, name="handle"), step(lambda f: f, name="other")
    workflow = Workflow(
        "w", fetch >> parse, fetch.on_error(ValueError, KeyError, then=handle), parse.on_error(then=other)
    )

    routes = [(e.source, e.target, e.label) for e in workflow.picture().edges if e.kind == "error"]

    assert routes == [("fetch", "handle", "KeyError, ValueError"), ("parse", "other", "any error")]
    assert set(workflow.to_edgelist()) == workflow.edges()


def test_what_waits_says_for_what() -> None:
    def pause(x: int) -> float:
        return x

    waits = {
        "days": sleep(days=30, name="days"),
        "none": sleep(0, name="none"),
        "told": sleep(pause, minutes=1, name="told"),
        "lambda": sleep(lambda x: x, name="lambda"),
        "day": sleep(until=1_900_000_000.0, name="day"),
        "never": sleep(until=1e30, name="never"),
        "due": sleep(until=pause, name="due"),
        "approved": wait_for("approved"),
        "paid": wait_for("paid", timeout=90),
        "other": wait_for("paid", timeout=0, name="other"),
    }

    picture = Workflow("w", *waits.values()).picture()

    assert {name: box(picture, name).note for name in waits} == {
        "days": "◷ 30 d",
        "none": "◷ no time",
        "told": "◷ pause + 1 min",
        "lambda": "◷ …",
        "day": "◷ until 2030-03-17 17:46",
        "never": "◷ until 1e+30",
        "due": "◷ until pause",
        "approved": "✉",
        "paid": "✉ at most 1 min 30 s",
        "other": "✉ paid · at most no time",
    }
