"""Rules that hold for every format, whatever the names: read back with a parser, and compared with the workflow."""

from __future__ import annotations

import json
import re
import warnings
import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import pytest
from sketches import DEFINITIONS, RUNS, one, two

from weft import Run, Saga, Workflow, accumulator, condition, each, reduce, repeat, rule, sleep, step, wait_for
from weft.errors import InvalidDrawing

SVG = "{http://www.w3.org/2000/svg}"

NAMES = [
    *(
        'say "hi"',
        "a'b",
        "a[0]",
        "f(x)",
        "{x}",
        "<b>bold</b>",
        "a & b",
        "&amp;",
        "a;b",
        "a#b",
        "#quot;",
        "100 %",
        "%% x",
    ),
    *("two\nlines", "tab\there", " edge ", "\x07bell", "\x7f", "\u202eleft", "\ud800", "\ufffe", "\\", "a\\", '\\"'),
    *("end", "End", "graph", "subgraph", "class", "style", "click", "default", "participant", "note", "loop", "alt"),
    *(
        "constructor",
        "__proto__",
        "__init__",
        "**x**",
        "- item",
        "1. item",
        "[a](b)",
        "`code`",
        "-->",
        "a|b",
        "::",
        "@{x}",
    ),
    *(
        "数据",
        "naïve",
        "🎉",
        "e\u0301",
        "n0",
        "n1",
        "group0",
        "e0",
        "map x",
        "workflow w",
        "a.b",
        "..",
        "$x",
        "x" * 200,
    ),
]


