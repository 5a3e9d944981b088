"""
What an append costs beside a bare commit of the same bytes, on the disk of a folder.

    python benchmarks/stores.py
    python benchmarks/stores.py --folder /mnt/data --quick

A commit waits for the disk, so these are wall times, and the two are taken in turns: a slow
minute of the disk falls on both.  *In memory* is the same without a disk (synchronous off):
what the code costs.  Read the ratios; with a noisy disk, those of the minima.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

# A file that is run knows its own folder only; the package is beside that.
sys.path.insert(0, str(Path(__file__).parents[1]))

from weft.ports.store import Append
from weft.stores import SQLiteStore

BODY = b"x" * 100
CHAIN = b"c" * 16


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measure appends beside bare commits.")
    parser.add_argument("--folder", type=Path, default=None, help="where to write; the disk under it is measured")
    parser.add_argument("--quick", action="store_true", help="few repeats: see that it works, not how fast it is")
    options = parser.parse_args()
    repeats = 50 if options.quick else 1000
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(measure(Path(folder), repeats))
    return 0


async def measure(folder: Path, repeats: int) -> None:
    """Take all measurements in *folder*."""
    print(f"SQLite {sqlite3.sqlite_version}, {repeats} repeats, in microseconds\n")
    print(f"{'':44}{'minimum':>9}{'median':>9}{'95 %':>9}")
    for synchronous in ("full", "off"):
        bare = bare_database(folder / f"bare-{synchronous}.db", synchronous)
        async with SQLiteStore(folder / f"runs-{synchronous}.db") as store:
            await pragma(store, f"synchronous = {synchronous}")
            await lone(store, bare, repeats, "on the disk" if synchronous == "full" else "in memory")
            if synchronous == "full":
                await batches(store, max(repeats // 50, 3))
        bare.close()


async def lone(store: SQLiteStore, bare: sqlite3.Connection, repeats: int, where: str) -> None:
    """One append at a time, beside one row at a time."""
    await store.append([first("lone")])
    commits: list[float] = []
    appends: list[float] = []
    hops: list[float] = []
    for i in range(1, repeats + 1):
        start = perf_counter()
        bare.execute("begin immediate")
        bare.execute("insert into t values (?, 1, ?)", (i, BODY))
        bare.execute("commit")
        commits.append(perf_counter() - start)
        appends.append(await timed(lambda i=i: store.append([more("lone", i)])))
        hops.append(await timed(lambda: pragma(store, "user_version")))
    row(f"bare commit, {where}", commits)
    row(f"append, {where}", appends)
    row("  of that, to the writer and back", hops)
    ratios = f"{min(appends) / min(commits):>9.2f}{median(appends) / median(commits):>9.2f}"
    print(f"{'  times the bare commit':44}{ratios}\n")


async def batches(store: SQLiteStore, repeats: int) -> None:
    """Appends to many runs in one batch: wall and CPU for each of them."""
    for size in (10, 100, 1000):
        runs = [f"{size}-{i}" for i in range(size)]
        await store.append([first(run) for run in runs])
        wall: list[float] = []
        cpu: list[float] = []
        for position in range(1, repeats + 1):
            batch = [more(run, position) for run in runs]
            started = process_time()
            wall.append(await timed(lambda batch=batch: store.append(batch)) / size)
            cpu.append((process_time() - started) / size)
        row(f"each of {size} appends in a batch", wall)
        row("  of that, CPU", cpu)
    print()


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    """Return how many seconds *act* takes."""
    start = perf_counter()
    await act()
    return perf_counter() - start


async def pragma(store: SQLiteStore, text: str) -> object:
    """Run a pragma on the connection of the writer, which has no other door for it."""
    opened = store._opened  # noqa: SLF001
    assert opened is not None
    return await opened.writer.call(lambda db: db.execute(f"pragma {text}").fetchone())


def bare_database(path: Path, synchronous: str, *, check_same_thread: bool = True) -> sqlite3.Connection:
    """Return what anybody would write in five lines."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=check_same_thread)
    db.execute("pragma journal_mode = wal")
    db.execute(f"pragma synchronous = {synchronous}")
    db.execute("create table t (place integer primary key, count integer, body blob)")
    return db


def first(run: str) -> Append:
    return Append(run=run, workflow="w", create=True, expected=0, count=1, body=BODY, chain=CHAIN, at=0.0)


def more(run: str, expected: int) -> Append:
    return Append(run=run, expected=expected, count=1, body=BODY, chain=CHAIN, at=0.0)


def row(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    figures = (ordered[0], median(ordered), ordered[int(len(ordered) * 0.95)])
    print(f"{name:44}" + "".join(f"{each * 1e6:>9.1f}" for each in figures))


if __name__ == "__main__":
    sys.exit(main())
