"""``weft diff``: compares two runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from weft.cli.completion import run_ids
from weft.cli.options import AsJson
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption


def diff(
    one: Annotated[
        str, typer.Argument(metavar="A", help="The id of a run.", show_default=False, autocompletion=run_ids)
    ],
    other: Annotated[
        str, typer.Argument(metavar="B", help="The id of another run.", show_default=False, autocompletion=run_ids)
    ],
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs.  Ends with 1 if they differ, and with 2 if they cannot be compared."""
    from weft.core.diff import diff as difference

    screen = Screen()
    with reading(screen, store, code=2) as view:
        found = difference(view.read(one).run(), view.read(other).run())
        if as_json:
            workflows = None if found.workflows is None else msgspec.structs.asdict(found.workflows)
            differences = [msgspec.structs.asdict(each) for each in found.differences]
            screen.json({"same": found.same, "differences": differences, "workflows": workflows}, indent=2)
        else:
            for line in str(found).split("\n"):
                screen.line(line)
        if found:
            raise typer.Exit(1)
