"""
The order of facts that reach the same node: by where they were produced, never by which arrived first.
"""

from __future__ import annotations

from weft.core.events import InputReceived, SignalReceived
from weft.core.failure import Failure
from weft.core.fold.scope import Order, Scope
from weft.core.lineage.lineage import Cell, Element, FactRef, Failed
from weft.core.plan.arrival_order import ArrivalOrder, failing, missing


def place(facts: tuple[Cell, ...], scope: Scope, order: Order, ways: ArrivalOrder | None) -> Order:
    """
    Return a key that orders *facts* among others that reach the same node in *scope*.

    They are ordered by the first of the *ways* by which they can arrive, then by *order*.  The key depends on the facts
    alone: it does not matter which way they took, nor which arrived first.
    """
    if ways is None:
        return order
    begins, region = scope.address, scope.region
    rank = ways.rank(tuple([region if region and fact.address == begins else maker_of(fact) for fact in facts]))
    assert rank is not None, f"{facts} came by a way that is not in the plan"  # noqa: S101
    return rank + order


def maker_of(fact: Cell) -> str:
    """Return the maker of *fact*, as an :data:`ArrivalOrder` knows it."""
    if isinstance(fact, Element):
        if isinstance(fact.address, tuple):
            return fact.producer
        return failing(fact.producer) if isinstance(fact.value, Failure) else missing(fact.producer)
    if isinstance(fact, FactRef):
        return fact.maker
    if isinstance(fact, Failed):
        return failing(fact.component)
    return "" if isinstance(fact, InputReceived | SignalReceived) else fact.component
