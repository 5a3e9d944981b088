"""
The output of commands: tables that fit a terminal, whole lines where there is none, errors on the error stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any, Final

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.status import Status
from rich.text import Text

from weft.errors import (
    HistoryTruncated,
    JobNotFound,
    NoSuchLetter,
    RunClosed,
    RunExists,
    RunNotFound,
    ScheduleNotFound,
    StoreNotFound,
    StoreNotNamed,
    WeftError,
)
from weft.views.text import as_json, plain, word

_GAP: Final = 2
"""How many columns are between two columns of a table."""
_NARROWEST: Final = 20
"""How far the last column of a table is folded at most."""


class _DetachableConsole(Console):
    """A stream that ignores a closed pipe."""

    def on_broken_pipe(self) -> None:
        """Write nothing from now on."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


class Screen:
    """
    The output of one command.

    Args:
        goes_on: whether the command does more than print, and so goes on when its output is closed.
    """

    def __init__(self, *, goes_on: bool = False) -> None:
        make = _DetachableConsole if goes_on else Console
        self.out = make(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._err = make(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a terminal."""
        return self.out.is_terminal

    @property
    def shows_progress(self) -> bool:
        """Whether the error stream is a terminal that can show a moving line."""
        return self._err.is_terminal

    def status(self) -> Status:
        """Return a moving line; from now on everything else is printed through it, so that nothing collides."""
        return self.live_console().status(Text("..."))

    def live_console(self) -> Console:
        """Return the terminal, for what moves; from now on everything else is printed through it too."""
        if self.out.is_terminal:
            self._err = self.out
        return self._err

    def line(self, text: str = "", style: str = "") -> None:
        """Print *text* as one line, with all special characters escaped."""
        self.out.print(Text(plain(text), style=style))

    def text(self, text: Text) -> None:
        """Print *text*, whose special characters are escaped already."""
        self.out.print(text)

    @property
    def width(self) -> int:
        """How many columns a drawing may have: those of the terminal, or 100."""
        return self.out.width if self.is_terminal else 100

    def note(self, text: str) -> None:
        """Print a remark that is not part of the answer."""
        self._err.print(Text(plain(text), style="dim"))

    def complain(self, text: str) -> None:
        """Print an error."""
        first, *rest = text.splitlines() or [""]
        self._err.print(Text(f"weft: {plain(first)}", style="red"))
        for line in rest:
            self._err.print(Text(plain(line)))

    def json(self, value: Any, *, indent: int | None = None) -> None:
        """Print *value* as JSON."""
        print(json.dumps(as_json(value), indent=indent), file=self.out.file)

    def flush(self) -> None:
        """Flush everything that was printed."""
        self.out.file.flush()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "") -> None:
        """
        Print *rows* under their headings, and lose nothing of them.

        A terminal that is too narrow gets the last column folded; where that is not enough, the first column above
        the others; and else whole lines, as a program at the end of a pipe does.
        """
        lines = [list(columns), *([plain(cell) for cell in row] for row in rows)]
        widths = [max(map(cell_len, column)) + _GAP for column in zip(*lines, strict=True)]
        needed = sum(widths[:-1]) + min(widths[-1] - _GAP, _NARROWEST)
        room = self.out.width - cell_len(indent) if self.is_terminal else 0
        if needed <= room:
            shown = [self._folded(row, widths, room) for row in lines]
        elif len(columns) > 2 and needed - widths[0] + _GAP <= room:
            widths[1] += _GAP
            shown = [[row[0], *self._folded([" " * _GAP + row[1], *row[2:]], widths[1:], room)] for row in lines]
        else:
            self.columns(lines, [0] * len(columns), indent=indent)
            return
        for style, row in zip(chain(["bold"], repeat("")), shown, strict=False):
            for line in row:
                self.out.print(Text(f"{indent}{line}", style=style))

    def _folded(self, row: Sequence[str], widths: Sequence[int], room: int) -> list[str]:
        """Return *row* in columns of these *widths*, the last one folded, so that it fits into *room* columns."""
        before = "".join(_filled(cell, width) for cell, width in zip(row[:-1], widths[:-1], strict=True))
        taken = cell_len(before)
        first, *others = [part.plain for part in Text(row[-1]).wrap(self.out, room - taken, overflow="fold")] or [""]
        return [f"{before}{first}".rstrip(), *(f"{' ' * taken}{other}".rstrip() for other in others)]

    def columns(self, rows: Iterable[Sequence[str]], widths: list[int], *, indent: str = "") -> None:
        """Print *rows* in columns of at least these *widths*, which grow with their content."""
        lines = [[plain(cell) for cell in row] for row in rows]
        for row in lines:
            widths[:] = [max(width, cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        for row in lines:
            filled = (_filled(cell, width + _GAP) for cell, width in zip(row, widths, strict=True))
            self.line(f"{indent}{''.join(filled)}".rstrip())


def _filled(cell: str, width: int) -> str:
    """Return *cell* with spaces behind it, in as many columns of a terminal as *width* says."""
    return cell + " " * (width - cell_len(cell))


def text_of(error: WeftError) -> str:
    """Return *error* in words, with the command to use where its own words name a call."""
    if isinstance(error, RunNotFound):
        return f"no run {error.run_id!r} is stored here; weft ls shows those that are"
    if isinstance(error, RunExists):
        return f"there is a run {error.run_id!r} already; choose another id with --id"
    if isinstance(error, HistoryTruncated):
        return (
            f"the log of run {error.run_id!r} was truncated: the events before {error.first:,} were removed, and this "
            "needs them; weft show and weft log have what is left"
        )
    if isinstance(error, RunClosed):
        return _closed(error)
    if isinstance(error, NoSuchLetter):
        return f"there is no failure of {error.which!r} to retry; weft show lists what has failed"
    if isinstance(error, StoreNotFound):
        return f"{error.reason}; name another file with --store, or let weft run create it"
    if isinstance(error, JobNotFound):
        return f"no job {error.job_id!r} is stored here; weft jobs lists those that are"
    if isinstance(error, ScheduleNotFound):
        return f"no schedule {error.name!r} is stored here; weft schedules lists those that are"
    return " ".join(str(error).split("\n"))  # the message of a step's error may have several lines


def _closed(error: RunClosed) -> str:
    """Return why a run accepts nothing more, and the command that helps."""
    run = word(error.run_id)
    match error.status:
        case "cancelled":
            why, advice = f"was cancelled ({error.reason or 'no reason given'})", "start another one with weft run"
        case "completed":
            why, advice = "has completed", f"start another one with weft run, or weft fork {run}"
        case "failed":
            why, advice = "has failed", f"weft retry {run} runs again what failed"
        case _:
            why, advice = "is not open: it finishes with the input that it has", "start another one with weft run"
    return f"run {error.run_id!r} {why}, and accepts nothing more; {advice}"


@contextmanager
def errors_in_one_line(screen: Screen, *, code: int = 1) -> Generator[None, None, None]:
    """Print an error of Weft in one line, without a traceback, and end with *code*; 2 if no store is named."""
    try:
        yield
    except WeftError as error:
        screen.complain(text_of(error))
        raise typer.Exit(2 if isinstance(error, StoreNotNamed) else code) from None
