"""
Many workflows at once: steps per second, on each store and executor, beside the alternatives.

A sample is the whole life of all runs, in a store that is new and open: started together, every
result awaited and checked; by ``start`` and ``result`` for each, and by ``start_many`` and ``gather``.
An alternative does fewer workflows of the same shape, since it needs the same time for each of them;
all of them write to a SQLite file in the same folder.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from benchmarks.durable.line import Line
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
    ("memory", "inline"): 25_000,
    ("memory", "thread"): 12_000,
    ("sqlite", "inline"): 12_000,
    ("sqlite", "thread"): 8_000,
}
TOGETHER = {("memory", "inline"): 37_500, ("memory", "thread"): 18_000, ("sqlite", "inline"): 18_000}
"""The same for runs that are started in one call and awaited in one: one and a half times as many."""
ALTERNATIVES = {
    "DBOS": ("dbos", "benchmarks.alternatives.dbos"),
    "LangGraph": ("langgraph.checkpoint.sqlite", "benchmarks.alternatives.langgraph_sqlite"),
}
"""By name: the module that must be there, and the one that drives it."""


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Measure all of them, in turns."""
    count, few, rounds = (200, 20, 2) if quick else (1_000, 100, 5)
    works = {(*case, run_many): partial(run_weft, folder, *case, run_many, count) for case, run_many in _cases()}
    samples = in_turns(works, rounds)
    for (store, executor), target in TARGETS.items():
        yield _line(samples[store, executor, _one_by_one], count, f"{store}, {executor}{_how(store)}", target)
    for (store, executor), target in TOGETHER.items():
        how = f"{store}, {executor}{_how(store)}, start_many"
        yield _line(samples[store, executor, _together], count, how, target)
    thread = count * STEPS / samples["sqlite", "thread", _one_by_one].best
    for name, (package, module) in ALTERNATIVES.items():
        if not _is_there(package):
            continue  # versions() says so
        driver = import_module(module)
        with tempfile.TemporaryDirectory(dir=folder) as inner, driver.opened(Path(inner)) as run_many:
            found = in_turns({name: partial(run_alternative, run_many, few)}, min(rounds, 3))[name]
        speed = few * STEPS / found.best
        by_cpu = few * STEPS / found.least_cpu
        beside = f"by CPU {by_cpu:,.0f}/s; Weft, sqlite, thread: {thread / speed:,.0f} times as many"
        yield Line("throughput", f"{name}, {few} x {STEPS} at once", driver.HOW, speed, "steps/s", beside=beside)


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


def run_alternative(run_many: Callable[[int, int], None], count: int, samples: Samples) -> None:
    """Run *count* workflows of another library at once to their results."""
    with samples:
        run_many(count, STEPS)


def versions() -> dict[str, str]:
    """Return what the alternatives are."""
    return {name: _version(package) for name, package in {"DBOS": "dbos", "LangGraph": "langgraph"}.items()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _line(samples: Samples, count: int, how: str, target: float) -> Line:
    steps, work = count * STEPS, f"{count:,} workflows x {STEPS} steps at once"
    by_cpu = steps / samples.least_cpu
    beside = f"by CPU {by_cpu:,.0f}/s, {samples.least_cpu / steps * 1e6:.1f} µs each"
    speed = steps / samples.best
    return Line("throughput", work, how, speed, "steps/s", target, at_least=True, beside=beside, by_cpu=by_cpu)


def _how(store: str) -> str:
    return f", {STRATEGY}" + (", FULL" if store == "sqlite" else "")


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
