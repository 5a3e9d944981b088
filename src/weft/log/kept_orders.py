"""
Finds which orders of the facts of leaves a snapshot keeps: those that the results of inputs need.

    >>> from weft import Workflow, step
    >>> both = step(str, name="both")
    >>> run = Workflow("w", step(abs) >> both, step(float) >> both).plan(1)
    >>> kept = KeptOrders()
    >>> for number in (2, 3):
    ...     _ = run.react_until_satisfied().plan(number), kept.needed(run.memory)
    >>> kept.needed(run.react_until_satisfied().memory), len(run.memory.keyed["both"])
    ({'both': range(4, 6)}, 6)

Where the facts of an input begin is looked for from the snapshot before it on: an input that came later has none before
that.
"""

from __future__ import annotations

from typing import Any, Final

from weft.core.fold.memory import Memory
from weft.core.run.leaf_orders import begin_of, is_kept, oldest_orders

MOST: Final = 64
"""How many earlier snapshots are remembered."""
LARGEST: Final = 10_000
"""How many orders of a leaf a snapshot keeps; if more are needed it keeps none, and the log is not truncated."""


class KeptOrders:
    """The facts of leaves that there were at earlier snapshots of one run."""

    __slots__ = ("_complete", "_earlier", "_plan", "_void")

    def __init__(self) -> None:
        self._plan: Any = None
        self._void: Any = None
        self._earlier: list[tuple[int, dict[str, int]]] = []
        """How many inputs the run had had, and how many facts of each leaf there were."""
        self._complete: dict[str, int] = {}
        """By leaf: the oldest input of which all orders are in memory, and of all later ones too."""

    def needed(self, memory: Memory) -> dict[str, range]:
        """Return, by leaf, which of its orders are kept."""
        oldest = oldest_orders(memory)
        if not oldest:
            return {}
        keyed, new = memory.keyed or {}, memory.received + 1
        if self._plan is not memory.plan or self._void is not memory.lineage.void:  # then these are other lists
            self._plan, self._void, self._earlier = memory.plan, memory.lineage.void, []
            self._complete = {name: 0 if is_kept(orders) else new for name, orders in keyed.items()}
        found: dict[str, range] = {}
        for name, ordinal in oldest.items():
            orders = keyed[name]
            earlier = (counts.get(name, 0) for received, counts in self._earlier if received < ordinal)
            begin = max((begin_of(orders), *earlier))
            while orders[begin][0] < ordinal:  # then it does not matter what is known of earlier snapshots
                begin += 1
            is_complete = ordinal >= self._complete.get(name, 0) and len(orders) - begin <= LARGEST
            self._complete[name] = ordinal if is_complete else new
            if is_complete:
                found[name] = range(begin, len(orders))
        self._note(memory, min(oldest.values()))
        return found

    def _note(self, memory: Memory, oldest: int) -> None:
        """Remember what is there now, and forget what is too old to be asked for."""
        earlier = self._earlier
        while len(earlier) > 1 and earlier[1][0] < oldest:
            del earlier[0]
        if earlier and earlier[-1][0] == memory.received:
            del earlier[-1]
        if len(earlier) > MOST:
            del earlier[1::2]
        earlier.append((memory.received, {name: len(orders) for name, orders in (memory.keyed or {}).items()}))
