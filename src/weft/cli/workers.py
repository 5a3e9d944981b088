"""``weft workers`` and ``weft drain``: the workers of a fleet, and moving the runs of one of them to others."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from weft.cli.options import AsJson, By, Dsns, Schema, caller
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import databases


def workers(dsn: Dsns = None, schema: Schema = "public", as_json: AsJson = False) -> None:
    """Show the workers of a fleet that are alive."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.fleet import Client

        with Client(databases(dsn), schema=schema) as client:
            found = client.workers()
        if as_json:
            screen.json([msgspec.to_builtins(each) for each in found], indent=2)
            return
        if not found:
            screen.note("no worker is alive")
        for each in found:
            load = f"{each.active} of {each.concurrency} active, {each.held} held"
            told = f"  drained by {each.drained_by}" if each.drained_by else ""
            screen.line(f"{each.id}  {each.state:<9} {load:<32} {each.name}{told}")


def drain(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Its id, as `weft workers` shows it.")],
    dsn: Dsns = None,
    schema: Schema = "public",
    resume: Annotated[bool, typer.Option("--resume", help="Let it claim again.")] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Let a worker release its runs, and claim none.  A run is released when nothing of it is in flight."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.fleet import Client

        with Client(databases(dsn), schema=schema) as client:
            client.drain(worker, resume=resume, by=caller(by))
        if as_json:
            screen.json({"worker": worker, "wanted": "" if resume else "drain"}, indent=2)
        else:
            screen.line(f"{worker} was asked to claim again" if resume else f"{worker} was asked to release its runs")
