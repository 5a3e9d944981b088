"""
A long queue: starting many runs at once, and claiming some of a million.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.durable.line import Line
from benchmarks.durable.sampling import Samples, in_turns
from benchmarks.postgres.flows import INLINE
from benchmarks.postgres.server import Server, execute
from weft import AsyncClient, registry
from weft.stores import PostgresStore
from weft.stores.postgres import statements

LEAST_RUNS, MOST_MILLISECONDS, CLAIMED = 20_000, 40.0, 1_000
_RUNS = """
    insert into weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow, version, status,
                           reason, chain, outcome)
    select 0, 1, i, i, 0, 0, 'run ' || i, 'w', 'v', 'running', '', '', '' from generate_series(1, {backlog}) i
"""
_PROGRAM = statements.part("program")
_QUEUE = """
    insert into weft_queue (run, scheduled_at, wake, program)
    select r.key, r.key, 0, {program} from weft_runs r
""".replace("{program}", _PROGRAM)
_ANOTHER = """
    with another as (
        insert into weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow, version,
                               status, reason, chain, outcome)
        select 0, 1, 0, 0, 0, 0, 'another ' || i, 'w', 'v2', 'running', '', '', ''
        from generate_series(1, {waiting}) i
        returning key, workflow, version
    )
    insert into weft_queue (run, scheduled_at, wake, program)
    select r.key, r.key, 0, {program} from another r
""".replace("{program}", _PROGRAM)

registry.add(INLINE)


def measure(server: Server, _: Path, *, quick: bool) -> Iterator[Line]:
    """Measure both, each in a database of its own."""
    runs, backlog, rounds = (2_000, 20_000, 2) if quick else (20_000, 1_000_000, 5)
    at_server: list[float] = []
    with server.database() as dsn:
        started = in_turns({0: partial(_start, server, dsn, runs, at_server)}, rounds)[0]
    seen, costs = started.per_second(runs), [each / runs * 1e6 for each in (started.median_cpu, median(at_server))]
    yield Line(
        "postgres_backlog",
        f"start_many of {runs:,} runs",
        "postgres, a client",
        seen.figure,
        "runs/s",
        LEAST_RUNS,
        at_least=True,
        beside=f"{costs[0]:.1f} µs of CPU of the client and {costs[1]:.1f} of the server for each",
        low=seen.low,
        high=seen.high,
    )
    with server.database() as dsn:
        asyncio.run(_fill(dsn, backlog))
        claimed = in_turns({0: partial(_claim, dsn, ("w", "v"))}, rounds)[0]
        asyncio.run(execute(dsn, _ANOTHER.format(waiting=CLAIMED * 2 * rounds)))
        behind = in_turns({0: partial(_claim, dsn, ("w", "v2"))}, rounds)[0]
    seen = claimed.each(1, 1e3)
    yield Line(
        "postgres_backlog",
        f"claim of {CLAIMED:,} from {backlog:,}",
        "postgres, one statement",
        seen.figure,
        "ms",
        MOST_MILLISECONDS,
        low=seen.low,
        high=seen.high,
    )
    seen = behind.each(1, 1e3)
    yield Line(
        "postgres_backlog",
        f"claim of {CLAIMED:,} behind {backlog:,} that this worker does not know",
        "postgres, one statement",
        seen.figure,
        "ms",
        MOST_MILLISECONDS,
        low=seen.low,
        high=seen.high,
    )


def _start(server: Server, dsn: str, runs: int, at_server: list[float], samples: Samples) -> None:
    asyncio.run(_start_many(server, dsn, runs, at_server, samples))


async def _start_many(server: Server, dsn: str, runs: int, at_server: list[float], samples: Samples) -> None:
    async with AsyncClient(dsn) as client:
        await client.start_many(INLINE, range(10), queue="none")
        before = server.cpu()
        with samples:
            await client.start_many(INLINE, range(runs), queue="none")
        at_server.append(server.cpu() - before)


async def _fill(dsn: str, backlog: int) -> None:
    """Put runs into the queue, without what is in their logs, which a claim does not read."""
    async with PostgresStore(dsn):
        for statement in (_RUNS.format(backlog=backlog), _QUEUE, "vacuum analyze weft_runs, weft_queue"):
            await execute(dsn, statement)


def _claim(dsn: str, known: tuple[str, str], samples: Samples) -> None:
    asyncio.run(_claim_some(dsn, known, samples))


async def _claim_some(dsn: str, known: tuple[str, str], samples: Samples) -> None:
    async with PostgresStore(dsn) as store:
        await store.claim(1, queues=["default"], workflows=[known])  # the statement is prepared
        with samples:
            found = await store.claim(CLAIMED, queues=["default"], workflows=[known])
        assert len(found) == CLAIMED
