"""
Assigns items to layers, and orders each layer so that few links cross.

These are the first two steps of a layered drawing (Sugiyama and others, 1981).  The layer of an item is the length of
the longest path to it, so that every link leads down; then each layer is sorted by the positions of its neighbours,
alternately downward and upward, and the best order is kept.  A link that spans several layers is split by items without
size.  All links of one item in the same net share these, so a hub costs as much as its longest link, not as their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from weft.core.draw.picture import Edge

SWEEPS: Final = 12
PATIENCE: Final = 3
"""Sweeps without an improvement before the search stops."""
ROOM: Final = 6
"""How many bends there may be for each item; the longest nets beyond it are drawn straight, behind the boxes."""
LEAST_ROOM: Final = 2_000

Net = tuple[str, str]
"""Edges that are drawn as one line that branches: the box it begins at, and their kind."""


class Item:
    """Something that has its place in a layer: a box, a group, a port of the group around, or a bend of a net."""

    __slots__ = ("downs", "height", "is_thin", "key", "landing", "place", "rank", "takeoff", "ups", "width", "x", "y")

    def __init__(self, key: object, width: float, height: float, *, is_thin: bool = False) -> None:
        self.key, self.width, self.height, self.is_thin = key, width, height, is_thin
        self.rank = self.place = 0
        self.x = self.y = 0.0
        self.landing = self.takeoff = 0.0
        """How far above it lines do not bend any more, and how far below it they do not bend yet."""
        self.ups: list[Link] = []
        self.downs: list[Link] = []


class Link:
    """A stretch of a net between two items; one that ends at the target of an edge carries the edge."""

    __slots__ = ("at", "edge", "is_direct", "lower", "net", "to", "upper", "weight")

    def __init__(self, net: Net, upper: Item, lower: Item, at: float, to: float, edge: Edge | None) -> None:
        self.net, self.upper, self.lower, self.edge = net, upper, lower, edge
        self.at, self.to = at, to
        """Where it meets the items, counted from their centres."""
        self.weight = 1.0
        self.is_direct = False
        """Whether it spans layers without a bend, because there are too many."""


def ranked(items: Sequence[Item], links: Sequence[Link], entries: Iterable[Item], exits: Iterable[Item]) -> int:
    """Give every item its layer, *entries* the first and *exits* the last; return how many layers there are."""
    first, last = set(entries), set(exits)
    downs: dict[Item, list[Item]] = {item: [] for item in items}
    ups: dict[Item, int] = dict.fromkeys(items, 0)
    for link in links:
        downs[link.upper].append(link.lower)
        ups[link.lower] += 1
    roots = [item for item in items if not ups[item]]
    for item in items:
        item.rank = 1 if first and item not in first else 0
    queue = list(roots)
    for item in queue:
        for lower in downs[item]:
            lower.rank = max(lower.rank, item.rank + 1)
            ups[lower] -= 1
            if not ups[lower]:
                queue.append(lower)
    for item in reversed(roots):  # what nothing leads to is placed right above what it leads to
        if item not in first and downs[item]:
            item.rank = max(item.rank, min(lower.rank for lower in downs[item]) - 1)
    deepest = max((item.rank for item in items if item not in last), default=-1)
    for item in last:
        item.rank = deepest + 1
    used = {rank: place for place, rank in enumerate(sorted({item.rank for item in items}))}
    for item in items:
        item.rank = used[item.rank]
    return len(used)


def layered(items: Sequence[Item], links: Sequence[Link], count: int) -> tuple[list[list[Item]], list[Link]]:
    """Return the *count* layers with all bends in them, and the links between neighbouring layers."""
    layers: list[list[Item]] = [[] for _ in range(count)]
    for item in items:
        layers[item.rank].append(item)
    nets: dict[tuple[Net, Item], list[Link]] = {}
    for link in links:
        nets.setdefault((link.net, link.upper), []).append(link)
    room = max(ROOM * len(items), LEAST_ROOM)
    short: list[Link] = []
    spans = {key: max(link.lower.rank for link in members) - key[1].rank for key, members in nets.items()}
    for key in sorted(nets, key=spans.__getitem__):
        room -= spans[key] - 1
        short.extend(_broken(key[0], nets[key], layers) if room >= 0 else _straight(nets[key]))
    for link in short:
        if not link.is_direct:
            link.upper.downs.append(link)
            link.lower.ups.append(link)
    for link in short:  # a chain should be straight; one of many branches may bend
        if not link.is_direct:
            link.weight *= 1 + 3 / max(len(link.upper.downs), len(link.lower.ups))
    return layers, short


def _straight(members: list[Link]) -> Iterable[Link]:
    for link in members:
        link.is_direct = link.lower.rank - link.upper.rank > 1
    return members


def _broken(net: Net, members: list[Link], layers: list[list[Item]]) -> Iterable[Link]:
    """Yield the links of one net, with a bend in every layer that some of them pass."""
    above, at = members[0].upper, members[0].at
    trunk = [above]
    for rank in range(above.rank + 1, max(link.lower.rank for link in members)):
        bend = Item(("bend", net, rank), 4.0, 0.0, is_thin=True)
        bend.rank = rank
        layers[rank].append(bend)
        stretch = Link(net, trunk[-1], bend, at if trunk[-1] is above else 0.0, 0.0, None)
        stretch.weight = 2.0 if trunk[-1] is above else 8.0
        trunk.append(bend)
        yield stretch
    for link in members:
        link.upper = trunk[link.lower.rank - above.rank - 1]
        if link.upper is not above:
            link.at, link.weight = 0.0, link.weight * 2.0
        yield link


# -- order ---------------------------------------------------------------------------------------


def ordered(layers: list[list[Item]]) -> None:
    """Sort every layer so that few links cross."""
    _number(layers)
    best, order = _crossings(layers), [list(layer) for layer in layers]
    idle = 0
    for sweep in range(SWEEPS):
        if not best or idle == PATIENCE:
            break
        down = sweep % 2 == 0
        for layer in layers[1:] if down else layers[-2::-1]:
            _sort(layer, down=down)
        crossings = _crossings(layers)
        if crossings < best:
            best, order, idle = crossings, [list(layer) for layer in layers], 0
        else:
            idle += 1
    layers[:] = order
    _number(layers)


def _number(layers: Iterable[list[Item]]) -> None:
    for layer in layers:
        for place, item in enumerate(layer):
            item.place = place


def _sort(layer: list[Item], *, down: bool) -> None:
    wanted: dict[Item, float] = {}
    for item in layer:
        links = item.ups if down else item.downs
        if links:
            places = (_place(link.upper, link.at) if down else _place(link.lower, link.to) for link in links)
            wanted[item] = round(sum(places) / len(links), 6)  # as good as equal is equal
        else:
            wanted[item] = item.place
    layer.sort(key=wanted.__getitem__)
    _number([layer])


def _place(item: Item, offset: float) -> float:
    return item.place + (offset / item.width if item.width else 0.0)


def _crossings(layers: Sequence[Sequence[Item]]) -> int:
    return sum(_between(layer, below) for layer, below in pairwise(layers))


def _between(upper: Sequence[Item], lower: Sequence[Item]) -> int:
    """Return how many links cross between two layers: inversions, counted with a Fenwick tree."""
    ends = [(_place(link.upper, link.at), link.lower.place, link.to) for item in upper for link in item.downs]
    ends.sort()
    tree = [0] * (len(lower) + 1)
    crossings = 0
    for seen, (_, place, _) in enumerate(ends):
        at, before = place + 1, 0
        while at:
            before += tree[at]
            at &= at - 1
        crossings += seen - before
        at = place + 1
        while at < len(tree):
            tree[at] += 1
            at += at & -at
    return crossings
