r"""
Text for Graphviz.

    >>> print(quoted('say "hi"\n'))
    "say \"hi\""
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.core.draw.picture import Box, Edge, Group, Picture
from weft.core.draw.text_width import visible
from weft.core.draw.theme import EDGE, ERROR, FRAME, READ, Shape, paint_of, shape_of
from weft.errors import InvalidDrawing

DIRECTIONS: Final = {"TD": "TB", "TB": "TB", "BT": "BT", "LR": "LR", "RL": "RL"}

_SHAPES: Final[dict[Shape, str]] = {
    "box": 'shape=box, style="rounded,filled"',
    "pill": 'shape=box, style="rounded,filled"',
    "hexagon": "shape=hexagon, style=filled",
    "octagon": "shape=octagon, style=filled",
    "fan_out": "shape=trapezium, style=filled",
    "fan_in": "shape=invtrapezium, style=filled",
    "store": "shape=cylinder, style=filled",
    "frame": "shape=box, peripheries=2, style=filled",
}
_EDGES: Final = {
    "flow": f'color="{EDGE}"',
    "join": f'color="{EDGE}"',
    "ask": f'color="{EDGE}", style=dotted',
    "read": f'color="{READ}", style=dashed',
    "error": f'color="{ERROR}"',
}


def quoted(text: str) -> str:
    """Return *text* as a quoted string, on one line."""
    return '"' + visible(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_dot(picture: Picture, direction: str = "TD") -> str:
    """Return *picture* as a digraph; the name of a node is the name of its component."""
    if direction not in DIRECTIONS:
        raise InvalidDrawing("direction", direction, DIRECTIONS)
    names = _names(picture)
    lines = [
        f"digraph {quoted(picture.name)} {{",
        f"  graph [rankdir={DIRECTIONS[direction]}, bgcolor=transparent];",
        '  node [fontname="Helvetica,Arial,sans-serif", fontsize=11];',
        f'  edge [fontname="Helvetica,Arial,sans-serif", fontsize=9, fontcolor="{EDGE}"];',
        *_inside(picture, names),
        *(_edge(edge, names) for edge in picture.edges),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _names(picture: Picture) -> dict[str, str]:
    """Return a quoted name for every box; where two would look the same, the second gets a sign behind it."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for box in picture.boxes:
        name = visible(box.id)
        while name in taken:
            name += "'"
        taken.add(name)
        names[box.id] = quoted(name)
    return names


def _inside(picture: Picture, names: dict[str, str]) -> Iterator[str]:
    """Yield the boxes, those of a group inside its cluster."""
    groups: dict[str | None, list[tuple[int, Group]]] = {}
    boxes: dict[str | None, list[Box]] = {}
    for place, group in enumerate(picture.groups):
        groups.setdefault(group.parent, []).append((place, group))
    for box in picture.boxes:
        boxes.setdefault(box.group, []).append(box)

    def level(of: str | None, indent: str) -> Iterator[str]:
        for box in boxes.get(of, ()):
            yield f"{indent}{names[box.id]} [{_attributes(box)}];"
        for place, group in groups.get(of, ()):
            yield f"{indent}subgraph cluster_{place} {{"
            yield f'{indent}  label={quoted(group.label)}; style=rounded; color="{FRAME}"; fontcolor="{FRAME}";'
            yield from level(group.id, f"{indent}  ")
            yield f"{indent}}}"

    yield from level(None, "  ")


def _attributes(box: Box) -> str:
    paint = paint_of(box)
    lines = [box.label, *([box.note] if box.note else []), *([box.progress.summary] if box.progress else [])]
    label = "\\n".join(quoted(line)[1:-1] for line in lines if line)
    colours = f'fillcolor="{paint.fill}", color="{paint.line}", fontcolor="{paint.ink}"'
    return f'label="{label}", {_SHAPES[shape_of(box)]}, {colours}'


def _edge(edge: Edge, names: dict[str, str]) -> str:
    label = f", label={quoted(edge.label)}" if edge.label else ""
    free = ", constraint=false" if edge.is_back else ""
    return f"  {names[edge.source]} -> {names[edge.target]} [{_EDGES[edge.kind]}{label}{free}];"
