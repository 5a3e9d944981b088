"""
One workflow at a time, beside a bare commit of as many bytes to another file in the same folder.

A disk has slow seconds, so the two alternate: every step of the chain makes bare commits of
its own, and what lies between the end of those and the next step is what Weft needs for a
step.  It includes the commit that the next step has to wait for.

There are two bare commits.  The one that the targets are about is what anybody would write:
WAL, synchronous FULL, a row.  Its log grows with every commit, and that is half of its time.
Weft's log has room, so beside it stands a bare commit to a log that has room too: what lies
between this one and Weft is Weft's own.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from benchmarks.alternatives.durable import ON_SQLITE, all_apart, chain_line
from benchmarks.durable.line import Line, Note
from benchmarks.durable.sampling import in_turns
from benchmarks.durable.workload import chain
from benchmarks.stores import BODY, bare_database
from weft import AsyncRunner
from weft.stores import SQLiteStore

CHAIN = 1_000
MOST_TIMES = {"inline": 1.3, "thread": 2.5}
MOST_TIMES_ONE_STEP = 3.0
ROOM = 8 << 20


class Probe:
    """A step that makes bare commits, and notes how long they took and how long it was since the last time."""

    def __init__(self, folder: Path) -> None:
        self._growing, self._roomy = _bare(folder, room=0), _bare(folder, room=ROOM)
        self._left = 0.0
        self.bare: list[float] = []
        self.roomy: list[float] = []
        """The same, to a log that need not grow."""
        self.between: list[float] = []

    def __call__(self, x: int) -> int:
        if self._left:
            self.between.append(perf_counter() - self._left)
        self.commit()
        self._left = perf_counter()
        return x + 1

    def commit(self) -> None:
        """Write a row to each of both, and wait until it is on the disk."""
        for db, seconds in ((self._roomy, self.roomy), (self._growing, self.bare)):
            start = perf_counter()
            db.execute("begin immediate")
            db.execute("insert into t (count, body) values (1, ?)", (BODY,))
            db.execute("commit")
            seconds.append(perf_counter() - start)


def measure(folder: Path, *, quick: bool) -> Iterator[Line | Note]:
    """Measure a chain and a workflow of one step, on each executor."""
    size, repeats = (100, 30) if quick else (CHAIN, 300)
    for executor, target in MOST_TIMES.items():
        probe = Probe(folder)
        asyncio.run(_run_chain(folder, executor, probe, size))
        how = f"sqlite, {executor}, every_cycle, FULL"
        yield _ratio(f"one chain of {size:,} steps, per step", how, probe.between, probe, target)
        low, middle, high = (each * 1e6 for each in quantiles(probe.between, n=4))
        work = f"one chain of {size:,} steps, time per step"
        yield Line("latency", work, how, middle, "µs", beside="spread: the middle half", low=low, high=high)
    for executor in MOST_TIMES:
        probe, whole = Probe(folder), list[float]()
        asyncio.run(_run_one_by_one(folder, executor, probe, repeats, whole))
        how = f"sqlite, {executor}, every_cycle, FULL"
        yield _ratio("start to result of a one-step workflow", how, whole, probe, MOST_TIMES_ONE_STEP)
    few, rounds = (10, 1) if quick else (100, 3)
    with all_apart(ON_SQLITE, (tempfile.mkdtemp(dir=folder) for _ in ON_SQLITE)) as others:
        samples = in_turns({one: partial(apart.run_many, 1, few) for one, apart in others.items()}, rounds)
    for one in ON_SQLITE:
        yield chain_line("latency", one, samples[one], few)


def _bare(folder: Path, *, room: int) -> sqlite3.Connection:
    """Return a database of its own; *room* is how many bytes its log can take before it grows."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "bare.db"
    db = bare_database(path, "full", check_same_thread=False)
    if room:  # what is too large for the cache goes to the log at once, and stays there when it is taken back
        db.execute("pragma cache_size = 10")
        db.execute("begin immediate")
        db.execute("insert into t (count, body) values (0, zeroblob(?))", (room,))
        db.execute("rollback")
        db.execute("pragma cache_size = -2000")
    return db


async def _run_chain(folder: Path, executor: str, probe: Probe, size: int) -> None:
    workflow = chain(size, probe)
    async with AsyncRunner(_store(folder), executor=executor) as runner:
        assert await (await runner.start(workflow, 0)).result() == size


async def _run_one_by_one(folder: Path, executor: str, probe: Probe, repeats: int, whole: list[float]) -> None:
    workflow = chain(1)
    async with AsyncRunner(_store(folder), executor=executor) as runner:
        for i in range(repeats):
            probe.commit()
            start = perf_counter()
            assert await (await runner.start(workflow, i)).result() == i + 1
            whole.append(perf_counter() - start)


def _store(folder: Path) -> SQLiteStore:
    return SQLiteStore(Path(tempfile.mkdtemp(dir=folder)) / "runs.db")


def _ratio(work: str, how: str, weft: list[float], probe: Probe, target: float) -> Line:
    bare, roomy, own = median(probe.bare), median(probe.roomy), median(weft)
    minima = min(weft) / min(probe.bare)
    times = f"bare commit {bare * 1e6:,.0f} µs, with room {roomy * 1e6:,.0f}, Weft {own * 1e6:,.0f}"
    beside = f"{times}; {own / roomy:.2f} x the one with room; of the minima {minima:.2f}"
    seen = [one / bare for one in quantiles(weft, n=4)]
    beside = f"spread: the middle half of {len(weft):,}; {beside}"
    return Line("latency", work, how, own / bare, "x bare commit", target, beside=beside, low=seen[0], high=seen[2])
