"""
``weft worker``: claims runs from a PostgreSQL database and drives them, until it is told to stop.

With ``--processes`` it is a supervisor: it starts that many workers, and starts each of them again when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.logged import PlainFormatter
from weft.cli.modules import context as context_at
from weft.cli.modules import imported
from weft.cli.options import Dsns
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import database
from weft.errors import InvalidOption
from weft.fleet import FleetWorker, ShardedWorker, registry
from weft.fleet.health import HealthServer
from weft.fleet.runner import TASKS
from weft.fleet.supervisor import Supervisor, is_orphan
from weft.fleet.worker import SNAPSHOT_EVERY


def worker(
    modules: Annotated[
        list[str],
        typer.Option(
            "--import",
            help="A module, or the path of its file, with workflows; can be used several times.",
            show_default=False,
        ),
    ],
    dsn: Dsns = None,
    queues: Annotated[
        list[str] | None, typer.Option(help="Where to claim; can be used several times.", show_default="default")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="How many runs are active at once in a process.")] = 256,
    processes: Annotated[int, typer.Option(min=1, help="How many processes.")] = 1,
    lease: Annotated[float, typer.Option(help="Seconds after which the runs of a dead worker are free.")] = 10.0,
    schema: Annotated[str, typer.Option(help="Where the tables are.")] = "public",
    listen_dsn: Annotated[
        list[str] | None,
        typer.Option(
            help="A direct address of the server, if --dsn goes through a pooler; one for each --dsn.",
            show_default=False,
        ),
    ] = None,
    unprepared: Annotated[bool, typer.Option(help="For a pooler that does not keep prepared statements.")] = False,
    snapshot_every: Annotated[
        int, typer.Option(min=0, help="Write a snapshot of a run after this many of its events; 0 for never.")
    ] = SNAPSHOT_EVERY,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads run plain functions.", show_default=False)
    ] = None,
    tasks: Annotated[
        int, typer.Option(min=1, help="How many steps of other workers, whose policy names a queue, run at once.")
    ] = TASKS,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="The values that steps read with context(key): a mapping, or a function that returns one.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that steps get to end when it is stopped.")] = 10.0,
    health: Annotated[
        Path | None, typer.Option(help="Write every few seconds to this file what it does.", show_default=False)
    ] = None,
    health_port: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Answer GET /health and GET /ready there; without a host, on 127.0.0.1.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """
    Claim runs from a PostgreSQL database and drive them.  SIGTERM or Ctrl-C ends it; a second one hurries.

    SIGUSR1 drains it: its runs go to other workers, and it claims none until SIGUSR2.
    """
    screen = Screen(goes_on=True)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    with errors_in_one_line(screen):
        addresses = [database(each) for each in dsn] if dsn else [database(None)]
        registry.add(*imported(modules))
        given = {} if context is None else context_at(context)
        if listen_dsn and len(listen_dsn) != len(addresses):
            raise InvalidOption(f"{len(addresses)} --dsn and {len(listen_dsn)} --listen-dsn: name one for each")
        options: dict[str, Any] = {
            "queues": queues or ["default"],
            "concurrency": concurrency,
            "lease": lease,
            "schema": schema,
            "prepared": not unprepared,
            "context": given,
            "grace": grace,
            "snapshot_every": snapshot_every or None,
            "threads": threads,
            "tasks": tasks,
            "health_file": health,
            "is_orphan": is_orphan,
        }
        one: FleetWorker | ShardedWorker | Supervisor
        if len(addresses) == 1:
            one = FleetWorker(addresses[0], listen_dsn=listen_dsn[0] if listen_dsn else None, **options)
        else:
            one = ShardedWorker(addresses, listen_dsns=listen_dsn or None, **options)
        if processes > 1:  # the options are right, or the worker would have refused them
            one = Supervisor(_single(sys.argv[1:]), processes, health_file=health)
        asyncio.run(_until_signalled(one, health_port))


async def _until_signalled(one: FleetWorker | ShardedWorker | Supervisor, health_port: str | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, one.stop)
    loop.add_signal_handler(signal.SIGUSR1, one.drain)
    loop.add_signal_handler(signal.SIGUSR2, one.resume)
    server = None if health_port is None else HealthServer(health_port, one.status)
    try:
        if server is not None:
            logging.getLogger("weft.fleet").info("health is reported on port %d", await server.open())
        await one.run()
    finally:
        if server is not None:
            await server.close()


def _single(arguments: list[str]) -> list[str]:
    """
    Return the command of one worker: the *arguments* of this one, as one process; it writes no health file.

    >>> _single(["worker", "--dsn", "x", "--processes", "4", "--health=h", "--import", "m"])[-5:]
    ['worker', '--dsn', 'x', '--import', 'm']
    """
    kept: list[str] = []
    rest = iter(arguments)
    for each in rest:
        if each in ("--processes", "--health", "--health-port"):
            next(rest, None)
        elif not each.startswith(("--processes=", "--health=", "--health-port=")):
            kept.append(each)
    return [sys.executable, "-m", "weft", *kept]
