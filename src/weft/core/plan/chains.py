"""
Chains: which nodes of a plan run one after the other, each on the value of the one before and nothing else.

A node continues a chain if exactly one node feeds it, all that it is called with is that value and constants, and it
runs as soon as the value arrives.  So every node is in one chain at most, and a node that is in none is a chain of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from weft.core.plan.node import FunctionNode, Kind
from weft.core.plan.plan import Plan


class Chain(NamedTuple):
    """Nodes that run one after the other."""

    nodes: tuple[FunctionNode, ...]
    names: tuple[str, ...]


class Place(NamedTuple):
    """The place of a node in its chain."""

    chain: Chain
    position: int


_KNOWN: Final[WeakKeyDictionary[Plan, Mapping[str, Place]]] = WeakKeyDictionary()


def chains_of(plan: Plan) -> Mapping[str, Place]:
    """Return, by name of a node that runs a function, its place in its chain; computed once per plan."""
    known = _KNOWN.get(plan)
    if known is None:
        known = _KNOWN[plan] = _chains([node for node in plan.nodes.values() if isinstance(node, FunctionNode)])
    return known


def _chains(nodes: list[FunctionNode]) -> dict[str, Place]:
    following = {node.name: found for node in nodes if (found := follower(node)) is not None}
    inside = {node.name for node in following.values()}
    places: dict[str, Place] = {}
    for first in nodes:
        if first.name in inside:
            continue
        links, node = [first], following.get(first.name)
        while node is not None:
            links.append(node)
            node = following.get(node.name)
        chain = Chain(tuple(links), tuple([link.name for link in links]))
        places.update((link.name, Place(chain, position)) for position, link in enumerate(links))
    return places


def follower(node: FunctionNode) -> FunctionNode | None:
    """Return the only node that runs when *node* has produced a value, if it runs on that and nothing else."""
    if not _is_plain_work(node) or len(node.routes) != 1 or len(node.plain_targets) != 1:
        return None
    target = node.plain_targets[0]
    return target if _is_plain_work(target) and target.has_one_inlet and _takes_the_value(target) else None


def _is_plain_work(node: FunctionNode) -> bool:
    """Whether *node* runs a plain function, and its value goes where its routes lead and nowhere else."""
    return (
        node.kind is Kind.WORK
        and node.wait is None
        and node.state is None
        and node.turn is None
        and node.taken is None
        and not (node.is_async or node.stateful or node.is_relay or node.undoes or node.transaction)
    )


def _takes_the_value(node: FunctionNode) -> bool:
    """Whether *node* is called with the value that arrives, and constants."""
    arguments = node.arguments
    if node.readings or node.deduplicates:
        return False
    return arguments is None or not (
        arguments.takes_no_values or arguments.spread or arguments.by_keyword or arguments.contexts
    )
