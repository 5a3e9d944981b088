"""Laws of drawings, for arbitrary graphs and runs in the middle of their way."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import Schedule, build, graphs, inputs, schedules

from weft import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "draw"))

from driving import Driver
from placing import laid_out, mistakes


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A run of an arbitrary workflow, stopped somewhere."""
    graph = draw(graphs())
    run = build(graph).plan(draw(inputs(graph)), context=dict(graph.context))
    schedule: Schedule = draw(schedules())
    return Driver(run, schedule, durable=draw(st.booleans())).drive(draw(st.none() | st.integers(0, 8)))


@given(graphs())
def test_every_layout_is_without_mistakes(graph: Any) -> None:
    assert mistakes(build(graph).picture()) == []


@given(graphs())
def test_the_flow_leads_down_and_what_reads_an_earlier_input_leads_up(graph: Any) -> None:
    picture = build(graph).picture()
    boxes = laid_out(picture).boxes

    wrong = [
        edge
        for edge in picture.edges
        if edge.source != edge.target
        and (edge.is_flow or edge.is_back)
        and (boxes[edge.source].y + boxes[edge.source].height <= boxes[edge.target].y) == edge.is_back
    ]

    assert wrong == []


@given(graphs())
def test_a_picture_has_the_components_and_edges_of_its_workflow(graph: Any) -> None:
    workflow = build(graph)

    picture = workflow.picture()

    assert sorted(box.id for box in picture.boxes if box.id != "INPUT") == sorted(workflow.components)
    assert sorted(workflow.to_edgelist()) == sorted(workflow.edges())


@given(runs())
def test_every_run_can_be_drawn_at_any_time_and_a_restored_one_looks_the_same(run: Run) -> None:
    again = Run.from_log(run.log())

    for draw in (Run.to_svg, Run.to_mermaid, Run.to_dot, Run.to_cytoscape):
        assert draw(run) == draw(again)
    assert run.to_mermaid(kind="sequence") == again.to_mermaid(kind="sequence")
    ET.fromstring(run.to_svg().encode())  # noqa: S314 - our own


@given(runs())
def test_what_a_picture_says_follows_from_the_run(run: Run) -> None:
    progress = {box.id: box.progress for box in run.picture().boxes if box.progress is not None}

    for name, found in progress.items():
        assert (found.state == "failed") == (name in run.failures or f"{name}.when" in run.failures)
        assert found.of is None or found.done <= found.of
    if not run.is_runnable:
        assert not {"ready", "running"} & {found.state for found in progress.values()}
