"""``weft ui``: serves the dashboard."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.source import opened
from weft.cli.store_option import StoreOption, located
from weft.errors import CommandError, InvalidOption

if TYPE_CHECKING:
    from weft.web import Role

NAMES: dict[Role, str] = {"admin": "admin", "operate": "operator", "read": "reader"}
"""The name of each role in the log."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def ui(
    store: StoreOption = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any that is free.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WEFT_UI_TOKEN",
            help="Ask for this token, and give it the role admin.  Required for an address that others can reach.",
            show_default=False,
        ),
    ] = None,
    operate_token: Annotated[
        str | None,
        typer.Option(
            envvar="WEFT_UI_OPERATE_TOKEN",
            help="A token with the role operate: all but draining workers and removing schedules.",
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
        with opened(url) as source:  # what cannot be read is said now, and not on every page
            source.count(statuses=["running"])
        given: dict[Role, str | None] = {"admin": token, "operate": operate_token, "read": read_token}
        tokens = {secret: Identity(NAMES[role], role) for role, secret in given.items() if secret is not None}
        if len(tokens) < sum(secret is not None for secret in given.values()):
            raise InvalidOption("two roles have the same token: give each its own")
        served = app(url.text, auth=Tokens(tokens) if tokens else None, name=url.shown)
        config = uvicorn.Config(served, log_level=os.environ.get("WEFT_UI_LOG", "warning"))
        with _listening(host, port) as listener:
            name = f"[{host}]" if ":" in host else host
            screen.line(f"http://{name}:{listener.getsockname()[1]}/  (Ctrl-C ends it)")
            screen.flush()
            with suppress(KeyboardInterrupt):  # the way to end it
                uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """
    Return a socket that listens.

    Raises:
        CommandError: it cannot, for instance because another program has the port.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or 0  # of a name that is not found it is negative
        why = os.strerror(number) if number > 0 else str(error)
        raise CommandError(f"cannot listen on {host}, port {port}: {why}; --port 0 takes one that is free") from error
