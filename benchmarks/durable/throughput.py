"""
Many workflows at once: steps per second, on each store and executor, beside the alternatives.

A sample is the whole life of all runs, in a store that is new and open: started together, every
result awaited and checked; by ``start`` and ``result`` for each, and by ``start_many`` and ``gather``.
An alternative does fewer workflows of the same shape, since it needs the same time for each of them;
all of them write to a SQLite file in the same folder, each in its turn of every round.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.alternatives.durable import ON_SQLITE, all_apart, speed_line
from benchmarks.durable.line import Line, Note
from benchmarks.durable.sampling import Samples, in_turns
from benchmarks.durable.workload import STEPS, chain
from weft import AsyncRunner
from weft.ports.store import LogStore
from weft.stores import MemoryStore, SQLiteStore

RunMany = Callable[[AsyncRunner, int], Awaitable[list[int]]]
"""Starts so many runs in a runner, and returns their results."""
STRATEGY = "every_cycle"
FIVE = chain(STEPS)
TARGETS = {
    ("memory", "inline"): 70_000,
    ("memory", "thread"): 45_000,
    ("sqlite", "inline"): 44_000,
    ("sqlite", "thread"): 35_000,
}
TOGETHER = (("memory", "inline"), ("memory", "thread"), ("sqlite", "inline"), ("sqlite", "thread"))


def measure(folder: Path, *, quick: bool) -> Iterator[Line | Note]:
    """Measure all of them, in turns."""
    count, few, rounds = (200, 20, 2) if quick else (1_000, 100, 7)
    works: dict[Any, Callable[[Samples], object]] = {
        (*case, run_many): partial(run_weft, folder, *case, run_many, count) for case, run_many in _cases()
    }
    with all_apart(ON_SQLITE, (tempfile.mkdtemp(dir=folder) for _ in ON_SQLITE)) as others:
        works |= {one: partial(apart.run_many, few, STEPS) for one, apart in others.items()}
        samples = in_turns(works, rounds)
    for (store, executor), target in TARGETS.items():
        yield _line(samples[store, executor, _one_by_one], count, f"{store}, {executor}{_how(store)}", target)
    for store, executor in TOGETHER:
        yield _line(samples[store, executor, _together], count, f"{store}, {executor}{_how(store)}, start_many", None)
    thread = samples["sqlite", "thread", _one_by_one].per_second(count * STEPS).figure
    for one in ON_SQLITE:
        found = samples[one]
        times = 0 if found.failure else thread / found.per_second(few * STEPS).figure
        yield speed_line("throughput", one, found, few, STEPS, f"Weft, sqlite, thread: {times:,.0f} times as many")


def run_weft(folder: Path, store: str, executor: str, run_many: RunMany, count: int, samples: Samples) -> None:
    """Run *count* workflows at once to their results, in a store of their own."""
    inner = Path(tempfile.mkdtemp(dir=folder))
    made: LogStore = MemoryStore() if store == "memory" else SQLiteStore(inner / "runs.db")
    asyncio.run(_run_many(made, executor, run_many, count, samples))


async def _run_many(store: LogStore, executor: str, run_many: RunMany, count: int, samples: Samples) -> None:
    async with AsyncRunner(store, executor=executor, checkpoint=STRATEGY) as runner:
        with samples:
            results = await run_many(runner, count)
        assert results == [i + STEPS for i in range(count)]


async def _one_by_one(runner: AsyncRunner, count: int) -> list[int]:
    handles = await asyncio.gather(*(runner.start(FIVE, i, id=f"run-{i}") for i in range(count)))
    return await asyncio.gather(*(handle.result() for handle in handles))


async def _together(runner: AsyncRunner, count: int) -> list[int]:
    handles = await runner.start_many(FIVE, range(count), ids=[f"run-{i}" for i in range(count)])
    return await handles.gather()


def _cases() -> Iterator[tuple[tuple[str, str], RunMany]]:
    yield from ((case, _one_by_one) for case in TARGETS)
    yield from ((case, _together) for case in TOGETHER)


def _line(samples: Samples, count: int, how: str, target: float | None) -> Line:
    steps, work = count * STEPS, f"{count:,} workflows x {STEPS} steps at once"
    seen, by_cpu = samples.per_second(steps), steps / samples.median_cpu
    beside = f"by CPU {by_cpu:,.0f}/s, {samples.median_cpu / steps * 1e6:.1f} µs each"
    return Line(
        "throughput",
        work,
        how,
        seen.figure,
        "steps/s",
        target,
        at_least=True,
        beside=beside,
        by_cpu=by_cpu,
        low=seen.low,
        high=seen.high,
    )


def _how(store: str) -> str:
    return f", {STRATEGY}" + (", FULL" if store == "sqlite" else "")
