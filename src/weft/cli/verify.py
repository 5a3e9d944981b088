"""``weft verify``: checks the hash chain of one run."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import RunId
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption
from weft.errors import CorruptLog
from weft.views.text import count


def verify(
    run: RunId,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check that the log of a run is what was written.  Nothing was altered, dropped, reordered or cut off."""
    screen = Screen()
    with reading(screen, store) as view:
        try:
            checked = view.verify(run)
        except CorruptLog as error:
            if as_json:
                screen.json({"id": run, "verdict": "damaged", "reason": str(error)}, indent=2)
            raise
        if as_json:
            screen.json({"id": run, "verdict": "fine", **checked._asdict()}, indent=2)
            return
        held = f"{count(checked.events, 'event')} in {count(checked.segments, 'segment')}"
        screen.line(f"{held}: everything is as it was written")
        if checked.first > 1:
            screen.note(f"truncated: the events before {checked.first:,} were removed; the snapshot of them is there")
