"""
One value, with the component that produced it and the facts it came from.

Facts form a graph that only grows: each holds its parents, so the ancestry of a value needs nothing but
the fact itself.  A fact is addressed by where it stands in the log of its run; its content hash is
computed only when somebody asks (``weft.core.identity.fact_hash``).

    >>> given = Fact(address=2, value=20, producer=None, parents=(), index=1)
    >>> doubled = Fact(address=3, value=40, producer="double", parents=(given,))
    >>> [fact.value for fact in doubled.ancestry()]
    [20, 40]
    >>> doubled.depth
    1
"""

from __future__ import annotations

from typing import Any

import msgspec

from weft.typing import Address


class Fact(msgspec.Struct, frozen=True, eq=False):
    """A value that a run knows, and why it knows it."""

    address: Address
    value: Any
    producer: str | None
    parents: tuple[Fact, ...]
    index: int | None = None
    """The ordinal of an input, or the index of an element of an ``each``."""

    def ancestry(self) -> list[Fact]:
        """Return every fact that this one came from, causes first, this one last."""
        done: dict[int, Fact] = {}
        stack: list[tuple[Fact, bool]] = [(self, False)]
        while stack:
            fact, after = stack.pop()
            if after:
                done.setdefault(id(fact), fact)
            elif id(fact) not in done:
                stack.append((fact, True))
                stack.extend((parent, False) for parent in fact.parents if id(parent) not in done)
        return sorted(done.values(), key=_position)

    @property
    def depth(self) -> int:
        """How many productions lie between the input and this fact: 0 for an input."""
        depths: dict[int, int] = {}
        for fact in self.ancestry():
            made = fact.producer is not None and isinstance(fact.address, int)
            depths[id(fact)] = max((depths[id(p)] for p in fact.parents), default=0) + made
        return depths[id(self)]

    @property
    def is_input(self) -> bool:
        """Whether this fact was given to the run rather than made by it."""
        return self.producer is None

    def __repr__(self) -> str:
        return f"Fact({self.value!r}, producer={self.producer!r}, address={self.address!r})"


def _position(fact: Fact) -> tuple[int, int, int]:
    """Return *fact*'s place in the log; parents always stand before their children."""
    address = fact.address
    if isinstance(address, tuple):
        return (*address, 0)
    if address < 0:  # it stands for a fact that was not made, right after what it would have come from
        seq, index, _ = _position(fact.parents[0])
        return (seq, index, 1)
    return (address, -1, 0)
