"""A component that runs several functions is a group of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sketches import one

from weft import Component, Workflow
from weft.core.draw.picture import Edge
from weft.core.expansion import Expansion
from weft.core.function import Function


@dataclass(frozen=True, eq=False, repr=False)
class Pair(Component):
    """Two functions, one after the other."""

    first: Function
    second: Function
    kind: ClassVar[str] = "pair"

    def functions(self) -> dict[str, Function]:
        return {"first": self.first, "": self.second}

    def check_width(self, width: int, source: str) -> None:
        pass

    def expand(self, into: Expansion) -> None:
        first = into.work(self.first, part="first")
        into.feed(first)
        into.link(first, into.work(self.second))


def pairs() -> Workflow:
    pair = Pair("pair", Function.of(lambda x: x + 1), Function.of(lambda x: x * 2))
    return Workflow("w", one("before") >> pair >> one("after"))


def states(drawn: Mapping[str, list[dict[str, dict[str, object]]]]) -> dict[object, object]:
    return {node["data"]["id"]: node["data"].get("state") for node in drawn["nodes"]}


def test_its_parts_stand_in_a_group_with_it() -> None:
    picture = pairs().picture()

    assert {box.id: (box.kind, box.group) for box in picture.boxes if box.group} == {
        "pair": ("pair", "parts pair"),
        "pair.first": ("part", "parts pair"),
    }
    assert Edge("pair.first", "pair") in picture.edges


def test_its_parts_are_no_components_in_a_list_of_edges() -> None:
    workflow = pairs()

    assert set(workflow.to_edgelist()) == workflow.edges()


def test_its_parts_have_a_state_of_their_own() -> None:
    run = pairs().plan(1).react().react()

    assert states(run.to_cytoscape()) == {
        "parts pair": None,
        "INPUT": None,
        "before": "done",
        "pair": "ready",
        "pair.first": "done",
        "after": "unreached",
    }


def test_it_can_be_drawn() -> None:
    svg = pairs().to_svg()

    assert svg.count("data-name=") == 5