def dot(text: str) -> Any:
    """Read *text* with pydot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about how its own grammar is written
        import pydot

        graphs = pydot.graph_from_dot_data(text)
    assert graphs is not None
    [graph] = graphs
    return graph


def dot_nodes(graph: Any) -> list[str]:
    found = [node.get_name() for node in graph.get_nodes() if node.get_name() not in ("node", "edge", "graph")]
    return found + [name for inner in graph.get_subgraphs() for name in dot_nodes(inner)]


def svg_names(text: str) -> list[str]:
    return [node.attrib["data-name"] for node in ET.fromstring(text.encode()).iter() if "data-name" in node.attrib]  # noqa: S314 - our own


def svg_edges(text: str) -> list[tuple[str, str, str]]:
    return [
        (node.attrib["data-from"], node.attrib["data-to"], node.attrib["data-edge"])
        for node in ET.fromstring(text.encode()).iter()  # noqa: S314 - our own
        if "data-edge" in node.attrib
    ]


@pytest.mark.parametrize("name", [*DEFINITIONS, *RUNS])
def test_every_format_shows_every_component_once_and_every_edge(name: str) -> None:
    subject: Workflow | Run = {**DEFINITIONS, **RUNS}[name]()
    workflow = subject if isinstance(subject, Workflow) else subject.workflow
    names = Counter(box.id for box in subject.picture().boxes)
    edges = Counter((edge.source, edge.target, edge.kind) for edge in subject.picture().edges)

    drawn = subject.to_cytoscape()
    graph = dot(subject.to_dot())
    svg = subject.to_svg()
    chart = subject.to_mermaid()

    assert Counter(node["data"]["id"] for node in drawn["nodes"] if node["data"]["kind"] != "group") == names
    assert Counter((e["data"]["source"], e["data"]["target"], e["data"]["kind"]) for e in drawn["edges"]) == edges
    assert Counter(node.strip('"') for node in dot_nodes(graph)) == names
    assert len(graph.get_edges()) == edges.total()
    assert Counter(svg_names(svg)) == names
    assert Counter(svg_edges(svg)) == edges
    assert len(re.findall(r"-->|-\.->", chart)) == edges.total()
    assert set(subject.to_edgelist()) == workflow.edges()


@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_a_format(name: str) -> None:
    workflow = Workflow(name, one(name) >> one("next"), condition(lambda x: x, name=f"?{name}") >> one("after"))
    run = workflow.run(name)

    for subject in (workflow, run):
        assert len(svg_names(subject.to_svg())) == 5
        assert len(svg_edges(subject.to_svg())) == 4
        graph = dot(subject.to_dot())
        assert len(dot_nodes(graph)) == 5
        assert len(graph.get_edges()) == 4
        ids = [node["data"]["id"] for node in json.loads(json.dumps(subject.to_cytoscape()))["nodes"]]
        assert name in ids
        subject.to_mermaid().encode()
        assert len(subject.to_mermaid().splitlines()) == 1 + 5 + 4 + 2 * (1 if subject is workflow else 2)
    assert len(run.to_mermaid(kind="sequence").splitlines()) == 1 + 5 + 4


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_nested_workflow_breaks_a_format(name: str) -> None:
    workflow = Workflow("outer", one("before") >> Workflow(name, one("a") >> one("b")))

    assert len(svg_names(workflow.to_svg())) == 4
    assert len(dot(workflow.to_dot()).get_edges()) == 3
    assert sum("subgraph " in line for line in workflow.to_mermaid().splitlines()) == len(workflow.picture().groups)


def test_names_that_look_the_same_stay_apart() -> None:
    workflow = Workflow("w", one("a b") >> one("a\nb") >> one("a\tb"))

    assert dot_nodes(dot(workflow.to_dot())) == ['"INPUT"', '"a b"', '"a b\'"', "\"a b''\""]
    assert len({line.split("(")[0] for line in workflow.to_mermaid().splitlines() if '("a b")' in line}) == 3


def test_a_reserved_word_is_not_an_id_in_mermaid() -> None:
    chart = Workflow("w", one("fetch") >> one("end")).to_mermaid()

    assert '  fetch("fetch")' in chart
    assert '  n2("end")' in chart
    assert "  fetch --> n2" in chart


def test_what_failed_is_told_in_a_title_whatever_it_says() -> None:
    def bad(x: int) -> int:
        raise ValueError('<script>"&\0\n')

    run = Workflow("w", step(bad)).run(1)

    titles = [node.text or "" for node in ET.fromstring(run.to_svg().encode()).iter(f"{SVG}title")]  # noqa: S314 - our own
    assert any('ValueError: <script>"&␀' in title for title in titles)


def test_a_value_whose_repr_fails_is_still_drawn() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    run = Workflow("w", one("a")).run(Silent())

    assert "whose repr fails" in run.to_mermaid(kind="sequence")


@pytest.mark.parametrize("direction", ["TD", "TB", "BT", "LR", "RL"])
def test_the_direction_is_that_of_the_chart(direction: str) -> None:
    workflow = Workflow("w", one("a"))

    assert workflow.to_mermaid(direction).startswith(f"flowchart {direction}\n")
    assert f"rankdir={direction.replace('TD', 'TB')}" in workflow.to_dot(direction)


def test_another_direction_or_kind_is_refused() -> None:
    workflow = Workflow("w", one("a"))

    with pytest.raises(InvalidDrawing, match="use one of 'TD'"):
        workflow.to_mermaid("up")
    with pytest.raises(InvalidDrawing, match="use one of 'TD'"):
        workflow.to_dot("up")
    with pytest.raises(InvalidDrawing, match="'flowchart', 'sequence'"):
        workflow.run(1).to_mermaid(kind="pie")


def test_a_notebook_shows_a_workflow_and_a_run() -> None:
    workflow = Workflow("w", one("a"))

    assert workflow._repr_svg_() == workflow.to_svg()
    assert 'data-state="done"' in workflow.run(1)._repr_svg_()


def test_every_component_draws_itself_in_a_notebook() -> None:
    check, total = step(abs, name="check"), reduce(max, init=0, name="total")
    positive = condition(bool, name="positive")
    parts = {
        "check": [check, check >> step(bool), each(check) >> total],
        "again": [repeat(check, until=bool, at_most=2, name="again")],
        "positive": [positive, rule(when=positive, then=check, name="when")],
        "total": [total, accumulator(max, init=0, name="total")],
        "later": [sleep(days=1, name="later"), wait_for("later")],
    }

    for name, several in parts.items():
        for part in several:
            drawn = part._repr_svg_()
            assert drawn is not None
            assert name in drawn


def test_what_cannot_stand_alone_is_shown_as_text() -> None:
    twice = step(abs, name="same") >> step(bool, name="same")

    assert twice._repr_svg_() is None


def test_a_drawn_saga_can_still_be_written() -> None:
    trip = Saga("trip")
    trip.transaction(lambda request, results: request, name="book", compensate=None)
    trip.transaction(lambda request, results: results, name="pay", compensate=None)

    assert "book" in str(trip._repr_svg_())
    trip.transaction(lambda request, results: results, name="travel", compensate=None)
    assert "travel" in str(trip._repr_svg_())


def test_a_picture_has_no_ids_and_refers_to_nothing_outside() -> None:
    svg = DEFINITIONS["crawl"]().to_svg()

    assert not re.search(r"\b(id|href|src|class)=|url\(|<style|<script", svg)


def test_an_empty_workflow_is_an_empty_picture() -> None:
    workflow = Workflow("nothing")

    assert svg_names(workflow.to_svg()) == []
    assert workflow.to_cytoscape() == {"nodes": [], "edges": []}
    assert workflow.to_edgelist() == []
    assert dot_nodes(dot(workflow.to_dot())) == []
    assert workflow.to_mermaid() == "flowchart TD\n"


def test_a_join_is_one_mark_with_what_it_waits_for() -> None:
    svg = DEFINITIONS["races"]().to_svg()

    assert svg.count("<circle") == 3
    for word in ("any", "2 of 3", "all done"):
        assert svg.count(f">{word}<") == 1


def test_a_rule_is_drawn_with_its_condition() -> None:
    large = rule(when="big", then=id, name="large")

    svg = Workflow("w", condition(lambda x: x, name="big"), large, [one("a"), one("b")] >> two("c")).to_svg()

    assert ">when big<" in svg


GEOMETRY = {"width", "height", "x", "y", "cx", "cy", "r", "rx", "ry", "d"}
PAINT = {"fill", "stroke"}


@pytest.mark.parametrize("name", [*DEFINITIONS, *RUNS])
def test_a_picture_needs_no_style_sheet(name: str) -> None:
    """Renderers that know little CSS take what they know of it, and the attributes."""
    root = ET.fromstring({**DEFINITIONS, **RUNS}[name]().to_svg().encode())  # noqa: S314 - our own
    bare: list[ET.Element] = []

    def visit(element: ET.Element, painted: set[str]) -> None:
        painted = painted | PAINT.intersection(element.keys())
        if element.tag.removeprefix(SVG) in ("path", "rect", "circle", "text") and not painted:
            bare.append(element)
        for child in element:
            visit(child, painted)

    visit(root, set())
    declared = {part.partition(":")[0] for each in root.iter() for part in each.get("style", "").split(";")}
    assert bare == []
    assert declared.isdisjoint(GEOMETRY | PAINT)
    assert {"width", "height", "viewBox"}.issubset(root.keys())
    assert root.find(f".//{SVG}style") is None
