"""
Finds which facts without an event a snapshot knows the causes of: those that alone have led to an event.

What a join has missed is such a fact.  If all that it has got is of that kind, only these facts say which input its
event came from, and the results of that input are found by that.  So the causes are kept as long as these results may
be asked for.

    >>> from weft import Workflow, join, step
    >>> one, two = step(lambda x: 1 / x, name="one"), step(lambda x: 2 / x, name="two")
    >>> last = join(one, two, wait="all_done") >> step(lambda x, y: [x, y], name="last")
    >>> run = Workflow("w", last).run(0)
    >>> kept = KeptCauses()
    >>> kept.add(run.memory, run.log())
    >>> kept.needed(run.memory)
    {-1: (2, 1)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from weft.core.events import InputReceived
from weft.core.fold.memory import Memory
from weft.core.run.leaf_orders import oldest_read
from weft.typing import Address

LARGEST: Final = 10_000
"""How many causes a snapshot keeps: the latest ones."""


class KeptCauses:
    """The causes that results of one run may need."""

    __slots__ = ("_causes", "_received")

    def __init__(self) -> None:
        self._causes: dict[int, tuple[Address, int]] = {}
        """The causes, as :attr:`Lineage.causes` has them, in the order of the events that last named them."""
        self._received: int | None = None
        """How many inputs there were at the last event that was looked at."""

    def add(self, memory: Memory, events: Sequence[Any]) -> None:
        """Look through *events*, the new ones; a run that was restored knows of those before."""
        if self._received is None:
            self._causes = dict(memory.lineage.causes or {})
            self._received = memory.received - sum(isinstance(event, InputReceived) for event in events)
        for event in events:
            if isinstance(event, InputReceived):
                self._received = event.ordinal
                continue
            inputs: tuple[Address, ...] = getattr(event, "inputs", ())
            if inputs and all(isinstance(at, int) and at < 0 for at in inputs):
                address = cast("int", inputs[0])
                known = self._causes.pop(address, None)  # the latest is the last one
                cause = memory.lineage.known_cause(address) if known is None else known[0]
                if cause is not None:
                    self._causes[address] = cause, self._received

    def needed(self, memory: Memory) -> Mapping[int, tuple[Address, int]]:
        """Return the causes that are kept: of facts that events have named since the oldest input."""
        if self._causes:
            oldest = oldest_read(memory)
            left = [item for item in self._causes.items() if item[1][1] >= oldest]
            self._causes = dict(left[-LARGEST:])
        return dict(self._causes)
