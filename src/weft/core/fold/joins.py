"""
Joins: facts of one scope wait for each other.

A race, and a join whose parents send at most one fact each, fire as soon as they have the facts they need.  Other joins
fire when nothing more can arrive, and pair the facts in their order.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from weft.core.components.join import Absent
from weft.core.fold.ordering import place
from weft.core.fold.scope import BARRED, FIRED, Order, Scope
from weft.core.lineage.lineage import Cell, Element
from weft.core.plan.arrival_order import missing
from weft.core.plan.node import JoinNode

if TYPE_CHECKING:
    from weft.core.fold.delivery import Delivery


class JoinState(msgspec.Struct, eq=False):
    """The state of a join in a scope: by parent, the facts that arrived; and how many parents have sent any."""

    groups: list[list[tuple[Order, tuple[Cell, ...]]]]
    present: int = 0


def arrive(memory: Delivery, join: JoinNode, port: int, facts: tuple[Cell, ...], scope: Scope, order: Order) -> None:
    """Facts of the parent at *port* reach *join*, which fires if it has the facts it waits for."""
    held: Any = scope.held(join.name)
    if held is FIRED or held is BARRED:
        return
    if held is None:
        held = JoinState([[] for _ in join.parents])
        scope.hold(join.name, held)
    group = held.groups[port]
    group.append((place(facts, scope, order, join.arrival_orders[port]) if join.fires_when_settled else order, facts))
    if join.fires_when_settled or len(group) > 1:
        return
    held.present += 1
    if held.present == join.needed:
        scope.hold(join.name, FIRED)
        present = (group[0][1] for group in held.groups if group)
        _fire(memory, join, tuple(chain.from_iterable(present)), scope, ())


def _fire(memory: Delivery, join: JoinNode, facts: tuple[Cell, ...], scope: Scope, order: Order) -> None:
    memory.deliver(join, facts, tuple(fact.address for fact in facts), scope, order)


def conclude(memory: Delivery, node: JoinNode, scope: Scope) -> bool:
    """Nothing more can reach *node*, a join: fire complete sets.  Return whether the join accepts failures."""
    held: Any = scope.held(node.name)
    if held is BARRED:
        return False
    if held is not None:
        scope.hold(node.name, FIRED)
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


def _absent(memory: Delivery, parent: str, scope: Scope) -> Element:
    """
    Return the ``Absent`` for the fact that *parent* did not produce in *scope*: one for all joins that wait for it.

    There is no event of it, so its address is negative.
    """
    known: Element | None = scope.held(missing(parent))
    if known is not None:
        return known
    ending = (scope.endings or {}).get(parent)
    reason: Literal["failed", "skipped", "gated"] = "gated"
    if ending is not None:
        reason = "skipped" if ending == "skipped" else "failed"
    absent = memory.lineage.without_event(Absent(parent, reason), parent, scope.address)
    scope.hold(missing(parent), absent)
    return absent


def _order(arrival: tuple[Order, Any]) -> Order:
    return arrival[0]
