"""
Settling: a node can make nothing more in a scope.

A tracked node is *open* in a scope while a source of it is, or an activation of it is pending; both are one
count.  When the count reaches zero it settles: a join or batch that waited for this fires, readers are let
go, and what depends on it is counted down.  Every node settles once per scope and every edge is counted
once, so settling costs no more than the work it follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.fold import batches, joins
from weft.core.fold.scope import FIRED, Scope
from weft.core.plan.node import Node

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


def close(memory: Memory, node: Node, scope: Scope) -> None:
    """One source or one activation of *node* in *scope* is done with."""
    if scope.open[node.name] != 1 and scope.count(node.name, -1) != 0:
        return
    if node.lone and scope.endings is None and scope.waiters is None and scope.parent is not None:
        scope.settle(node.name)  # the end of an element, by far the most common
        node, scope = node.exits[0], scope.parent
        if scope.open[node.name] != 1 and scope.count(node.name, -1) != 0:
            return
    _settle(memory, node, scope)


def _settle(memory: Memory, node: Node, scope: Scope) -> None:
    stack = [(node, scope)]
    while stack:
        node, scope = stack.pop()
        absorbed = _conclude(memory, node, scope) if node.closes else scope.held(node.name) is FIRED
        scope.settle(node.name)
        ending = None if absorbed or scope.endings is None else scope.endings.get(node.name)
        for dependent in node.dependents:
            if ending is not None and dependent not in node.spared:
                scope.end(dependent.name, ending)
            _count_down(stack, dependent, scope)
        for exit_ in node.exits:
            outer = scope.outward(1)
            if ending == "failed" or (ending is not None and node.reopens is not None):
                outer.end(exit_.name, ending)
            _count_down(stack, exit_, outer)
        for exit_ in node.holds:
            _count_down(stack, exit_, scope.outward(1))
        if scope.waiters is not None:
            for key in scope.waiters.pop(node.name, ()):
                memory.unblock(key)


def _conclude(memory: Memory, node: Node, scope: Scope) -> bool:
    """Nothing more can reach *node*, a join or a collect.  Return whether it takes failures in."""
    if node.parents:
        return joins.conclude(memory, node, scope)
    batches.conclude(memory, node, scope)
    return False


def _count_down(stack: list[tuple[Node, Scope]], node: Node, scope: Scope) -> None:
    if scope.open[node.name] == 1 or scope.count(node.name, -1) == 0:
        stack.append((node, scope))
