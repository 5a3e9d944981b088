"""
Batches: facts of the elements of collections, kept in order until nothing more can come.

Facts are ordered by port, collection, element, and order within the element.  There are few different orders within an
element, mostly one, so the facts of each order are kept in a list by the index of their element: they need no sorting,
whichever element ends first.  If there are too many, a batch keeps its facts as they arrive, and sorts them at the end.
"""

from __future__ import annotations

from itertools import chain, groupby, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from weft.core.events import ErrorDetail, RunnableFailed
from weft.core.fold.error_routes import rescue, rescuers
from weft.core.fold.scope import BARRED, FIRED, Order, Scope
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import CollectNode

if TYPE_CHECKING:
    from weft.core.fold.delivery import Delivery

MOST_RESULTS: Final = 32
"""How many lists a batch keeps for a collection: each may become as long as the collection, and be nearly empty."""


class Results(msgspec.Struct, eq=False):
    """Facts from the elements of one collection, at most one for each element, by the index of the element."""

    port: int
    fan: Order
    """The order of the collection."""
    order: Order
    """The order of each of these facts within its element."""
    facts: list[Cell | None] = []
    holes: int = 0
    """How many of *facts* are None: the element has not ended, or made nothing."""

    def put(self, index: int, fact: Cell) -> bool:
        """Keep *fact* for the element at *index*; return False if that element has one already."""
        facts = self.facts
        ahead = index - len(facts)
        if ahead < 0:
            if facts[index] is not None:
                return False
            facts[index] = fact
            self.holes -= 1
            return True
        if ahead:
            facts.extend([None] * ahead)
            self.holes += ahead
        facts.append(fact)
        return True

    def present(self) -> list[Cell]:
        """Return the facts without the holes; the list is not to be changed."""
        return [fact for fact in self.facts if fact is not None] if self.holes else cast("list[Cell]", self.facts)

    def places(self) -> list[Order]:
        """Return what puts each of the facts into the order of the batch."""
        return [(self.port, self.fan, at, self.order) for at, fact in enumerate(self.facts) if fact is not None]


class BatchState(msgspec.Struct, eq=False):
    """The state of a collect in a scope: the collections that were taken apart, and the facts from their elements."""

    fans: list[tuple[Order, Cell]] = []
    results: dict[tuple[int, Order, Order], Results] = {}
    """By port, order of the collection, and order within the element: the facts, kept by index."""
    last: Results | None = None
    """The results that were added to last."""
    facts: list[Cell] = []
    """Or, as they arrived: facts of no element, of very many orders, or of which two have the same place."""
    places: list[Order] = []
    """The sort keys of *facts*.  Without the facts in them, the garbage collector soon leaves these alone."""

    def add(self, port: int, scope: Scope, order: Order, fact: Cell) -> None:
        """Keep *fact*, which came from the element of *scope* and has this *order* there."""
        if not self.facts:
            key = (port, scope.order, order)
            results = self.results.get(key)
            if results is None and len(self.results) < MOST_RESULTS * len(self.fans):
                results = self.results[key] = Results(port, scope.order, order)
            if results is not None and results.put(scope.index, fact):
                self.last = results
                return
            self._give_up()
        self.facts.append(fact)
        self.places.append((port, scope.order, scope.index, order))

    def _give_up(self) -> None:
        """Stop keeping facts by index; of two facts with the same place, the one kept by index arrived first."""
        for results in self.results.values():
            self.facts += results.present()
            self.places += results.places()
        self.results, self.last = {}, None

    def in_order(self) -> tuple[Cell, ...]:
        """Return the facts from the elements, in the order of their collections."""
        facts, places = self.facts, self.places
        if facts:
            return tuple([facts[at] for at in sorted(range(len(facts)), key=places.__getitem__)])
        if len(self.results) == 1:
            return tuple(next(iter(self.results.values())).present())
        by_collection = groupby(sorted(self.results), itemgetter(0, 1))
        return tuple(chain.from_iterable(self._by_element(list(keys)) for _, keys in by_collection))

    def _by_element(self, keys: list[tuple[int, Order, Order]]) -> list[Cell]:
        """Return the results at *keys*, which belong to one collection, element by element."""
        if len(keys) == 1:
            return self.results[keys[0]].present()
        elements = zip_longest(*[self.results[key].facts for key in keys])
        return [fact for element in elements for fact in element if fact is not None]


# -- in the fold ---------------------------------------------------------------------------------


def batch_of(collect: CollectNode, scope: Scope) -> BatchState:
    """Return what *collect* holds in *scope*."""
    batch: Any = scope.held(collect.name)
    if batch is None:
        batch = BatchState()
        scope.hold(collect.name, batch)
    return BatchState() if batch is BARRED else batch


def gather(route: tuple[CollectNode, int], fact: Cell, scope: Scope, order: Order) -> None:
    """Keep *fact*, of an element or a collection, for the batch at the end of *route*."""
    collect, port = route
    if collect.closes_region:
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


def conclude(memory: Delivery, collect: CollectNode, scope: Scope) -> None:
    """Nothing more can reach *collect*: make its reduce ready, or let it fail if an element failed."""
    batch: Any = scope.held(collect.name)
    if batch is None or batch is BARRED:
        return
    scope.hold(collect.name, FIRED)
    reduce = collect.reduce
    if scope.endings is not None and scope.endings.get(collect.name) == "failed":
        origins = tuple(fan.address for _, fan in batch.fans) or tuple(fact.address for fact in batch.facts)
        failed = RunnableFailed(len(memory.log) + 1, reduce.name, origins, _BROKEN, attempts=0)
        routes = rescuers(reduce, _BROKEN)
        if routes:
            scope.endings[collect.name] = "handled"
            value = memory.lineage.failure(failed).value
            fact = memory.lineage.without_event(value, reduce.name, scope.address)
            rescue(memory, routes, fact, scope, ())
        else:
            memory.fail(failed)
        return
    batch.fans.sort(key=itemgetter(0))
    facts = batch.in_order()
    named = [fan for _, fan in batch.fans] if collect.closes_region else facts
    inputs = tuple(fact.address for fact in named)
    memory.accept(reduce, facts, inputs, scope, (), gathers=collect.closes_region)


_BROKEN = ErrorDetail(
    "weft.errors.BatchFailed",
    ("weft.errors.ExecutionError", "weft.errors.WeftError", "Exception", "BaseException"),
    "an element of the batch failed, so there is nothing whole to reduce; the failure of the element says why",
)
