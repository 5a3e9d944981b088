"""
One value, with the component that produced it and the facts it came from.

A fact is a view of the log: it knows its position, and looks up its parents when they are read.  So a fact costs
nothing until it is used, and its content hash costs nothing until it is read.

    >>> from weft import Workflow, step
    >>> run = Workflow("w", step(lambda x: x * 2, name="double")).run(20)
    >>> fact = run.fact("double")
    >>> [parent.value for parent in fact.parents], fact.depth
    ([20], 1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.lineage.lineage import Lineage


class Fact:
    """A value that a run knows, and why it knows it."""

    __slots__ = ("_lineage", "address", "by", "index", "producer", "signal", "value")

    def __init__(
        self,
        lineage: Lineage,
        address: Address,
        value: Any,
        producer: str | None,
        index: int | None = None,
        *,
        signal: str | None = None,
        by: str | None = None,
    ) -> None:
        self._lineage = lineage
        self.address = address
        self.value = value
        self.producer = producer
        """The component that made it; None for an input, and for a signal."""
        self.index = index
        """The ordinal of an input, or the index of an element of an ``each``."""
        self.signal = signal
        """The name of the signal that brought it; None for anything else."""
        self.by = by
        """The name of the caller that sent the signal."""

    @property
    def parents(self) -> tuple[Fact, ...]:
        """The facts it was computed from, in the order of the arguments."""
        return tuple(self._lineage.fact(address) for address in self._lineage.parents(self.address))

    @property
    def reads(self) -> tuple[Fact, ...]:
        """The other facts that were read: the previous state, and those read by ``state_of`` or ``latest``."""
        return tuple(self._lineage.fact(address) for address in self._lineage.reads(self.address))

    def ancestry(self, depth: int | None = None) -> list[Fact]:
        """Return every fact that this one came from, up to *depth* steps back, causes first, this one last."""
        return [self._lineage.fact(address) for address in self._lineage.ancestry(self.address, depth)]

    @property
    def depth(self) -> int:
        """How many productions lie between the input and this fact: 0 for an input."""
        return self._lineage.depth(self.address)

    @property
    def hash(self) -> str:
        """The content hash: value and ancestry; of an input also its ordinal, of an element its index."""
        return self._lineage.hash(self.address).hex()

    @property
    def is_input(self) -> bool:
        """Whether this fact was given to the run rather than made by it."""
        return self.producer is None

    def __eq__(self, other: object) -> bool:
        """Two views of one place in one log are the same fact."""
        if not isinstance(other, Fact):
            return NotImplemented
        return self._lineage is other._lineage and self.address == other.address

    def __hash__(self) -> int:
        return hash((id(self._lineage), self.address))

    def __repr__(self) -> str:
        return f"Fact({self.value!r}, producer={self.producer!r}, address={self.address!r})"
