"""
The turns of a loop.  The way back is not an edge of the graph: it follows from an event.

In a loop over a chain of steps, the first node of a turn stays open, in the sense of settling, until the loop is over.
In a loop over a graph, every turn is a scope; nodes that wait for the whole loop are kept open by the test of a turn,
which opens the next turn before it settles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.events import ErrorDetail, RunnableFailed
from weft.core.fold import error_routes, settling
from weft.core.fold.scope import NOTHING, Activation, Order, Scope
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import FunctionNode, LoopNode, LoopTest

if TYPE_CHECKING:
    from weft.core.fold.delivery import Delivery


def go_on(memory: Delivery, activation: Activation, fact: Cell) -> None:
    """*activation*, of a node inside a turn, has produced *fact*: activate the next node of the turn."""
    node, turn = activation.node, activation.node.turn
    assert turn is not None  # noqa: S101
    assert turn.following is not None  # noqa: S101
    _activate(memory, activation, turn.following, fact, activation.turn)
    if node.settling is not None and node is not turn.first:
        settling.close(memory, node, activation.scope)


def decide_turn(memory: Delivery, activation: Activation, test: LoopTest, *, holds: bool) -> None:
    """The test of a loop was evaluated: end the loop, begin the next turn, or fail because there are no more."""
    until, scope, [fact] = activation.node, activation.scope, activation.facts
    if test.opening is not None:
        _decide_scope(memory, activation, test, test.opening, holds=holds)
        return
    assert until.turn is not None  # noqa: S101
    first = until.turn.first
    is_over = holds or activation.turn >= test.at_most
    if not is_over:
        _activate(memory, activation, first, fact, activation.turn + 1)
    elif holds or test.gives_last:
        memory.deliver(until, activation.facts, activation.key[1], scope, activation.order)
    else:
        _exhaust(memory, activation, test)
    if until.settling is not None:
        settling.close(memory, until, scope)
        if is_over:
            settling.close(memory, first, scope)


def enter(memory: Delivery, start: LoopNode, fact: Cell, scope: Scope, order: Order) -> None:
    """*fact* reached a loop over a graph: begin its first turn."""
    _open(memory, start, fact, scope, 1, order)
    if start.settling is not None:
        settling.close(memory, start, scope)


def _open(
    memory: Delivery,
    start: LoopNode,
    fact: Cell,
    outer: Scope,
    turn: int,
    order: Order,
    earlier: dict[str, Cell] | None = None,
) -> None:
    for exit_ in start.exits:  # once for what it is the exit of, once for the turns that may follow
        outer.count(exit_.name, 2)
    plan, name = outer.plan, start.name
    scope = Scope(fact.address, turn, plan, plan.openings.get(name, NOTHING), outer, name, order)
    scope.earlier = earlier
    memory.begin(fact, scope)


def _decide_scope(memory: Delivery, activation: Activation, test: LoopTest, start: LoopNode, *, holds: bool) -> None:
    until, scope, [fact] = activation.node, activation.scope, activation.facts
    outer, turn, order = scope.outward(1), scope.index, scope.order
    if test.may_repeat:  # a turn may end more than once, and goes on from each of its ends
        order = (*order, activation.order)
    if holds or (turn >= test.at_most and test.gives_last):
        memory.deliver(until, activation.facts, activation.key[1], outer, order)
    elif turn >= test.at_most:
        _exhaust(memory, activation, test)
    else:
        made = {name: cell for name, (_, cell) in (scope.made or {}).items()}
        earlier = {**(scope.earlier or {}), **made} or None
        _open(memory, start, fact, outer, turn + 1, order, earlier)
    if until.settling is not None:
        settling.close(memory, until, scope)


def _activate(memory: Delivery, before: Activation, node: FunctionNode, fact: Cell, turn: int) -> None:
    assert node.turn is not None  # noqa: S101
    if node.settling is not None and node is not node.turn.first:
        before.scope.count(node.name, 1)
    key = (node.name, (fact.address,))
    memory.admit(Activation(node, key, (fact,), before.scope, before.order, turn=turn))


def _exhaust(memory: Delivery, activation: Activation, test: LoopTest) -> None:
    """The loop has used all its turns and failed; the failure is derived, and routed, like that of a batch."""
    until, scope = activation.node, activation.scope
    error = ErrorDetail(
        "weft.errors.LoopExhausted",
        ("weft.errors.ExecutionError", "weft.errors.WeftError", "Exception", "BaseException"),
        f"{until.owner!r} made {test.at_most} turns and its until= never held; allow more with at_most=, or take the "
        "last value with otherwise='last'",
    )
    failed = RunnableFailed(len(memory.log) + 1, until.owner, activation.key[1], error, attempts=0)
    routes = error_routes.rescuers(until, error)
    if routes:
        value = memory.lineage.failure(failed).value
        fact = memory.lineage.without_event(value, until.owner, scope.address)
        error_routes.rescue(memory, routes, fact, scope, activation.order)
    else:
        memory.fail(failed)
    if until.settling is not None:
        scope.end(until.name, "handled" if routes else "failed")
