"""Parts of components: taken, read, hooked, given context, and asked for, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft import (
    FSM,
    Absent,
    Aggregate,
    ProcessManager,
    Run,
    Runner,
    Saga,
    Transition,
    Workflow,
    all_values,
    context,
    each,
    fact_count,
    join,
    latest,
    reduce,
    repeat,
    state_machine,
    state_of,
    step,
)
from weft.errors import (
    DefinitionError,
    InvalidComponent,
    MissingContext,
    PortMismatch,
    StepFailed,
    TracingError,
    UnknownComponent,
    UnknownReference,
)
from weft.log import decode, encode


def booking(name: str = "trip") -> Saga:
    """Return a saga that fails where the request says so."""
    trip = Saga(name)

    @trip.transaction
    def book(request: str, results: dict[str, Any]) -> str:
        if request == "full":
            raise ValueError(request)
        return f"booked {request}"

    @book.compensate
    def cancel(request: str, results: dict[str, Any]) -> str:
        return f"cancelled {request}"

    @trip.transaction(compensate=None)
    def pay(request: str, results: dict[str, Any]) -> int:
        if request == "poor":
            raise ValueError(request)
        return 100

    return trip


def counting(*, high: Callable[[int], object] = lambda state: f"high: {state}") -> Any:
    return state_machine(
        "level", init=0, reducer=lambda state, x: state + x, reactors={"high": (lambda state: state > 3, high)}
    )


trip = booking()
level = counting()
note = step(lambda x: f"note: {x}", name="note")
undo = step(lambda x: f"undo: {x}", name="undo")
total = reduce(lambda acc, x: [*acc, x], init=list[Any], name="total")


# -- taken ---------------------------------------------------------------------------------------


def test_a_component_is_fed_by_a_part_of_another(finish: Callable[[Run], Run]) -> None:
    workflow = Workflow("travel", trip).add(note, to="trip.book").add(undo, to="trip.cancel")

    run = finish(workflow.plan("Rome"))
    assert run.results("note", "undo") == {"note": "note: booked Rome", "undo": None}
    assert run.value("trip").status == "completed"

    run = finish(workflow.plan("poor"))
    assert run.results("note", "undo") == {"note": "note: booked poor", "undo": "undo: cancelled poor"}
    assert run.value("trip").status == "aborted"
    assert Run.from_log(run.log()) == run


def test_a_part_stands_beside_an_arrow() -> None:
    start = step(str.title, name="start")

    run = Workflow("travel", start >> trip.part("book") >> note).run("rome")

    assert run.results() == {"trip": run.value("trip"), "note": "note: booked Rome"}


def test_a_part_is_no_leaf_and_does_not_take_the_values_of_its_component() -> None:
    workflow = Workflow("tank", level, level.part("high"))

    assert workflow.leaves == ("level",)
    assert workflow.run(5).results() == {"level": 5}
    assert workflow.run(5).results("level.high") == {"level.high": "high: 5"}


def test_parts_are_joined() -> None:
    both = step(lambda a, b: (a, b), name="both")
    workflow = Workflow("travel", join(trip.part("book"), trip.part("pay"), wait="all_done") >> both)

    assert workflow.run("Rome").value("both") == ("booked Rome", 100)
    booked, paid = workflow.run("poor").value("both")
    assert booked == "booked poor"
    assert isinstance(paid, Absent)
    assert not any(workflow.run("full").value("both"))


def test_every_turn_of_a_loop_feeds_what_takes_it(finish: Callable[[Run], Run]) -> None:
    grow = repeat(step(lambda x: x * 2, name="double"), until=lambda x: x > 20, at_most=9, name="grow")
    seen = step(lambda x: x + 1, name="seen")
    workflow = Workflow("w", grow, grow.part("turn") >> seen)

    run = finish(workflow.plan(3))

    assert run.results("grow", all=True) == {"grow": [24]}
    assert run.results("seen", all=True) == {"seen": [7, 13, 25]}
    assert run.results("seen") == {"seen": 25}


def test_a_part_in_an_each_is_taken_per_element() -> None:
    workflow = Workflow("w", each(level.part("high") >> note) >> total)

    assert workflow.run([1, 2, 3, 4]).value("total") == ["note: high: 6", "note: high: 10"]


def test_actions_and_endings_are_parts() -> None:
    door = FSM("door", states={"shut": {"open": Transition("open", do=lambda _: "creak")}, "open": {}}, initial="shut")
    order = ProcessManager("order", init=0, complete=lambda state: state > 1, on_complete=lambda state: ("done", state))
    order.on("paid")(lambda state, _: (state + 2, []))

    workflow = Workflow(
        "w", door.part("shut.open.do") >> note, order.part("on_complete") >> step(lambda x: x[1], name="end")
    )

    assert workflow.run("open").results("note") == {"note": "note: creak"}
    assert workflow.run(("paid", 1)).results("end") == {"end": 2}


def test_a_live_run_takes_a_part_from_the_next_input_on() -> None:
    run = Workflow("travel", trip).run("Rome")

    run.add(note, to="trip.book").run("Oslo")

    assert run.values("note") == ["note: booked Oslo"]
    assert Run.from_log(run.log()) == run


def test_the_type_of_a_part_is_checked() -> None:
    def shout(text: str) -> str:
        return text.upper()

    assert Workflow("w", trip.part("book") >> step(shout)).outputs["shout"] is str
    with pytest.raises(PortMismatch, match=r"'trip\.pay' produces int, and 'shout' takes str"):
        Workflow("w", trip.part("pay") >> step(shout))


def test_a_runner_and_a_log_know_parts() -> None:
    workflow = Workflow("travel", trip).add(note, to="trip.book")

    with Runner() as runner:
        handle = runner.start(workflow, "Rome", id="rome")
        runner.wait("rome")
        assert runner.get("rome").value("note") == "note: booked Rome"
        log = decode(encode(handle.log()), workflow=workflow)

    assert Run.from_log(log).workflow.hash == workflow.hash
    assert Run.from_log(log).results("trip.book") == {"trip.book": "booked Rome"}


# -- read ----------------------------------------------------------------------------------------


def test_a_part_is_read() -> None:
    @step
    def read(
        x: int,
        last: str = latest("level.high", default="none"),
        every: list[str] = all_values("level.high"),
        count: int = fact_count("level.high"),
    ) -> tuple[Any, ...]:
        return (x, last, every, count)

    run = Workflow("tank", level, read).run(2)
    run.run(2)
    run.run(-1)

    assert run.values("read") == [
        (2, "none", [], 0),
        (2, "high: 4", ["high: 4"], 1),
        (-1, "high: 4", ["high: 4"], 1),
    ]
    assert run.results() == {"level": 3, "read": (-1, "high: 4", ["high: 4"], 1)}


def test_a_part_is_read_by_what_stands_for_it() -> None:
    pay = trip.part("pay")
    read = step(lambda x, paid=latest(pay): paid, name="read")

    assert Workflow("travel", trip, read).run("Rome").value("read") == 100


def test_a_part_is_read_in_a_nested_workflow_and_in_a_loop() -> None:
    read = step(lambda x, high=latest("level.high", default=""): f"{x}{high}", name="read")
    inner = Workflow("inner", level >> read)

    assert Workflow("outer", inner).run(5).results() == {"inner.read": "5high: 5"}
    turns = repeat(
        level >> step(lambda x, high=latest("level.high", default=0): x, name="end"),
        until=lambda x: x > 5,
        at_most=9,
        name="turns",
    )
    assert Workflow("loop", turns).run(1).output == 8


# -- hooked --------------------------------------------------------------------------------------


def test_a_part_has_hooks_of_its_own() -> None:
    told: list[Any] = []
    hooked = trip.before(lambda call: told.append((call.component, call.inputs[0])), part="book")
    hooked = hooked.after(lambda _, value: told.append(value), part="pay")

    assert Workflow("travel", hooked).run("Rome").value("trip").status == "completed"
    assert told == [("trip.book", "Rome"), 100]
    assert Workflow("travel", hooked).hash == Workflow("travel", trip).hash


def test_a_step_of_a_turn_has_hooks() -> None:
    told: list[int] = []
    grow = repeat(lambda x: x * 2, until=lambda x: x > 20, at_most=9, name="grow")

    hooked = grow.before(lambda call: told.append(-call.inputs[0]), part="turn")
    hooked = hooked.after(lambda _, value: told.append(value), part="turn")

    assert Workflow("w", hooked).run(8).output == 32
    assert told == [-8, 16, -16, 32]


def test_a_hook_that_raises_fails_the_part() -> None:
    def refuse(_: object) -> None:
        raise PermissionError("no")

    run = Workflow("travel", trip.before(refuse, part="pay")).run("Rome")

    assert run.value("trip").failed_step == "pay"
    assert run.value("trip").compensated == ["book"]


def test_hooks_of_a_part_are_stored() -> None:
    workflow = Workflow("travel", trip.before(_noted, part="book"))

    read = Workflow.from_dict(workflow.to_dict(), workflow=workflow)

    assert read.component("trip").hooks == workflow.component("trip").hooks
    assert read.run("Rome").results("trip.book") == {"trip.book": "booked Rome"}


def _noted(_: object) -> None:
    """Do nothing."""


# -- context -------------------------------------------------------------------------------------


def test_a_part_is_given_context() -> None:
    hotel = Saga("hotel")

    @hotel.transaction(compensate=None)
    def reserve(request: str, results: dict[str, Any], key: str = context("key")) -> str:
        return key

    @hotel.transaction(compensate=None)
    def confirm(request: str, results: dict[str, Any], key: str = context("key")) -> str:
        return key

    workflow = Workflow("travel", hotel)

    def results(given: dict[str, str]) -> Any:
        return workflow.run("x", context=given).value("hotel").results

    assert results({"hotel.reserve.key": "a", "key": "b"}) == {"reserve": "a", "confirm": "b"}
    assert results({"hotel.reserve.key": "a", "hotel.key": "c", "key": "b"}) == {"reserve": "a", "confirm": "c"}
    assert results({"hotel.reserve.key": "a", "hotel.confirm.key": "d"}) == {"reserve": "a", "confirm": "d"}
    with pytest.raises(MissingContext, match=r"'key' \(for hotel\)"):
        results({"hotel.reserve.key": "a"})


# -- changed -------------------------------------------------------------------------------------


def test_a_component_is_removed_with_its_parts() -> None:
    workflow = Workflow("travel", trip).add(note, to="trip.book").remove("trip")

    assert workflow.run("Rome").results() == {"note": "note: Rome"}


def test_a_component_with_parts_is_replaced_under_its_name() -> None:
    workflow = Workflow("tank", level).add(note, to="level.high")

    replaced = workflow.replace("level", counting(high=lambda state: f"HIGH: {state}"))
    assert replaced.run(5).value("note") == "note: HIGH: 5"
    with pytest.raises(DefinitionError, match=r"take or read 'level\.high'; use \.named\('level'\)"):
        workflow.replace("level", level.named("other"))
    with pytest.raises(UnknownComponent, match="no part 'high'"):
        workflow.replace("level", state_machine("level", init=0, reducer=lambda state, x: state + x))


def test_workflows_that_take_the_same_part_are_merged() -> None:
    first, second = (Workflow("w", trip).add(taker, to="trip.book") for taker in (note, undo))

    both = first.merge(second)

    assert both.edges() == {("trip", "trip.book"), ("trip.book", "note"), ("trip.book", "undo")}
    assert both.run("Rome").results("note", "undo") == {"note": "note: booked Rome", "undo": "undo: booked Rome"}


def test_a_part_that_is_drawn_inside_its_component_is_drawn_once() -> None:
    picture = Workflow("travel", trip).add(note, to="trip.book").picture()

    assert [box.id for box in picture.boxes].count("trip.book") == 1
    assert ("trip.book", "note") in {(edge.source, edge.target) for edge in picture.edges}
    assert ("trip", "trip.book") not in {(edge.source, edge.target) for edge in picture.edges}


# -- refused -------------------------------------------------------------------------------------

account = Aggregate("account", init=0)
account.command("deposit")(lambda state, x: ("deposited", x))
account.event("deposited")(lambda state, x: state + x)

REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "an unknown part": (
        lambda: trip.part("fly"),
        UnknownComponent,
        "no part 'fly' in 'trip'; it has book, cancel, pay",
    ),
    "to an unknown part": (lambda: Workflow("w", trip).add(note, to="trip.fly"), UnknownComponent, "no part 'fly'"),
    "a part of a step": (lambda: note.part("x"), UnknownComponent, "a step has no parts"),
    "a part without values": (lambda: level.part("high.when"), UnknownComponent, "called inside of it; it has high"),
    "a command": (lambda: account.part("deposit"), UnknownComponent, "called inside of it"),
    "a nameless component": (
        lambda: repeat(lambda x: x, until=bool, at_most=1).part("turn"),
        InvalidComponent,
        "named",
    ),
    "a state": (
        lambda: Workflow("w", level, step(lambda x, y=state_of("level.high"): x, name="r")),
        UnknownReference,
        "a part and keeps no state",
    ),
    "a read of an unknown part": (
        lambda: Workflow("w", level, step(lambda x, y=latest("level.low"): x, name="r")),
        UnknownReference,
        "not a part of 'level' that produces values; it has high$",
    ),
    "a read of a part of what has none": (
        lambda: Workflow("w", note, step(lambda x, y=latest("note.low"): x, name="r")),
        UnknownReference,
        "not a part of 'note' that produces values$",
    ),
    "hooks of an unknown part": (
        lambda: Workflow("w", trip.before(_noted, part="fly")),
        UnknownComponent,
        "no part 'fly' in 'trip'",
    ),
    "another name": (lambda: trip.part("book").named("x"), InvalidComponent, "called after 'trip'"),
    "hooks of the part itself": (lambda: trip.part("book").before(_noted), InvalidComponent, "part='book'"),
    "routes of the part itself": (lambda: trip.part("book").on_error(then=note), InvalidComponent, "on_error"),
    "a call": (lambda: trip.part("book")("x"), TracingError, "latest"),
    "a parent": (
        lambda: Workflow("w", note >> Workflow("v", level.part("high")).component("level.high")),
        InvalidComponent,
        "a part of 'level': nothing else feeds it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_of_a_part_is_refused(case: str) -> None:
    define, error, match = REFUSED[case]

    with pytest.raises(error, match=match):
        define()


def test_failures_of_a_part_are_those_of_the_run() -> None:
    def burst(state: int) -> str:
        raise OverflowError(state)

    run = Workflow("tank", counting(high=burst).part("high") >> note).run(5)

    assert isinstance(run.failures["level.high"], StepFailed)
    assert run.results() == {"level": 5}
