"""
A dict that can be extended without a copy: the new dict shares the old entries, and does not see later additions.

    >>> one = {"a": 1}
    >>> two = over(one)
    >>> two["b"] = 2
    >>> three = over(two)
    >>> three["c"] = 3
    >>> list(two), list(three), three["a"]
    (['a', 'b'], ['a', 'b', 'c'], 1)

A workflow that grows by one component at a time would copy its tables each time.  Here the new entries are a layer over
the old ones.  A layer that has grown to half the size of the one below is merged with it, so there are few layers, and
an entry is copied only a few times.  A lower layer is never written to again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Table(MutableMapping[K, V]):
    """A dict in layers: in the order in which keys first came, with the value that came last."""

    __slots__ = ("_below", "_count", "_own")

    def __init__(self, below: tuple[Mapping[K, V], ...] = (), count: int = 0) -> None:
        self._below = below
        self._own: dict[K, V] = {}
        self._count = count

    def layers(self) -> tuple[Mapping[K, V], ...]:
        """Return its layers, the oldest first; two layers of nearly the same size are merged into one."""
        layers = [*self._below, *([self._own] if self._own else [])]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            top = layers.pop()
            layers[-1] = {**layers[-1], **top}
        return tuple(layers)

    def __getitem__(self, key: K) -> V:
        if key in self._own:
            return self._own[key]
        for layer in reversed(self._below):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in self._own or any(key in layer for layer in self._below)

    def __setitem__(self, key: K, value: V) -> None:
        self._count += key not in self
        self._own[key] = value

    def __delitem__(self, key: K) -> None:
        whole = dict(self)
        del whole[key]
        self._below, self._own, self._count = (), whole, len(whole)

    def __iter__(self) -> Iterator[K]:
        layers = (*self._below, self._own)
        for place, layer in enumerate(layers):
            before = layers[:place]
            yield from (key for key in layer if not any(key in known for known in before))

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"Table({dict(self)!r})"


def over(base: Mapping[K, V]) -> Table[K, V]:
    """Return a table with all that is in *base*, which must not be changed any more."""
    if isinstance(base, Table):
        return Table(base.layers(), len(base))
    return Table((base,) if base else (), len(base))
