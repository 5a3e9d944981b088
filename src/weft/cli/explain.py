"""``weft explain``: shows which values a value came from."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.completion import components
from weft.cli.options import AsJson, RunId
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption
from weft.views.text import word


def explain(
    run: RunId,
    component: Annotated[
        str | None,
        typer.Argument(
            metavar="COMPONENT",
            help="Explain what it made last; every result if not given.",
            show_default=False,
            autocompletion=components,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Show which values a value came from, as a tree."""
    screen = Screen()
    with reading(screen, store) as view:
        found = view.read(run).run()
        names = [component] if component is not None else list(found.results())
        explained = [found.explain(name) for name in names]
        if as_json:
            screen.json([each.to_dict() for each in explained], indent=2)
            return
        texts = [list(each.lines()) for each in explained]  # all, before one is printed: a cause may have been removed
        if not texts:
            screen.note(f"{run} has no results yet; name a component: weft show {word(run)} lists them")
        for number, lines in enumerate(texts):
            if number:
                screen.line()
            for line in lines:
                screen.line(line)
