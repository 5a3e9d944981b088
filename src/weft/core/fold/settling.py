"""
Settling: a node has settled in a scope when it can produce nothing more there.

A tracked node is *open* in a scope while one of its sources is open or one of its activations is pending; one count
covers both.  When the count reaches zero, the node settles: a join or batch that waited for this fires, waiting readers
become ready, and the nodes that depend on it are counted down.  Every node settles once per scope and every edge is
counted once, so settling costs no more than the work it follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.fold import batches, joins
from weft.core.fold.scope import FIRED, Scope
from weft.core.plan.node import CollectNode, JoinNode, Node

if TYPE_CHECKING:
    from weft.core.fold.delivery import Delivery


def close(memory: Delivery, node: Node, scope: Scope) -> None:
    """One source or one activation of *node* in *scope* has ended: count down."""
    if scope.open[node.name] != 1 and scope.count(node.name, -1) != 0:
        return
    assert node.settling is not None  # noqa: S101
    exit_ = node.settling.lone_exit
    if exit_ is not None and scope.endings is None and scope.waiters is None and scope.parent is not None:
        scope.settle(node.name)  # the end of an element, by far the most common
        node, scope = exit_, scope.parent
        if scope.open[node.name] != 1 and scope.count(node.name, -1) != 0:
            return
    _settle(memory, node, scope)


def _settle(memory: Delivery, node: Node, scope: Scope) -> None:
    stack = [(node, scope)]
    while stack:
        node, scope = stack.pop()
        settling = node.settling
        assert settling is not None  # noqa: S101
        absorbed = _conclude(memory, node, scope)
        scope.settle(node.name)
        ending = None if absorbed or scope.endings is None else scope.endings.get(node.name)
        for dependent in settling.dependents:
            if ending is not None and dependent not in settling.unaffected:
                scope.end(dependent.name, ending)
            _count_down(stack, dependent, scope)
        if settling.exit is not None:
            outer = scope.outward(1)
            if ending == "failed" or (ending is not None and settling.held_exits):
                outer.end(settling.exit.name, ending)
            _count_down(stack, settling.exit, outer)
        for exit_ in settling.held_exits:
            _count_down(stack, exit_, scope.outward(1))
        if scope.waiters is not None:
            for key in scope.waiters.pop(node.name, ()):
                memory.unblock(key)


def _conclude(memory: Delivery, node: Node, scope: Scope) -> bool:
    """Let a join or a collect that has waited for this fire.  Return whether *node* accepts failures."""
    if type(node) is CollectNode:
        batches.conclude(memory, node, scope)
    elif type(node) is JoinNode:
        return joins.conclude(memory, node, scope) if node.fires_when_settled else scope.held(node.name) is FIRED
    return False


def _count_down(stack: list[tuple[Node, Scope]], node: Node, scope: Scope) -> None:
    if scope.open[node.name] == 1 or scope.count(node.name, -1) == 0:
        stack.append((node, scope))
