"""
Computes where lines meet the boxes they belong to.

Each net leaves a box at one port.  The edges of a join enter a box at one port; edges that arrive separately have
separate ports.  Ports are ordered by where their lines go, with room for the labels between them, and a line that is
nearly straight is made straight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from weft.core.draw.edge_labels import EDGE_OF_BOX, NEARLY, breadth, spacing, way_in, words
from weft.core.draw.layout import Line, Rect

Ports = dict[Hashable, list[Line]]
"""The lines of each port of a box."""


def attach(lines: list[Line], boxes: Mapping[str, Rect]) -> None:
    """Move the ends of *lines* to the ports of *boxes*, and say on which side of them there is room for words."""
    leaving: dict[str, Ports] = {}
    arriving: dict[str, Ports] = {}
    for line in lines:
        if line.upper is not None:
            leaving.setdefault(line.upper, {}).setdefault(line.net, []).append(line)
        if line.lower is not None:
            arriving.setdefault(line.lower, {}).setdefault(way_in(line.net, line.edge), []).append(line)
    for name, ports in leaving.items():
        for members, x in _placed(
            boxes[name], [(members, [line.x2 for line in members]) for members in ports.values()]
        ):
            for line in members:
                line.x1 = x
    for name, ports in arriving.items():
        ends = [(members, [line.x1 for line in members]) for members in ports.values()]
        for place, (members, x) in enumerate(_placed(boxes[name], ends, has_words=True)):
            for line in members:
                line.x2, line.is_left = x, place == 0 and len(ports) > 1


def _placed(
    box: Rect, ports: list[tuple[list[Line], list[float]]], *, has_words: bool = False
) -> list[tuple[list[Line], float]]:
    """Return where each port is, from left to right, by where the other ends of its lines are."""
    middle = box.x + box.width / 2
    free = max(box.width / 2 - EDGE_OF_BOX, 0.0)
    if len(ports) == 1:
        [(members, ends)] = ports
        is_nearly = len(ends) == 1 and abs(ends[0] - middle) <= min(NEARLY, free)
        return [(members, ends[0] if is_nearly else middle)]
    order = sorted(ports, key=lambda port: sum(port[1]) / len(port[1]))
    labels = [breadth(words(members[0].edge)) if has_words else 0.0 for members, _ in order]
    apart = spacing(labels)
    scale = min(1.0, 2 * free / sum(apart))
    places = [middle + scale * (sum(apart[:place]) - sum(apart) / 2) for place in range(len(order))]
    return [(members, x) for (members, _), x in zip(order, places, strict=True)]
