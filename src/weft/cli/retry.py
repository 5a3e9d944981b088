"""``weft retry``: runs again what has failed in a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli.completion import components
from weft.cli.options import AsJson, By, Context, Modules, RunId, caller
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located


def retry(
    run: RunId,
    component: Annotated[
        str | None,
        typer.Argument(
            metavar="COMPONENT",
            help="Only the failures of this component.",
            show_default=False,
            autocompletion=components,
        ),
    ] = None,
    store: StoreOption = None,
    modules: Modules = None,
    context: Context = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Run again what has failed in a run.  All that depended on it runs too; what completed stands."""
    screen = Screen(goes_on=True)
    with errors_in_one_line(screen):
        from weft.cli.changing import changing, drive, print_stored, with_code
        from weft.cli.modules import context as context_at
        from weft.cli.modules import imported

        workflows = imported(modules or ())
        given = {} if context is None else context_at(context)
        url = located(store)
        with changing(url) as (runner, source):
            if source.find(run).status != "failed":  # another process takes it up
                runner.retry(run, component, by=caller(by))
                print_stored(screen, url, source, run, "the request to retry is stored", as_json=as_json)
                return
            with_code(source, run, workflows, has_imported=bool(modules))

        async def begin(runner: Any) -> Any:
            return await runner.retry(run, component, by=caller(by))

        imports = "".join(f" --import {name}" for name in modules or ())
        drive(screen, url, begin, workflows=workflows, context=given, goes_on_with=imports, as_json=as_json)
