"""
Where lines meet the boxes they belong to.

Each net leaves a box at one port, and each way into a box is one: the edges of a join end at the same port, those
that come one by one have their own.  Ports stand in the order of where their lines go, and a line that is nearly
straight is made straight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from weft.core.draw.layout import Line, Rect

APART: Final = 18.0
"""The distance between two ports, where there is room."""
FAR_APART: Final = 60.0
"""The same, where something is written between them."""
EDGE_OF_BOX: Final = 16.0
NEARLY: Final = 14.0
"""How far a line may be off to be made straight."""

Port = tuple[str, Hashable]


def attach(lines: list[Line], boxes: Mapping[str, Rect]) -> None:
    """Move the ends of *lines* to the ports of *boxes*."""
    leaving: dict[str, dict[Port, list[Line]]] = {}
    arriving: dict[str, dict[Port, list[Line]]] = {}
    for line in lines:
        if line.upper is not None:
            leaving.setdefault(line.upper, {}).setdefault((line.upper, line.net), []).append(line)
        if line.lower is not None:
            arriving.setdefault(line.lower, {}).setdefault((line.lower, way_in(line)), []).append(line)
    for name, ports in leaving.items():
        ends = {port: [line.x2 for line in members] for port, members in ports.items()}
        for port, x in _placed(boxes[name], ends, APART).items():
            for line in ports[port]:
                line.x1 = x
    for name, ports in arriving.items():
        ends = {port: [line.x1 for line in members] for port, members in ports.items()}
        says = len(ports) > 2 and any(line.edge and line.edge.label for members in ports.values() for line in members)
        for port, x in _placed(boxes[name], ends, FAR_APART if says else APART).items():
            for line in ports[port]:
                line.x2 = x


def way_in(line: Line) -> Hashable:
    """Return what the lines that end at the same port have in common."""
    edge = line.edge
    if edge is None or line.net[1].startswith("back "):
        return line.net[1]
    return ("flow", edge.inlet) if edge.is_flow else edge.kind


def _placed(box: Rect, ends: Mapping[Port, list[float]], apart: float) -> dict[Port, float]:
    """Return where each port is, by where the other *ends* of its lines are."""
    middle = box.x + box.width / 2
    free = max(box.width / 2 - EDGE_OF_BOX, 0.0)
    means = {port: sum(xs) / len(xs) for port, xs in ends.items()}
    order = sorted(ends, key=means.__getitem__)
    if len(order) == 1:
        [others] = ends.values()
        is_nearly = len(others) == 1 and abs(others[0] - middle) <= min(NEARLY, free)
        return {order[0]: others[0] if is_nearly else middle}
    apart = min(apart, 2 * free / (len(order) - 1))
    return {port: middle + (place - (len(order) - 1) / 2) * apart for place, port in enumerate(order)}
