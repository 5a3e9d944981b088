"""Draws where the time of a run went: one line for each component, idle stretches folded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from weft.cli.glyphs import glyph, style
from weft.core.draw.progress import duration
from weft.views.text import plain
from weft.views.time_scale import TimeScale, scale_of
from weft.views.waterfall import REASONS, Bar, Reason, Row, Waterfall, waterfall

if TYPE_CHECKING:
    from weft.core.run.run import Run

MARKS: Final[dict[Reason, str]] = {
    "running": "▮",
    "queued": "░",
    "limited": "▒",
    "backing_off": "·",
    "delayed": "-",
    "sleeping": "z",
    "waiting": "…",
    "stopped": "╌",
}
TEAR: Final = "\u2571\u2571"
"""Stands where a stretch without work is folded."""
_NAME = 28
_NARROWEST = 20


def waterfall_lines(run: Run, *, now: float, width: int) -> list[Text]:
    """
    Return the waterfall of *run* as lines of at most *width* columns; none if nothing took time.

    Args:
        now: the present, in seconds since the epoch.
    """
    fall = waterfall(run, now=now)
    if not any(row.bars for row in fall.rows):
        return []
    scale = scale_of(fall)
    names = {row.component: _name(row) for row in fall.rows}
    room = min(_NAME, max(cell_len(name) for name in names.values()))
    longest = max(cell_len(f"{total}{attempts}") for total, attempts in map(_totals, fall.rows))
    track = max(_NARROWEST, width - room - longest - 4)
    lines = [_axis(fall, scale, room, track)]
    lines += [_line(row, names[row.component], scale, room, track) for row in fall.rows]
    lines += _legend(fall, scale, width)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _name(row: Row) -> str:
    many = f" ×{row.activations:,}" if row.activations > 1 else ""
    name = plain(row.component)
    longest = _NAME - len(many) - 2 * row.is_part
    return f"{'  ' * row.is_part}{name if len(name) <= longest else f'{name[: longest - 1]}…'}{many}"


def _axis(fall: Waterfall, scale: TimeScale, room: int, track: int) -> Text:
    """Return the beginning, the end, and the length of each stretch that is folded and whose label has room."""
    end = f"+{duration(fall.end - fall.start)}" if fall.end > fall.start else ""
    cells = list(f"0{end.rjust(track - 1)}")
    for piece in scale.folded:
        label = f" {duration(piece.end - piece.start)} "
        left = round((piece.left + piece.right) / 2 * track) - len(label) // 2
        left = max(1, min(left, track - len(end) - len(label)))
        if all(cell == " " for cell in cells[left : left + len(label)]):
            cells[left : left + len(label)] = label.replace(" ", "\N{NO-BREAK SPACE}")  # taken, for the next label
    return Text(f"  {' ' * room}  {''.join(cells)}".replace("\N{NO-BREAK SPACE}", " "), style="dim")


def _line(row: Row, name: str, scale: TimeScale, room: int, track: int) -> Text:
    text = Text()
    text.append(f"{glyph(row.state)} ", style=style(row.state))
    text.append(name + " " * (room - cell_len(name) + 2), style="" if row.bars else "dim")
    if not row.bars:
        why = (
            f"needs {' and '.join(row.needs)}" if row.needs else "its condition said no" if row.state == "gated" else ""
        )
        text.append(plain(why), style="dim")
        return text
    for mark, colour in _cells(row.bars, scale, track):
        text.append(mark, style=colour)
    total, attempts = _totals(row)
    text.append(total)
    text.append(attempts, style="yellow")
    return text


def _totals(row: Row) -> tuple[str, str]:
    """Return how long *row* took and, of several, how many attempts it took, for the text after its bars."""
    if not row.bars:
        return "", ""
    attempts = max(bar.attempt for bar in row.bars)
    return f"  {duration(row.passed)}".rstrip(), f"  {attempts:,} attempts" if attempts > 1 else ""


def _cells(bars: Iterable[Bar], scale: TimeScale, track: int) -> list[tuple[str, str]]:
    """Return the characters of a row with their colours: what ran lies over what waited, and folds over both."""
    cells: list[tuple[str, str]] = [(" ", "")] * track
    for bar in sorted(bars, key=lambda bar: bar.reason == "running"):
        left = min(track - 1, int(scale.place(bar.start) * track))
        right = max(left + 1, min(track, math.ceil(scale.place(bar.end) * track)))
        colour = style(bar.state if bar.reason == "running" else "waiting" if bar.reason == "waiting" else "")
        cells[left:right] = [(MARKS[bar.reason], colour)] * (right - left)
        if bar.reason == "running" and bar.state == "failed":
            cells[right - 1] = ("✗", "red")
    for piece in scale.folded:
        middle = min(track - len(TEAR), int((piece.left + piece.right) / 2 * track))
        cells[middle : middle + len(TEAR)] = [(mark, "dim") for mark in TEAR]
    return cells


def _legend(fall: Waterfall, scale: TimeScale, width: int) -> list[Text]:
    """Return what the characters mean, and how much time each stands for, in as many lines as needed."""
    parts = [f"{MARKS[reason]} {REASONS[reason]} {duration(seconds)}" for reason, seconds in fall.passed.items()]
    folded = sum(piece.end - piece.start for piece in scale.folded)
    if folded:
        parts.append(f"{TEAR} {duration(folded)} without work")
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 3 + cell_len(part) <= width:
            lines[-1] += f"   {part}"
        else:
            lines.append(f"  {part}")
    return [Text(line, style="dim") for line in lines]
