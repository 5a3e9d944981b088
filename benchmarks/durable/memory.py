"""
Memory over many steps: runs that are started and finish must leave nothing behind.

It runs in a process of its own, since the heap of one that has measured other things is as
large as the largest of them.  The store does not wait for the disk here (synchronous NORMAL):
that is not what is asked.

    python -m benchmarks.durable.memory FOLDER STEPS
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.durable.line import Line
from benchmarks.durable.workload import STEPS, chain
from weft import AsyncRunner
from weft.stores import SQLiteStore

AT_ONCE = 200
MOST_GROWTH = 1.05


def measure(folder: Path, *, quick: bool, full: bool) -> Iterator[Line]:
    """Measure a process after a tenth of the steps, and at its end."""
    steps = 20_000 if quick else 1_000_000 if full else 100_000
    command = [sys.executable, "-m", "benchmarks.durable.memory", str(folder), str(steps)]
    home = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=home)  # noqa: S603 - ourselves
    early, late = (json.loads(line) for line in done.stdout.splitlines())
    beside = f"{early['bytes'] / 2**20:.1f} MB after a tenth, then {late['bytes'] / 2**20:.1f}; "
    beside += f"{early['objects']:,} and {late['objects']:,} objects"
    how = "sqlite, inline, every_cycle, NORMAL"
    growth = late["bytes"] / early["bytes"]
    yield Line("memory", f"resident memory over {steps:,} steps", how, growth, "x", MOST_GROWTH, beside=beside)


async def run(folder: Path, steps: int) -> None:
    """Run as many steps, in runs that finish; say what the process holds after a tenth and at the end."""
    workflow, rounds = chain(STEPS), steps // (AT_ONCE * STEPS)
    async with AsyncRunner(SQLiteStore(folder / "memory.db", synchronous="normal"), executor="inline") as runner:
        for round_ in range(rounds):
            handles = await asyncio.gather(*(runner.start(workflow, i, id=f"{round_}-{i}") for i in range(AT_ONCE)))
            results = await asyncio.gather(*(handle.result() for handle in handles))
            assert results == [i + STEPS for i in range(AT_ONCE)]
            if round_ + 1 in {rounds // 10, rounds}:
                del handles, results
                gc.collect()
                print(json.dumps({"bytes": resident(), "objects": len(gc.get_objects())}), flush=True)


def resident() -> int:
    """Return how many bytes of this process are in memory."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the most there ever was: all that other systems say


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
