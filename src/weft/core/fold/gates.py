"""
Gates: facts wait until the conditions of a gate have been evaluated, one after the other.

A condition is evaluated once on the same facts, however many gates need it, even if it is also part of the flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from weft.core.compose.questions import next_question
from weft.core.fold import settling
from weft.core.fold.scope import Activation, Ending, Order, Scope
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import FunctionNode, GateNode
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.delivery import Delivery


class GateState(msgspec.Struct, eq=False):
    """Facts that wait at a gate for its conditions."""

    gate: GateNode
    facts: tuple[Cell, ...]
    inputs: tuple[Address, ...]
    scope: Scope
    order: Order
    at: int | bool
    """The index of the current question, or the result of the expression."""
    known: dict[str | int, bool]
    """The answers of conditions so far, and what parts of the expression come to."""
    inside: list[int] = []
    """The questions about parts of the expression that are being asked."""


def decide(memory: Delivery, state: GateState) -> None:
    """Let the facts through, drop them, or ask the next condition."""
    gate, known = state.gate, state.known
    while not isinstance(at := next_question(gate.questions, known, state.at, state.inside), bool):
        state.at, name = at, gate.questions[at][0]
        answer = _ask(memory, gate.tests[name], state)
        if answer is None:
            return
        known[name] = answer
    state.at = at
    if at:
        memory.deliver(gate, state.facts, state.inputs, state.scope, state.order)
    if gate.settling is not None:
        settling.close(memory, gate, state.scope)


def abandon(memory: Delivery, state: GateState, ending: Ending) -> None:
    """A condition that the gate needs will never be evaluated."""
    if state.gate.settling is not None:
        state.scope.end(state.gate.name, ending)
        settling.close(memory, state.gate, state.scope)


def _ask(memory: Delivery, test: FunctionNode, state: GateState) -> bool | None:
    """Return the result of *test* for the facts; None if the gate has to wait, or there will be no result."""
    scope = state.scope
    key = (test.name, state.inputs)
    if scope.outcomes is not None and key in scope.outcomes:
        answer = scope.outcomes[key]
        if isinstance(answer, bool):
            return answer
        abandon(memory, state, answer)
        return None
    pending = memory.pending(key)
    if pending is None:
        memory.admit(Activation(test, key, state.facts, scope, state.order, flows=False, gates=[state]))
    elif pending.gates is None:
        pending.gates = [state]
    else:
        pending.gates.append(state)
    return None


def reach_shared_condition(
    memory: Delivery,
    node: FunctionNode,
    facts: tuple[Cell, ...],
    inputs: tuple[Address, ...],
    scope: Scope,
    order: Order,
) -> None:
    """Facts reach a condition that gates may already have evaluated on them."""
    key = (node.name, inputs)
    if scope.outcomes is not None and key in scope.outcomes:
        holds = scope.outcomes[key]
        if holds is True:
            memory.deliver(node, facts, inputs, scope, order)
        if node.settling is not None:
            if not isinstance(holds, bool):
                scope.end(node.name, holds)
            settling.close(memory, node, scope)
        return
    pending = memory.pending(key)
    if pending is None:
        memory.admit(Activation(node, key, facts, scope, order))
    else:
        pending.flows, pending.order = True, order
