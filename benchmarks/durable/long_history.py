"""
Memory of one run with a long history of large values under a budget, and of very many runs that only wait.

Each measurement runs in a process of its own, since the heap of one that has measured other things is as large as the
largest of them.  The store does not wait for the disk here (synchronous NORMAL): that is not what is asked.

    python -m benchmarks.durable.long_history FOLDER one EVENTS
    python -m benchmarks.durable.long_history FOLDER waiting RUNS RESIDENT
"""

from __future__ import annotations

import asyncio
import json
import operator
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.durable.line import Line
from benchmarks.durable.memory import resident
from weft import AsyncRunner, Workflow, accumulator, step, wait_for
from weft.stores import SQLiteStore
from weft.telemetry import levels

LARGE = 10_000
"""How many bytes each of the large values has."""
BUDGET = 32_000_000
AT_ONCE = 500
"""How many inputs are sent, and runs started, together."""


def grow(number: int) -> bytes:
    """Return a large value."""
    return number.to_bytes(8, "big") * (LARGE // 8)


long_history = Workflow(
    "long_history", step(grow) >> step(len, name="size") >> accumulator(operator.add, init=0, name="total")
)
waiting = Workflow("waiting", step(operator.pos, name="ask") >> wait_for("answer") >> step(operator.pos, name="told"))


def measure(folder: Path, *, quick: bool, full: bool) -> Iterator[Line]:
    """Measure processes at their ends."""
    events = 10_000 if quick else 1_000_000 if full else 100_000
    found = _alone(folder, "one", events)
    beside = f"{found['values'] / 1e6:,.0f} MB of values; {found['counted'] / 1e6:.1f} MB counted at the end, "
    beside += f"{found['before'] / 1e6:.1f} MB resident before; {found['seconds']:.0f} s"
    how = f"sqlite, inline, memory_budget={BUDGET // 10**6} MB"
    grown = (found["resident"] - found["before"]) / 1e6
    most = 2 * BUDGET / 1e6
    yield Line("long_history", f"memory of one run of {events:,} events", how, grown, "MB", most, beside=beside)
    runs = 5_000 if quick else 100_000
    for most_resident, target in ((runs, 500.0), (100, 80.0)):
        found = _alone(folder, "waiting", runs, most_resident)
        how = "sqlite, all in memory" if most_resident == runs else f"sqlite, resident={most_resident}"
        beside = f"{found['before'] / 1e6:.1f} MB before; {found['seconds']:.0f} s"
        size = found["resident"] / 1e6
        yield Line(
            "long_history", f"resident memory with {runs:,} waiting runs", how, size, "MB", target, beside=beside
        )


def _alone(folder: Path, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.durable.long_history", str(folder), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])


async def one_run(folder: Path, events: int) -> None:
    """Let one run have so many events with large values; say what the process holds in the end."""
    store = SQLiteStore(folder / f"one-{events}.db", synchronous="normal")
    inputs, since = events // 4, time.perf_counter()
    async with AsyncRunner(store, executor="inline", memory_budget=BUDGET) as runner:
        await runner.start(long_history, id="long")
        before, most = resident(), 0
        for first in range(0, inputs, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, inputs))
            handles = await asyncio.gather(*(runner.send("long", number) for number in numbers))
            await handles[-1].wait()
            most = max(most, resident())
        run = await runner.get("long")
        assert run.state_of("total") == inputs * (LARGE // 8 * 8)
        assert len(run.memory.log) >= events
        counted = levels().resident_bytes
        values = inputs * (LARGE // 8 * 8)
        seconds = time.perf_counter() - since
        _tell(before=before, resident=most, counted=counted, values=values, seconds=seconds)


async def waiting_runs(folder: Path, runs: int, most: int) -> None:
    """Let so many runs wait, of which some stay in memory; say what the process holds then."""
    store, since = SQLiteStore(folder / f"waiting-{most}.db", synchronous="normal"), time.perf_counter()
    async with AsyncRunner(store, executor="inline", resident=most) as runner:
        before = resident()
        for first in range(0, runs, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, runs))
            await runner.start_many(waiting, list(numbers), ids=[f"run-{number}" for number in numbers])
        while await runner.count(status="waiting") < runs or len(_here(runner)) > most:  # noqa: ASYNC110 - runs fall asleep
            await asyncio.sleep(0.1)
        _tell(before=before, resident=resident(), seconds=time.perf_counter() - since)
        last = f"run-{runs - 1}"
        await runner.signal(last, "answer", 7)
        assert await runner.result(last) == 7


def _here(runner: AsyncRunner) -> list[str]:
    """Return the runs that are in memory."""
    return [worker.id for worker in runner._registry]  # noqa: SLF001 - it is this that is measured


def _tell(**found: float) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    where, what, *numbers = sys.argv[1:]
    main = one_run if what == "one" else waiting_runs
    asyncio.run(main(Path(where), *map(int, numbers)))
