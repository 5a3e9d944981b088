"""
How facts get from one node to the next.

A fact is *delivered* along the routes of its node.  A node that can run is *admitted* once the components it reads have
settled, and *offered* in ``ready``.  Gates, joins and batches, each in its own module, hold facts until they are
complete.
"""

from __future__ import annotations

from collections import deque

from weft.core.fold import batches, gates, joins, loops, ordering, settling
from weft.core.fold.memory_data import MemoryData
from weft.core.fold.reads import pin
from weft.core.fold.scope import ALONE, Activation, Key, Order, Scope, Waiting
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import CollectNode, FunctionNode, GateNode, JoinNode, LoopNode, Node, Target
from weft.typing import Address


class Delivery(MemoryData):
    """The data of a run, and how a fact makes nodes ready in it."""

    __slots__ = ()

    def begin(self, fact: Cell, scope: Scope) -> None:
        """Deliver *fact*, an input, an element or the fact of a turn, to the first nodes of its new *scope*."""
        entry = scope.plan.entries[scope.region]
        address = scope.address
        inputs = ALONE[address] if isinstance(address, int) and address < len(ALONE) else (address,)
        facts = (fact,)
        if entry.plain_targets:
            ready, newly_ready = self.ready, self.newly_ready
            for target in entry.plain_targets:
                key = (target.name, inputs)
                ready[key] = activation = Activation(target, key, facts, scope)
                newly_ready.append(activation)
            return
        self.deliver(entry, facts, inputs, scope, ())
        for node in scope.plan.released[scope.region]:
            settling.close(self, node, scope)

    def deliver(
        self, node: Node, facts: tuple[Cell, ...], inputs: tuple[Address, ...], scope: Scope, order: Order
    ) -> None:
        """Send *facts* along the routes of *node*."""
        if node.plain_targets:
            ready, newly_ready = self.ready, self.newly_ready
            for target in node.plain_targets:
                key = (target.name, inputs)
                ready[key] = activation = Activation(target, key, facts, scope, order)
                newly_ready.append(activation)
                if target.settling is not None:
                    scope.count(target.name, 1)
            return
        for to, port in node.routes:
            self.send(to, port, facts, inputs, scope, order)

    def send(
        self,
        target: Target,
        port: int,
        facts: tuple[Cell, ...],
        inputs: tuple[Address, ...],
        scope: Scope,
        order: Order,
    ) -> None:
        """Bring *facts* to *target*, by its inlet *port*."""
        if type(target) is JoinNode:
            joins.arrive(self, target, port, facts, scope, order)
        elif type(target) is CollectNode:
            place = ordering.place(facts, scope, order, target.arrival_orders[port])
            batches.gather((target, port), facts[0], scope, place)
        elif target.passes_on:
            self.accept(target, facts, inputs, scope, order)
        elif target.arrival_order is not None:  # in order of where the facts were made, not of the way that was quicker
            self.accept(target, facts, inputs, scope, ordering.place(facts, scope, order, target.arrival_order))
        elif target.has_one_inlet:
            self.accept(target, facts, inputs, scope, order)
        else:
            self.accept(target, facts, inputs, scope, (port, *order))

    def accept(
        self,
        node: FunctionNode | GateNode | LoopNode,
        facts: tuple[Cell, ...],
        inputs: tuple[Address, ...],
        scope: Scope,
        order: Order,
        *,
        gathers: bool = False,
    ) -> None:
        """Let *node* run, or decide, on *facts*."""
        if node.deduplicates:
            if scope.seen is None:
                scope.seen = set()
            if (node.name, inputs) in scope.seen:
                return
            scope.seen.add((node.name, inputs))
        if node.settling is not None:
            scope.count(node.name, 1)
        if type(node) is GateNode:
            gates.decide(self, gates.GateState(node, facts, inputs, scope, order, len(node.questions) - 1, {}))
        elif type(node) is LoopNode:
            loops.enter(self, node, facts[0], scope, order)
        elif node.shares_answers:
            gates.reach_shared_condition(self, node, facts, inputs, scope, order)
        else:
            self.admit(Activation(node, (node.name, inputs), facts, scope, order, gathers))

    def admit(self, activation: Activation) -> None:
        """Offer *activation*, as soon as everything that it reads has settled and its node is free."""
        node = activation.node
        if node.readings and self.undo is None:  # else nothing settles any more
            missing = 0
            for reading in node.readings:
                unit = reading.unit
                if unit is not None:
                    scope = activation.scope.outward(reading.levels)
                    if unit.name in scope.open:
                        if scope.waiters is None:
                            scope.waiters = {}
                        scope.waiters.setdefault(unit.name, []).append(activation.key)
                        missing += 1
            activation.missing = missing
            if missing:
                self.block(activation)
                return
        self.enqueue(activation)

    def enqueue(self, activation: Activation) -> None:
        """Offer *activation*, or queue it at a stateful node that is busy."""
        node = activation.node
        if node.stateful:
            if self.state_queues is None:
                self.state_queues = {}
            queue = self.state_queues.get(node.name)
            if queue is not None:
                queue.append(activation)
                self.block(activation)
                return
            self.state_queues[node.name] = deque()
        if node.wait is not None:
            self.keep_waiting(Waiting(activation))
            return
        if node.readings:
            activation.pins = tuple(pin(self, reading, activation.scope) for reading in node.readings)
        self.ready[activation.key] = activation
        self.newly_ready.append(activation)

    def unblock(self, key: Key) -> None:
        """One thing that the activation at *key* reads has settled."""
        assert self.blocked is not None  # noqa: S101
        activation = self.blocked[key]
        activation.missing -= 1
        if activation.missing == 0:
            del self.blocked[key]
            self.enqueue(activation)
