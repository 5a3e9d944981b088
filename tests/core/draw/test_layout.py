"""Where things stand: nothing overlaps, all leads down, and a larger graph costs no more for each of its parts."""

from __future__ import annotations

import functools
import operator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing import laid_out, mistakes
from sketches import CROWDED, DEFINITIONS, RUNS, one, two

from weft import INPUT, Saga, Workflow, latest, step
from weft.core.draw import layers
from weft.core.draw.columns import BETWEEN
from weft.core.draw.picture import Box, Edge, Group, Picture


def chain(size: int) -> Workflow:
    return Workflow("chain", functools.reduce(operator.rshift, [one(f"s{i}") for i in range(size)]))


@pytest.mark.parametrize("name", [*DEFINITIONS, *RUNS, *CROWDED])
def test_nothing_overlaps_and_no_line_crosses_a_box_or_words(name: str) -> None:
    picture = {**DEFINITIONS, **RUNS, **CROWDED}[name]().picture()

    assert mistakes(picture) == []


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_edge_leads_down_but_those_that_are_marked(name: str) -> None:
    picture = DEFINITIONS[name]().picture()
    boxes = laid_out(picture).boxes

    for edge in picture.edges:
        leads_down = boxes[edge.source].y + boxes[edge.source].height <= boxes[edge.target].y
        assert leads_down != edge.is_back


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_same_picture_is_laid_out_the_same_way(name: str) -> None:
    assert DEFINITIONS[name]().to_svg() == DEFINITIONS[name]().to_svg()


def test_a_chain_is_a_straight_line() -> None:
    layout = laid_out(chain(20).picture())

    assert {round(line.x1, 3) for line in layout.lines} == {round(line.x2, 3) for line in layout.lines}
    assert len({round(line.x1, 3) for line in layout.lines}) == 1


def test_a_parent_stands_in_the_middle_above_its_children() -> None:
    boxes = laid_out(Workflow("w", one("a") >> [one("b"), one("c"), one("d")]).picture()).boxes

    assert boxes["a"].x == pytest.approx(boxes["c"].x, abs=0.5)
    assert boxes["c"].x - boxes["b"].x == pytest.approx(boxes["d"].x - boxes["c"].x, abs=0.5)


def test_lines_that_need_not_cross_do_not() -> None:
    a, b, c, d = (one(name) for name in "abcd")

    boxes = laid_out(Workflow("w", a, b, a >> d, b >> c).picture()).boxes

    assert (boxes["a"].x < boxes["b"].x) == (boxes["d"].x < boxes["c"].x)


def test_what_only_a_rule_asks_stands_right_above_it() -> None:
    boxes = laid_out(DEFINITIONS["rules"]().picture()).boxes

    assert boxes["is_int"].y < boxes["even"].y
    assert boxes["is_int"].y > boxes["INPUT"].y


def test_a_component_that_reads_itself_has_a_loop() -> None:
    svg = Workflow("w", step(lambda x, before=latest("a"): x, name="a")).to_svg()

    assert 'data-edge="read" data-from="a" data-to="a"' in svg


def test_groups_that_feed_each_other_in_turns_are_drawn_all_the_same() -> None:
    workflow = Workflow("w", one("g.a") >> one("h.b") >> one("g.c") >> one("h.d") >> one("e"))
    picture = workflow.picture()

    assert len(picture.groups) == 2
    assert mistakes(picture) == []


def test_a_read_gives_way_where_groups_stand_in_each_others_way() -> None:
    boxes = (*(Box(name, "step", name, group="g") for name in "ab"), Box("c", "step", "c"))
    edges = (Edge("a", "c"), Edge("c", "b", "read", "latest"), Edge("a", "b"))
    picture = Picture("p", boxes, (Group("g", "map", "g"),), edges)

    placed = laid_out(picture).boxes

    assert placed["a"].y < placed["b"].y < placed["c"].y
    assert mistakes(picture) == []


def test_groups_inside_groups_keep_what_is_theirs() -> None:
    boxes = tuple(Box(f"b{i}", "step", f"b{i}", group=f"g{i // 2}") for i in range(8))
    groups = (
        *(
            Group("outer", "workflow", "a title that is wider than what is inside of it"),
            Group("g0", "map", "g0", "outer"),
        ),
        *(Group("g1", "map", "g1", "g0"), Group("g2", "parts", "g2"), Group("g3", "map", "g3", "g2")),
    )
    edges = tuple(Edge(f"b{i}", f"b{j}") for i in range(8) for j in range(i + 1, 8) if (i * j) % 3 != 1)

    assert mistakes(Picture("p", boxes, groups, edges)) == []


