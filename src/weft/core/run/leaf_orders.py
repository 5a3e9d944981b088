"""
The orders of the facts of leaves that several ways lead to: which of two is later, whichever finished first.

The n-th order of a leaf belongs to its n-th fact, counted from the end: a truncated log has only the last facts, and a
snapshot only the last orders.  The results of an input need the orders of its facts, so those are kept as long as its
events are: of inputs that are not done, of the last one, and of the one that the leaf made its latest fact of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from weft.core.fold.scope import Activation, Order
from weft.core.lineage.history import ColdList
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


def orders_of(memory: Memory, name: str) -> Sequence[Order] | None:
    """Return the orders of the facts of *name*; None if the log is the order, as where one way leads to it."""
    orders = (memory.keyed or {}).get(name)
    return orders if orders is not None and len(orders) == len(memory.produced.get(name, ())) else None


def ordered(memory: Memory, name: str, facts: Sequence[Address]) -> list[tuple[Order, Address]] | None:
    """
    Return *facts*, the last that *name* has made, with their orders; None if the log is the order.

    If the log is truncated, these are the facts that the results of inputs need, and perhaps others.
    """
    orders, removed = orders_of(memory, name), memory.lineage.removed
    if orders is None:
        return None
    if removed:
        known = len(orders) - begin_of(orders)
        facts = [at for at in facts if (at if isinstance(at, int) else at[0]) > removed][-known:] if known else []
    if len(facts) > len(orders):  # the component was of another kind before
        return None
    return list(zip(orders[len(orders) - len(facts) :], facts, strict=True))


def oldest_needed(memory: Memory) -> int | None:
    """
    Return the number of the oldest input whose results need its events; None if no result does.

    It is 0 if that cannot be said: then all events are needed.
    """
    leaves, wiring = memory.workflow.leaves, memory.workflow.wiring
    keyed = [name for name in leaves if name in (memory.keyed or ())]
    if not memory.received:
        return None
    if memory.received == 1 and not keyed and all(wiring.regions[name] is None for name in leaves):
        return None  # its results are the latest facts of the leaves, which a snapshot has
    return min((_oldest_open(memory), *(_latest_input(memory, name) for name in keyed)))


def oldest_read(memory: Memory) -> int:
    """Return the number of the oldest input of which a result may be asked for, whatever is kept for that."""
    keyed = (orders_of(memory, name) for name in memory.workflow.leaves if name in (memory.keyed or ()))
    latest = (cast("int", orders[-1][0]) for orders in keyed if orders and is_kept(orders))
    return min((_oldest_open(memory), *latest))


def oldest_orders(memory: Memory) -> dict[str, int]:
    """
    Return, by leaf that several ways lead to, the number of the oldest input of which the orders are needed.

    A leaf whose last order is not in memory is left out.
    """
    keyed = {name: orders_of(memory, name) for name in memory.workflow.leaves if name in (memory.keyed or ())}
    letters = (letter.activation.scope.root.index for letter in (memory.letters or {}).values())  # may be retried
    oldest = min((_oldest_open(memory), *letters)) if keyed else 0
    return {
        name: min(oldest, cast("int", orders[-1][0]))
        for name, orders in keyed.items()
        if orders is not None and begin_of(orders) < len(orders)
    }


def begin_of(orders: Sequence[Order]) -> int:
    """Return the place from which on *orders* are in memory."""
    return orders.begins if isinstance(orders, ColdList) else 0


def is_kept(orders: Sequence[Order]) -> bool:
    """Whether *orders* are in memory as far as they are needed: of cold ones the last is there, or none."""
    return not isinstance(orders, ColdList) or not orders.cold or orders.begins < orders.cold


def _oldest_open(memory: Memory) -> int:
    """Return the number of the oldest input that is not done, or else of the last one."""
    return min((memory.received, *(activation.scope.root.index for activation in _open(memory))))


def _open(memory: Memory) -> Iterator[Activation]:
    yield from memory.ready.values()
    yield from (memory.blocked or {}).values()
    yield from (each.activation for each in (memory.waiting or {}).values())


def _latest_input(memory: Memory, name: str) -> int:
    """Return the number of the input that *name* made its latest fact of; 0 if the orders of it are not known."""
    orders = orders_of(memory, name)
    return cast("int", orders[-1][0]) if orders and is_kept(orders) else 0
