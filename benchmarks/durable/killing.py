"""
The end of the run: a process at work is killed with -9, another one goes on, and everything is counted.

The child says on a pipe, which outlives it, what it starts, which steps it executes and which
results it has been given.  What it was told must be there; what the log has completed must
never run again; what was in flight may.

    python -m benchmarks.durable.killing FILE RUNS EXECUTOR      (the child)
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.durable.workload import STEPS, add_one_and_tell, chain, listeners
from weft import AsyncRunner
from weft.core.events import ReactionOccurred
from weft.log import decode_segments, references
from weft.stores import SQLiteStore

Step = tuple[str, str]
"""A run, and a component of it."""

WORKFLOW = chain(STEPS, add_one_and_tell)
AT_ONCE = 100
"""How many runs the child has under way, so that some are done and some not begun when it dies."""


@dataclass(slots=True)
class Count:
    """What was seen on both sides of the kill."""

    executor: str
    started: set[str]
    """Runs whose start was acknowledged."""
    acknowledged: set[str]
    """Runs whose result was."""
    executed: Counter[Step]
    """Steps that the child has begun."""
    stored: set[Step]
    """Steps that the log had completed when the child was dead."""
    runs: set[str]
    """Runs that were in the store then."""
    again: Counter[Step]
    """Steps that were executed afterwards."""
    wrong: int
    """Runs that did not end with the right result."""

    @property
    def is_right(self) -> bool:
        """Whether nothing was lost, and nothing that had completed ran again."""
        kept = self.started <= self.runs and self.acknowledged <= self.runs
        done = all((run, f"step_{i}") in self.stored for run in self.acknowledged for i in range(STEPS))
        return kept and done and not self.stored & self.again.keys() and not self.wrong

    def lines(self) -> list[str]:
        """Say it."""
        flying = self.executed.keys() - self.stored
        twice = sum(1 for step in self.again if step in self.executed)
        lost = (self.started | self.acknowledged) - self.runs
        before = f"{len(self.started):,} runs started, {sum(self.executed.values()):,} steps executed"
        after = f"{sum(self.again.values()):,} steps executed by another process, {twice:,} of them a second time"
        return [
            f"before: {before}, {len(self.acknowledged):,} results acknowledged",
            f"stored: {len(self.runs):,} runs, {len(self.stored):,} completed steps; lost runs: {len(lost)}",
            f"in flight at the kill (executed, not stored): {len(flying):,} steps",
            f"after: {after}; completed steps that ran again: {len(self.stored & self.again.keys())}",
            f"runs with a wrong result: {self.wrong} of {len(self.runs):,}",
            "nothing was lost" if self.is_right else "SOMETHING IS WRONG",
        ]


def measure(folder: Path, *, quick: bool, executor: str) -> Count:
    """Kill a child in the middle of its work, go on in this process, and count."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "killed.db"
    runs = 200 if quick else 1_000
    command = [sys.executable, "-m", "benchmarks.durable.killing", str(path), str(runs), executor]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])  # noqa: S603 - ourselves
    assert child.stdout is not None
    said = _listen_and_kill(child, child.stdout, after=runs * STEPS * 4 // 7)
    found = Count(executor, set(), set(), Counter(), set(), set(), Counter(), 0)
    for word, run, component in said:
        if word == "started":
            found.started.add(run)
        elif word == "result":
            found.acknowledged.add(run)
        else:
            found.executed[run, component] += 1
    asyncio.run(_go_on(path, executor, found))
    return found


def _listen_and_kill(child: subprocess.Popen[bytes], pipe: IO[bytes], *, after: int) -> list[list[str]]:
    """Return everything that *child* has said; it is killed when it has executed *after* steps."""
    said: list[list[str]] = []
    steps = 0
    for line in pipe:
        if not line.endswith(b"\n"):
            break  # it died in the middle of a word
        said.append(line.decode().rstrip("\n").split(" "))
        steps += said[-1][0] == "step"
        if steps == after:
            child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    return said


async def _go_on(path: Path, executor: str, found: Count) -> None:
    async with SQLiteStore(path) as store:
        await _look(store, found)
        listeners.append(lambda run, component: found.again.update([(run, component)]))
        try:
            async with AsyncRunner(store, executor=executor) as runner:
                runner.register(WORKFLOW)
                await asyncio.gather(*(handle.wait() for handle in await runner.resume_all()))
        finally:
            listeners.clear()
        async with AsyncRunner(store) as runner:
            for run in found.runs:
                handle = await runner.resume(run, workflow=WORKFLOW)
                found.wrong += await handle.result() != int(run) + STEPS


async def _look(store: SQLiteStore, found: Count) -> None:
    """Read what the killed process has left."""
    after = None
    while page := await store.list(limit=1_000, after=after):
        after = page[-1]
        for record in page:
            found.runs.add(record.id)
            bodies = [segment.body for segment in (await store.load(record.id)).segments]
            definitions = await store.load_definitions(references(bodies).definitions)
            for event in decode_segments(bodies, definitions=definitions, facts={}, workflow=WORKFLOW):
                if isinstance(event, ReactionOccurred):
                    found.stored.add((record.id, event.component))


# -- the child -----------------------------------------------------------------------------------


def tell(word: str, run: str, component: str = "-") -> None:
    """Write a line; a pipe takes one of this length as a whole."""
    os.write(1, f"{word} {run} {component}\n".encode())


async def work(path: Path, runs: int, executor: str) -> None:
    """Run workflows until killed."""
    listeners.append(lambda run, component: tell("step", run, component))
    async with AsyncRunner(SQLiteStore(path), executor=executor) as runner:
        places = asyncio.Semaphore(AT_ONCE)

        async def one(i: int) -> None:
            async with places:
                handle = await runner.start(WORKFLOW, i, id=str(i))
                tell("started", handle.id)
                assert await handle.result() == i + STEPS
                tell("result", handle.id)

        await asyncio.gather(*(one(i) for i in range(runs)))
        await asyncio.Event().wait()  # if it was faster than whoever kills it


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
