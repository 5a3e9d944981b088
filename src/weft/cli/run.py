"""``weft run``: starts a run of a workflow, shows it live, and prints its results."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli.options import By, Context, caller, parsed
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, StoreUrl, located
from weft.errors import StoreNotNamed

MEMORY = StoreUrl("memory:")


def run(
    workflow: Annotated[
        str, typer.Argument(metavar="MODULE:WORKFLOW", help="The workflow to run.", show_default=False)
    ],
    value: Annotated[
        str, typer.Option("--input", metavar="VALUE", help="Its input: JSON, or @FILE with JSON.", show_default=False)
    ],
    id: Annotated[
        str | None,
        typer.Option(help="The id of the run; one that exists continues if its input is the same.", show_default=False),
    ] = None,
    store: StoreOption = None,
    context: Context = None,
    by: By = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each event, and one with the results.")
    ] = False,
) -> None:
    """Run a workflow, show it live, and print its results.  Without a store, nothing is kept."""
    screen = Screen(goes_on=True)
    given = parsed(value, "--input")
    with errors_in_one_line(screen):
        from weft.cli.changing import drive
        from weft.cli.modules import context as context_at
        from weft.cli.modules import split, workflow_at

        try:
            url = located(store, memory=True)
        except StoreNotNamed:
            url = MEMORY
        found = workflow_at(workflow)
        known = {} if context is None else context_at(context)
        if url is MEMORY:
            screen.note("no store is named, so nothing is kept: --store runs.db keeps the run")

        async def begin(runner: Any) -> Any:
            handle = await runner.start(found, given, id=id, by=caller(by))
            if await runner.status(handle.id) == "parked":
                handle = await runner.resume(handle.id)
            return handle

        goes_on_with = f" --import {split(workflow)[0]}{'' if context is None else f' --context {context}'}"
        drive(screen, url, begin, workflows=[found], context=known, goes_on_with=goes_on_with, as_json=as_json)
