"""``weft upgrade``: lets a run follow another version of its workflow."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli.completion import components
from weft.cli.options import AsJson, By, Context, RunId, caller
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import RunClosed


def upgrade(
    run: RunId,
    workflow: Annotated[str, typer.Argument(metavar="MODULE:WORKFLOW", help="The other version.", show_default=False)],
    again: Annotated[
        list[str] | None,
        typer.Option(
            help="A component that runs again although it has completed.", show_default=False, autocompletion=components
        ),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only say what would run, stand and be lost.")] = False,
    store: StoreOption = None,
    context: Context = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Let a run follow another version of its workflow.  It continues here."""
    screen = Screen(goes_on=True)
    with errors_in_one_line(screen):
        from weft.cli.changing import changing, drive
        from weft.cli.modules import context as context_at
        from weft.cli.modules import split, workflow_at
        from weft.cli.preview import print_preview

        other = workflow_at(workflow)
        given = {} if context is None else context_at(context)
        url = located(store)
        with changing(url) as (runner, source):
            record = source.find(run)
            if record.status in ("completed", "cancelled"):  # a preview of what is refused would mislead
                raise RunClosed(run, record.reason, status=record.status)
            would = runner.upgrade(run, other, again=again or (), preview=True)
        if preview:
            print_preview(screen, would, as_json=as_json)
            return

        async def begin(runner: Any) -> Any:
            return await runner.upgrade(run, other, again=again or (), by=caller(by))

        imports = f" --import {split(workflow)[0]}"
        drive(screen, url, begin, workflows=[other], context=given, goes_on_with=imports, as_json=as_json)