WORDS = ("", "retry", "power off", "much longer than the others")


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Boxes in groups inside of groups, with edges of all kinds between them, most of which say something."""
    parents = draw(st.lists(st.integers(0, 9), max_size=4))
    groups = [
        Group(
            f"g{i}", "workflow", "a_long_name_of_a_workflow"[: 4 + 7 * (i % 4)], f"g{up % i}" if i and up % 3 else None
        )
        for i, up in enumerate(parents)
    ]
    homes = draw(st.lists(st.sampled_from([None, *(group.id for group in groups)]), min_size=2, max_size=10))
    boxes = [Box(f"b{i}", "step", f"b{i}" * (1 + i % 4), group=home) for i, home in enumerate(homes)]
    inside = {box.group for box in boxes}
    for group in reversed(groups):
        inside |= {group.parent} if group.id in inside else set()
    end, kinds = st.integers(0, len(boxes) - 1), st.sampled_from(["flow", "flow", "join", "read", "error", "ask"])
    ways = draw(
        st.lists(st.tuples(end, end, kinds, st.sampled_from(WORDS)), max_size=18, unique_by=lambda way: way[:3])
    )
    edges = (
        Edge(f"b{a}", f"b{b}", kind, "any" if kind == "join" else said, 0 if kind == "join" else place, is_back=a > b)
        for place, (a, b, kind, said) in enumerate(ways, 1)
        if a != b
    )
    return Picture("p", tuple(boxes), tuple(group for group in groups if group.id in inside), tuple(edges))


@given(pictures())
@settings(max_examples=60, deadline=None)
def test_nothing_overlaps_whatever_is_drawn(picture: Picture) -> None:
    assert mistakes(picture) == []


def test_what_is_read_by_several_ways_is_written_at_each_of_them() -> None:
    svg = CROWDED["reads"]().to_svg()

    assert [svg.count(f">{word}</text>") for word in ("state_of", "latest", "fact_count")] == [2, 2, 1]


def test_a_title_gives_way_to_the_lines_where_a_frame_would_become_too_wide() -> None:
    svg = CROWDED["titled"]().to_svg()

    assert ">customer_onboarding</text>" in svg
    assert ">a_workflow_with_a_name_as_long_as_it_gets</text>" not in svg
    assert "<title>a_workflow_with_a_name_as_long_as_it_gets</title>" in svg


def test_a_box_that_nothing_leads_to_stands_beside_the_others() -> None:
    saga = Saga("shop")
    for name in ("reserve", "charge", "label", "ship", "notify"):
        saga.transaction(lambda request, results: 1, name=name, compensate=lambda request, results: 0)
    picture = Workflow("w", one("cart") >> saga).picture()
    alone = Box("alone", "step", "alone", group=picture.groups[0].id)
    first = next(box.id for box in picture.boxes if box.group == alone.group)

    placed = laid_out(msgspec.structs.replace(picture, boxes=(*picture.boxes, alone))).boxes

    assert placed["alone"].y == placed[first].y
    assert placed["alone"].x - (placed[first].x + placed[first].width) == pytest.approx(BETWEEN, abs=1)


def test_a_hub_costs_as_many_bends_as_its_longest_line() -> None:
    flow = functools.reduce(lambda flow, i: [INPUT, flow] >> two(f"s{i}"), range(1, 200), one("s0"))

    layout = laid_out(Workflow("hub", flow).picture())

    assert len(layout.lines) < 3 * 200


def test_there_are_never_more_bends_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [one(f"s{i}") for i in range(60)]
    workflow = Workflow("w", functools.reduce(operator.rshift, steps), steps >> step(lambda *xs: xs, name="last"))
    monkeypatch.setattr(layers, "LEAST_ROOM", 0)

    layout = laid_out(workflow.picture())

    assert len(layout.lines) <= len(workflow.picture().edges) + layers.ROOM * 62
    assert {line.edge.source for line in layout.lines if line.edge and line.edge.target == "last"} == {
        f"s{i}" for i in range(60)
    }
