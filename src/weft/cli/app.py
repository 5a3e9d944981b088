"""The application with all its commands."""

from __future__ import annotations

from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.doctor import doctor
from weft.cli.log import log
from weft.cli.ls import ls
from weft.cli.resume import resume
from weft.cli.show import show
from weft.cli.ui import ui
from weft.cli.verify import verify

app = typer.Typer(
    name="weft",
    help="Show the runs in a store, and resume those that were interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (ls, show, log, verify, resume, doctor, ui):
    app.command()(command)


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Option(help="Keep the files in this folder.", show_default=False)] = None,
) -> None:
    """Run an order on a file, kill it with -9 in the middle, and resume it."""
    from weft.cli.demo import tell  # the others need neither its workflow nor a runner

    if not tell(folder):
        raise typer.Exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weft {version_of('weft')}")
        raise typer.Exit


@app.callback()
def weft(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Show the runs in a store, and resume those that were interrupted."""
