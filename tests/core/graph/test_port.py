"""Declared ports of a workflow that is written with >>, and what components take and give."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Port, Run, Runner, Workflow, accumulator, condition, each, state_machine, step, workflow
from weft.errors import DefinitionError, InvalidArgument, PortMismatch, UnknownComponent
from weft.log import decode, encode


@step
def price(order: dict[str, int]) -> float:
    """Return how much it costs."""
    return order["amount"] * 1.5


@step
def label(price: float) -> str:
    return f"{price} EUR"


@step
def rounded(price: float) -> int:
    return round(price)


flow = price >> [label, rounded]
shop = Workflow(
    "shop",
    flow,
    inputs={"order": Port(dict[str, int], doc="what the customer sent")},
    outputs={"text": Port(str, doc="for people", of="label"), "cents": rounded},
)


def test_ports_have_names_types_and_documentation() -> None:
    assert shop.inputs == {"order": dict[str, int]}
    assert shop.outputs == {"text": str, "cents": int}
    assert shop.input_ports["order"].doc == "what the customer sent"
    assert shop.output_ports == {"text": Port(str, "for people", "label"), "cents": Port(int, "", "rounded")}


def test_outputs_are_what_a_run_returns() -> None:
    run = shop.run({"amount": 3})

    assert run.output == {"text": "4.5 EUR", "cents": 4}
    assert run.results("cents") == {"cents": 4}
    assert run.results() == {"label": "4.5 EUR", "rounded": 4}


def test_an_output_may_be_any_component_and_is_named_after_it_if_it_does_not_say() -> None:
    one = Workflow("w", flow, outputs={"price": float})

    assert one.outputs == {"price": float}
    assert one.run({"amount": 2}).output == {"price": 3.0}


def test_an_output_may_be_a_part() -> None:
    level = state_machine("level", init=0, reducer=lambda s, x: s + x, reactors={"high": str})

    assert Workflow("w", level, outputs={"alarm": "level.high"}).run(5).output == {"alarm": "5"}
    assert Workflow("w", level, outputs={"alarm": level.part("high")}).run(5).output == {"alarm": "5"}


def test_an_output_inside_an_each_is_a_list() -> None:
    many = Workflow("w", each(price) >> label, inputs={"orders": list[dict[str, int]]}, outputs={"all": "label"})

    assert many.outputs == {"all": list[str]}
    assert many.run([{"amount": 2}, {"amount": 4}]).output == {"all": ["3.0 EUR", "6.0 EUR"]}


def test_a_nested_workflow_passes_its_outputs_on() -> None:
    inner = Workflow("inner", flow, outputs={"text": "label"})

    assert Workflow("outer", inner >> step(str.upper, name="shout")).run({"amount": 2}).value("shout") == "3.0 EUR"


def test_the_type_of_the_input_is_checked_against_what_takes_it() -> None:
    with pytest.raises(PortMismatch, match="the input produces str, and 'price' takes"):
        Workflow("w", price, inputs={"order": str})
    with pytest.raises(PortMismatch, match="'there' produces str, and 'label' takes float"):
        Workflow("w", condition(bool, name="there") >> label, inputs={"text": str})
    with pytest.raises(PortMismatch, match=r"the input produces int, and 'map_1', an each\(\),"):
        Workflow("w", each(price), inputs={"orders": int})
    assert Workflow("w", price, inputs={"order": str}, validate="off").inputs == {"order": str}


def test_the_type_of_an_output_is_checked_against_what_makes_it() -> None:
    with pytest.raises(PortMismatch, match="'label' produces str, and the output 'text' takes int"):
        Workflow("w", flow, outputs={"text": Port(int, of=label)})


def test_ports_are_outside_of_the_identity_and_survive_changes() -> None:
    assert shop.hash == Workflow("shop", flow).hash
    changed = shop.add(step(abs), to="rounded").renamed("other").with_policies([])
    assert (changed.inputs, changed.outputs) == (shop.inputs, shop.outputs)
    assert shop.remove("label").outputs == {"rounded": int}
    assert shop.merge(Workflow("w", step(len))).outputs == {"label": str, "rounded": int, "len": Any}


def test_a_stored_run_knows_its_outputs() -> None:
    data = encode(shop.run({"amount": 3}).log())

    assert Run.from_log(decode(data)).output == {"text": "4.5 EUR", "cents": 4}
    assert Run.from_log(decode(data, workflow=shop)).workflow.output_ports == shop.output_ports
    with Runner() as runner:
        assert runner.start(shop, {"amount": 3}).result() == {"text": "4.5 EUR", "cents": 4}


def test_a_traced_workflow_has_ports() -> None:
    @workflow
    def traced(order: dict[str, int]) -> Any:
        return {"text": label(price(order))}

    assert traced.input_ports == {"order": Port(dict[str, int])}
    assert traced.output_ports == {"text": Port(str, of="label")}


def test_what_cannot_be_a_port_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"'w' declares the inputs a, b; .* takes one value"):
        Workflow("w", flow, inputs={"a": int, "b": int})
    with pytest.raises(UnknownComponent, match="no component 'total'"):
        Workflow("w", flow, outputs={"total": int})
    wrong: Any = ["order"]
    with pytest.raises(InvalidArgument, match=r"inputs=.*: use a mapping"):
        Workflow("w", flow, inputs=wrong)


def test_components_can_be_asked_what_they_take_and_give() -> None:
    total = accumulator(lambda state, x: state + x, init=0, name="total")
    level = state_machine("level", init=0, reducer=_added, reactors={"high": _told})

    assert (price.inputs, price.outputs) == ({"order": dict[str, int]}, {"price": float})
    assert (total.inputs, total.outputs) == ({"x": Any}, {"total": Any})
    assert (level.inputs, level.outputs) == ({"change": int}, {"level": int, "level.high": str})
    assert condition(bool, name="there").outputs == {}


def _added(state: int, change: int) -> int:
    return state + change


def _told(state: int) -> str:
    return str(state)
