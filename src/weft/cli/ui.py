"""``weft ui``: serves the dashboard."""

from __future__ import annotations

import os
import secrets
from typing import Annotated

import typer

from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import InvalidOption

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def ui(
    store: StoreOption = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WEFT_UI_TOKEN",
            help="Ask for this token, and give it all roles.  Required for an address that others can reach.",
            show_default=False,
        ),
    ] = None,
    read_token: Annotated[
        str | None,
        typer.Option(envvar="WEFT_UI_READ_TOKEN", help="A token that may only look.", show_default=False),
    ] = None,
) -> None:
    """Show the runs in a store in a browser."""
    screen = Screen()
    with errors_in_one_line(screen):
        try:
            import uvicorn

            from weft.web import Identity, Tokens, app
        except ImportError as error:
            raise InvalidOption(f"weft ui needs {error.name}: pip install 'weft[ui]'") from error
        if host not in LOOPBACK and token is None:
            secret = secrets.token_hex(16)
            raise InvalidOption(f"--host {host} can be reached by others: add --token with a secret, such as {secret}")
        url = located(store)
        if url.file is not None and not url.file.exists():
            raise InvalidOption(f"there is no file {url.file}; a Runner({str(url.file)!r}) creates it")
        identities = {} if token is None else {token: Identity("admin", "admin")}
        if read_token is not None:
            identities[read_token] = Identity("reader", "read")
        served = app(url.text, auth=Tokens(identities) if identities else None, name=url.shown)
        name = f"[{host}]" if ":" in host else host
        if port:
            screen.line(f"http://{name}:{port}/  (Ctrl-C ends it)")
            screen.flush()
        level = os.environ.get("WEFT_UI_LOG", "warning")
        uvicorn.run(served, host=host, port=port, log_level=level if port else "info")
