"""``weft cancel``: closes a run."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import AsJson, By, RunId, Undo, caller
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located


def cancel(
    run: RunId,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    undo: Undo = True,
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Close a run.  What is in flight is cancelled, and what was done is undone; nothing else starts."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.cli.changing import changing, print_stored

        url = located(store)
        with changing(url) as (runner, source):
            was_cancelled = source.find(run).status == "cancelled"
            runner.cancel(run, reason, undo=undo, by=caller(by))
            if was_cancelled:
                screen.note(f"{run}: it was cancelled before")
            else:
                print_stored(screen, url, source, run, "the request to cancel is stored", as_json=as_json)
