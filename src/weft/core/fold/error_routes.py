"""
Error routes, which carry the failure of a node to its handlers, and the way a saga passes on its history.

A failure takes the routes that name the nearest class of its exception; a route inside a loop takes precedence over one
around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from weft.core.components.join import Absent
from weft.core.events import ErrorDetail
from weft.core.failure import distance
from weft.core.fold.scope import Activation, Order, Scope
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import CollectNode, FunctionNode, Route

if TYPE_CHECKING:
    from weft.core.fold.delivery import Delivery
    from weft.core.fold.memory import Memory


def rescuers(node: FunctionNode, error: ErrorDetail) -> list[Route]:
    """Return the handlers of *error* of *node*: those whose routes name the nearest class, inner ones first."""
    near = [(distance(names, error), target, port) for names, target, port in node.error_routes]
    own = [route for route in near if route[0] is not None and route[1].region == node.region]
    near = own or near
    best = min((steps for steps, _, _ in near if steps is not None), default=None)
    return [] if best is None else [(target, port) for steps, target, port in near if steps == best]


def rescue(memory: Delivery, routes: list[Route], fact: Cell, scope: Scope, order: Order) -> None:
    """Deliver the failure *fact* to its handlers, even outside the loop in which it happened."""
    for target, port in routes:
        where, place = scope, order
        closes_region = isinstance(target, CollectNode) and target.closes_region
        while where.region != target.region and not (closes_region and where.outward(1).region == target.region):
            where, place = where.outward(1), where.order
        memory.send(target, port, (fact,), (fact.address,), where, place)


def carry(memory: Memory, routes: Iterable[Route], fact: Cell, activation: Activation) -> None:
    """Pass on the inputs of *activation* together with *fact*."""
    facts, inputs = (*activation.facts, fact), (*activation.key[1], fact.address)
    for target, _ in routes:
        memory.accept(cast("FunctionNode", target), facts, inputs, activation.scope, activation.order)
    memory.release(activation)


def carry_nothing(memory: Memory, activation: Activation) -> None:
    """Pass on the inputs of *activation*, which was skipped, with a placeholder for its fact."""
    carry(memory, activation.node.routes, nothing_of(memory, activation), activation)


def nothing_of(memory: Memory, activation: Activation) -> Cell:
    """Return a placeholder for the fact of *activation*, which was skipped."""
    name = activation.node.name
    return memory.lineage.without_event(Absent(name, "skipped"), name, activation.scope.address)
