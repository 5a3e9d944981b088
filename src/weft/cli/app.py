"""The application with all its commands."""

from __future__ import annotations

from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.cancel import cancel
from weft.cli.completion import complete_at_the_first_tab
from weft.cli.diff import diff
from weft.cli.doctor import doctor
from weft.cli.explain import explain
from weft.cli.export import export, import_run
from weft.cli.fork import fork
from weft.cli.graph import graph
from weft.cli.init import init
from weft.cli.jobs import jobs
from weft.cli.limits import limits
from weft.cli.log import log
from weft.cli.ls import ls
from weft.cli.migrate import migrate
from weft.cli.one_line import OneLineGroup
from weft.cli.resume import resume
from weft.cli.retry import retry
from weft.cli.run import run
from weft.cli.schedules import schedules
from weft.cli.send import send
from weft.cli.show import show
from weft.cli.signal import signal
from weft.cli.top import top
from weft.cli.ui import ui
from weft.cli.upgrade import upgrade
from weft.cli.verify import verify
from weft.cli.versions import versions
from weft.cli.worker import worker
from weft.cli.workers import drain, workers

complete_at_the_first_tab()
app = typer.Typer(
    name="weft",
    cls=OneLineGroup,
    help="Start workflows, show their runs, and act on them.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_BEGIN, _LOOK, _ACT, _OPERATE = "Begin", "Look at runs", "Act on runs", "Operate"
for section, commands in {
    _BEGIN: (init, run),
    _LOOK: (ls, top, show, log, explain, graph, diff, verify, versions, ui),
    _ACT: (resume, send, signal, cancel, retry, fork, upgrade, export),
    _OPERATE: (doctor, worker, workers, drain, limits, migrate),
}.items():
    for command in commands:
        app.command(rich_help_panel=section)(command)
app.command("import", rich_help_panel=_ACT)(import_run)
app.add_typer(schedules, rich_help_panel=_OPERATE)
app.add_typer(jobs, rich_help_panel=_OPERATE)


@app.command(rich_help_panel=_BEGIN)
def demo(
    folder: Annotated[Path | None, typer.Option(help="Keep the files in this folder.", show_default=False)] = None,
) -> None:
    """Run an order, kill it with -9 in the middle, and resume it."""
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
    """Start workflows, show their runs, and act on them."""
