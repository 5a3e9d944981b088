"""``weft signal``: sends a run a signal that it waits for."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from weft.cli.options import AsJson, By, RunId, caller, parsed
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import UnresolvedFunction


def signal(
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the signal.", show_default=False)],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or @FILE with JSON.")] = "null",
    key: Annotated[
        str | None, typer.Option(help="Makes sending the same signal twice harmless.", show_default=False)
    ] = None,
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send a run a signal, such as the answer that it waits for."""
    screen = Screen()
    given = parsed(value, "VALUE")
    with errors_in_one_line(screen):
        from weft.cli.changing import changing, told_later

        url = located(store)
        with changing(url) as (runner, source):
            found = source.read(run)
            if found.record.status not in ("completed", "failed", "cancelled"):
                # On a copy: an unknown name or a wrong value is refused here and now.  A class that is not imported
                # here cannot judge the value; the process that drives the run does.
                with suppress(UnresolvedFunction):
                    found.run().signal(name, given)
            runner.signal(run, name, given, key=key, by=caller(by))
            told_later(screen, url, source, run, f"the signal {name!r} is stored", as_json=as_json)
