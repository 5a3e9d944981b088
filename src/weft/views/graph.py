"""
The picture of a run for a page with a style sheet and a strict content security policy.

It is the drawing of :meth:`weft.Run.to_svg`, with three changes: nothing is styled inline, every box can have the
focus, and the box of what is chosen is marked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.core.draw.drawable import Drawable

_STYLE = re.compile(r' role="img" font-family="[^"]*" style="[^"]*"')
_BOX = re.compile(r'<g data-name="([^"]*)" data-kind="([^"]*)"( data-state="([a-z]+)")?>\n?<title>([^<]*)</title>')


def page_graph(subject: Drawable, *, selected: str | None = None) -> str:
    """Return the drawing of *subject*, a workflow or a run, in which the box *selected* is marked."""
    drawn = _STYLE.sub(' role="group"', subject.to_svg(), count=1)

    def opened(found: re.Match[str]) -> str:
        name, kind, attribute, state, title = found.groups()
        words = " ".join(filter(None, ("box", state, "sel" if name == selected else "")))
        focus = "" if kind == "input" else ' tabindex="0" role="button"'
        return (
            f'<g class="{words}" data-name="{name}" data-kind="{kind}"{attribute or ""}{focus} aria-label="{title}">'
            f"<title>{title}</title>"
        )

    return _BOX.sub(opened, drawn)
