"""
Computes the position of everything in a picture.

A group is laid out separately, and is one large item in the layout around it, so groups neither overlap nor are torn
apart.  A line that enters or leaves a group passes a port on its frame, which is an item of the inner layout.  Lines
bend between layers, where there are no items, and go straight through a layer, where a position is reserved for them:
no line crosses a box.

    >>> from weft.core.draw.picture import Box, Edge
    >>> picture = Picture("p", (Box("a", "step", "a"), Box("b", "step", "b")), (), (Edge("a", "b"),))
    >>> [(rect.x, rect.y) for rect in Layout(picture, {"a": (40, 20), "b": (40, 20)}, {}).boxes.values()]
    [(0.0, 0.0), (0.0, 66.0)]

Above a box with labels no line bends: the labels are there (``weft.core.draw.edge_labels``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from weft.core.draw.columns import spread
from weft.core.draw.edge_labels import LANDING, breadth, room, way_in, words
from weft.core.draw.layers import Item, Link, Net, layered, ordered, ranked
from weft.core.draw.picture import Edge, Picture

GAP: Final = 46.0
"""The least distance between two layers."""
WIDEST_GAP: Final = 120.0
MORE_GAP: Final = 14.0
"""How much more there is above a layer with words."""
INSET: Final = 16.0
"""The distance from a frame to what is inside."""
TITLE: Final = 34.0
"""The same at the top, where the title is."""
TAB_HEIGHT: Final = 20.0
"""How far below the edge of a frame its title reaches, and lines that enter do not bend."""
CORNER: Final = 18.0
"""How much wider than its title a frame is at least."""
CLEAR: Final = 8.0
"""The distance between a title and a line that enters beside it."""
WIDER: Final = 72.0
"""By how much a frame is widened on each side to keep its lines off its title; beyond it the title is cut short."""

Size = tuple[float, float]


class Rect(msgspec.Struct):
    """The place of something; *x* and *y* are its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Line(msgspec.Struct):
    """A stretch of a net: down from *top* to *start* at *x1*, a bend, and down from *end* to *bottom* at *x2*."""

    net: Net
    edge: Edge | None
    """The edge that ends here, if it is the last stretch of one."""
    upper: str | None
    """The box it begins at; None for a bend or a port."""
    lower: str | None
    x1: float
    top: float
    start: float
    x2: float
    end: float
    bottom: float
    is_left: bool = False
    """Whether the label beside its lower end is to the left of it."""


