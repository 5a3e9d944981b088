"""
One workflow at a time, beside a bare commit of as many bytes to another file in the same folder.

A disk has slow seconds, so the two alternate: every step of the chain makes a bare commit of
its own, and what lies between the end of that one and the next step is what Weft needs for a
step.  It includes the commit that the next step has to wait for.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.durable.line import Line
from benchmarks.durable.workload import chain
from benchmarks.stores import BODY, bare_database
from weft import AsyncRunner
from weft.stores import SQLiteStore

CHAIN = 1_000
MOST_TIMES = {"inline": 1.3, "thread": 2.5}
MOST_TIMES_ONE_STEP = 3.0


class Probe:
    """A step that makes a bare commit, and notes how long that took and how long it was since the last one."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._left = 0.0
        self.bare: list[float] = []
        self.between: list[float] = []

    def __call__(self, x: int) -> int:
        entered = perf_counter()
        if self._left:
            self.between.append(entered - self._left)
        self.commit()
        self._left = perf_counter()
        self.bare.append(self._left - entered)
        return x + 1

    def commit(self) -> None:
        """Write a row, and wait until it is on the disk."""
        self._db.execute("begin immediate")
        self._db.execute("insert into t (count, body) values (1, ?)", (BODY,))
        self._db.execute("commit")


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Measure a chain and a workflow of one step, on each executor."""
    size, repeats = (100, 30) if quick else (CHAIN, 300)
    for executor, target in MOST_TIMES.items():
        probe = _probe(folder)
        asyncio.run(_run_chain(folder, executor, probe, size))
        how = f"sqlite, {executor}, every_cycle, FULL"
        yield _ratio(f"one chain of {size:,} steps, per step", how, probe.between, probe.bare, target)
    for executor in MOST_TIMES:
        probe, whole = _probe(folder), list[float]()
        asyncio.run(_run_one_by_one(folder, executor, probe, repeats, whole))
        how = f"sqlite, {executor}, every_cycle, FULL"
        yield _ratio("start to result of a one-step workflow", how, whole, probe.bare, MOST_TIMES_ONE_STEP)


def _probe(folder: Path) -> Probe:
    path = Path(tempfile.mkdtemp(dir=folder)) / "bare.db"
    bare_database(path, "full").close()
    return Probe(sqlite3.connect(path, isolation_level=None, check_same_thread=False))


async def _run_chain(folder: Path, executor: str, probe: Probe, size: int) -> None:
    workflow = chain(size, probe)
    async with AsyncRunner(_store(folder), executor=executor) as runner:
        assert await (await runner.start(workflow, 0)).result() == size


async def _run_one_by_one(folder: Path, executor: str, probe: Probe, repeats: int, whole: list[float]) -> None:
    workflow = chain(1)
    async with AsyncRunner(_store(folder), executor=executor) as runner:
        for i in range(repeats):
            start = perf_counter()
            probe.commit()
            probe.bare.append(perf_counter() - start)
            start = perf_counter()
            assert await (await runner.start(workflow, i)).result() == i + 1
            whole.append(perf_counter() - start)


def _store(folder: Path) -> SQLiteStore:
    return SQLiteStore(Path(tempfile.mkdtemp(dir=folder)) / "runs.db")


def _ratio(work: str, how: str, weft: list[float], bare: list[float], target: float) -> Line:
    minima = min(weft) / min(bare)
    beside = f"bare commit {median(bare) * 1e6:,.0f} µs, Weft {median(weft) * 1e6:,.0f}; of the minima {minima:.2f}"
    return Line("latency", work, how, median(weft) / median(bare), "x bare commit", target, beside=beside)
