"""
The turns of a loop.  The way back is not an edge of the graph: it follows from an event.

Of a chain of steps, the first node of a turn stays open, in the sense of settling, until its loop is over.  Of a graph,
every turn is a scope; what waits for the whole loop is held open by the test of a turn, which opens the next one before
it settles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.events import ErrorDetail, RunnableFailed
from weft.core.fold import error_routes, settling
from weft.core.fold.scope import NOTHING, Activation, Order, Scope
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import Node

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


def go_on(memory: Memory, activation: Activation, fact: Cell) -> None:
    """*activation*, of a node inside a turn, made *fact*: what follows it in the turn is next."""
    node = activation.node
    assert node.following is not None  # noqa: S101
    _activate(memory, activation, node.following, fact, activation.turn)
    if node.tracked and node is not node.again:
        settling.close(memory, node, activation.scope)


def decide_turn(memory: Memory, activation: Activation, *, holds: bool) -> None:
    """The test of a loop has said whether the loop is done: end it, turn again, or give up."""
    until, scope, [fact] = activation.node, activation.scope, activation.facts
    if until.reopens is not None:
        _decide_scope(memory, activation, until.reopens, holds=holds)
        return
    first = until.again
    assert first is not None  # noqa: S101
    is_over = holds or activation.turn >= until.at_most
    if not is_over:
        _activate(memory, activation, first, fact, activation.turn + 1)
    elif holds or until.gives_last:
        memory.deliver(until, activation.facts, activation.key[1], scope, activation.order)
    else:
        _exhaust(memory, activation)
    if until.tracked:
        settling.close(memory, until, scope)
        if is_over:
            settling.close(memory, first, scope)


def enter(memory: Memory, start: Node, fact: Cell, scope: Scope, order: Order) -> None:
    """*fact* reached a loop over a graph: begin its first turn."""
    _open(memory, start, fact, scope, 1, order)
    if start.tracked:
        settling.close(memory, start, scope)


def _open(
    memory: Memory,
    start: Node,
    fact: Cell,
    outer: Scope,
    turn: int,
    order: Order,
    earlier: dict[str, Cell] | None = None,
) -> None:
    for exit_ in start.opened:  # once for what it is the exit of, once for the turns that may follow
        outer.count(exit_.name, 2)
    plan, name = outer.plan, start.name
    scope = Scope(fact.address, turn, plan, plan.openings.get(name, NOTHING), outer, name, order)
    scope.earlier = earlier
    memory.begin(fact, scope)


def _decide_scope(memory: Memory, activation: Activation, start: Node, *, holds: bool) -> None:
    until, scope, [fact] = activation.node, activation.scope, activation.facts
    outer, turn, order = scope.outward(1), scope.index, scope.order
    if until.multi:  # a turn may end more than once, and goes on from each of its ends
        order = (*order, activation.order)
    if holds or (turn >= until.at_most and until.gives_last):
        memory.deliver(until, activation.facts, activation.key[1], outer, order)
    elif turn >= until.at_most:
        _exhaust(memory, activation)
    else:
        made = {name: cell for name, (_, cell) in (scope.made or {}).items()}
        earlier = {**(scope.earlier or {}), **made} or None
        _open(memory, start, fact, outer, turn + 1, order, earlier)
    if until.tracked:
        settling.close(memory, until, scope)


def _activate(memory: Memory, before: Activation, node: Node, fact: Cell, turn: int) -> None:
    if node.tracked and node is not node.again:
        before.scope.count(node.name, 1)
    key = (node.name, (fact.address,))
    memory.admit(Activation(node, key, (fact,), before.scope, before.order, turn=turn))


def _exhaust(memory: Memory, activation: Activation) -> None:
    """The loop has made all its turns and failed: derived like a failed batch, and handled by the same routes."""
    until, scope = activation.node, activation.scope
    error = ErrorDetail(
        "weft.errors.LoopExhausted",
        ("weft.errors.ExecutionError", "weft.errors.WeftError", "Exception", "BaseException"),
        f"{until.owner!r} made {until.at_most} turns and its until= never held; allow more with at_most=, or take the "
        "last value with otherwise='last'",
    )
    failed = RunnableFailed(len(memory.log) + 1, until.owner, activation.key[1], error, attempts=0)
    routes = error_routes.rescuers(until, error)
    if routes:
        value = memory.lineage.failure(failed).value
        fact = memory.lineage.without_event(value, until.owner, scope.address)
        error_routes.rescue(memory, routes, fact, scope, activation.order)
    else:
        memory.failures = {**(memory.failures or {}), until.owner: failed}
    if until.tracked:
        scope.end(until.name, "handled" if routes else "failed")
