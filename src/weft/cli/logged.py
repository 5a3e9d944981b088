"""
Prints what a runner logs, escaped: its warnings while a command drives runs, one line for each, and all of a worker.

Without a handler, Python prints warnings with their tracebacks as they are: with control characters of stored values,
and over the tree of components.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from weft.cli.screen import Screen
from weft.views.text import plain

_MOST = 20
"""How many lines are printed; the log of the run has everything that happened in it."""


@contextmanager
def logged(screen: Screen) -> Generator[None, None, None]:
    """Print warnings of Weft on *screen*, unless the application has its own handlers."""
    logger, handler = logging.getLogger("weft"), _Lines(screen)
    if logger.hasHandlers():
        yield
        return
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class PlainFormatter(logging.Formatter):
    """Formats a message as one line, and its traceback as several, with all other control characters escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        """Return the line of *record*."""
        return plain(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and the traceback of *record*."""
        return "\n".join(map(plain, super().format(record).split("\n")))


class _Lines(logging.Handler):
    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen, self._printed = screen, 0

    def emit(self, record: logging.LogRecord) -> None:
        """Print the first line of *record*."""
        self._printed += 1
        if self._printed <= _MOST:
            self._screen.note((record.getMessage().splitlines() or [""])[0])
        elif self._printed == _MOST + 1:
            self._screen.note("more of these are not printed; weft log has all that happened in a run")
