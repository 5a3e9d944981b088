r"""
Finds the store that a command works on: ``--store``, ``WEFT_STORE``, or a TOML file, in this order.

    >>> StoreUrl("sqlite:runs.db").file
    PosixPath('runs.db')
    >>> StoreUrl("postgresql://ada:secret@db/shop").shown
    'postgresql://ada:***@db/shop'
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from weft.errors import CommandError, StoreNotNamed
from weft.views.text import word

VARIABLE = "WEFT_STORE"
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^@]*(?=@)")

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--dsn",
        metavar="URL",
        help=f"The file of a SQLiteStore, or postgresql://...  Not given: {VARIABLE}, pyproject.toml or weft.toml.",
        show_default=False,
    ),
]
"""The option of every command that works on a store."""


class StoreUrl(msgspec.Struct, frozen=True):
    """Where a store is."""

    text: str
    is_given: bool = True
    """Whether the command line names it; if not, a later command finds it in the same way."""

    @property
    def file(self) -> Path | None:
        """The file, if it is a SQLite store."""
        scheme, colon, rest = self.text.partition(":")
        if not colon or len(scheme) == 1:  # the letter of a drive
            return Path(self.text)
        return Path(rest.removeprefix("//")) if scheme == "sqlite" and rest else None

    @property
    def is_memory(self) -> bool:
        """Whether it lives in the memory of one process."""
        return self.text == "memory:"

    @property
    def is_database(self) -> bool:
        """Whether it is a PostgreSQL database."""
        return self.text.startswith(("postgresql://", "postgres://"))

    @property
    def shown(self) -> str:
        """The text without a password."""
        return _PASSWORD.sub(r"\1:***", self.text)

    @property
    def option(self) -> str:
        """The option that names it in a command that a message proposes; empty if that can be left out."""
        return f" --store {word(self.shown)}" if self.is_given else ""


def located(given: str | None, *, memory: bool = False) -> StoreUrl:
    """
    Return the store that *given*, the environment or a TOML file names.

    Args:
        memory: whether ``memory:`` will do: only a command that starts its runs itself finds any there.

    Raises:
        StoreNotNamed: none of them names one.
        CommandError: a TOML file cannot be read, or what is named is not a store that can be used.
    """
    if given is not None:
        text, is_given = given, True
    elif os.environ.get(VARIABLE):
        text, is_given = os.environ[VARIABLE], False
    else:
        text, is_given = _configured(Path.cwd()), False
    if not text.strip():
        raise StoreNotNamed
    url = StoreUrl(text.strip(), is_given)
    if url.is_memory and not memory:
        raise CommandError("memory: is in the process that has its runs; use a file or a database: --store runs.db")
    if not (url.is_memory or url.is_database or url.file is not None):
        raise CommandError(
            f"{url.shown} is not a store; use --store runs.db for a file, or --store postgresql://user@host/database"
        )
    return url


def database(given: str | None) -> str:
    """
    Return the address of the database of a fleet.

    Raises:
        StoreNotNamed: nothing names a store.
        CommandError: it is not a database.
    """
    url = located(given)
    if not url.is_database:
        raise CommandError(f"{url.shown} has no fleet: use --store postgresql://user@host/database")
    return url.text


def databases(given: list[str] | None) -> str | list[str]:
    """
    Return the address of the database of a fleet, or those of all its databases.

    Raises:
        StoreNotNamed: nothing names a store.
        CommandError: one is not a database.
    """
    if given is None or len(given) < 2:
        return database(given[0] if given else None)
    return [database(each) for each in given]


def _configured(folder: Path) -> str:
    """Return the store that the nearest TOML file names: that of *folder*, or of a folder that it is in."""
    for where in (folder, *folder.parents):
        for name, path in (("weft.toml", ("store",)), ("pyproject.toml", ("tool", "weft", "store"))):
            file = where / name
            found = _read(file, path) if file.is_file() else None
            if found is not None:
                return _relative_to(where, found)
    return ""


def _read(file: Path, path: tuple[str, ...]) -> str | None:
    try:
        found: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}; correct it, or say --store") from error
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if found is not None and not isinstance(found, str):
        raise CommandError(f'{file}: {".".join(path)} is not a text; write store = "runs.db"')
    return found


def _relative_to(folder: Path, text: str) -> str:
    """Return *text*, in which the path of a file is relative to *folder*, the folder of the TOML file."""
    file = StoreUrl(text).file
    return text if file is None or file.is_absolute() else os.path.relpath(folder / file)
