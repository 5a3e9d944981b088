"""
How a loop turns.  Part of the fold: the way back is no edge of the graph, but what follows from an event.

The first node of a turn stays open, in the sense of settling, until its loop is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core import meeting, settling
from weft.core.events import ErrorDetail, RunnableFailed
from weft.core.lineage import Cell
from weft.core.node import Node
from weft.core.scope import Activation

if TYPE_CHECKING:
    from weft.core.memory import Memory


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
    routes = meeting.rescuers(until, error)
    if routes:
        value = memory.lineage.failure(failed).value
        fact = meeting.without_event(memory, value, until.owner, scope)
        meeting.rescue(memory, routes, fact, scope, activation.order)
    else:
        memory.failures = {**(memory.failures or {}), until.owner: failed}
    if until.tracked:
        scope.end(until.name, "handled" if routes else "failed")
