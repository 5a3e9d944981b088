"""
How long a small run waits beside a large one: all runs of a runner share one event loop.

Workflows of one step are started one after the other, first with nothing beside them, then beside each of six large
pieces of work.  The figure is what the worst of them took, from start to result, above the worst of those that had
the runner to themselves.

The large values exist before: what is measured is what the runner does with them.  A step that computes in Python on a
thread keeps the interpreter from the loop and from the writer of the store, five milliseconds each time they need it.
That is a row of its own, without a target: no runner in the same process can mend it.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.durable import interrupted
from benchmarks.durable.line import Line
from benchmarks.durable.workload import STEPS, add_one, chain
from weft import AsyncRunner, Policy, Workflow, each, reduce, step
from weft.stores import MemoryStore, SQLiteStore

MOST_MILLISECONDS = 60.0
ELEMENTS, ITEMS, RUNS = 200_000, 1_000_000, 20_000
IDLE = 2.0
"""For how many seconds the small runs have the runner to themselves."""
COMPUTING = "a step that computes on a thread"
PAUSE = 0.001
"""For how many seconds they leave the loop to the others between two of them."""


@dataclass(slots=True)
class Waits:
    """Seconds from start to result of small runs."""

    seconds: list[float] = field(default_factory=list[float])

    @property
    def worst(self) -> float:
        return max(self.seconds)


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Measure the small runs beside each of the large ones, on each store."""
    scale = 20 if quick else 1
    for store in ("memory", "sqlite"):
        with interrupted.holding():
            waits = asyncio.run(_measured(_store(store, folder), ELEMENTS // scale, ITEMS // scale, RUNS // scale))
        idle = waits.pop("nothing")
        for work, beside in waits.items():
            above = (beside.worst - idle.worst) * 1e3
            target = None if work == COMPUTING else MOST_MILLISECONDS
            seen = f"worst {beside.worst * 1e3:,.1f} ms of {len(beside.seconds):,}, idle {idle.worst * 1e3:,.1f}"
            how = f"{store}, every_cycle"
            yield Line("neighbours", f"a small run beside {work}", how, above, "ms", target, beside=seen)


async def _measured(store: MemoryStore | SQLiteStore, elements: int, items: int, runs: int) -> dict[str, Waits]:
    """Return how long the small runs took beside each piece of work, and beside nothing."""
    workflow, small = _map_reduce(), chain(1)
    async with store:
        async with AsyncRunner(store, executor="inline") as runner:
            await (await runner.start(workflow, list(range(elements)), id="stored", open=True)).wait()
        collection, large = list(range(elements)), make_dicts(items)
        works: dict[str, Callable[[AsyncRunner], Awaitable[Any]]] = {
            "nothing": lambda _: asyncio.sleep(IDLE),
            f"a resume of {elements:,} events": lambda runner: _resumed(runner, workflow),
            f"a map over {elements:,} elements": lambda runner: _run(runner, workflow, collection, "inline"),
            f"a step that returns {items:,} dicts": lambda runner: _run(runner, _returning(large), items, "thread"),
            f"an input of {items:,} dicts": lambda runner: _run(runner, _counting(), large, "thread"),
            COMPUTING: lambda runner: _run(runner, _computing(), 10 * items, "thread"),
        }
        found: dict[str, Waits] = {}
        await interrupted.leave(store, runs)
        many: dict[str, Callable[[AsyncRunner], Awaitable[Any]]] = {
            f"a start of {runs:,} runs, collector seldom": lambda runner: _started(runner, runs),
            f"a resume_all of {runs:,} runs, collector seldom": lambda runner: interrupted.resume_all(runner, runs),
        }
        for name, work in (works | many).items():
            options = {**interrupted.OPTIONS, "collector": "seldom"} if name in many else {"executor": "inline"}
            async with AsyncRunner(store, **options) as runner:
                gc.collect()
                gc.freeze()  # what the measurement itself keeps is nothing that a collection has to look at
                found[name] = await _beside(runner, small, work(runner))
                gc.unfreeze()
        return found


async def _beside(runner: AsyncRunner, small: Workflow, work: Awaitable[Any]) -> Waits:
    """Start small runs, one after the other, until *work* is done."""
    waits, busy = Waits(), asyncio.ensure_future(work)
    due = perf_counter()
    while not busy.done():
        handle = await runner.start(small, 0)
        assert await handle.result() == 1
        ended = perf_counter()
        waits.seconds.append(ended - due)
        due = ended + PAUSE  # whatever holds the loop from now on keeps the next one waiting
        await runner.stop(handle.id)
        await asyncio.sleep(due - perf_counter())
    await busy
    return waits


async def _started(runner: AsyncRunner, count: int) -> None:
    handles = await runner.start_many(chain(STEPS), range(count))
    await handles.gather()


async def _resumed(runner: AsyncRunner, workflow: Workflow) -> None:
    await runner.resume("stored", workflow=workflow)
    await runner.stop("stored")


async def _run(runner: AsyncRunner, workflow: Workflow, value: Any, executor: str) -> None:
    handle = await runner.start(workflow, value, executor=executor)
    await handle.wait()
    await runner.stop(handle.id)


def _store(kind: str, folder: Path) -> MemoryStore | SQLiteStore:
    return MemoryStore() if kind == "memory" else SQLiteStore(Path(tempfile.mkdtemp(dir=folder)) / "runs.db")


def add(total: int, x: int) -> int:
    """Add one element to the sum of those before it."""
    return total + x


def make_dicts(count: int) -> list[dict[str, Any]]:
    """Return many small values."""
    return [{"id": i, "name": "weft"} for i in range(count)]


def compute(count: int) -> int:
    """Keep the interpreter busy, and make a small value."""
    total = 0
    for i in range(count):
        total += i
    return total


def _map_reduce() -> Workflow:
    """Return the sum over a collection; to fold all of it takes time, so that is not done in the loop."""
    workflow = Workflow("sum", each(step(add_one, name="increment")) >> reduce(add, init=0, name="total"))
    return workflow.with_policies([("total", Policy(executor="thread"))])


def _returning(value: list[dict[str, Any]]) -> Workflow:
    return Workflow("returning", step(lambda _: value, name="return") >> step(len, name="count"))


def _computing() -> Workflow:
    return Workflow("computing", step(compute, name="compute"))


def _counting() -> Workflow:
    return Workflow("counting", step(len, name="count"))
