"""``weft explain``: shows which values a value came from, or why a component has none."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.completion import components
from weft.cli.options import AsJson, RunId
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.show import failure_data, failures_of, print_failure
from weft.cli.store_option import StoreOption
from weft.errors import NothingProduced
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
    """Show which values a value came from, or why a component failed."""
    screen = Screen()
    with reading(screen, store) as view:
        found = view.read(run).run()
        names = [component] if component is not None else list(found.results())
        try:
            explained = [found.explain(name) for name in names]
        except NothingProduced:
            failure = next((event for event in reversed(failures_of(found)) if event.component == component), None)
            if failure is not None:
                if as_json:
                    screen.json([{"failure": failure_data(failure)}], indent=2)
                else:
                    print_failure(screen, failure, margin="", most=None)
            raise
        if as_json:
            screen.json([each.to_dict() for each in explained], indent=2)
            return
        texts = [list(each.lines()) for each in explained]  # all, before one is printed: a cause may have been removed
        if not texts:
            lacks = "failed and has no results" if found.failed else "has no results yet"
            screen.note(f"{run} {lacks}; name a component: weft show {word(run)} lists them")
        for number, lines in enumerate(texts):
            if number:
                screen.line()
            for line in lines:
                screen.line(line)
