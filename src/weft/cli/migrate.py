"""``weft migrate``: creates the tables in a PostgreSQL database, or brings them to this version."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import AsJson, Dsn, Schema
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import database


def migrate(
    dsn: Dsn = None,
    schema: Schema = "public",
    worker: Annotated[
        str | None, typer.Option(help="A role that may then read and write runs.", show_default=False)
    ] = None,
    reader: Annotated[str | None, typer.Option(help="A role that may then read runs.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Create the tables in a PostgreSQL database, or update them.  Several may do that at once."""
    screen = Screen()
    with errors_in_one_line(screen):
        from weft.fleet import Client

        client = Client(database(dsn), schema=schema)
        try:
            client.migrate(worker=worker, reader=reader)
        finally:
            client.close()
        if as_json:
            screen.json({"migrated": True}, indent=2)
        else:
            screen.line("the tables are those of this version")
