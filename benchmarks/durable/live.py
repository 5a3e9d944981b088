"""
What a step costs among many live runs: CPU time per step of 10,000 workflows at once, beside that of 1,000.

More live runs are more objects that the garbage collector looks at.  Runs that are started one by one stay open, those
that are started together finish, and are kept by their handles until all are done.  It is measured with the
thresholds that Python has and with those of ``Runner(collector=)``, the default among them; only these have a target.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.durable.line import Line
from benchmarks.durable.sampling import Samples, Seen, in_turns
from benchmarks.durable.workload import STEPS, chain
from weft import AsyncRunner
from weft.stores import SQLiteStore

FEW, MANY = 1_000, 10_000
MOST_TIMES = 1.25
FIVE = chain(STEPS)
WAYS = ("start", "start_many")
COLLECTORS = ("unchanged", "auto", "seldom")


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Run few and many at once, in turns, started one by one and together."""
    few, many, rounds = (100, 500, 1) if quick else (FEW, MANY, 3)
    cases = product(WAYS, COLLECTORS, (few, many))
    samples = in_turns({case: partial(_run, folder, *case) for case in cases}, rounds)
    for way, collector in product(WAYS, COLLECTORS):
        found = {count: samples[way, collector, count].cpu for count in (few, many)}
        costs = {count: median(seconds) / count / STEPS * 1e6 for count, seconds in found.items()}
        times = Seen.of([(x / many) / (y / few) for x, y in zip(found[many], found[few], strict=True)])
        yield Line(
            "live",
            f"a step among {many:,} live runs, to one among {few:,}",
            f"sqlite, inline, {way}, collector {collector}",
            times.figure,
            "x, CPU",
            None if collector == "unchanged" else MOST_TIMES,
            beside=f"{costs[many]:.1f} µs and {costs[few]:.1f}",
            low=times.low,
            high=times.high,
        )


def _run(folder: Path, way: str, collector: Any, count: int, samples: Samples) -> None:
    path = Path(tempfile.mkdtemp(dir=folder)) / "runs.db"
    asyncio.run(_run_all(SQLiteStore(path), way, collector, count, samples))


async def _run_all(store: SQLiteStore, way: str, collector: Any, count: int, samples: Samples) -> None:
    async with AsyncRunner(store, executor="inline", collector=collector) as runner:
        with samples:
            if way == "start":
                handles = await asyncio.gather(*(runner.start(FIVE, i, open=True) for i in range(count)))
                results = await asyncio.gather(*(handle.result() for handle in handles))
            else:
                results = await (await runner.start_many(FIVE, range(count))).gather()
        assert results == [i + STEPS for i in range(count)]