class Layout:
    """The places of boxes, groups and lines."""

    def __init__(
        self,
        picture: Picture,
        sizes: Mapping[str, Size],
        titles: Mapping[str, float],
    ) -> None:
        """
        Lay out *picture*.

        Args:
            sizes: how large its boxes are.
            titles: how wide the titles of its groups are.
        """
        self.boxes: dict[str, Rect] = {}
        self.groups: dict[str, Rect] = {}
        self.titles: dict[str, float] = {}
        """How much room there is for the title of each group."""
        self.lines: list[Line] = []
        self._wanted = titles
        self._tree = Tree(picture)
        self._room = self._tree.room()
        self._sizes = {box: (max(size[0], self._room[box][0]), size[1]) for box, size in sizes.items()}
        self.width, self.height = self._place(None)
        self._shift(None, 0.0, 0.0)
        self.boxes = {box.id: self.boxes[box.id] for box in picture.boxes}

    # -- one level -------------------------------------------------------------------------------

    def _place(self, group: str | None) -> Size:
        """Lay out what is inside *group*, and return how large that is."""
        level = self._tree.levels[group]
        items: dict[Hashable, Item] = {}
        for child in level.children:
            if child in self._tree.levels:
                width, height = self._place(child)
                items[child] = Item(child, width, height)
            else:
                width, height = self._sizes[child]
                around = self._room[child][1]
                items[child] = Item(child, max(width, around), height)
                items[child].landing = LANDING if around else 0.0
        entries = {net: Item(("in", net), 8.0, 0.0, is_thin=True) for net in level.enters}
        for entry in entries.values():
            entry.takeoff = TAB_HEIGHT
        exits = {net: Item(("out", net), 8.0, 0.0, is_thin=True) for net in level.leaves}
        links: list[Link] = []
        for net, source, target, edge in level.wires:
            upper = entries[net] if source is None else items[source]
            lower = exits[net] if target is None else items[target]
            link = Link(net, upper, lower, self._offset(source, net), self._offset(target, net, enters=True), edge)
            link.weight = 1.0 if net[1] == "flow" else 0.25
            links.append(link)
        everything = [*entries.values(), *items.values(), *exits.values()]
        count = ranked(everything, links, entries.values(), exits.values())
        layers, links = layered(everything, links, count)
        ordered(layers)
        spread(layers)
        width = max((item.x + item.width / 2 for layer in layers for item in layer), default=0.0)
        bands = _bands(layers, links, has_entries=bool(entries), has_exits=bool(exits))
        height = bands[-1][1] if bands else 0.0
        if group is not None:
            wider = self._framed(group, width, entries.values())
            for layer in layers:
                for item in layer:
                    item.x += (wider - width) / 2
            width = wider
            shift = 0.0 if entries else TITLE
            bands = [(top + shift, bottom + shift) for top, bottom in bands]
            height += shift + (0.0 if exits else INSET)
            level.entries = {net: item.x - width / 2 for net, item in entries.items()}
            level.exits = {net: item.x - width / 2 for net, item in exits.items()}
        self._keep(level, items.values(), links, bands)
        return width, height

    def _framed(self, group: str, width: float, entries: Iterable[Item]) -> float:
        """Return how wide the frame around a *width* is: no line that enters should run through the title."""
        title = self._wanted[group]
        wider = max(width + 2 * INSET, title + CORNER)
        first = min((item.x for item in entries), default=float("inf")) + (wider - width) / 2
        more = min(max(title + CLEAR - first, 0.0), WIDER)
        self.titles[group] = min(title, first + more - CLEAR)
        return wider + 2 * more

    def _offset(self, child: str | None, net: Net, *, enters: bool = False) -> float:
        """Return how far from the middle of *child* the *net* meets it; 0 unless *child* is a group."""
        if child is None or child not in self._tree.levels:
            return 0.0
        level = self._tree.levels[child]
        return (level.entries if enters else level.exits)[net]

    def _keep(
        self, level: Level, items: Iterable[Item], links: Iterable[Link], bands: list[tuple[float, float]]
    ) -> None:
        """Note the places of things, counted from the corner of the level."""
        landings = [0.0] * len(bands)
        for item in items:
            top, bottom = bands[item.rank]
            item.y = (top + bottom) / 2
            landings[item.rank] = max(landings[item.rank], item.landing - (bottom - top - item.height) / 2)
            width = self._sizes[str(item.key)][0] if item.key in self._sizes else item.width
            rect = Rect(item.x - width / 2, item.y - item.height / 2, width, item.height)
            (self.groups if item.key in self._tree.levels else self.boxes)[str(item.key)] = rect
        for link in links:
            upper, lower = link.upper, link.lower
            above, below = bands[upper.rank], bands[lower.rank]
            top = above[1] if upper.is_thin else upper.y + upper.height / 2  # what leads to a bend leads through it
            bottom = below[1] if lower.is_thin else lower.y - lower.height / 2
            line = Line(
                link.net, link.edge, self._box(upper), self._box(lower),
                upper.x + link.at, top, above[1] + upper.takeoff,
                lower.x + link.to, below[0] - landings[lower.rank], bottom,
            )  # fmt: skip
            level.lines.append(line)

    def _box(self, item: Item) -> str | None:
        return str(item.key) if item.key in self._sizes else None

    # -- the whole -------------------------------------------------------------------------------

    def _shift(self, group: str | None, x: float, y: float) -> None:
        """Move what is inside *group* to where the group is."""
        level = self._tree.levels[group]
        for line in level.lines:
            line.x1, line.x2 = line.x1 + x, line.x2 + x
            line.top, line.start, line.end, line.bottom = line.top + y, line.start + y, line.end + y, line.bottom + y
        self.lines.extend(level.lines)
        for child in level.children:
            rect = (self.groups if child in self._tree.levels else self.boxes)[child]
            rect.x, rect.y = rect.x + x, rect.y + y
            if child in self._tree.levels:
                self._shift(child, rect.x, rect.y)


def _bands(
    layers: list[list[Item]], links: Iterable[Link], *, has_entries: bool, has_exits: bool
) -> list[tuple[float, float]]:
    """Return from where to where each layer reaches: the wider the bends between two layers, the more room they get."""
    reach = [0.0] * len(layers)
    for link in links:
        if not link.is_direct:
            bend = abs(link.upper.x + link.at - link.lower.x - link.to)
            reach[link.upper.rank] = max(reach[link.upper.rank], bend)
    bands: list[tuple[float, float]] = []
    top = 0.0
    for rank, layer in enumerate(layers):
        bottom = top + max(item.height for item in layer)
        bands.append((top, bottom))
        gap = min(GAP + reach[rank] / 14, WIDEST_GAP)
        if has_exits and rank == len(layers) - 2:
            gap = max(INSET + 8, min(gap - 20, 60.0))
        elif has_entries and rank == 0:
            gap = max(TITLE + 6, gap - 8) if reach[0] < 1 else gap + TAB_HEIGHT
        if any(item.landing for below in layers[rank + 1 : rank + 2] for item in below):
            gap += MORE_GAP
        top = bottom + gap
    return bands


# -- the tree of groups --------------------------------------------------------------------------

Wire = tuple[Net, str | None, str | None, Edge | None]
"""A net inside a group, from one child to another; None is the frame."""


