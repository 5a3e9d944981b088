"""``weft init``: creates a small project that runs, with tests."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.screen import Screen, errors_in_one_line
from weft.errors import CommandError

FILES = ("orders.py", "test_orders.py", "weft.toml", "README.md")


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to create it; the current folder if not given.")
    ] = Path(),
) -> None:
    """Create a small project that runs, with tests."""
    screen = Screen()
    starter = files("weft.cli").joinpath("starter")
    with errors_in_one_line(screen):
        taken = [name for name in FILES if (folder / name).exists()]
        if taken:
            raise CommandError(f"{folder / taken[0]} exists already, and nothing was changed; name another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                (folder / name).write_bytes(starter.joinpath(f"{name}.txt").read_bytes())
                screen.line(str(folder / name))
        except OSError as error:
            raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from error
    enter = "" if folder == Path() else f"cd {folder} && "
    screen.note(f'to run it: {enter}weft run orders:orders --input \'{{"lines": ["tea", "pot"]}}\'')
