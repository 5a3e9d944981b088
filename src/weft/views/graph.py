"""
The picture of a run for a page with a style sheet and a strict content security policy.

It is the drawing of :meth:`weft.Run.to_svg`, with five changes: nothing is styled inline, every box can have the
focus, the box of what is chosen is marked, a box in a map has a strip of its elements, the worst first, and what
several lines share says which components it leads to.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    return svg.to_svg(picture, PageForm(selected))


class PageForm(svg.Form):
    """Writes the parts of a drawing for the style sheet and the scripts of a page."""

    root = 'role="group"'

    def __init__(self, selected: str | None) -> None:
        self._selected = None if selected is None else visible(selected)

    def box(self, drawn: svg.DrawnBox) -> str:
        """Return a box that can have the focus, with a strip of its elements if it is in a map."""
        progress, kind = drawn.box.progress, drawn.box.kind
        state = None if progress is None else progress.state
        words = " ".join(filter(None, ("box", state, "sel" if drawn.name == self._selected else "")))
        focus = "" if kind == "input" else ' tabindex="0" role="button"'
        strip = "" if progress is None or not progress.of else _strip(progress, drawn.middle, drawn.below + 4)
        attributes = f'class="{words}" {svg.attributes_of(drawn)}{focus} aria-label={svg.quoted(drawn.title)}'
        return f"<g {attributes}><title>{svg.escape(drawn.title)}</title>{drawn.inside}{strip}</g>"

    def net(self, drawn: svg.DrawnNet) -> str:
        """Return the lines of a net, of which each piece that several share says where it comes from and leads to."""
        last = [line for line in drawn.lines if line.edge is not None]
        shared = [line for line in drawn.lines if line.edge is None]
        ends: dict[svg.Point, list[str]] = {}
        for line in last:
            ends.setdefault(line.start, []).append(visible(line.edge.target) if line.edge else "")
        for line in sorted(shared, key=lambda line: -float(line.start[1])):  # from below
            ends.setdefault(line.start, []).extend(ends.get(line.end, ()))
        source = next((visible(line.edge.source) for line in last if line.edge is not None), "")
        paths = [_shared(line, source, dict.fromkeys(ends.get(line.end, ()))) for line in shared]
        return f"<g {drawn.style}>{''.join([*paths, *map(svg.ended, last)])}</g>{drawn.heads}"

    def join(self, drawn: svg.DrawnJoin) -> str:
        """Return the mark of a join, which says what it is the join of."""
        return f"<g data-join={svg.quoted(drawn.target)}>{drawn.inside}</g>"


def _shared(line: svg.DrawnLine, source: str, targets: Iterable[str]) -> str:
    """Return a piece of a net that leads to several *targets*."""
    leads_to = "&#10;".join(svg.quoted(target)[1:-1] for target in targets)
    return f'<path d="{line.path}" data-trunk="{leads_to}" data-from={svg.quoted(source)}/>'


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
