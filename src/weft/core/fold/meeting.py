"""
Where facts wait for each other: gates, joins and batches.  All of it is part of the fold.

A gate holds facts until the conditions it asks have answered.  A join holds facts of one scope until it has
what it waits for.  A batch holds what came of the elements of a collection until nothing more can come.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from weft.core.components.join import Absent
from weft.core.compose.questions import next_question
from weft.core.events import ErrorDetail, InputReceived, RunnableFailed
from weft.core.failure import Failure, distance
from weft.core.fold.batch import Batch
from weft.core.fold.scope import BARRED, FIRED, Activation, Asked, Ending, Meeting, Order, Scope
from weft.core.lineage.lineage import Cell, Element, Failed
from weft.core.plan.arrival_order import Ways, failing, missing
from weft.core.plan.node import Node
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


# -- failures ------------------------------------------------------------------------------------


def rescuers(node: Node, error: ErrorDetail) -> list[tuple[Node, int]]:
    """Return where *error*, with which *node* failed, goes: by the routes that name the nearest class, inner first."""
    near = [(distance(names, error), target, port) for names, target, port in node.rescues]
    own = [route for route in near if route[0] is not None and route[1].region == node.region]
    near = own or near
    best = min((steps for steps, _, _ in near if steps is not None), default=None)
    return [] if best is None else [(target, port) for steps, target, port in near if steps == best]


def rescue(memory: Memory, routes: list[tuple[Node, int]], fact: Cell, scope: Scope, order: Order) -> None:
    """Bring the failure *fact* to those who handle it, also outside of the loop that it happened in."""
    for target, port in routes:
        where, place = scope, order
        while where.region != target.region and not (target.is_inner and where.outward(1).region == target.region):
            where, place = where.outward(1), where.order
        memory.send(target, port, (fact,), (fact.address,), where, place)


def carry(memory: Memory, routes: Iterable[tuple[Node, int]], fact: Cell, activation: Activation) -> None:
    """Hand on everything that *activation* was given, together with *fact*."""
    facts, inputs = (*activation.facts, fact), (*activation.key[1], fact.address)
    for target, _ in routes:
        memory.accept(target, facts, inputs, activation.scope, activation.order)
    memory.release(activation)


def carry_nothing(memory: Memory, activation: Activation) -> None:
    """Hand on everything that *activation*, which was skipped, was given, with what stands for its fact."""
    node = activation.node
    nothing = without_event(memory, Absent(node.name, "skipped"), node.name, activation.scope)
    carry(memory, node.routes, nothing, activation)


# -- gates ---------------------------------------------------------------------------------------


def decide_gate(memory: Memory, asked: Asked) -> None:
    """Let the facts through, drop them, or ask the next condition."""
    gate, known = asked.gate, asked.known
    while not isinstance(at := next_question(gate.questions, known, asked.at, asked.inside), bool):
        asked.at, name = at, gate.questions[at][0]
        answer = _ask(memory, gate.tests[name], asked)
        if answer is None:
            return
        known[name] = answer
    asked.at = at
    if at:
        memory.deliver(gate, asked.facts, asked.inputs, asked.scope, asked.order)
    if gate.tracked:
        memory.close(gate, asked.scope)


def abandon(memory: Memory, asked: Asked, ending: Ending) -> None:
    """A condition that the gate needs will never answer."""
    if asked.gate.tracked:
        asked.scope.end(asked.gate.name, ending)
        memory.close(asked.gate, asked.scope)


def _ask(memory: Memory, test: Node, asked: Asked) -> bool | None:
    """Return what *test* says of the facts; None if the gate has to wait, or will never hear."""
    scope = asked.scope
    key = (test.name, asked.inputs)
    if scope.outcomes is not None and key in scope.outcomes:
        answer = scope.outcomes[key]
        if isinstance(answer, bool):
            return answer
        abandon(memory, asked, answer)
        return None
    pending = memory.pending(key)
    if pending is None:
        memory.admit(Activation(test, key, asked.facts, scope, asked.order, flows=False, asked=[asked]))
    elif pending.asked is None:
        pending.asked = [asked]
    else:
        pending.asked.append(asked)
    return None


def test_shared(
    memory: Memory,
    node: Node,
    facts: tuple[Cell, ...],
    inputs: tuple[Address, ...],
    scope: Scope,
    order: Order,
) -> None:
    """Facts reach a condition that gates may have asked about them already."""
    key = (node.name, inputs)
    if scope.outcomes is not None and key in scope.outcomes:
        holds = scope.outcomes[key]
        if holds is True:
            memory.deliver(node, facts, inputs, scope, order)
        if node.tracked:
            if not isinstance(holds, bool):
                scope.end(node.name, holds)
            memory.close(node, scope)
        return
    pending = memory.pending(key)
    if pending is None:
        memory.admit(Activation(node, key, facts, scope, order))
    else:
        pending.flows, pending.order = True, order


def place(facts: tuple[Cell, ...], scope: Scope, order: Order, ways: Ways | None) -> Order:
    """
    Return where *facts* stand among others that reach the same node in *scope*.

    First by the first of the *ways* by which they could come, then by *order*.  All of it follows from the facts
    alone: it does not matter which way they came, nor who was quicker.
    """
    if ways is None:
        return order
    begins, region = scope.address, scope.region
    rank = ways.rank(tuple([region if region and fact.address == begins else maker_of(fact) for fact in facts]))
    assert rank is not None, f"{facts} came by a way that is not in the plan"  # noqa: S101
    return rank + order


def maker_of(fact: Cell) -> str:
    """Return who made *fact*, as ways know it."""
    if isinstance(fact, Element):
        if isinstance(fact.address, tuple):
            return fact.producer
        return failing(fact.producer) if isinstance(fact.value, Failure) else missing(fact.producer)
    if isinstance(fact, Failed):
        return failing(fact.component)
    return "" if isinstance(fact, InputReceived) else fact.component


# -- joins ---------------------------------------------------------------------------------------


def arrive(memory: Memory, join: Node, port: int, facts: tuple[Cell, ...], scope: Scope, order: Order) -> None:
    """Facts of the parent at *port* reach *join*, which fires if it has what it waits for."""
    held: Any = scope.held(join.name)
    if held is FIRED or held is BARRED:
        return
    if held is None:
        held = Meeting([[] for _ in join.parents])
        scope.hold(join.name, held)
    group = held.groups[port]
    group.append((place(facts, scope, order, join.handed[port]) if join.closes else order, facts))
    if join.closes or len(group) > 1:
        return
    held.present += 1
    if held.present == join.needed:
        scope.hold(join.name, FIRED)
        present = (group[0][1] for group in held.groups if group)
        _fire(memory, join, tuple(chain.from_iterable(present)), scope, ())


def _fire(memory: Memory, join: Node, facts: tuple[Cell, ...], scope: Scope, order: Order) -> None:
    memory.deliver(join, facts, tuple(fact.address for fact in facts), scope, order)


def conclude(memory: Memory, node: Node, scope: Scope) -> bool:
    """Nothing more can reach *node*: fire what is complete.  Return whether it takes failures in."""
    held: Any = scope.held(node.name)
    if held is BARRED:
        return False
    if held is not None:
        scope.hold(node.name, FIRED)
    if not node.parents:
        if held is not None:
            _conclude_batch(memory, node, scope, held)
        return False
    groups: list[list[tuple[Order, tuple[Cell, ...]]]] = held.groups if held else [[] for _ in node.parents]
    for group in groups:
        group.sort(key=_order)
    if node.wait == "all":
        for number, row in enumerate(zip(*groups, strict=False)):
            facts = tuple(chain.from_iterable(facts for _, facts in row))
            _fire(memory, node, facts, scope, (number,))
        return False
    rows = list(zip_longest(*groups)) or [(None,) * len(groups)]
    for number, row in enumerate(rows):
        facts = tuple(
            cell[1][0] if cell else _absent(memory, parent, scope)
            for parent, cell in zip(node.parents, row, strict=True)
        )
        _fire(memory, node, facts, scope, (number,) if len(rows) > 1 else ())
    return True


def _absent(memory: Memory, parent: str, scope: Scope) -> Element:
    """
    Return what stands for the fact that *parent* did not make in *scope*: one for all joins that wait for it.

    There is no event of it, so its address is negative.
    """
    known: Element | None = scope.held(missing(parent))
    if known is not None:
        return known
    ending = (scope.endings or {}).get(parent)
    reason: Literal["failed", "skipped", "gated"] = "gated"
    if ending is not None:
        reason = "skipped" if ending == "skipped" else "failed"
    absent = without_event(memory, Absent(parent, reason), parent, scope)
    scope.hold(missing(parent), absent)
    return absent


def without_event(memory: Memory, value: Any, producer: str, scope: Scope) -> Element:
    """Return a fact that follows from others and was not recorded by itself."""
    if memory.lineage.absent is None:
        memory.lineage.absent = []
    absent = memory.lineage.absent
    absent.append(Element(-len(absent) - 1, value, producer, scope.address))
    return absent[-1]


def _order(arrival: tuple[Order, Any]) -> Order:
    return arrival[0]


# -- batches -------------------------------------------------------------------------------------


def batch_of(collect: Node, scope: Scope) -> Batch:
    """Return what *collect* holds in *scope*."""
    batch: Any = scope.held(collect.name)
    if batch is None:
        batch = Batch()
        scope.hold(collect.name, batch)
    return Batch() if batch is BARRED else batch


def gather(route: tuple[Node, int], fact: Cell, scope: Scope, order: Order) -> None:
    """Keep *fact*, of an element or a collection, for the batch at the end of *route*."""
    collect, port = route
    if collect.is_inner:
        outer: Any = scope.parent
        batch = outer.slots[collect.name]  # which the fan has put there
        if batch is BARRED:
            return
        last = batch.last
        if last is None or last.fan is not scope.order or last.order != order or last.port != port:
            batch.add(port, scope, order, fact)
        elif len(last.facts) == scope.index:  # elements mostly end in their order
            last.facts.append(fact)
        elif not last.put(scope.index, fact):
            batch.add(port, scope, order, fact)
    else:
        batch = batch_of(collect, scope)
        batch.facts.append(fact)
        batch.places.append((port, order))


def _conclude_batch(memory: Memory, collect: Node, scope: Scope, batch: Batch) -> None:
    reduce = collect.routes[0][0]
    if scope.endings is not None and scope.endings.get(collect.name) == "failed":
        origins = tuple(fan.address for _, fan in batch.fans) or tuple(fact.address for fact in batch.facts)
        failed = RunnableFailed(len(memory.log) + 1, reduce.name, origins, _BROKEN, attempts=0)
        routes = rescuers(reduce, _BROKEN)
        if routes:
            scope.endings[collect.name] = "handled"
            value = memory.lineage.failure(failed).value
            rescue(memory, routes, without_event(memory, value, reduce.name, scope), scope, ())
        else:
            memory.failures = {**(memory.failures or {}), reduce.name: failed}
        return
    batch.fans.sort(key=_order)
    facts = batch.in_order()
    named = [fan for _, fan in batch.fans] if collect.is_inner else facts
    inputs = tuple(fact.address for fact in named)
    memory.accept(reduce, facts, inputs, scope, (), gathers=collect.is_inner)


_BROKEN = ErrorDetail(
    "weft.errors.BatchFailed",
    ("weft.errors.ExecutionError", "weft.errors.WeftError", "Exception", "BaseException"),
    "an element of the batch failed, so there is nothing whole to reduce; the failure of the element says why",
)
