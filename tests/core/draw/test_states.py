"""The states of an FSM, drawn by itself."""

from __future__ import annotations

import pytest
from placing import mistakes
from sketches import door

from weft import FSM, Transition
from weft.core.draw.picture import Edge


def test_states_are_boxes_and_events_lead_from_one_to_the_next() -> None:
    picture = door().picture()

    assert [(box.id, box.kind, box.note) for box in picture.boxes] == [
        ("start", "input", ""),
        ("shut", "state", "push ↺"),
        ("open", "state", "knock"),
        ("broken", "final", ""),
    ]
    assert [(edge.source, edge.label, edge.target) for edge in picture.edges] == [
        ("start", "", "shut"),
        ("shut", "unlock [is_right]", "open"),
        ("shut", "kick", "broken"),
        ("open", "close", "shut"),
        ("open", "kick, axe", "broken"),
    ]


def test_every_way_into_a_state_has_a_place_of_its_own() -> None:
    ways = [(edge.target, edge.inlet) for edge in door().picture().edges]

    assert len(set(ways)) == len(ways)


def test_a_state_that_is_called_start_is_not_a_start() -> None:
    picture = FSM("f", initial="start", states={"start": {}}).picture()

    assert picture.edges == (Edge("start'", "start"),)


def test_an_action_is_told_if_it_has_a_name() -> None:
    def refund(event: object) -> None:
        pass

    [_, edge] = FSM("f", initial="a", states={"a": {"go": Transition("b", do=refund)}, "b": {}}).picture().edges

    assert edge.label == "go / refund"


def test_every_format_draws_them() -> None:
    machine = door()

    assert '"kick, axe"' in machine.to_mermaid()
    assert '"open" -> "shut"' in machine.to_dot()
    assert ("open", "shut") in machine.to_edgelist()
    assert {node["data"]["id"] for node in machine.to_cytoscape()["nodes"]} == {"start", "shut", "open", "broken"}
    assert machine.to_svg().count("<g data-name=") == 4


@pytest.mark.parametrize("words", ["go", "a long word about what has happened"])
def test_nothing_overlaps_and_what_is_written_stays_inside(words: str) -> None:
    ring = {str(i): {words: str((i + 1) % 6), "back": str((i + 4) % 6)} for i in range(6)}
    machine = FSM("ring", initial="0", states=ring)

    assert mistakes(machine.picture()) == []
    left, _, wide, _ = (float(part) for part in machine.to_svg().split('viewBox="')[1].split('"')[0].split())
    grounds = [part.split('"') for part in machine.to_svg().split('<rect x="')[1:]]
    assert len(grounds) == len(machine.picture().edges) - 1
    assert all(left <= float(part[0]) and float(part[0]) + float(part[4]) <= left + wide for part in grounds)