class Level:
    """The boxes and groups directly inside a group, or in the picture itself."""

    def __init__(self) -> None:
        self.children: list[str] = []
        self.wires: list[Wire] = []
        self.enters: dict[Net, None] = {}
        self.leaves: dict[Net, None] = {}
        self.entries: dict[Net, float] = {}
        """Where each net passes the upper edge of the frame, counted from its middle."""
        self.exits: dict[Net, float] = {}
        self.lines: list[Line] = []


class Tree:
    """Groups inside groups, and the nets of each, all of them leading down."""

    def __init__(self, picture: Picture) -> None:
        self.levels: dict[str | None, Level] = {None: Level()}
        self._parents: dict[str, str | None] = {}
        for group in picture.groups:
            self.levels[group.id] = Level()
            self._parents[group.id] = group.parent
        for box in picture.boxes:
            self._parents[box.id] = box.group
        seen: set[str] = set()
        for box in picture.boxes:  # a group is placed where its first box would be
            for child in reversed(self._way(box.id)):
                if child not in seen:
                    seen.add(child)
                    self.levels[self._parents[child]].children.append(child)
        self._connect(picture.edges)

    def room(self) -> dict[str, tuple[float, float]]:
        """Return, by box, how wide it must be for what is written at its ways in, and how wide it is with that."""
        found: dict[str, dict[Hashable, float]] = {}
        for level in self.levels.values():
            for net, _, lower, edge in level.wires:
                if edge is not None and lower is not None:
                    found.setdefault(lower, {})[way_in(net, edge)] = breadth(words(edge))
        return {box: room(found.get(box, {}).values()) for box in self._parents if box not in self.levels}

    def _way(self, of: str) -> list[str]:
        """Return *of* and the groups around it, innermost first."""
        way: list[str] = []
        at: str | None = of
        while at is not None:
            way.append(at)
            at = self._parents[at]
        return way

    def _apart(self, one: str, other: str) -> tuple[list[str], list[str]]:
        """Return the ways of both up to where they meet: the last of each stand side by side."""
        up, down = self._way(one), self._way(other)
        while up[-1] == down[-1]:
            up.pop()
            down.pop()
        return up, down

    def _connect(self, edges: Iterable[Edge]) -> None:
        meeting: dict[str | None, list[tuple[str, str, Edge]]] = {}
        for edge in edges:
            if edge.source != edge.target:
                up, down = self._apart(edge.source, edge.target)
                meeting.setdefault(self._parents[up[-1]], []).append((up[-1], down[-1], edge))
        for level, found in meeting.items():
            place = _places(self.levels[level].children, [item for item in found if not item[2].is_back])
            for source, target, edge in found:
                kind = "flow" if edge.is_flow else edge.kind
                if place[source] < place[target]:
                    self._wire((edge.source, kind), edge.source, edge.target, edge)
                else:  # against the flow: laid out the other way round
                    self._wire((edge.target, f"back {kind}"), edge.target, edge.source, edge)

    def _wire(self, net: Net, upper: str, lower: str, edge: Edge) -> None:
        """Lead *net* out of the groups around *upper* and into those around *lower*."""
        up, down = self._apart(upper, lower)
        for inner, around in pairwise(up):
            level = self.levels[around]
            if net not in level.leaves:
                level.leaves[net] = None
                level.wires.append((net, inner, None, None))
        outer = self._parents[up[-1]]
        source: str | None = up[-1]
        for inner in reversed(down):
            if inner == lower:
                self.levels[outer].wires.append((net, source, inner, edge))
            elif net not in self.levels[inner].enters:
                self.levels[inner].enters[net] = None
                self.levels[outer].wires.append((net, source, inner, None))
            outer, source = inner, None


def _places(children: Iterable[str], edges: Iterable[tuple[str, str, Edge]]) -> dict[str, int]:
    """
    Return an order of *children* that *edges* follow.

    Where groups contradict each other, edges that are only asked or read are ignored first, those of the flow last.
    """
    downs: dict[str, list[tuple[str, bool]]] = {child: [] for child in children}
    ups, flows = dict.fromkeys(downs, 0), dict.fromkeys(downs, 0)
    for source, target, edge in edges:
        downs[source].append((target, edge.is_flow))
        ups[target] += 1
        flows[target] += edge.is_flow
    place: dict[str, int] = {}
    ready: list[str] = [child for child in downs if not ups[child]]
    nearly = deque(child for child in downs if ups[child] and not flows[child])
    rest = iter(downs)
    while len(place) < len(downs):
        while not ready and nearly:
            child = nearly.popleft()
            if child not in place:
                ready.append(child)
        child = ready.pop() if ready else next(rest)
        if child in place:
            continue
        place[child] = len(place)
        for target, is_flow in downs[child]:
            ups[target] -= 1
            flows[target] -= is_flow
            if not ups[target]:
                ready.append(target)
            elif is_flow and not flows[target]:
                nearly.append(target)
    return place
