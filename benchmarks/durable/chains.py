"""
One long chain of steps that do nothing, handed over step by step and handed over together.

Both are measured in turns, in memory and under the same strategy: what differs is the number of hand-overs.  In the
event loop there is none to save; that row shows that asking for nothing costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.durable.line import Line
from benchmarks.durable.sampling import Samples, in_turns, ratios
from benchmarks.durable.workload import chain
from weft import AsyncRunner
from weft.ports.scheduler import Scheduler
from weft.schedulers import ChainBatching, Default

SIZE = 1_000
LEAST_TIMES = {"thread": 1.5, "inline": None}
"""By executor: how many times as fast a chain is that is handed over together."""


def measure(_: Path, *, quick: bool) -> Iterator[Line]:
    """Measure both on each executor, in turns."""
    size, rounds = (200, 3) if quick else (SIZE, 9)
    schedulers: dict[str, Scheduler] = {"one by one": Default(), "together": ChainBatching()}
    samples = in_turns(
        {
            (executor, name): partial(run_chain, executor, scheduler, size)
            for executor in LEAST_TIMES
            for name, scheduler in schedulers.items()
        },
        rounds,
    )
    for executor, target in LEAST_TIMES.items():
        alone, together = samples[executor, "one by one"], samples[executor, "together"]
        times = ratios(alone, together)
        each = f"{together.least_cpu / size * 1e6:.1f} instead of {alone.least_cpu / size * 1e6:.1f} µs of CPU a step"
        yield Line(
            "chains",
            f"one chain of {size:,} steps under ChainBatching",
            f"memory, {executor}, every_cycle",
            times.figure,
            "times as fast",
            target,
            at_least=True,
            beside=f"by CPU {alone.least_cpu / together.least_cpu:.2f} times; {each}",
            by_cpu=alone.least_cpu / together.least_cpu,
            low=times.low,
            high=times.high,
        )


def run_chain(executor: str, scheduler: Scheduler, size: int, samples: Samples) -> None:
    """Run a chain twice, and measure the second time: the first one starts the threads and compiles the plan."""
    asyncio.run(_run_chain(executor, scheduler, size, samples))


async def _run_chain(executor: str, scheduler: Scheduler, size: int, samples: Samples) -> None:
    workflow = chain(size)
    async with AsyncRunner(executor=executor, scheduler=scheduler) as runner:
        assert await (await runner.start(workflow, 0)).result() == size
        with samples:
            result = await (await runner.start(workflow, 0)).result()
        assert result == size
