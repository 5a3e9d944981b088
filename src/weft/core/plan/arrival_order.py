"""
The order of facts that can reach one node by several paths.

Conditions and joins pass on facts of other components, so the same facts may arrive by several paths.  Their order
among other facts must not depend on which path was quicker: it is the *rank* of the first path, in the order written,
by which they can arrive.  The rank follows from the graph and from the makers of the facts (the components that
produced them).

    >>> a, b = SingleFact(["a"]), SingleFact(["b"])
    >>> ways = any_inlet([joined([b, a], 2), joined([a, b], 2), a])
    >>> ways.rank(("b", "a")), ways.rank(("a", "b")), ways.rank(("a",)), ways.rank(("b",))
    ((0, 0, 0), (1, 0, 0), (2, 0), None)

Ranks are flat tuples of numbers.  Those of one node can be compared, and only the same makers share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

Makers = tuple[str, ...]
"""The makers of facts that arrive together, by name; the input is the empty name."""
Rank = tuple[int, ...]


def missing(parent: str) -> str:
    """Return the maker of the placeholder for a fact that *parent* did not produce."""
    return f"\0no {parent}"


def failing(component: str) -> str:
    """Return the maker of the failure of *component*."""
    return f"\0failure of {component}"


class SingleFact:
    """One fact, by one of several makers."""

    __slots__ = ("ranks", "width")

    def __init__(self, makers: Iterable[str]) -> None:
        self.ranks: dict[str, Rank] = {maker: (place,) for place, maker in enumerate(dict.fromkeys(makers))}
        self.width: int = 1

    def rank(self, makers: Makers) -> Rank | None:
        """Return the rank of what *makers* made; None if it cannot come by these ways."""
        return self.ranks.get(makers[0]) if len(makers) == 1 else None


class JoinedFacts:
    """Facts that a join brings together: one or more of each column, or one of as many as are *needed*."""

    __slots__ = ("columns", "needed", "width")

    def __init__(self, columns: Sequence[ArrivalOrder], needed: int) -> None:
        self.columns, self.needed = tuple(columns), needed
        self.width: int = needed if needed < len(columns) else sum(column.width for column in columns)

    def rank(self, makers: Makers) -> Rank | None:
        """Return the rank of what *makers* made; None if it cannot come by these ways."""
        if len(makers) != self.width:
            return None
        return self._of_some(makers) if self.needed < len(self.columns) else self._of_all(makers)

    def _of_all(self, makers: Makers) -> Rank | None:
        found: list[int] = []
        start = 0
        for column in self.columns:
            end = start + column.width
            rank = column.rank(makers[start:end])
            if rank is None:
                return None
            found += rank
            start = end
        return tuple(found)

    def _of_some(self, makers: Makers) -> Rank | None:
        """The winners of a race are in the order of its parents, so each is looked for after the one before."""
        found: list[int] = []
        left = iter(enumerate(self.columns))
        for maker in makers:
            for port, column in left:
                rank = column.rank((maker,))
                if rank is not None:
                    found += (port, *rank)
                    break
            else:
                return None
        return tuple(found)


class AnyInlet:
    """Facts that can come by several inlets, of which some bring several at once."""

    __slots__ = ("found", "inlets", "width")

    def __init__(self, inlets: Sequence[ArrivalOrder]) -> None:
        self.inlets = tuple(inlets)
        self.width: int = inlets[0].width
        self.found: dict[Makers, Rank | None] = {}
        """Ranks that were asked for before: a graph of such inlets has many more paths than inlets."""

    def rank(self, makers: Makers) -> Rank | None:
        """Return the rank of what *makers* made; None if it cannot come by these ways."""
        if makers not in self.found:
            ranks = ((port, inlet.rank(makers)) for port, inlet in enumerate(self.inlets))
            self.found[makers] = next(((port, *rank) for port, rank in ranks if rank is not None), None)
        return self.found[makers]


ArrivalOrder = SingleFact | JoinedFacts | AnyInlet


def any_inlet(inlets: Sequence[ArrivalOrder]) -> ArrivalOrder:
    """Return the ways of all *inlets*, the first ones first."""
    if len(inlets) == 1:
        return inlets[0]
    single = [inlet for inlet in inlets if isinstance(inlet, SingleFact)]
    if len(single) == len(inlets):
        return SingleFact(chain.from_iterable(inlet.ranks for inlet in single))
    return AnyInlet(inlets)


def joined(columns: Sequence[ArrivalOrder], needed: int) -> ArrivalOrder:
    """Return the ways of a join of *columns* that takes as many of them as are *needed*."""
    return any_inlet(columns) if needed == 1 else JoinedFacts(columns, needed)
