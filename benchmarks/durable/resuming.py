"""
Bringing back what a process has left: microseconds of wall time per run of ``resume_all``.

The runs are short and have a step in line, which does not run: executing it is not part of the figure.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.durable import interrupted
from benchmarks.durable.line import Line
from benchmarks.durable.sampling import Samples, in_turns
from weft import AsyncRunner
from weft.stores import SQLiteStore

RUNS = 20_000
MOST_MICROSECONDS = 300.0
COLLECTORS = ("unchanged", "seldom")


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Bring all of them back several times, with each setting of the collector."""
    count, rounds = (1_000, 1) if quick else (RUNS, 3)
    path = Path(tempfile.mkdtemp(dir=folder)) / "runs.db"
    with interrupted.holding():
        asyncio.run(interrupted.leave(SQLiteStore(path), count))
        samples = in_turns({each: partial(_resume, path, each, count) for each in COLLECTORS}, rounds)
    for collector in COLLECTORS:
        taken = samples[collector]
        seen, by_cpu = taken.each(count, 1e6), taken.median_cpu / count * 1e6
        yield Line(
            "resuming",
            f"resume_all of {count:,} runs",
            f"sqlite, FULL, collector {collector}",
            seen.figure,
            "µs per run",
            MOST_MICROSECONDS,
            beside=f"by CPU {by_cpu:.0f} µs",
            by_cpu=by_cpu,
            low=seen.low,
            high=seen.high,
        )


def _resume(path: Path, collector: Any, count: int, samples: Samples) -> None:
    asyncio.run(_resume_all(path, collector, count, samples))


async def _resume_all(path: Path, collector: Any, count: int, samples: Samples) -> None:
    async with AsyncRunner(SQLiteStore(path), collector=collector, **interrupted.OPTIONS) as runner:
        with samples:
            await interrupted.resume_all(runner, count)
