"""
Workers of a fleet, each in a process of its own: how fast they empty a queue, alone and as two, and what they cost.

The runs are in a queue of no worker first, and are moved to one that workers serve by a single statement: from then on
the time is taken, until the last of them has finished.  A worker that is open and has nothing to do is told of them by
the start of one more run, as always.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

import asyncpg

from benchmarks.alternatives.durable import ON_POSTGRES, all_apart
from benchmarks.durable.line import Line, Note
from benchmarks.durable.sampling import Samples, Seen, in_turns, ratios
from benchmarks.durable.workload import STEPS
from benchmarks.postgres.flows import INLINE, ONE, PAUSE, THREAD, WAITING
from benchmarks.postgres.server import Server
from benchmarks.postgres.worker import WorkerProcess
from weft import AsyncClient, Workflow, registry

ALONE, BOTH, HELD = "alone", "both", "held"
"""Queues: of the first worker, of both, and of none."""
AT_ONCE = 16
"""How many runs of a worker are active where steps wait."""
MOST_CONNECTIONS, MOST_STATEMENTS, MOST_MILLISECONDS = 4, 1.0, 5.0
LOOKS = 0.01
"""After how many seconds it is looked again whether all runs have ended."""

SETTLED = 5.0
"""After how many seconds a worker has opened its connections and prepared its statements."""

registry.add(ONE, INLINE, THREAD, WAITING)


# -- emptying a queue ----------------------------------------------------------------------------


def works(dsn: str, worker: WorkerProcess, count: int) -> dict[Any, Callable[[Samples], object]]:
    """Return what one worker does in its turns."""
    return {
        ("worker", name): partial(emptied, dsn, [worker], ALONE, workflow, count)
        for name, workflow in (("inline", INLINE), ("thread", THREAD))
    }


def lines(samples: dict[Any, Samples], targets: dict[str, int], count: int) -> Iterator[Line]:
    """Return how many steps a second one worker does."""
    for executor, target in targets.items():
        found, steps = samples["worker", executor], count * STEPS
        seen = found.per_second(steps)
        yield Line(
            "postgres_throughput",
            f"{count:,} workflows x {STEPS} steps from the queue",
            f"postgres, a worker process, {executor}, every_cycle",
            seen.figure,
            "steps/s",
            target,
            at_least=True,
            beside=f"{found.median_cpu / steps * 1e6:.1f} µs of CPU of its process for each; with the claims",
            low=seen.low,
            high=seen.high,
        )


def emptied(
    dsn: str, workers: Sequence[WorkerProcess], queue: str, workflow: Workflow, count: int, samples: Samples
) -> None:
    """Let *workers* run so many workflows, and add the seconds that it took."""
    cpu = sum(worker.cpu() for worker in workers)
    samples.wall.append(asyncio.run(_emptied(dsn, queue, workflow, count)))
    samples.cpu.append(sum(worker.cpu() for worker in workers) - cpu)


async def _emptied(dsn: str, queue: str, workflow: Workflow, count: int) -> float:
    async with AsyncClient(dsn) as client:
        db = await asyncpg.connect(dsn)
        try:
            await client.start_many(workflow, range(count), queue=HELD)
            since = await db.fetchval("select coalesce(max(key), 0) - $1 from weft_runs", count)
            await db.execute("update weft_queue set queue = $1 where queue = $2", queue, HELD)
            begun = time.time()
            await client.start(ONE, 0, queue=queue)
            while await db.fetchval("select exists (select from weft_queue where queue = $1)", queue):  # noqa: ASYNC110
                await asyncio.sleep(LOOKS)  # runs that have finished are in no queue
            ended, done = await db.fetchrow(
                "select max(finished_at), count(*) filter (where status = 'completed') from weft_runs "
                "where key > $1 and workflow = $2",
                since,
                workflow.name,
            )
            assert done == count
            return float(ended) - begun
        finally:
            await db.close()


# -- two beside one ------------------------------------------------------------------------------


def measure_two(server: Server, _: Path, *, quick: bool) -> Iterator[Line | Note]:
    """Compare two workers with one: with steps that do nothing, and with steps that wait."""
    count, waiting, rounds = (300, 60, 2) if quick else (5_000, 400, 5)
    cases = (
        ("do nothing", INLINE, count, 256, 1.0),
        (f"wait {PAUSE * 1e3:.0f} ms, {AT_ONCE} at once in each", WAITING, waiting, AT_ONCE, 1.8),
    )
    for what, workflow, runs, concurrency, target in cases:
        with server.database() as dsn, ExitStack() as stack:
            first, second = (
                stack.enter_context(WorkerProcess(dsn, queues, concurrency)) for queues in ((ALONE, BOTH), (BOTH,))
            )
            for worker in (first, second):
                worker.wait_until_it_works()
            turns = {
                1: partial(emptied, dsn, [first], ALONE, workflow, runs),
                2: partial(emptied, dsn, [first, second], BOTH, workflow, runs),
            }
            in_turns({key: partial(turn, Samples()) for key, turn in _warming(dsn, first, second).items()}, 1)
            samples = in_turns(turns, rounds)
        times = ratios(samples[1], samples[2])
        speeds = [samples[number].per_second(runs * STEPS).figure for number in (1, 2)]
        yield Line(
            "postgres_two",
            f"two workers beside one, steps that {what}",
            f"postgres, {runs:,} workflows x {STEPS} steps from the queue",
            times.figure,
            "times as fast",
            target,
            at_least=True,
            beside=f"{speeds[0]:,.0f} and {speeds[1]:,.0f} steps/s",
            low=times.low,
            high=times.high,
        )


def _warming(dsn: str, first: WorkerProcess, second: WorkerProcess) -> dict[str, Callable[..., object]]:
    """Return what both do before: what is compiled and prepared at first use."""
    return {
        ALONE: lambda samples, _: emptied(dsn, [first], ALONE, INLINE, 20, samples),
        BOTH: lambda samples, _: emptied(dsn, [first, second], BOTH, INLINE, 200, samples),
    }


# -- one run, and none ---------------------------------------------------------------------------


def measure_idle(server: Server, _: Path, *, quick: bool) -> Iterator[Line | Note]:
    """Measure a run for a worker that has nothing else to do, its connections, and what it asks for without runs."""
    waits, seconds = (20, 3.0) if quick else (300, 20.0)
    with (
        server.database() as dsn,
        server.database() as first,
        server.database() as second,
        WorkerProcess(dsn, [ALONE], 256) as worker,
        all_apart(ON_POSTGRES, (first, second)) as others,
    ):
        worker.wait_until_it_works()
        found = asyncio.run(_answers(dsn, waits))
        turns = {one: partial(apart.run_many, 1, 1) for one, apart in others.items()}
        samples = in_turns(turns, max(3, waits // 5))
        connections = asyncio.run(_connections(dsn))
    low, middle, high = (each * 1e3 for each in quantiles(found, n=4))
    yield Line(
        "postgres_idle",
        "start to result of a one-step workflow",
        "postgres, an idle worker in another process",
        middle,
        "ms",
        MOST_MILLISECONDS,
        beside=f"of {waits:,}; spread: the middle half; nine of ten within {sorted(found)[waits * 9 // 10] * 1e3:.1f}",
        low=low,
        high=high,
    )
    for one in ON_POSTGRES:
        yield _answer_line(one.name, one.how, samples[one])
    yield Line(
        "postgres_idle", "connections of a worker", "postgres, pg_stat_activity, after work", connections, "",
        MOST_CONNECTIONS,
    )  # fmt: skip
    yield idle_line(server, seconds)


def _answer_line(name: str, how: str, samples: Samples) -> Line | Note:
    if samples.failure:
        return Note("postgres_idle", f"{name}: {samples.failure}")
    seen, work = Seen.of(samples.wall, 1e3), f"{name}, start to result of a one-step workflow"
    return Line(
        "postgres_idle", work, f"{how}, same process", seen.figure, "ms", low=seen.low, high=seen.high, library=name
    )


def idle_line(server: Server, seconds: float) -> Line:
    """Count what a worker without runs asks for, in the log of the server."""
    with server.database(logged=True) as dsn, WorkerProcess(dsn, [ALONE], 256) as worker:
        worker.wait_until_it_works()
        time.sleep(SETTLED)  # until it has renewed its lease once, which prepares statements
        cpu, before, begun = worker.cpu(), server.statements(), time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - begun
        count, used = server.statements() - before, worker.cpu() - cpu
    how = f"postgres, counted in the server's log for {passed:.0f} s"
    return Line(
        "postgres_idle", "an idle worker", how, count / passed, "statements/s", MOST_STATEMENTS,
        beside=f"{count} statements; {used / passed:.2%} of a CPU",
    )  # fmt: skip


async def _answers(dsn: str, count: int) -> list[float]:
    """Start one run after the other, and return how long each took to its result."""
    found: list[float] = []
    async with AsyncClient(dsn) as client:
        for i in range(-5, count):  # the first ones open connections and prepare statements
            begun = time.perf_counter()
            result = await (await client.start(ONE, i, queue=ALONE)).result()
            if i >= 0:
                found.append(time.perf_counter() - begun)
            assert result == i + 1
            await asyncio.sleep(0.01)
    return found


async def _connections(dsn: str) -> int:
    """Return how many connections the one worker of a database has."""
    db = await asyncpg.connect(dsn)
    try:
        sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        return int(await db.fetchval(sql))
    finally:
        await db.close()
