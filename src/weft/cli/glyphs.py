"""The signs and colours of states, the same as in pictures and in the dashboard: colour is never the only sign."""

from __future__ import annotations

from typing import Final

from weft.core.draw.progress import SIGNS

GLYPHS: Final[dict[str, str]] = {
    **{str(state): sign for state, sign in SIGNS.items()},
    "unreached": "·",
    "completed": "✓",
    "idle": "✓",
    "cancelled": "⊗",
    "parked": "❚❚",
}
STYLES: Final[dict[str, str]] = {
    "completed": "green",
    "idle": "green",
    "done": "green",
    "running": "blue",
    "ready": "blue",
    "waiting": "yellow",
    "failed": "red",
    "parked": "red",
    "cancelled": "magenta",
}


def glyph(state: str) -> str:
    """Return the sign of *state*."""
    return GLYPHS.get(state, "?")


def style(state: str) -> str:
    """Return the colour of *state*; what has not happened is dim."""
    return STYLES.get(state, "dim")
