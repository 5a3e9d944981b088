"""
The picture of a run for a page with a style sheet and a strict content security policy.

It is the drawing of :meth:`weft.Run.to_svg`, with five changes: nothing is styled inline, every box can have the
focus, the box of what is chosen is marked, a box in a map has a strip of its elements, the worst first, and what
several lines share says which components it leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from html import unescape
from typing import TYPE_CHECKING, Final

import msgspec

from weft.core.draw import svg
from weft.core.draw.progress import Progress
from weft.core.draw.text_width import visible
from weft.views.hidden import hidden_progress

if TYPE_CHECKING:
    from weft.core.draw.drawable import Drawable

STRIP: Final = 64.0
"""How wide a strip of elements is."""
THINNEST: Final = 2.0
"""However few there are in a state, they are seen."""

_STYLE = re.compile(r' role="img" font-family="[^"]*" style="[^"]*"')
_BOX = re.compile(
    r'<g data-name="([^"]*)" data-kind="([^"]*)"( data-state="([a-z]+)")?>\n?<title>([^<]*)</title>(.*?)</g></g>',
    re.DOTALL,
)
_NET = re.compile(r'(<g fill="none" stroke="[^"]*" stroke-width="1\.4"[^>]*>)(.*?)</g>', re.DOTALL)
_LINE = re.compile(r'<path d="([^"]*)"(?: data-edge="([^"]*)" data-from="([^"]*)" data-to="([^"]*)")?/>')
_JOIN = re.compile(r'<g>(<path d="M([\d.-]+ [\d.-]+)V[\d.-]+" stroke="[^"]*" stroke-width="1\.4" fill="none"/>)')
_LAST_LINE = re.compile(r'.*<text x="([\d.-]+)" y="([\d.-]+)"', re.DOTALL)


def page_graph(subject: Drawable, *, selected: str | None = None, may_see: bool = True) -> str:
    """
    Return the drawing of *subject*, a workflow or a run.

    Args:
        selected: the box of this component is marked.
        may_see: whether the messages of errors, which may quote values, are shown.
    """
    picture = subject.picture()
    if not may_see:
        boxes = [
            box if box.progress is None else msgspec.structs.replace(box, progress=hidden_progress(box.progress))
            for box in picture.boxes
        ]
        picture = msgspec.structs.replace(picture, boxes=tuple(boxes))
    counted = {visible(box.id): box.progress for box in picture.boxes if box.progress is not None and box.progress.of}
    drawn = _STYLE.sub(' role="group"', svg.to_svg(picture), count=1)

    def opened(found: re.Match[str]) -> str:
        name, kind, attribute, state, title, inside = found.groups()
        words = " ".join(filter(None, ("box", state, "sel" if name == selected else "")))
        focus = "" if kind == "input" else ' tabindex="0" role="button"'
        progress, last = counted.get(unescape(name)), _LAST_LINE.match(inside)
        strip = "" if progress is None or last is None else _strip(progress, float(last[1]), float(last[2]) + 4)
        return (
            f'<g class="{words}" data-name="{name}" data-kind="{kind}"{attribute or ""}{focus} aria-label="{title}">'
            f"<title>{title}</title>{inside}</g>{strip}</g>"
        )

    return _JOIN.sub(partial(_joined, drawn), _NET.sub(_divided, _BOX.sub(opened, drawn)))


def _divided(net: re.Match[str]) -> str:
    """Return the lines of a net, of which each piece that several share says where it comes from and leads to."""
    opening, inside = net.groups()
    lines = [line.groups() for line in _LINE.finditer(inside)]
    ends: dict[str, list[str]] = {}
    for path, edge, _, target in lines:
        if edge is not None:
            ends.setdefault(_start(path), []).append(target)
    source = next((source for _, edge, source, _ in lines if edge is not None), "")
    trunk = [f"M{piece}" for path, edge, *_ in lines if edge is None for piece in path.split("M") if piece]
    for piece in sorted(trunk, key=lambda piece: -float(_start(piece).split(" ")[1])):  # from below
        ends.setdefault(_start(piece), []).extend(ends.get(_end(piece), ()))
    targets = {piece: "&#10;".join(dict.fromkeys(ends.get(_end(piece), ()))) for piece in trunk}
    shared = "".join(f'<path d="{piece}" data-trunk="{targets[piece]}" data-from="{source}"/>' for piece in trunk)
    return f"{opening}{shared}{''.join(line[0] for line in _LINE.finditer(inside) if line[2] is not None)}</g>"


def _joined(drawn: str, mark: re.Match[str]) -> str:
    """Return the mark of a join, which says what it is the join of."""
    place = mark[2]
    ends = (line[4] for line in _LINE.finditer(drawn) if line[2] == "join" and _end(line[1]) == place)
    return f'<g data-join="{next(ends, "")}">{mark[1]}'


def _start(path: str) -> str:
    """
    Return where a line begins.

    >>> _start("M240.5 121.0V121.0C240.5 149.4 89.5 149.4 89.5 177.8")
    '240.5 121.0'
    """
    return re.split("[VC]", path[1:], maxsplit=1)[0]


def _end(path: str) -> str:
    """
    Return where a line ends.

    >>> _end("M240.5 121.0V121.0C240.5 149.4 89.5 149.4 89.5 177.8"), _end("M5.0 1.0V2.0C5.0 3.0 7.0 3.0 7.0 4.0V9.0")
    ('89.5 177.8', '7.0 9.0')
    """
    x, y = _start(path).split(" ")
    for kind, numbers in re.findall("([VC])([^VC]*)", path):
        *_, y = numbers.split(" ")
        x = x if kind == "V" else numbers.split(" ")[-2]
    return f"{x} {y}"


def _strip(progress: Progress, middle: float, y: float) -> str:
    """Return the states of the elements of a map, as a strip around *middle* whose upper edge is *y*."""
    left = x = middle - STRIP / 2
    parts: list[str] = []
    for state, width in _shares(progress):
        parts.append(f'<rect class="{state}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="3"/>')
        x += width
    room = f'<rect class="room" x="{left:.1f}" y="{y:.1f}" width="{STRIP:.1f}" height="3"/>'
    return f'<g class="elements" aria-hidden="true">{room}{"".join(parts)}</g>'


def _shares(progress: Progress) -> Iterable[tuple[str, float]]:
    """Yield how wide each state is drawn, the worst first; together at most as wide as a strip."""
    counts = {
        "failed": progress.failed,
        "gated": progress.skipped + progress.refused,
        "done": progress.done,
    }
    if progress.of is None:
        return
    left = STRIP
    for state, number in counts.items():
        if number and left > 0:
            width = min(left, max(THINNEST, STRIP * number / progress.of))
            yield state, width
            left -= width
