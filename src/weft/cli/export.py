"""``weft export`` and ``weft import``: move a run between stores, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.completion import components
from weft.cli.options import AsJson, By, RunId, caller
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import CommandError, CorruptLog
from weft.views import importing
from weft.views.code import modules_of
from weft.views.text import word


def export(
    run: RunId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)],
    redact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMPONENT",
            help="Replace the values of this component by their hashes (INPUT for inputs, ALL for all values).",
            show_default=False,
            autocompletion=components,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a run to one file: its log, definitions and values."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.cli.changing import changing

        url = located(store)
        with changing(url) as (runner, source):
            head = source.find(run).head
            try:
                runner.export(run, file, redact=True if "ALL" in (redact or ()) else redact)
            except OSError as error:
                raise CommandError(f"{file} cannot be written: {error.strerror}; choose another file") from error
    if as_json:
        screen.json({"id": run, "file": str(file), "events": head}, indent=2)
    else:
        screen.line(f"{run}: {head:,} events are in {file}")


def import_run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of weft export.", show_default=False)],
    new_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id to store it under.", show_default=False)
    ] = None,
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Store a run that weft export has written.  Nothing of it runs."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.runner import Runner

        url = located(store)
        with Runner(url.text) as runner:
            try:
                id = runner.import_run(file, new_id, by=caller(by)).id
            except OSError as error:
                raise CommandError(f"{file} cannot be read: {error.strerror}; name a file of weft export") from error
            except CorruptLog as error:
                raise CommandError(f"{file} cannot be imported: {error}; name a file of weft export") from error
            record = runner.find(id)
            modules = modules_of(runner.get(id).workflow)
    if as_json:
        screen.json({"id": id, "status": record.status, "events": record.head}, indent=2)
        return
    screen.line(f"{id}: {record.head:,} events are in {url.shown}, {record.status}")
    if record.status == "parked":
        screen.note(f"to continue it: weft resume {word(id)}{importing(modules)}{url.option}")
