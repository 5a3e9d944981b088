"""
The entry ports of a box, and the labels above it.

Lines with the same meaning end at one port: the edges of a join, or reads or failures with the same label.  Above a box
that has labels, all lines run straight down: the first label is to the left of its line and the others are to the
right, and no other line runs through them.

    >>> spacing([30.0, 40.0, 30.0])
    [18.0, 52.0]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from weft.core.draw.layers import Net
from weft.core.draw.picture import Edge
from weft.core.draw.text_width import shortened, visible, width

LABEL_SIZE: Final = 9.5
LONGEST: Final = 34
"""How many characters of a name are shown; the whole of it is in the title, which browsers show on hovering."""
PADDING: Final = 4.0
"""How much wider than its words a label is."""
AWAY: Final = 6.0
"""The distance between a line and its label."""
APART: Final = 18.0
"""The distance between two ports, where there is room."""
PORTS: Final = 144.0
"""How far apart the first and the last of many ports may be for their own sake."""
EDGE_OF_BOX: Final = 16.0
NEARLY: Final = 14.0
"""How far a line may be off to be made straight."""
LANDING: Final = 25.0
"""How far above a box with words its lines stop bending."""


def short(text: str) -> str:
    """Return as much of *text* as is shown."""
    return shortened(visible(text), LONGEST)


def way_in(net: Net, edge: Edge | None) -> Hashable:
    """Return what the lines that end at the same port of a box have in common."""
    if edge is None:
        return net
    if net[1].startswith("back "):
        return net, edge.label
    return ("flow", edge.inlet) if edge.is_flow else (edge.kind, edge.label)


def words(edge: Edge | None) -> str:
    """Return the text beside *edge*; empty where it would add nothing."""
    if edge is None or edge.label in ("", "or") or (edge.kind == "join" and edge.label == "all"):
        return ""
    return short(edge.label)


def breadth(text: str) -> float:
    """Return how wide a label with *text* is."""
    return width(text, LABEL_SIZE) + PADDING if text else 0.0


def spacing(labels: Sequence[float]) -> list[float]:
    """Return the distances between ports whose labels, from left to right, are as wide as *labels*."""
    apart = min(APART, PORTS / max(len(labels) - 1, 1))
    return [max(apart, wide + 2 * AWAY if wide and place else 0.0) for place, wide in enumerate(labels[:-1])]


def room(labels: Iterable[float]) -> tuple[float, float]:
    """Return how wide a box must be for its *labels*, in whatever order, and how wide it is together with them."""
    widest = sorted(labels)
    if not any(widest):
        return 0.0, 0.0
    ports = sum(spacing([*widest[:1], *widest[2:], *widest[1:2]]))  # the narrowest may have to stand outside
    return ports + 2 * EDGE_OF_BOX, ports + 2 * (widest[-1] + AWAY + NEARLY)
