"""
The picture of a run for a page with a style sheet and a strict content security policy.

It is the drawing of :meth:`weft.Run.to_svg`, with four changes: nothing is styled inline, every box can have the
focus, the box of what is chosen is marked, and a box in a map has a strip of its elements, the worst first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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

    return _BOX.sub(opened, drawn)


def _strip(progress: Progress, middle: float, y: float) -> str:
    """Return how the elements of a map stand, as a strip around *middle* whose upper edge is *y*."""
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
