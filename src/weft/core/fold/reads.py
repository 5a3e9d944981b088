"""
Reads: which version of another component a reader gets.

``state_of`` and ``latest`` read the value that a component has produced for the same input, or the same element.  If
there is none, or the component is downstream, they read the version before this input; in a loop, that of the turn
before.  ``all_values``, ``step_ran`` and ``fact_count`` wait for all elements of the input; if the component is
downstream, or in the same loop as the reader, they leave this input out.

The choice is made when the reader becomes ready, so it follows from the log alone; the value is looked up
when the reader is prepared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core.fold.scope import Order, Scope
from weft.core.functions.references import AllValues, FactCount, Latest, StateOf
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import Kept, Reading

if TYPE_CHECKING:
    from weft.core.fold.memory_data import MemoryData


def pin(memory: MemoryData, reading: Reading, scope: Scope) -> Any:
    """Choose the version that *reading* refers to, from *scope*, at this place of the log."""
    name = reading.target.name
    facts = memory.produced.get(name, [])
    counts = not isinstance(reading.read, StateOf | Latest)
    around = scope.outward(reading.levels)
    if reading.unit is not None:
        if counts:
            return len(facts)
        if around.made is not None and name in around.made:
            return around.made[name][1]
    if not counts and around.earlier is not None and name in around.earlier:
        return around.earlier[name]
    count = len(facts)
    before = scope.root.before
    if before is not None and name in before:
        count = before[name]
    if counts:
        return count
    return facts[count - 1] if count else None


def remember(memory: MemoryData, name: str, kept: Kept, fact: Cell, scope: Scope, order: Order) -> None:
    """Keep *fact* for readers of the node *name*."""
    root = scope.root
    if root.before is None:
        root.before = {}
    if name not in root.before:
        root.before[name] = len(memory.produced.get(name, ()))
    place: Order = (order,)
    levels = 0
    for level in kept.levels:
        while levels < level:
            place = (scope.path, *place)
            scope = scope.outward(1)
            levels += 1
        if scope.made is None:
            scope.made = {}
        known = scope.made.get(name)
        if known is None or kept.follows_log or place >= known[0]:
            scope.made[name] = (place, fact)
    if kept.by_place:
        while scope.parent is not None:
            place = (scope.path, *place)
            scope = scope.parent
        if memory.keyed is None:
            memory.keyed = {}
        memory.keyed.setdefault(name, []).append((scope.index, place))


def resolve(memory: MemoryData, reading: Reading, pin: Any) -> Any:
    """Return the value of the pinned version."""
    read, target = reading.read, reading.target
    match read:
        case StateOf():
            assert reading.initial is not None  # noqa: S101
            return reading.initial.make() if pin is None else pin.value
        case Latest():
            return read.default if pin is None else pin.value
        case FactCount():
            return pin
        case AllValues():
            facts = memory.produced.get(target.name, [])[:pin]
            places = (memory.keyed or {}).get(target.name, [])
            follows_log = target.kept is not None and target.kept.follows_log
            if len(places) == len(memory.produced.get(target.name, ())) and not follows_log:
                facts = [facts[i] for i in sorted(range(pin), key=places.__getitem__)]
            return [fact.value for fact in facts]
        case _:
            return pin > 0
