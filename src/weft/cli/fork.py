"""``weft fork``: starts a run with the history of another one and an edit; only what depends on the edit runs again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli.completion import components
from weft.cli.options import AsJson, By, Context, Modules, RunId, caller, parsed
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located


def fork(
    run: RunId,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="COMPONENT|EVENT",
            help="A component for what it last made, INPUT for the last input, or the number of an event.",
            show_default=False,
            autocompletion=components,
        ),
    ] = None,
    value: Annotated[
        str | None, typer.Option(metavar="VALUE", help="What that is instead: JSON, or @FILE.", show_default=False)
    ] = None,
    new_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the new run.", show_default=False)
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only say what would run, and what stands.")] = False,
    store: StoreOption = None,
    modules: Modules = None,
    context: Context = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Start another run with the same history and an edited value.  Only what depends on that runs again."""
    screen = Screen(goes_on=True)
    if value is not None and at is None:
        raise typer.BadParameter("say --at: which value is edited?", param_hint="--value")
    with errors_in_one_line(screen):
        from weft.cli.changing import changing, drive, with_code
        from weft.cli.modules import context as context_at
        from weft.cli.modules import imported
        from weft.cli.preview import print_preview

        where: Any = int(at) if at is not None and at.isdecimal() else at
        edited: dict[str, Any] = {"at": where}
        if value is not None:
            edited["value"] = parsed(value, "--value")
        workflows = imported(modules or ())
        given = {} if context is None else context_at(context)
        url = located(store)
        if preview:
            with changing(url) as (runner, _):
                print_preview(screen, runner.fork(run, preview=True, **edited), as_json=as_json)
            return
        with changing(url) as (_, source):
            with_code(source, run, workflows, has_imported=bool(modules))

        async def begin(runner: Any) -> Any:
            return await runner.fork(run, new_id, by=caller(by), **edited)

        imports = "".join(f" --import {name}" for name in modules or ())
        drive(screen, url, begin, workflows=workflows, context=given, goes_on_with=imports, as_json=as_json)
