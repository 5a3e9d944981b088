"""
A runner in one process on PostgreSQL: many workflows at once, and one long chain beside a bare commit.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg

from benchmarks.alternatives.durable import ON_POSTGRES, all_apart, chain_line
from benchmarks.durable.line import Line, Note
from benchmarks.durable.sampling import Samples, Seen, in_turns, ratios
from benchmarks.durable.workload import STEPS, chain
from benchmarks.postgres.server import Server
from benchmarks.stores import BODY
from weft import AsyncRunner
from weft.stores import PostgresStore

FIVE = chain(STEPS)
TARGETS = {"inline": 25_000, "thread": 18_000}
MOST_TIMES = {"inline": 1.5, "thread": 2.5}
CHAIN = 1_000
RunMany = Callable[[AsyncRunner, int], Awaitable[list[int]]]


@dataclass(slots=True)
class Costs:
    """What the server was asked for, by round."""

    statements: list[float] = field(default_factory=list[float])
    """Each step's share."""
    wal: list[float] = field(default_factory=list[float])
    """Bytes of the write-ahead log for each step."""


# -- many at once --------------------------------------------------------------------------------


def works(dsn: str, count: int) -> tuple[dict[Any, Callable[[Samples], object]], dict[Any, Costs]]:
    """Return what a runner does in its turns, and what that costs the server, which is known afterwards."""
    cases = [(executor, way) for executor in TARGETS for way in (one_by_one, together)]
    costs = {case: Costs() for case in cases}
    return {case: partial(_run, dsn, *case, count, costs[case]) for case in cases}, costs


def lines(samples: dict[Any, Samples], costs: dict[Any, Costs], count: int) -> Iterator[Line]:
    """Return how many steps a second a runner does."""
    steps = count * STEPS
    for (executor, way), cost in costs.items():
        found = samples[executor, way]
        seen = found.per_second(steps)
        yield Line(
            "postgres_throughput",
            f"{count:,} workflows x {STEPS} steps at once",
            f"postgres, a runner, {executor}, {'start' if way is one_by_one else 'start_many'}, every_cycle",
            seen.figure,
            "steps/s",
            TARGETS[executor],
            at_least=True,
            beside=f"{found.median_cpu / steps * 1e6:.1f} µs of CPU of its process for each; "
            f"{median(cost.statements):.4f} statements and {median(cost.wal):,.0f} bytes of WAL per step",
            low=seen.low,
            high=seen.high,
        )
    cost = costs["inline", one_by_one]
    for what, unit, found in (("statements", "per step", cost.statements), ("WAL", "bytes per step", cost.wal)):
        seen = Seen.of(found)
        how = "postgres, a runner, inline, start"
        work = f"{what}, {count:,} workflows at once"
        yield Line("postgres_throughput", work, how, seen.figure, unit, low=seen.low, high=seen.high)


async def one_by_one(runner: AsyncRunner, count: int) -> list[int]:
    """Start each by a call, and wait for each."""
    handles = await asyncio.gather(*(runner.start(FIVE, i, id=f"run-{i}") for i in range(count)))
    return await asyncio.gather(*(handle.result() for handle in handles))


async def together(runner: AsyncRunner, count: int) -> list[int]:
    """Start and wait in one call each."""
    handles = await runner.start_many(FIVE, range(count), ids=[f"run-{i}" for i in range(count)])
    return await handles.gather()


def _run(dsn: str, executor: str, run_many: RunMany, count: int, costs: Costs, samples: Samples) -> None:
    asyncio.run(_life(dsn, executor, run_many, count, costs, samples))


async def _life(dsn: str, executor: str, run_many: RunMany, count: int, costs: Costs, samples: Samples) -> None:
    """Run *count* workflows to their results, in a schema of their own."""
    schema, statements = f"bench_{uuid.uuid4().hex}", list[str]()
    store, db = PostgresStore(dsn, schema=schema), await asyncpg.connect(dsn)
    try:
        async with AsyncRunner(store, executor=executor) as runner:
            await (await runner.start(FIVE, 0, id="warm")).result()
            opened = store._opened  # noqa: SLF001 - it is its statements that are counted
            assert opened is not None
            for each in (opened.appends, opened.others):
                each._db.add_query_logger(lambda query: statements.append(query.query))  # noqa: SLF001
            before = await db.fetchval("select pg_current_wal_lsn()")
            with samples:
                results = await run_many(runner, count)
            wal = await db.fetchval("select pg_wal_lsn_diff(pg_current_wal_lsn(), $1)", before)
            assert results == [i + STEPS for i in range(count)]
        costs.statements.append(len(statements) / count / STEPS)
        costs.wal.append(float(wal) / count / STEPS)
        await db.execute(f"drop schema {schema} cascade")
    finally:
        await db.close()


# -- one chain -----------------------------------------------------------------------------------


def measure_chain(server: Server, _: Path, *, quick: bool) -> Iterator[Line | Note]:
    """Measure a chain, as many bare commits, and the chains of the alternatives, in turns."""
    size, few, rounds = (50, 10, 2) if quick else (CHAIN, 100, 5)
    with (
        server.database() as dsn,
        server.database() as first,
        server.database() as second,
        all_apart(ON_POSTGRES, (first, second)) as others,
    ):
        turns: dict[Any, Callable[[Samples], object]] = {"bare": partial(_commits, dsn, size)}
        turns |= {executor: partial(_chain, dsn, executor, size) for executor in MOST_TIMES}
        turns |= {one: partial(apart.run_many, 1, few) for one, apart in others.items()}
        samples = in_turns(turns, rounds)
    bare = samples["bare"].each(size, 1e6)
    for executor, target in MOST_TIMES.items():
        times, own = ratios(samples[executor], samples["bare"]), samples[executor].each(size, 1e6)
        yield Line(
            "postgres_chain",
            f"one chain of {size:,} steps, per step",
            f"postgres, a runner, {executor}, every_cycle",
            times.figure,
            "x bare commit",
            target,
            beside=f"bare commit {bare.figure:,.0f} µs, Weft {own.figure:,.0f}",
            low=times.low,
            high=times.high,
        )
        work, how = f"one chain of {size:,} steps, time per step", f"postgres, a runner, {executor}, every_cycle"
        yield Line("postgres_chain", work, how, own.figure, "µs", low=own.low, high=own.high)
    for one in ON_POSTGRES:
        yield chain_line("postgres_chain", one, samples[one], few)


def _commits(dsn: str, size: int, samples: Samples) -> None:
    asyncio.run(_bare_commits(dsn, size, samples))


async def _bare_commits(dsn: str, size: int, samples: Samples) -> None:
    """Insert a row of as many bytes as a step leaves, each in a transaction of its own, by a prepared statement."""
    db = await asyncpg.connect(dsn)
    try:
        await db.execute("create table if not exists bare (place bigint generated always as identity, body bytea)")
        insert = await db.prepare("insert into bare (body) values ($1)")
        await insert.fetch(BODY)
        with samples:
            for _ in range(size):
                await insert.fetch(BODY)
    finally:
        await db.close()


def _chain(dsn: str, executor: str, size: int, samples: Samples) -> None:
    asyncio.run(_run_chain(dsn, executor, size, samples))


async def _run_chain(dsn: str, executor: str, size: int, samples: Samples) -> None:
    async with AsyncRunner(PostgresStore(dsn), executor=executor) as runner:
        workflow = chain(size)
        await (await runner.start(workflow, 0)).result()  # what is compiled and prepared at first use
        with samples:
            result = await (await runner.start(workflow, 0)).result()
        assert result == size
