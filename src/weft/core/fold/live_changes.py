"""
Live changes: components that are added to a run, or removed, while it runs.

Later inputs follow the new plan.  Later facts of inputs in flight also reach the added components; but new joins and
batches do not fire for these inputs, since they have not seen all facts.  A removed component still takes part in
inputs in flight, which finish as they began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from weft.core.events import PRODUCTIONS, Production, StateChanged
from weft.core.fold.scope import BARRED, Activation, Scope
from weft.core.graph.topology import topological
from weft.core.lineage.lineage import emission
from weft.core.plan.node import CollectNode, ExitNode, FunctionNode, GateNode, JoinNode, Node, Settling
from weft.core.plan.plan import Plan

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


def look_up(memory: Memory, old: Plan) -> None:
    """Find in the log the facts of components that the fold did not have to keep before."""
    new: dict[str, Node] = {}
    for name, node in memory.plan.nodes.items():
        before = old.nodes.get(name)
        known = None if before is None else before.kept
        if node.kept is not None and (known is None or (node.kept.by_place and not known.by_place)):
            new[name] = node
            memory.produced.pop(name, None)
            if memory.partitions is not None:
                memory.partitions.pop(name, None)
            if memory.keyed is not None:
                memory.keyed.pop(name, None)
    for event in memory.lineage.standing() if new else ():
        if isinstance(event, StateChanged):
            _look_up_turn(memory, event, new)
        elif isinstance(event, PRODUCTIONS) and event.component in new:
            _keep_fact(memory, event, new[event.component])


def _keep_fact(memory: Memory, event: Production, node: Node) -> None:
    """Keep the fact of *event* for readers of *node*."""
    memory.produced.setdefault(event.component, []).append(event)
    if node.kept is not None and node.kept.by_place:
        memory.keyed = memory.keyed or {}
        memory.keyed.setdefault(event.component, []).append((0, (event.seq,)))


def keep_facts(memory: Memory, event: Production | StateChanged, made_by: Node, plan: Plan) -> None:
    """Keep what *event* brought for readers in *plan*, unless *made_by*, a node of another plan, has kept it."""
    node = plan.nodes.get(event.component)
    if node is None:
        return
    if isinstance(event, PRODUCTIONS):
        if node.kept is not None and made_by.kept is None:
            _keep_fact(memory, event, node)
        return
    emits = node.state.emits if isinstance(node, FunctionNode) and node.state is not None else None
    was = made_by.state.emits if isinstance(made_by, FunctionNode) and made_by.state is not None else None
    if emits is not None and emits.kept is not None and (was is None or was.kept is None):
        emitted = memory.produced.setdefault(emits.name, [])
        emitted.extend(emission(event, index) for index in range(len(event.emitted)))


def _look_up_turn(memory: Memory, event: StateChanged, new: Mapping[str, Node]) -> None:
    node = memory.plan.nodes.get(event.component)
    if not isinstance(node, FunctionNode) or node.state is None or node.state.emits is None:
        return
    emits = node.state.emits
    if node.name in new:
        memory.keep_state(node, event)
    if emits.name in new:
        emitted = memory.produced.setdefault(emits.name, [])
        emitted.extend(emission(event, index) for index in range(len(event.emitted)))


def replan(memory: Memory, old: Plan) -> None:
    """Move the inputs in flight from the plan *old* to the new one, which has more components."""
    pending = [*memory.open_all().values(), *(memory.blocked or {}).values()]
    pending += [waiting.activation for waiting in (memory.waiting or {}).values()]
    pending += [letter.activation for letter in (memory.letters or {}).values()]
    moving = [activation for activation in pending if activation.scope.plan is old]
    scopes = list({id(scope): scope for activation in moving for scope in activation.scope.around()}.values())
    for activation in moving:
        activation.node = cast("FunctionNode", memory.plan.nodes[activation.node.name])
        for state in activation.gates or ():
            state.gate = cast("GateNode", memory.plan.nodes[state.gate.name])
    blocked = list((memory.blocked or {}).values())
    memory.blocked = None
    _reopen(memory.plan, old, scopes, moving)
    waiting = {id(activation) for queue in (memory.state_queues or {}).values() for activation in queue}
    for activation in blocked:
        if id(activation) in waiting:
            memory.block(activation)
        elif activation.scope.plan is memory.plan:
            memory.admit(activation)
        else:
            memory.block(activation)


def _reopen(plan: Plan, old: Plan, scopes: list[Scope], moving: list[Activation]) -> None:
    """Count the open nodes of every one of *scopes* again, under the new *plan*."""
    pending: dict[tuple[int, str], int] = {}
    for activation in moving:
        asking: list[Node] = [state.gate for state in activation.gates or ()]
        turn = activation.node.turn
        if turn is not None and turn.first is not activation.node:  # which stays open for as long as the loop runs
            asking.append(turn.first)
        for node in [activation.node, *asking] if activation.flows else asking:
            key = (id(activation.scope), node.name)
            pending[key] = pending.get(key, 0) + 1
    inside: dict[int, list[Scope]] = {}
    for scope in scopes:
        inside.setdefault(id(scope.parent), []).append(scope)
    tracked: dict[str | None, list[tuple[Node, Settling]]] = {}
    for node, settling in _tracked(plan):
        tracked.setdefault(node.region, []).append((node, settling))
    for scope in sorted(scopes, key=lambda scope: sum(1 for _ in scope.around()), reverse=True):
        scope.plan, scope.open, scope.borrows, scope.waiters = plan, {}, False, None
        for node, settling in tracked.get(scope.region, ()):
            if isinstance(node, JoinNode | CollectNode) and node.name not in old.nodes:
                scope.hold(node.name, BARRED)
            count = pending.get((id(scope), node.name), 0)
            if isinstance(node, ExitNode):
                fan, *inner = settling.upstream
                count += fan.name in scope.open
                count += sum(each.name in element.open for element in inside.get(id(scope), ()) for each in inner)
            else:
                count += sum(1 for source in settling.upstream if source.name in scope.open)
            if count:
                scope.open[node.name] = count


def _tracked(plan: Plan) -> list[tuple[Node, Settling]]:
    """Return the tracked nodes of *plan*, each after the nodes that must settle before it."""
    tracked = {node: node.settling for node in plan.nodes.values() if node.settling is not None}
    edges: dict[Node, list[Node]] = {
        node: [*settling.dependents, *([] if settling.exit is None else [settling.exit])]
        for node, settling in tracked.items()
    }
    return [(node, tracked[node]) for node in topological(edges) or []]
