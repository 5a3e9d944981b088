"""
Shapes and colours: a shape by kind, a colour by state.

Boxes are opaque, with dark text, and everything outside them has a middle tone, so that a picture is readable on a
light and on a dark page.  A new kind of component needs no line here: it is a box, or a
``store`` (a drum) if it keeps state.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from weft.core.draw.picture import Box, EdgeKind
from weft.core.draw.progress import State

Shape = Literal["box", "pill", "hexagon", "octagon", "fan_out", "fan_in", "store", "frame"]

SHAPES: Final[dict[str, Shape]] = {
    "input": "pill",
    "step": "box",
    "condition": "hexagon",
    "rule": "octagon",
    "map": "fan_out",
    "reduce": "fan_in",
    "collect": "fan_in",
    "group_by": "fan_in",
    "turn": "pill",
    "accumulator": "store",
    "saga": "frame",
    "process_manager": "frame",
    "state": "pill",
    "final": "frame",
    "sleep": "pill",
    "wait_for": "pill",
}


class Paint(msgspec.Struct, frozen=True):
    """The colours of a box."""

    fill: str
    line: str
    ink: str


PLAIN: Final = Paint("#f7f8fb", "#66738c", "#1d2638")
STATES: Final[dict[State, Paint]] = {
    "unreached": Paint("#f4f5f7", "#b3bac6", "#6d7686"),
    "waiting": Paint("#fdf3dc", "#c08a1e", "#4d3706"),
    "ready": Paint("#e6effc", "#3f78cf", "#12305e"),
    "running": Paint("#d3e3fb", "#2b62bd", "#0e2a57"),
    "done": Paint("#e5f4ea", "#3a9561", "#12402a"),
    "gated": Paint("#eceef2", "#8a94a6", "#4b5567"),
    "skipped": Paint("#eceef2", "#8a94a6", "#4b5567"),
    "failed": Paint("#fde8e7", "#cf4a45", "#641613"),
}
EDGE: Final = "#7f8a9d"
READ: Final = "#8d7fc4"
ERROR: Final = "#cf4a45"
FRAME: Final = "#8f9bb0"
TAB: Final = "#68748b"
WORDS: Final[dict[EdgeKind, str]] = {
    "flow": "#566178",
    "join": "#566178",
    "ask": "#566178",
    "read": "#6455a3",
    "error": "#b2332e",
}
"""The ink of what is written beside lines, always on a light ground."""


def shape_of(box: Box) -> Shape:
    """Return the shape of *box*."""
    return SHAPES.get(box.kind, "store" if box.keeps_state else "box")


def paint_of(box: Box) -> Paint:
    """Return the colours of *box*."""
    return PLAIN if box.progress is None else STATES[box.progress.state]
