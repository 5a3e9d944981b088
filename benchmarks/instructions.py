"""
How many instructions a run of five steps takes, here and in another commit: figures that do not depend on the minute.

    python benchmarks/instructions.py --against abb6a53
    python benchmarks/instructions.py --against HEAD~1 --only 'memory inline'

Each case runs under callgrind in a process of its own, in turns with the other commit, by the same interpreter and
with the same hashes.  A first group of runs warms up, and the collector forgets what was there; then callgrind counts,
until the results of all others are there.
Two counts of the same code differ by less than one in a thousand inline; on threads and on SQLite, where threads take
turns, by up to two in a hundred.  Instructions are not time: what waits for memory, the disk or a lock is not counted.

The clock of the program advances by the time of a step with each look, since events are timed (ADR 26), and the clock
of a process under callgrind runs fifty times too fast.

Needs git, valgrind with its headers, and a C compiler.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import functools
import gc
import io
import itertools
import operator
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CASES = (
    "memory inline start",
    "sqlite inline start",
    "memory inline start_many",
    "sqlite inline start_many",
    "memory thread start",
    "sqlite thread start",
)
BEFORE = {"start_many": "start"}
"""What the other commit does where it may not have this: ``start_many`` is compared with ``start``."""
WARM, RUNS, STEPS = 64, 500, 5
STEP_SECONDS = 1e-5


def main() -> None:
    """Count here and in the other commit, and print both with their ratio."""
    options = arguments()
    if options.case is not None:
        asyncio.run(_work(options.case, Path(options.switch)))
        return
    with tempfile.TemporaryDirectory() as folder:
        switch = Path(folder) / "switch.so"
        source = HERE / "callgrind_switch.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", switch, source], check=True)  # noqa: S603, S607
        there = Path(folder) / "other"
        packed = subprocess.run(  # noqa: S603
            ["git", "archive", options.against, "src"],  # noqa: S607
            check=True,
            capture_output=True,
            cwd=HERE.parent,
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
            tar.extractall(there, filter="data")
        print(f"{'instructions per run of five steps':<36}{options.against:>12}{'here':>12}{'times as fast':>16}")
        for case in (each for each in CASES if re.search(options.only, each)):
            store, executor, how = case.split()
            before = _counted(there / "src", f"{store} {executor} {BEFORE.get(how, how)}", switch)
            now = _counted(HERE.parent / "src", case, switch)
            print(f"{case:<36}{before:>12,}{now:>12,}{before / now:>16.2f}", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Count the instructions of a run, here and in another commit.")
    parser.add_argument("--against", metavar="COMMIT", default="HEAD", help="the commit to compare with")
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression for the cases to count")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--switch", help=argparse.SUPPRESS)
    return parser.parse_args()


def _counted(source: Path, case: str, switch: Path) -> int:
    """Return how many instructions a run takes in *case*, with the Weft in *source*."""
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run(  # noqa: S603
            [
                *("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"),
                *(sys.executable, __file__, "--case", case, "--switch", str(switch)),
            ],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(source)},
        )
    found = re.search(r"Collected : (\d+)", told.stderr)
    if found is None:
        raise SystemExit(f"callgrind has counted nothing:\n{told.stderr}")
    return int(found[1]) // RUNS


def add_one(x: int) -> int:
    """Do next to nothing."""
    return x + 1


async def _work(case: str, switch: Path) -> None:
    """Run the *case* once to warm up, and once while callgrind counts."""
    store, executor, how = case.split()
    time.monotonic = itertools.count(1_000.0, STEP_SECONDS).__next__
    from weft import AsyncRunner, Workflow, step  # after the clock
    from weft.stores import MemoryStore, SQLiteStore

    five: Any = Workflow(
        "chain", functools.reduce(operator.rshift, (step(add_one, name=f"step_{i}") for i in range(STEPS)))
    )

    async def run_all(runner: Any, first: int, count: int) -> None:
        numbers = range(first, first + count)
        if how == "start_many":
            handles = await runner.start_many(five, numbers, ids=[f"run-{i}" for i in numbers])
            results = await handles.gather()
        else:
            handles = await asyncio.gather(*(runner.start(five, i, id=f"run-{i}") for i in numbers))
            results = await asyncio.gather(*(handle.result() for handle in handles))
        if results != [i + STEPS for i in numbers]:
            raise SystemExit(f"wrong results: {results!r:.200}")

    callgrind = ctypes.PyDLL(str(switch))
    with tempfile.TemporaryDirectory() as folder:
        made: Any = MemoryStore() if store == "memory" else SQLiteStore(Path(folder) / "runs.db")
        async with AsyncRunner(made, executor=executor, checkpoint="every_cycle") as runner:
            await run_all(runner, 0, WARM)
            gc.collect()  # whether a full collection falls into so few runs would be chance
            gc.freeze()
            callgrind.begin()
            await run_all(runner, WARM, RUNS)
            callgrind.end()


if __name__ == "__main__":
    main()
