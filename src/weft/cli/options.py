"""Options and arguments that several commands have."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from weft.cli.completion import run_ids

RunId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of a run.", show_default=False, autocompletion=run_ids)
]
RunIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="The ids of runs.", show_default=False, autocompletion=run_ids),
]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or @FILE with JSON.", show_default=False)]
Key = Annotated[str | None, typer.Option(help="Makes sending the same message twice harmless.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        help="A module, or the path of its file, with the code of the runs; can be used several times.",
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="MODULE:NAME",
        help="The values that steps read with context(key): a mapping, or a function that returns one.",
        show_default=False,
    ),
]
Undo = Annotated[
    bool, typer.Option("--undo/--no-undo", help="Whether sagas and steps in flight undo what they have done.")
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Who does this, for the log; your login name if not given.", show_default=False),
]


def caller(by: str | None) -> str | None:
    """Return *by*, or else the login name; None if the system has none."""
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a name, as in some containers
        return None


def parsed(text: str, hint: str) -> Any:
    """
    Return the value that *text* is in JSON, or that the file has that it names: ``@order.json``.

    Raises:
        BadParameter: it is not JSON, or there is no such file.
    """
    content = text
    if text.startswith("@"):
        try:
            content = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise typer.BadParameter(f"{text[1:]} cannot be read: {reason}", param_hint=hint) from None
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        advice = "" if text[:1] in ("@", "{", "[", '"') else f"; text needs quotes: '\"{text}\"'"
        raise typer.BadParameter(f"that is not JSON: {error}{advice}", param_hint=hint) from None


Dsn = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--dsn",
        envvar="WEFT_DSN",
        metavar="URL",
        help="postgresql://user:password@host:port/database  Not given: WEFT_STORE, pyproject.toml or weft.toml.",
        show_default=False,
    ),
]
"""The database of a fleet; :func:`weft.cli.store_option.database` finds it where it is not given."""
Dsns = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        "--dsn",
        envvar="WEFT_DSN",
        metavar="URL",
        help="postgresql://user:password@host:port/database; can be used several times, for a fleet on several.  "
        "Not given: WEFT_STORE, pyproject.toml or weft.toml.",
        show_default=False,
    ),
]
"""The databases of a fleet that a worker serves."""
Schema = Annotated[str, typer.Option(help="Where the tables are.")]
