"""Opens a file for reading, and reports if committed work is missing from it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer

from weft.cli.screen import Screen, errors_in_one_line
from weft.errors import CorruptStore, LostCommits
from weft.stores import SQLiteView


@contextmanager
def looking(screen: Screen, file: Path, *, is_endless: bool = False) -> Generator[SQLiteView, None, None]:
    """
    Yield a view of *file*; report an error of Weft in one line, and end with 1.

    A file that has lost commits can still be read: the command says so after its answer and ends with 1.

    Args:
        is_endless: the answer may have no end, so lost commits are reported before it.
    """
    with errors_in_one_line(screen), SQLiteView(file) as view:
        problem = _problem(view, file)
        if problem is not None and is_endless:
            screen.complain(problem)
        try:
            yield view
        finally:
            if problem is not None and not is_endless:
                screen.complain(problem)
        if problem is not None:
            raise typer.Exit(1)


def _problem(view: SQLiteView, file: Path) -> str | None:
    """Return why *view* may not show everything that was committed, or None if it does."""
    try:
        view.check_commits()
    except LostCommits:
        return f"committed work is missing from {file}, so runs may be missing here: see weft doctor {file}"
    except CorruptStore as error:
        return str(error)
    return None
