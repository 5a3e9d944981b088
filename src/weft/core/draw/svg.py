"""
A picture as SVG: no script, no style sheet, no reference to anything outside, so it can be part of any page.

Nothing in it has an id, so two pictures in one notebook do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from weft.core.draw.anchors import attach
from weft.core.draw.edge_labels import AWAY, LABEL_SIZE, breadth, short, way_in, words
from weft.core.draw.layers import Net
from weft.core.draw.layout import Layout, Line, Rect, Size
from weft.core.draw.outline import outline
from weft.core.draw.picture import Box, Edge, Group, Picture
from weft.core.draw.text_width import shortened, visible, width
from weft.core.draw.theme import EDGE, ERROR, FRAME, PLAIN, READ, TAB, WORDS, paint_of, shape_of

NAME_SIZE: Final = 13.0
SMALL_SIZE: Final = 10.5
TITLE_EDGES: Final = 19.0
"""How much wider than its text a title is."""
MARGIN: Final = 12.0
JOINED: Final = 13.0
"""How far above a box the edges of a join meet."""
FONT: Final = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, 'DejaVu Sans', sans-serif"

_COLOURS: Final = {"read": READ, "error": ERROR}
_DASHES: Final = {"read": "5 4", "ask": "1.5 3.5"}


Point = tuple[str, str]
"""A place in a drawing, as it is written there."""


class DrawnBox(NamedTuple):
    """A box as it is drawn."""

    box: Box
    name: str
    title: str
    """Its tooltip."""
    inside: str
    """Its shape and its words."""
    middle: float
    below: float
    """Where its last word stands."""


class DrawnLine(NamedTuple):
    """A stretch of a net as it is drawn."""

    path: str
    start: Point
    end: Point
    edge: Edge | None
    """The edge that ends with it; None if several share it."""


class DrawnNet(NamedTuple):
    """The lines that leave one box, and are drawn alike."""

    style: str
    lines: list[DrawnLine]
    heads: str
    """Its arrow heads."""


class DrawnJoin(NamedTuple):
    """The mark in which the edges of a join meet."""

    target: str
    """The box that it is the join of."""
    inside: str


class Form:
    """Writes the parts of a drawing so that it can stand alone; a page with a style sheet writes them otherwise."""

    root = f'role="img" font-family="{FONT}" style="max-width:100%;block-size:auto"'

    def box(self, drawn: DrawnBox) -> str:
        """Return a box."""
        return f"<g {attributes_of(drawn)}><title>{escape(drawn.title)}</title>{drawn.inside}</g>"

    def net(self, drawn: DrawnNet) -> str:
        """Return the lines of a net."""
        trunk = "".join(line.path for line in drawn.lines if line.edge is None)
        paths = [f'<path d="{trunk}"/>'] if trunk else []
        paths += [ended(line) for line in drawn.lines if line.edge is not None]
        return f"<g {drawn.style}>{''.join(paths)}</g>{drawn.heads}"

    def join(self, drawn: DrawnJoin) -> str:
        """Return the mark of a join."""
        return f"<g>{drawn.inside}</g>"


def attributes_of(drawn: DrawnBox) -> str:
    """Return which component a box is, and in which state, as attributes."""
    progress = drawn.box.progress
    state = "" if progress is None else f' data-state="{progress.state}"'
    return f"data-name={quoted(drawn.name)} data-kind={quoted(drawn.box.kind)}{state}"


def ended(line: DrawnLine) -> str:
    """Return the stretch with which an edge ends."""
    edge = cast("Edge", line.edge)
    ends = f"data-from={quoted(visible(edge.source))} data-to={quoted(visible(edge.target))}"
    return f'<path d="{line.path}" data-edge="{edge.kind}" {ends}/>'


def to_svg(picture: Picture, form: Form | None = None) -> str:
    """
    Return *picture* as an SVG document.

    Args:
        form: writes its parts; by default so that they can stand in any page.
    """
    form = form or Form()
    layout = Layout(picture, *measured(picture))
    attach(layout.lines, layout.boxes)
    wide, high = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    # Some renderers (cairosvg) take "height: auto" for no height; they do not know "block-size", which browsers do.
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="{-MARGIN:g} {-MARGIN:g} {wide:.0f} {high:.0f}" {form.root}>'
    )
    parts = [opening, f"<title>{_text(picture.name)}</title>"]
    parts.extend(_frame(layout.groups[group.id]) for group in picture.groups)
    parts.extend(_lines(layout, form))
    parts.extend(_loop(edge, layout.boxes[edge.source]) for edge in picture.edges if edge.source == edge.target)
    parts.extend(_title(group, layout.groups[group.id], layout.titles[group.id]) for group in picture.groups)
    parts.extend(form.box(_box(box, layout.boxes[box.id])) for box in picture.boxes)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def measured(picture: Picture) -> tuple[dict[str, Size], dict[str, float]]:
    """Return how large the boxes of *picture* are by themselves, and how wide the titles of its groups."""
    titles = {group.id: width(short(group.label), SMALL_SIZE) + TITLE_EDGES for group in picture.groups}
    return {box.id: _size(box) for box in picture.boxes}, titles


_TEXT: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ATTRIBUTE: Final = {**_TEXT, ord('"'): "&quot;"}


def escape(text: str) -> str:
    """
    Return *text* as the content of an element.  ``xml.sax.saxutils`` has this too, and imports an HTTP client.

    >>> escape("a < b & c")
    'a &lt; b &amp; c'
    """
    return text.translate(_TEXT)


def quoted(text: str) -> str:
    """
    Return *text* as the value of an attribute, with its quotes.

    >>> quoted('say "hi"')
    '"say &quot;hi&quot;"'
    """
    return f'"{text.translate(_ATTRIBUTE)}"'


def _text(text: str) -> str:
    return escape(visible(text))


# -- boxes ---------------------------------------------------------------------------------------


def _rows(box: Box) -> list[tuple[str, float]]:
    rows = [(short(box.label), NAME_SIZE if box.kind != "input" else SMALL_SIZE + 0.5)]
    if box.note:
        rows.append((short(box.note), SMALL_SIZE))
    if box.progress is not None and box.progress.summary:
        rows.append((box.progress.summary, SMALL_SIZE))
    return rows


def _size(box: Box) -> Size:
    rows = _rows(box)
    around = {"hexagon": 40.0, "fan_out": 44.0, "fan_in": 44.0, "octagon": 30.0}.get(shape_of(box), 28.0)
    high = 15.0 + sum(size + 5.0 for _, size in rows) - 2.0
    if shape_of(box) == "store":
        high += 7.0
    wide = max(width(text, size) for text, size in rows) + around
    return round(max(wide, 64.0 if box.kind == "input" else 84.0)), round(high)


def _box(box: Box, rect: Rect) -> DrawnBox:
    paint, shape = paint_of(box), shape_of(box)
    dashed = ' stroke-dasharray="4 3"' if box.progress is not None and box.progress.state == "skipped" else ""
    middle = rect.x + rect.width / 2
    rows = _rows(box)
    y = rect.y + (rect.height - sum(size + 5.0 for _, size in rows) + 4.0) / 2 + (3.5 if shape == "store" else 0.0)
    texts: list[str] = []
    for place, (text, size) in enumerate(rows):
        y += size
        weight = ' font-weight="600"' if place == 0 and box.kind != "input" else ' opacity="0.85"'
        texts.append(f'<text x="{middle:.1f}" y="{y - 1:.1f}" font-size="{size:g}"{weight}>{escape(text)}</text>')
        y += 5.0
    body, *lines = outline(shape, rect)
    drawn = f'<path d="{body}" fill="{paint.fill}"/>' + "".join(f'<path d="{line}" fill="none"/>' for line in lines)
    inside = (
        f'<g stroke="{paint.line}" stroke-width="1.3"{dashed}>{drawn}</g>'
        f'<g fill="{paint.ink}" text-anchor="middle">{"".join(texts)}</g>'
    )
    return DrawnBox(box, visible(box.id), visible(_tooltip(box)), inside, middle, y - 6)


def _tooltip(box: Box) -> str:
    told = box.id if box.kind == "input" else f"{box.id}: {box.kind}"
    if box.note:
        told += f", {box.note}"
    if box.progress is not None:
        told += f"; {box.progress.state} {box.progress.summary}"
        told += f"; {box.progress.error}" if box.progress.error else ""
    return told


# -- groups --------------------------------------------------------------------------------------


def _frame(rect: Rect) -> str:
    return (
        f'<rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" rx="9" '
        f'fill="{FRAME}" fill-opacity="0.10" stroke="{FRAME}" stroke-opacity="0.7"/>'
    )


def _title(group: Group, rect: Rect, room: float) -> str:
    """Draw the title of *group*, as much of it as there is *room* for."""
    text = short(group.label)
    while len(text) > 1 and width(text, SMALL_SIZE) + TITLE_EDGES > room:
        text = shortened(text, len(text) - 1)
    wide = width(text, SMALL_SIZE) + TITLE_EDGES - 5
    tab = f"M{rect.x + 9:.1f} {rect.y:.1f}h{wide - 9:.1f}q5 0 5 5v7q0 5 -5 5h{-wide:.1f}v-8q0 -9 9 -9z"
    return (
        f'<g><title>{_text(group.label)}</title><path d="{tab}" fill="{TAB}"/>'
        f'<text x="{rect.x + 8:.1f}" y="{rect.y + 12.5:.1f}" font-size="{SMALL_SIZE:g}" fill="#ffffff">'
        f"{escape(text)}</text></g>"
    )


# -- lines ---------------------------------------------------------------------------------------


def _lines(layout: Layout, form: Form) -> Iterator[str]:
    """Yield the lines, those of one net together, then the marks of joins and what is written beside lines."""
    joins: dict[tuple[object, ...], list[Line]] = {}
    for line in layout.lines:
        if line.edge is not None and line.edge.kind == "join" and not line.net[1].startswith("back "):
            joins.setdefault((line.lower, way_in(line.net, line.edge)), []).append(line)
    labels: dict[tuple[object, ...], str] = {}
    for line in layout.lines:
        if line.lower is not None and (text := words(line.edge)):
            labels[line.lower, way_in(line.net, line.edge)] = _label(text, line)
    marks: list[str] = []
    for members in joins.values():
        marks.append(form.join(_join(members)))
        for line in members:
            line.bottom -= JOINED
    nets: dict[Net, list[Line]] = {}
    for line in layout.lines:
        nets.setdefault(line.net, []).append(line)
    for (_, kind), members in nets.items():
        yield form.net(_net(kind, members))
    yield from marks
    yield from labels.values()


def _net(kind: str, members: list[Line]) -> DrawnNet:
    is_back = kind.startswith("back ")
    word = kind.removeprefix("back ")
    colour = _COLOURS.get(word, EDGE)
    dash = f' stroke-dasharray="{_DASHES[word]}"' if word in _DASHES else ""
    heads: list[str] = []
    for line in members:
        if line.edge is not None and not is_back and line.edge.kind != "join":
            heads.append(_head(line.x2, line.bottom))
        if is_back and line.upper is not None:
            heads.append(_head(line.x1, line.top, up=True))
    style = f'fill="none" stroke="{colour}" stroke-width="1.4"{dash}'
    drawn = f'<path d="{"".join(dict.fromkeys(heads))}" fill="{colour}"/>'
    return DrawnNet(style, [_line(line) for line in members], drawn)


def _line(line: Line) -> DrawnLine:
    begin = f"M{line.x1:.1f} {line.top:.1f}V{line.start:.1f}"
    start, bottom = (f"{line.x1:.1f}", f"{line.top:.1f}"), f"{line.bottom:.1f}"
    if abs(line.x1 - line.x2) < 0.5:
        return DrawnLine(f"{begin}V{bottom}", start, (start[0], bottom), line.edge)
    end = min(line.end, line.bottom)
    half = (line.start + end) / 2
    bend = f"C{line.x1:.1f} {half:.1f} {line.x2:.1f} {half:.1f} {line.x2:.1f} {end:.1f}"
    path = begin + bend + (f"V{bottom}" if line.bottom > end else "")
    return DrawnLine(path, start, (f"{line.x2:.1f}", bottom), line.edge)


def _head(x: float, y: float, *, up: bool = False) -> str:
    back = 7.0 if up else -7.0
    return f"M{x:.1f} {y:.1f}l-3.8 {back:g}h7.6z"


def label(text: str, line: Line) -> Rect:
    """Return the position of *text* beside the lower end of *line*."""
    wide = breadth(text)
    return Rect(line.x2 - AWAY - wide if line.is_left else line.x2 + AWAY, line.bottom - 22.5, wide, 13.0)


def _label(text: str, line: Line) -> str:
    """Write *text* beside *line*, on an opaque ground: a line that has no room may run behind it."""
    at = label(text, line)
    colour = WORDS[line.edge.kind if line.edge is not None else "flow"]
    return (
        f'<g><rect x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:g}" rx="3" '
        f'fill="{PLAIN.fill}"/>'
        f'<text x="{at.x + at.width / 2:.1f}" y="{at.y + 9.7:.1f}" font-size="{LABEL_SIZE:g}" text-anchor="middle" '
        f'fill="{colour}">{escape(text)}</text></g>'
    )


def _join(members: list[Line]) -> DrawnJoin:
    """Draw the mark in which the edges of a join meet."""
    x, y, edge = members[0].x2, members[0].bottom, cast("Edge", members[0].edge)
    inside = (
        f'<path d="M{x:.1f} {y - JOINED:.1f}V{y - 4:.1f}" stroke="{EDGE}" stroke-width="1.4" fill="none"/>'
        f'<path d="{_head(x, y)}" fill="{EDGE}"/>'
        f'<circle cx="{x:.1f}" cy="{y - JOINED:.1f}" r="3.4" fill="{EDGE}"/>'
    )
    return DrawnJoin(visible(edge.target), inside)


def _loop(edge: Edge, rect: Rect) -> str:
    x, y = rect.x + rect.width, rect.y + rect.height / 2
    colour = _COLOURS.get(edge.kind, EDGE)
    ends = f"data-from={quoted(visible(edge.source))} data-to={quoted(visible(edge.target))}"
    return (
        f'<path d="M{x:.1f} {y - 7:.1f}c16 -4 16 18 2 14" fill="none" stroke="{colour}" stroke-width="1.4" '
        f'stroke-dasharray="4 3" data-edge="{edge.kind}" {ends}/>'
        f'<path d="M{x:.1f} {y + 7:.1f}l7 -4v7.6z" fill="{colour}"/>'
    )
