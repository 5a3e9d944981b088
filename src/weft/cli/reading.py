"""Opens a store for reading, and reports if committed work is missing from its file."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.source import FileSource, Source, opened
from weft.cli.store_option import StoreUrl, located
from weft.errors import CorruptStore, LostCommits


@contextmanager
def reading(
    screen: Screen, store: str | None, *, is_endless: bool = False, code: int = 1
) -> Generator[Source, None, None]:
    """
    Yield the store that *store* or the configuration names; report an error of Weft in one line, and end with *code*.

    A file that has lost commits can still be read: the command reports that after its answer, and ends with 1.

    Args:
        is_endless: the answer may have no end, so lost commits are reported before it.
    """
    with errors_in_one_line(screen, code=code):
        url = located(store)
        with opened(url) as source:
            problem = _problem(source, url)
            if problem is not None and is_endless:
                screen.complain(problem)
            try:
                yield source
            finally:
                if problem is not None and not is_endless:
                    screen.complain(problem)
            if problem is not None:
                raise typer.Exit(1)


def _problem(source: Source, url: StoreUrl) -> str | None:
    """Return why *source* may not show everything that was committed, or None if it does."""
    if not isinstance(source, FileSource):
        return None
    try:
        source.check_commits()
    except LostCommits:
        return f"committed work is missing from {url.file}, so runs may be missing here: see weft doctor{url.option}"
    except CorruptStore as error:
        return str(error)
    return None
