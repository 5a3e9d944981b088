"""Nodes: complete when the plan is, the same after any number of runs, and gone when the plan is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from weft import Aggregate, Workflow, accumulator, condition, each, reduce, repeat, rule, state_of, step
from weft.core.plan.node import EntryNode, FunctionNode, Kind, Node, successors


def add(left: int, right: int) -> int:
    return left + right


def sum_of(left: int, right: int, base: int = state_of("total")) -> int:
    return left + right + base


def every_kind() -> Workflow:
    """Return a workflow whose plan has a node of every kind."""
    ledger = Aggregate("ledger", init=0)
    ledger.command("pay")(lambda state, command: ("paid", 1))
    ledger.event("paid")(add)
    is_small = condition(lambda x: x < 9, name="is_small")
    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    first, second = step(lambda x: x + 1, name="first"), step(lambda x: x + 2, name="second")
    flow = (
        [first, second]
        >> step(add, name="both")
        >> repeat(step(lambda x: x + 1, name="up"), until=lambda x: x > 5, at_most=9, name="climb")
        >> rule(when=is_small & is_even, then=lambda x: [x, x + 1], name="pair")
        >> each(step(lambda x: x * 2, name="double"))
        >> reduce(add, init=0, name="sum")
        >> accumulator(add, init=0, name="total")
    )
    again = step(lambda x: x, name="begin") >> repeat(
        [step(lambda x: x, name="left"), step(lambda x: 1, name="right")] >> step(add, name="meet"),
        until=lambda x: x > 4,
        at_most=9,
        name="turns",
    )
    reads = [first, second] >> step(sum_of, name="reads")
    orders = step(lambda x: {"command": "pay"}, name="order") >> ledger
    return Workflow("w", is_small, is_even, flow, again, reads, orders)


def contents(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node and of its records, with the objects that they hold."""
    for field in fields(thing):
        value = getattr(thing, field.name)
        yield field.name, value
        if is_dataclass(value) and not isinstance(value, Node | type) and type(value).__module__ == Node.__module__:
            yield from contents(value)


def test_a_plan_can_have_nodes_of_every_kind_and_all_their_fields_are_filled() -> None:
    plan = every_kind().compiled
    nodes = [*plan.nodes.values(), *plan.entries.values()]

    assert {node.kind for node in nodes} == {*Kind}
    assert all(list(contents(node)) for node in nodes)


def test_runs_change_no_node() -> None:
    workflow = every_kind()
    plan = workflow.compiled
    nodes = [*plan.nodes.values(), *plan.entries.values()]
    before = [(node, list(contents(node))) for node in nodes]

    workflow.run(1).run(2)

    for node, known in before:
        assert [(name, id(value)) for name, value in contents(node)] == [(name, id(value)) for name, value in known]


def test_only_nodes_that_run_a_function_share_a_class() -> None:
    plan = every_kind().compiled
    by_class: dict[type[Node], set[Kind]] = {}
    for node in [*plan.nodes.values(), *plan.entries.values()]:
        by_class.setdefault(type(node), set()).add(node.kind)

    assert by_class.pop(FunctionNode) == {Kind.WORK, Kind.TEST, Kind.FAN, Kind.STATE}
    assert all(len(kinds) == 1 for kinds in by_class.values())
    assert EntryNode in by_class


def test_the_facts_of_a_state_go_on_by_what_emits_them() -> None:
    nodes = every_kind().compiled.nodes

    assert [node.kind for node in successors(nodes["ledger"])] == [Kind.EMIT]
    assert [node.name for node in successors(nodes["double"])] == ["\0batch of sum"]


def test_the_nodes_of_a_plan_that_nothing_holds_are_freed() -> None:
    workflow = Workflow(
        "w", step(len, name="\u2042") >> each(step(abs, name="inner")) >> reduce(add, init=0, name="sum")
    )
    plan = workflow.compiled
    assert "\u2042" in plan.nodes

    del workflow, plan
    gc.collect()

    assert not [thing for thing in gc.get_objects() if isinstance(thing, Node) and thing.name == "\u2042"]
