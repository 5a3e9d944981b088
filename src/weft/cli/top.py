"""``weft top``: shows all runs of a store live, those that need attention first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.cells import cell_len
from rich.text import Text

from weft.cli.glyphs import glyph, style
from weft.cli.ls import as_data
from weft.cli.options import AsJson
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.source import Source
from weft.cli.store_option import StoreOption, located
from weft.core.draw.progress import duration
from weft.core.run.run import Run
from weft.errors import CorruptLog, RunNotFound
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.views import Attention, Cell, Undriven, attention, strip, undriven
from weft.views.code import modules_of
from weft.views.text import plain

_ORDER: Final[tuple[RunStatus, ...]] = (*("parked", "failed", "running", "waiting", "idle", "cancelled", "completed"),)
"""The order in which runs need attention."""
_READ_WHOLE: Final = 20_000
"""A run with more events than this is shown by its record alone."""
_CELLS: Final = {"done": "▮", "unreached": "▯"}
_PAUSE: Final = 1.0


class TopLine(msgspec.Struct, frozen=True):
    """One run."""

    record: RunRecord
    why: Attention | None = None
    strip: tuple[Cell, ...] = ()
    left: Undriven | None = None
    """Says that it has work left, and that no process drives it."""


def top(
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="How many runs; as many as fit.", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Show all runs live, those that need attention first.  Ctrl-C ends it; without a terminal, print them once."""
    screen = Screen()
    with reading(screen, store, is_endless=True) as view:
        url = located(store)
        seen, name = _Seen(view, url.option), url.shown
        if as_json:
            counts, lines = seen.look(limit or 50)
            runs = [as_data(line.record, line.record.owner) | _why(line) for line in lines]
            screen.json({"counts": counts, "runs": runs}, indent=2)
        elif not screen.is_terminal:
            for text in _drawn(name, *seen.look(limit or 50), width=1_000):
                screen.text(text)
        else:
            _live(screen, seen, name, limit)


def _live(screen: Screen, seen: _Seen, name: str, limit: int | None) -> None:
    from rich.console import Group
    from rich.live import Live

    try:
        with Live(console=screen.live_console(), auto_refresh=False, screen=True) as live:
            while True:
                began = time.perf_counter()
                console = live.console
                looked = seen.look(min(limit or 1_000, max(1, console.height - 4)))
                live.update(Group(*_drawn(name, *looked, width=console.width)), refresh=True)
                time.sleep(max(_PAUSE, 4 * (time.perf_counter() - began)))
    except KeyboardInterrupt:  # the way to end it
        return


class _Seen:
    """Reads the runs of a store again and again; one that has not changed is not read again."""

    def __init__(self, view: Source, option: str) -> None:
        self._view, self._option = view, option
        self._kept: dict[tuple[str, int, str], Run] = {}

    def look(self, most: int) -> tuple[dict[str, int], list[TopLine]]:
        """Return how many runs there are of each status, and *most* of them."""
        counts: dict[str, int] = {status: self._view.count(statuses=[status]) for status in _ORDER}
        workers = self._view.workers()
        lines = [self._line(record, workers) for record in self._records(most)]
        present = {(line.record.id, line.record.head, line.record.status) for line in lines}
        self._kept = {key: run for key, run in self._kept.items() if key in present}
        return counts, lines

    def _records(self, most: int) -> Iterator[RunRecord]:
        """Yield the runs to show: problems fill at most half of the lines, so that what runs is seen too."""
        left = most
        for number, status in enumerate(_ORDER):
            room = min(left, max(1, most // 4)) if number < 2 else left
            found = self._view.list(statuses=[status], limit=room, damaged=lambda _: None) if room > 0 else ()
            left -= len(found)
            yield from found

    def _line(self, record: RunRecord, workers: int | None) -> TopLine:
        if record.head > _READ_WHOLE:
            return TopLine(record, left=undriven(record, workers=workers, option=self._option))
        key = (record.id, record.head, record.status)
        try:
            run = self._kept.get(key) or self._view.read(record.id).run()
        except (CorruptLog, RunNotFound) as error:
            return TopLine(record, Attention("failed", "cannot be read", error=str(error)))
        self._kept[key] = run
        why = next(iter(attention(run, record, now=time.time())), None)
        modules = modules_of(run.workflow)
        left = undriven(record, workers=workers, modules=modules, option=self._option)
        return TopLine(record, why, strip(run), left)


def _why(line: TopLine) -> dict[str, Any]:
    why = None if line.why is None else msgspec.structs.asdict(line.why)
    states = {cell.component: cell.state for cell in line.strip}
    left = None if line.left is None else msgspec.structs.asdict(line.left)
    return {"why": why, "is_interrupted": left is not None, "undriven": left, "components": states}


def _drawn(name: str, counts: dict[str, int], lines: list[TopLine], *, width: int) -> list[Text]:
    head = Text(f"{plain(name)}  ", style="bold")
    for status, number in counts.items():
        if number:
            head.append(f"  {glyph(status)} ", style=style(status))
            head.append(f"{number:,} {status}", style="not bold")
    if not lines:
        return [head, Text("no runs yet", style="dim")]
    rows = [(plain(line.record.id), plain(line.record.workflow), _took(line.record)) for line in lines]
    rooms = [min(36, max(cell_len(row[place]) for row in rows)) for place in range(3)]
    strips = max(len(line.strip) for line in lines)
    drawn = [head, Text()]
    for line, row in zip(lines, rows, strict=True):
        text = Text()
        text.append(f"{glyph(line.record.status):2} ", style=style(line.record.status))
        for cell, room in zip(row, rooms, strict=True):
            text.append(cell if cell_len(cell) <= room else f"{cell[: room - 1]}…")
            text.append(" " * (max(0, room - cell_len(cell)) + 2))
        for each in line.strip:
            text.append(_CELLS.get(each.state) or glyph(each.state), style=style(each.state))
        text.append(" " * (strips - len(line.strip) + 2))
        text.append(plain(_said(line)), style=style(line.why.state) if line.why is not None else "dim")
        text.truncate(width, overflow="ellipsis")
        drawn.append(text)
    return drawn


def _took(record: RunRecord) -> str:
    end = record.finished_at or (record.updated_at if record.status == "idle" else time.time())
    return duration(max(0.0, end - record.created_at))


def _said(line: TopLine) -> str:
    why, is_left = line.why, "" if line.left is None else f"{line.left.line(time.time()).text}: {line.left.command}"
    if why is None:
        return is_left or (line.record.reason if line.record.status in (*FINISHED, "running") else "")
    text = " ".join(filter(None, (why.component, why.text)))
    said = f"{text}{f': {why.error}' if why.error else ''}{f', {why.detail}' if why.detail else ''}"
    return f"{is_left}; {said}" if is_left else said
