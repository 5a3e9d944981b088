"""
Text for Mermaid: a flowchart of a picture.

    >>> escaped('say "hi" to #1')
    'say #quot;hi#quot; to #35;1'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from weft.core.draw.picture import Box, Edge, Group, Picture
from weft.core.draw.text_width import visible
from weft.core.draw.theme import ERROR, FRAME, PLAIN, READ, STATES, Paint, Shape, shape_of
from weft.errors import InvalidDrawing

DIRECTIONS: Final = ("TD", "TB", "BT", "LR", "RL")

_SHAPES: Final[dict[Shape, tuple[str, str]]] = {
    "box": ("(", ")"),
    "pill": ("([", "])"),
    "hexagon": ("{{", "}}"),
    "octagon": ("[/", "/]"),
    "fan_out": ("[/", "\\]"),
    "fan_in": ("[\\", "/]"),
    "store": ("[(", ")]"),
    "frame": ("[[", "]]"),
}
_ARROWS: Final = {"flow": "-->", "join": "-->", "ask": "-.->", "read": "-.->", "error": "-->"}
# What ends a label or begins something else in it; Mermaid also reads labels as Markdown, where a list, a link or
# emphasis would be lost.
_SPECIAL = re.compile(r"""[#"&<>`\\;%*~\[\]]|(?<![^\W_])_|_(?![^\W_])|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]""")
_NAMED: Final = {'"': "#quot;", "&": "#amp;", "<": "#lt;", ">": "#gt;"}
_PLAIN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Words of flowcharts, words of sequence diagrams, and what every object of Mermaid's own language has.
_RESERVED: Final = frozenset(
    {
        *("end", "graph", "flowchart", "swimlane", "subgraph", "class", "classdef", "style", "linkstyle", "click"),
        *("href", "call", "direction", "default", "interpolate"),
        *("tb", "td", "bt", "lr", "rl", "br"),
        *("participant", "actor", "note", "loop", "alt", "else", "opt", "par", "and", "par_over", "rect", "over"),
        *("as", "box", "break", "critical", "option", "create", "destroy"),
        *("activate", "deactivate", "autonumber", "title", "acctitle", "accdescr", "link", "links", "properties"),
        *("details", "left", "right"),
        *("constructor", "prototype", "tostring", "tolocalestring", "valueof", "hasownproperty", "isprototypeof"),
        "propertyisenumerable",
    }
)


def escaped(text: str) -> str:
    """Return *text* for the inside of a quoted label, on one line."""
    return _SPECIAL.sub(lambda match: _NAMED.get(match.group(), f"#{ord(match.group())};"), visible(text))


def ids(names: Sequence[str]) -> dict[str, str]:
    """
    Return a plain id for each of *names*: itself, where that cannot be mistaken for a word of the language.

    >>> ids(["fetch", "end", "crawl.title", "n1"])
    {'fetch': 'fetch', 'end': 'n1_', 'crawl.title': 'n2', 'n1': 'n1'}
    """
    found = {name: name for name in names if _PLAIN_ID.fullmatch(name) and name.lower() not in _RESERVED}
    result: dict[str, str] = {}
    taken = set(found)
    for place, name in enumerate(names):
        own = found.get(name)
        if own is None:
            own = f"n{place}"
            while own in taken:
                own += "_"
            taken.add(own)
        result[name] = own
    return result


def to_mermaid(picture: Picture, direction: str = "TD") -> str:
    """Return *picture* as a flowchart."""
    if direction not in DIRECTIONS:
        raise InvalidDrawing("direction", direction, DIRECTIONS)
    known = ids([box.id for box in picture.boxes])
    lines = [f"flowchart {direction}", *_inside(picture, known)]
    lines += [_edge(edge, known) for edge in picture.edges]
    lines += _styles(picture, known)
    return "\n".join(lines) + "\n"


def _inside(picture: Picture, known: dict[str, str]) -> Iterator[str]:
    groups: dict[str | None, list[Group]] = {}
    boxes: dict[str | None, list[Box]] = {}
    for group in picture.groups:
        groups.setdefault(group.parent, []).append(group)
    for box in picture.boxes:
        boxes.setdefault(box.group, []).append(box)
    names = _group_ids(picture, known)

    def level(of: str | None, indent: str) -> Iterator[str]:
        for box in boxes.get(of, ()):
            yield f"{indent}{known[box.id]}{_shape(box)}"
        for group in groups.get(of, ()):
            yield f'{indent}subgraph {names[group.id]} ["{escaped(group.label)}"]'
            yield from level(group.id, f"{indent}  ")
            yield f"{indent}end"

    yield from level(None, "  ")


def _group_ids(picture: Picture, known: dict[str, str]) -> dict[str, str]:
    taken = set(known.values())
    names: dict[str, str] = {}
    for place, group in enumerate(picture.groups):
        own = f"group{place}"
        while own in taken:
            own += "_"
        names[group.id] = own
    return names


def _shape(box: Box) -> str:
    opening, closing = _SHAPES[shape_of(box)]
    lines = [escaped(box.label)]
    if box.note:
        lines.append(f"<small>{escaped(box.note)}</small>")
    if box.progress is not None and box.progress.summary:
        lines.append(f"<small>{escaped(box.progress.summary)}</small>")
    return f'{opening}"{"<br/>".join(lines)}"{closing}'


def _edge(edge: Edge, known: dict[str, str]) -> str:
    label = f'|"{escaped(edge.label)}"|' if edge.label else ""
    return f"  {known[edge.source]} {_ARROWS[edge.kind]}{label} {known[edge.target]}"


def _styles(picture: Picture, known: dict[str, str]) -> Iterator[str]:
    members: dict[str, list[str]] = {}
    for box in picture.boxes:
        members.setdefault("plain" if box.progress is None else box.progress.state, []).append(known[box.id])
    paints: dict[str, Paint] = {"plain": PLAIN} | {str(state): paint for state, paint in STATES.items()}
    for name, nodes in members.items():
        paint = paints[name]
        yield f"  classDef {name} fill:{paint.fill},stroke:{paint.line},color:{paint.ink}"
        yield f"  class {','.join(nodes)} {name}"
    for kind, colour in (("read", READ), ("error", ERROR)):
        places = [str(place) for place, edge in enumerate(picture.edges) if edge.kind == kind]
        if places:
            yield f"  linkStyle {','.join(places)} stroke:{colour}"
    for name in _group_ids(picture, known).values():
        yield f"  style {name} fill:none,stroke:{FRAME},color:{FRAME}"
