"""A component that runs several functions is a group of its parts, as they are wired."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest
from sketches import aborted_run, account, agent, door, house, looped_run, one, opened_run, order, tank, travel, trip

from weft import Component, Run, Saga, Workflow, each, repeat, state_machine, step
from weft.core.draw.picture import Edge, Picture
from weft.core.draw.progress import Progress
from weft.core.functions.function import Function
from weft.core.plan.expansion import Expansion


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


def test_its_parts_are_not_components_in_a_list_of_edges() -> None:
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


# -- those of Weft -------------------------------------------------------------------------------


def inner(picture: Picture, kind: str = "flow") -> set[tuple[str, str]]:
    """The edges of one kind, but for those of the input."""
    return {(edge.source, edge.target) for edge in picture.edges if edge.kind == kind and edge.source != "INPUT"}


def shown(run: Run) -> dict[str, str]:
    """Return what is written in every box."""
    found: dict[str, Progress | None] = {box.id: box.progress for box in run.picture().boxes}
    return {name: progress.summary for name, progress in found.items() if progress is not None}


def test_a_saga_begins_with_its_first_transaction_and_its_failures_lead_to_compensations() -> None:
    picture = travel().picture()

    assert inner(picture) == {
        *(("ask", "trip.flight"), ("trip.flight", "trip.hotel"), ("trip.hotel", "trip.pay"), ("trip.pay", "trip")),
        *(("trip.hotel.undo", "trip.flight.undo"), ("trip.flight.undo", "trip")),
        *(("trip", "trip.on_complete"), ("trip", "trip.on_abort"), ("trip", "tell")),
    }
    assert inner(picture, "error") == {
        *(("trip.pay", "trip.hotel.undo"), ("trip.hotel", "trip.flight.undo"), ("trip.flight", "trip")),
    }


def test_a_loop_begins_with_its_first_step_and_leads_back_to_it() -> None:
    picture = Workflow("w", agent() >> one("end")).picture()

    assert Edge("agent.until", "agent.think", label="again", is_back=True) in picture.edges
    assert Edge("INPUT", "agent.think") in picture.edges
    assert inner(picture) >= {("agent.act", "agent.until"), ("agent.until", "agent"), ("agent", "end")}
    assert {box.id: box.note for box in picture.boxes if box.note} == {
        "agent.until": "at most 5 turns",
        "agent": "outcome",
    }


def test_what_reacts_to_a_state_stands_below_it() -> None:
    picture = house().picture()

    assert inner(picture) == {
        *(("event", "door"), ("door", "door.open.entry"), ("door", "door.open.knock.do"), ("door", "tell")),
        *(("event", "tank"), ("tank", "tank.alarm.when"), ("tank.alarm.when", "tank.alarm"), ("tank", "tank.display")),
        *(("event", "account"), ("event", "order"), ("order", "order.on_complete")),
    }
    assert {box.kind for box in picture.boxes if box.id == "tank.alarm.when"} == {"condition"}


@pytest.mark.parametrize("make", [tank, door, order, trip, agent])
def test_boxes_of_parts_say_whose_they_are_and_parents_come_first(make: Callable[[], Component]) -> None:
    picture = Workflow("w", make()).picture()
    place = {box.id: number for number, box in enumerate(picture.boxes)}

    assert {box.part_of for box in picture.boxes} == {None, make().name}
    assert all(place[edge.source] < place[edge.target] for edge in picture.edges if not edge.is_back)


def test_a_component_that_decides_in_one_place_is_one_box() -> None:
    assert [box.id for box in Workflow("w", account()).picture().boxes] == ["INPUT", "account"]


def test_what_undoes_the_last_transaction_is_not_drawn_as_nothing_leads_to_it() -> None:
    saga = Saga("trip")
    for name in ("flight", "hotel"):
        saga.transaction(lambda request, results: 1, name=name, compensate=lambda request, results: -1)

    picture = Workflow("w", saga).picture()

    assert [box.id for box in picture.boxes] == ["INPUT", "trip.flight", "trip.hotel", "trip.flight.undo", "trip"]


def test_an_aborted_saga_is_done_and_only_the_transaction_has_failed() -> None:
    assert shown(aborted_run()) == {
        "ask": "✓ 3 ms",
        "trip.flight": "✓ 3 ms",
        "trip.hotel": "✓ 3 ms",
        "trip.pay": "✗ 3 ms",
        "trip.hotel.undo": "✓ 3 ms",
        "trip.flight.undo": "✓ 3 ms",
        "trip": "✓ 18 ms",
        "trip.on_complete": "",
        "trip.on_abort": "✓ 3 ms",
        "tell": "✓ 3 ms",
    }


def test_a_saga_that_is_stuck_has_failed() -> None:
    stuck = Workflow("w", step(lambda x: x, name="a") >> broken_saga()).run(1)

    assert {name: text[:1] for name, text in shown(stuck).items()} == {
        "a": "✓",
        "trip.book": "✓",
        "trip.pay": "✗",
        "trip.book.undo": "✗",
        "trip": "✗",
    }


def test_a_saga_in_flight_is_in_flight() -> None:
    run = travel().plan(1).react().react()

    assert states(run.to_cytoscape())["trip.hotel"] == states(run.to_cytoscape())["trip"] == "ready"


def test_turns_count_for_the_steps_of_a_loop_and_its_noes_for_the_test() -> None:
    assert shown(looped_run()) == {
        "begin": "✓ 3 ms",
        "agent.think": "✓ 3 · 9 ms",
        "agent.act": "✓ 3 · 9 ms",
        "agent.until": "✓ 1 · 2 no · 9 ms",
        "agent": "✓ 30 ms",
        "end": "✓ 3 ms",
    }


def test_a_loop_has_failed_if_a_turn_has() -> None:
    run = Workflow("w", agent() >> one("end")).run("text")

    assert {name: text[:1] for name, text in shown(run).items()} == {
        "agent.think": "✗",
        "agent.act": "",
        "agent.until": "",
        "agent": "✗",
        "end": "",
    }


@pytest.mark.parametrize("is_handled", [True, False])
def test_a_loop_that_made_all_its_turns_has_failed_also_if_that_was_handled(*, is_handled: bool) -> None:
    loop = repeat(lambda x: x, until=lambda x: False, at_most=2, name="loop")
    run = Workflow("w", loop.on_error(then=one("rescue")) if is_handled else loop >> one("next")).run(1)

    assert states(run.to_cytoscape())["loop"] == "failed"
    assert run.failed is not is_handled


def test_a_loop_that_may_turn_again_has_not_failed() -> None:
    run = Workflow("w", repeat(lambda x: x, until=lambda x: False, at_most=2, name="loop")).plan(1).react().react()

    assert states(run.to_cytoscape()) == {
        "parts loop": None,
        "INPUT": None,
        "loop.turn": "ready",
        "loop.until": "gated",
        "loop": "ready",
    }


def test_turns_in_a_map_are_not_a_fraction_of_its_elements() -> None:
    run = Workflow("w", each(agent(), name="all")).run([1, 2])

    texts = {name: text.split(" · ")[0] for name, text in shown(run).items()}

    assert texts == {"all": "✓ 2/2", "agent.think": "✓ 5", "agent.act": "✓ 5", "agent.until": "✓ 2", "agent": "✓ 2/2"}


def test_parts_in_a_map_are_done_with_so_many_of_its_elements() -> None:
    run = Workflow("w", each(trip(), name="all")).run([1, 0, 1])

    texts = {name: text.split(" · ")[0] for name, text in shown(run).items()}

    assert texts == {
        "all": "✓ 3/3",
        "trip.flight": "✓ 3/3",
        "trip.hotel": "✓ 3/3",
        "trip.pay": "✗ 2/3",
        "trip": "✓ 3/3",
        "trip.hotel.undo": "✓ 1/3",
        "trip.flight.undo": "✓ 1/3",
        "trip.on_complete": "✓ 2/3",
        "trip.on_abort": "✓ 1/3",
    }


def test_a_machine_counts_its_turns_and_what_it_ignored_and_its_actions_count_for_themselves() -> None:
    assert shown(opened_run()) == {
        "door": "✓ 1 · 1 no · in open · 6 ms",
        "door.open.knock.do": "",
        "door.open.entry": "✓ 3 ms",
        "tell": "✓ 3 ms",
    }


def test_a_reactor_that_fails_does_not_make_the_state_fail() -> None:
    bad = Workflow("w", failing_tank()).run(11)

    assert {name: text[:1] for name, text in shown(bad).items()} == {"tank": "✓", "tank.alarm": "✗"}


def broken_saga() -> Saga:
    saga = Saga("trip")
    saga.transaction(lambda request, results: 1, name="book", compensate=lambda request, results: 1 // 0)
    saga.transaction(lambda request, results: 1 // 0, name="pay", compensate=None)
    return saga


def failing_tank() -> Component:
    return state_machine("tank", init=0, reducer=lambda a, b: a + b, reactors={"alarm": lambda level: level // 0})
