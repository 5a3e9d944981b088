"""``weft workers`` and ``weft drain``: the workers of a fleet, and moving the runs of one of them to others."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from weft.cli.options import AsJson, Dsn, Schema
from weft.cli.screen import Screen, errors_in_one_line


def workers(dsn: Dsn, schema: Schema = "public", as_json: AsJson = False) -> None:
    """Show the workers of a fleet that are alive."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.fleet import Client

        with Client(dsn, schema=schema) as client:
            found = client.workers()
        if as_json:
            screen.json([msgspec.structs.asdict(each) for each in found], indent=2)
            return
        if not found:
            screen.note("no worker is alive")
        for each in found:
            load = f"{each.active} of {each.concurrency} active, {each.held} held"
            screen.line(f"{each.id}  {each.state:<9} {load:<32} {each.name}")


def drain(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Its id, as `weft workers` shows it.")],
    dsn: Dsn,
    schema: Schema = "public",
    resume: Annotated[bool, typer.Option("--resume", help="Let it claim again.")] = False,
) -> None:
    """Let a worker release its runs, when nothing of them is in flight, and claim none; others take them."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.fleet import Client

        with Client(dsn, schema=schema) as client:
            client.drain(worker, resume=resume)
        screen.line(f"{worker} is told to claim again" if resume else f"{worker} is told to let its runs go")
