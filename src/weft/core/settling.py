"""
When a node can make nothing more in a scope.

A tracked node is *open* in a scope while a source of it is, or an activation of it is pending; both are one
count.  When the count reaches zero it settles: a join or batch that waited for this fires, readers are let
go, and what depends on it is counted down.  Every node settles once per scope and every edge is counted
once, so settling costs no more than the work it follows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from weft.core import meeting
from weft.core.events import ReactionOccurred
from weft.core.graph import topological
from weft.core.node import Kind, Node
from weft.core.plan import Plan
from weft.core.scope import BARRED, FIRED, Activation, Scope

if TYPE_CHECKING:
    from weft.core.memory import Memory


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
        absorbed = meeting.conclude(memory, node, scope) if node.closes else scope.held(node.name) is FIRED
        scope.settle(node.name)
        ending = None if absorbed or scope.endings is None else scope.endings.get(node.name)
        for dependent in node.dependents:
            if ending is not None:
                scope.end(dependent.name, ending)
            _count_down(stack, dependent, scope)
        for exit_ in node.exits:
            outer = scope.outward(1)
            if ending == "failed":
                outer.end(exit_.name, ending)
            _count_down(stack, exit_, outer)
        if scope.waiters is not None:
            for activation in scope.waiters.pop(node.name, ()):
                memory.unblock(activation)


def _count_down(stack: list[tuple[Node, Scope]], node: Node, scope: Scope) -> None:
    if scope.open[node.name] == 1 or scope.count(node.name, -1) == 0:
        stack.append((node, scope))


# -- a definition that changes under a run -------------------------------------------------------


def replan(memory: Memory, old: Plan) -> None:
    """
    Go on with the new plan of *memory*, where *old* was in force.

    Facts that come from now on follow the new plan.  What is pending at a component that is gone is
    dropped.  Joins and batches that are new do not fire for inputs that were already under way, since they
    have not seen everything of them.
    """
    pending = [*memory.ready.values(), *(memory.blocked or {}).values()]
    kept = [activation for activation in pending if _move(activation, memory.plan)]
    ready = memory.ready
    memory.ready = {activation.key: activation for activation in kept if activation.key in ready}
    memory.dropped = (memory.dropped or set()) | {a.key for a in pending} - {a.key for a in kept}
    memory.blocked = None
    memory.lines = None
    memory.fresh = [a for a in memory.fresh if a.key in memory.ready]
    if memory.dispatched:
        memory.dispatched = {k: n for k, n in memory.dispatched.items() if k in memory.ready}
    _look_up(memory, old)
    scopes = {id(scope): scope for activation in pending for scope in activation.scope.around()}
    _reopen(memory, old, list(scopes.values()), kept)
    for activation in kept:
        if activation.key not in memory.ready:
            memory.admit(activation)
        elif activation.node.stateful:
            _occupy(memory, activation.node)


def _look_up(memory: Memory, old: Plan) -> None:
    """Find in the log what components have made that nobody read before."""
    new = {
        n.name for n in memory.plan.nodes.values() if n.keeps and not (n.name in old.nodes and old.nodes[n.name].keeps)
    }
    for name in new:
        memory.produced.pop(name, None)
        if memory.keyed is not None:
            memory.keyed.pop(name, None)
    for event in memory.log if new else ():
        if isinstance(event, ReactionOccurred) and event.component in new:
            memory.produced.setdefault(event.component, []).append(event)
            if memory.plan.nodes[event.component].keyed:
                memory.keyed = memory.keyed or {}
                memory.keyed.setdefault(event.component, []).append((0, (event.seq,)))


def _occupy(memory: Memory, node: Node) -> None:
    if memory.lines is None:
        memory.lines = {}
    memory.lines.setdefault(node.name, deque())


def _move(activation: Activation, plan: Plan) -> bool:
    """Point *activation* to its node in *plan*; return whether it has one."""
    node = plan.nodes.get(activation.node.name)
    if node is None or node.kind is not activation.node.kind or node.region != activation.scope.region:
        return False
    activation.node = node
    activation.asked = [asked for asked in activation.asked or () if asked.gate.name in plan.nodes]
    for asked in activation.asked:
        asked.gate = plan.nodes[asked.gate.name]
    return activation.flows or bool(activation.asked)


def _reopen(memory: Memory, old: Plan, scopes: list[Scope], kept: list[Activation]) -> None:
    """Count again, in every live scope, what is open under the new plan; settle what no longer is."""
    plan = memory.plan
    pending: dict[tuple[int, str], int] = {}
    for activation in kept:
        waiting = [asked.gate for asked in activation.asked or ()]
        for node in [activation.node, *waiting] if activation.flows else waiting:
            key = (id(activation.scope), node.name)
            pending[key] = pending.get(key, 0) + 1
    tracked = [node for node in plan.nodes.values() if node.tracked]
    order = topological({node: [d for d in (*node.dependents, *node.exits) if d.tracked] for node in tracked}) or []
    ended: list[tuple[Node, Scope]] = []
    for scope in sorted(scopes, key=lambda scope: sum(1 for _ in scope.around()), reverse=True):
        was, scope.open, scope.borrows, scope.waiters = scope.open, {}, False, None
        for node in order:
            if node.region != scope.region:
                continue
            if node.kind in (Kind.JOIN, Kind.COLLECT) and node.name not in old.nodes:
                scope.hold(node.name, BARRED)
            count = pending.get((id(scope), node.name), 0)
            if node.kind is Kind.EXIT:
                fan, inner = node.upstream
                count += fan.name in scope.open
                count += sum(1 for s in scopes if s.parent is scope and inner.name in s.open)
            else:
                count += sum(1 for source in node.upstream if source.name in scope.open)
            if count == 0 and node.name in was:
                ended.append((node, scope))
                count = 1
            if count:
                scope.open[node.name] = count
    for node, scope in ended:
        close(memory, node, scope)
