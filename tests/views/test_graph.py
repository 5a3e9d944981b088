"""The picture of a run for a page: the strip of the elements of a map, and what it hides."""

from __future__ import annotations

import re

from weft import Policy, Run, Runner, Workflow, each, step
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
