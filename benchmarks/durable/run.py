"""
Everything durable, in order, and the count after a ``kill -9`` at the end.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.durable import (
    chains,
    encoding,
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
from benchmarks.durable.line import Line, table

KILLING = "killing"


def run(folder: Path, only: str, *, quick: bool, full: bool) -> dict[str, Any] | None:
    """Measure what *only* asks for, print it, and return it as data; None if nothing was asked for."""
    subjects: dict[str, Callable[[Path], Iterator[Line]]] = {
        "throughput": partial(throughput.measure, quick=quick),
        "latency": partial(latency.measure, quick=quick),
        "chains": partial(chains.measure, quick=quick),
        "encoding": partial(encoding.measure, quick=quick),
        "memory": partial(memory.measure, quick=quick, full=full),
        "long_history": partial(long_history.measure, quick=quick, full=full),
        "long_lived": partial(long_lived.measure, quick=quick, full=full),
        "neighbours": partial(neighbours.measure, quick=quick),
        "resuming": partial(resuming.measure, quick=quick),
        "live": partial(live.measure, quick=quick),
    }
    wanted = {name: measure for name, measure in subjects.items() if re.search(only, name)}
    kills = re.search(only, KILLING) is not None
    if not wanted and not kills:
        return None
    versions = ", ".join(f"{name} {version}" for name, version in throughput.versions().items())
    print(f"\nDurable: SQLite {sqlite3.sqlite_version}, {versions}; in {folder}; load {os.getloadavg()[0]:.1f}.")
    print("Wall time, best of rounds taken in turns; 'by CPU': if nobody had kept the process from running.\n")
    lines: list[Line] = []
    counts: dict[str, killing.Count] = {}
    with tempfile.TemporaryDirectory(dir=folder, prefix="weft-bench-", ignore_cleanup_errors=True) as inner:
        for name, measure in wanted.items():
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            lines += measure(Path(inner))
        print(table(lines))
        for executor in ("inline", "thread") if kills else ():
            counts[executor] = killing.measure(Path(inner), quick=quick, executor=executor)
            print(f"\nkill -9 of a process at work (sqlite, {executor}, every_cycle, FULL)")
            print("\n".join(f"  {line}" for line in counts[executor].lines()))
    return {
        "rows": [{"met": line.is_met} | {name: getattr(line, name) for name in Line.__slots__} for line in lines],
        "killed": {executor: count.lines() for executor, count in counts.items()},
        "right": all(count.is_right for count in counts.values()),
    }
