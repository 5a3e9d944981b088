"""``weft send``: sends a run a further input."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import AsJson, By, RunId, caller, parsed
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located


def send(
    run: RunId,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or @FILE with JSON.", show_default=False)],
    key: Annotated[
        str | None, typer.Option(help="Makes sending the same input twice harmless.", show_default=False)
    ] = None,
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send a run that is open a further input."""
    screen = Screen()
    given = parsed(value, "VALUE")
    with errors_in_one_line(screen):
        from weft.cli.changing import changing, told_later

        url = located(store)
        with changing(url) as (runner, source):
            runner.send(run, given, key=key, by=caller(by))
            told_later(screen, url, source, run, "the input is stored", as_json=as_json)
