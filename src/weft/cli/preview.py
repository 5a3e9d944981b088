"""Prints what a fork or an upgrade would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from weft.cli.screen import Screen

if TYPE_CHECKING:
    from weft.core.run.preview import Preview


def print_preview(screen: Screen, preview: Preview, *, as_json: bool) -> None:
    """Print *preview*."""
    if as_json:
        screen.json(msgspec.structs.asdict(preview), indent=2)
        return
    for line in str(preview).split("\n"):
        screen.line(line)
