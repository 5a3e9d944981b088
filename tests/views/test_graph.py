"""The picture of a run for a page: the strip of the elements of a map, and what it hides."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from weft import Policy, Run, Runner, Workflow, each, step
from weft.core.draw import svg
from weft.views import page_graph


def check(x: int) -> int:
    if x % 10 == 3:
        raise ValueError(f"refused {x}")
    return x


def test_a_box_in_a_map_has_a_strip_of_its_elements_the_worst_first() -> None:
    flow = Workflow("w", step(list, name="split") >> each(step(check)))
    with Runner(executor="inline") as runner:
        failed = runner.start(flow, range(100)).wait()
        skipped = runner.start(flow.with_policies([("check", Policy(on_failure="skip"))]), range(100)).wait()

    assert strip(failed, "check") == [("room", 64.0), ("failed", 6.4), ("done", 57.6)]
    assert strip(skipped, "check") == [("room", 64.0), ("gated", 6.4), ("done", 57.6)]
    assert strip(failed, "split") == []


def test_one_failure_of_many_is_seen_and_what_is_missing_is_empty() -> None:
    flow = Workflow("w", step(list, name="split") >> each(step(check)))
    with Runner(executor="inline") as runner:
        whole = runner.start(flow, [3, *([0] * 999)]).wait()
    begun = Run.from_log(whole.log()[:504])

    assert strip(begun, "check") == [("room", 64.0), ("failed", 2.0), ("done", 31.9)]


def test_the_message_of_an_error_is_hidden_in_the_title_of_a_box() -> None:
    with Runner(executor="inline") as runner:
        run = runner.start(Workflow("w", step(check)), 3).wait()

    assert "ValueError: refused 3" in page_graph(run)
    assert "ValueError: hidden" in page_graph(run, may_see=False)
    assert "refused 3" not in page_graph(run, may_see=False)


def strip(run: Run, name: str) -> list[tuple[str, float]]:
    """Return the classes and widths of the strip in the box of a component."""
    box = re.search(rf'<g class="box[^"]*" data-name="{name}".*?</g></g>(?=\n|<g|$)', page_graph(run), re.DOTALL)
    assert box is not None
    found = re.findall(r'<rect class="(\w+)"[^>]* width="([\d.]+)" height="3"', box[0])
    return [(state, float(width)) for state, width in found]


def test_what_lines_share_says_where_it_comes_from_and_leads_to() -> None:
    a, b, c, d = (step(abs, name=name) for name in "abcd")
    last = step(lambda x, y: x, name="last")
    flow = Workflow("w", a >> b >> c >> d, [a, d] >> last)
    drawn, pieces = page_graph(flow), len(re.findall("<path", flow.to_svg()))

    trunks = re.findall(r'data-trunk="([^"]*)" data-from="([^"]*)"', drawn)
    assert trunks != []
    assert {*trunks} == {("last", "a")}
    assert re.findall(r'data-join="([^"]*)"', drawn) == ["last"]
    assert len(re.findall("<path", drawn)) == pieces + len(trunks) - 1


def test_a_name_with_quotes_is_one_label_and_can_be_chosen() -> None:
    flow = Workflow("w", step(abs, name='say "hi" <&>') >> step(str, name="next"))

    drawn = ET.fromstring(page_graph(flow, selected='say "hi" <&>'))  # noqa: S314 - drawn here

    boxes = {each.get("data-name"): each for each in drawn.iter() if each.get("data-kind") == "step"}
    said = boxes['say "hi" <&>']
    assert said.get("class") == "box sel"
    assert said.get("aria-label") == 'say "hi" <&>: step'
    assert set(said.attrib) == {"class", "data-name", "data-kind", "tabindex", "role", "aria-label"}
    assert [each.get("data-to") for each in drawn.iter() if each.get("data-from") == 'say "hi" <&>'] == ["next"]


def test_the_drawing_gives_its_boxes_and_lines_as_data() -> None:
    boxes: dict[str, tuple[float, float]] = {}
    ends: list[tuple[str, str, str]] = []
    joined: list[str] = []

    class Noted(svg.Form):
        def box(self, drawn: svg.DrawnBox) -> str:
            boxes[drawn.name] = (drawn.middle, drawn.below)
            return super().box(drawn)

        def net(self, drawn: svg.DrawnNet) -> str:
            ends.extend((each.edge.source, each.edge.target, each.end[0]) for each in drawn.lines if each.edge)
            return super().net(drawn)

        def join(self, drawn: svg.DrawnJoin) -> str:
            joined.append(drawn.target)
            return super().join(drawn)

    one, two, both = step(abs, name="one"), step(abs, name="two"), step(lambda x, y: x + y, name="both")
    flow = Workflow("w", one, two, [one, two] >> both)

    assert svg.to_svg(flow.picture(), Noted()) == flow.to_svg()
    assert {"one", "two", "both"} <= set(boxes)
    assert boxes["both"][1] > boxes["one"][1] == boxes["two"][1]
    assert joined == ["both"]
    assert sorted((source, target) for source, target, _ in ends if target == "both") == [
        ("one", "both"),
        ("two", "both"),
    ]
    assert {float(x) for _, target, x in ends if target == "both"} == {boxes["both"][0]}
