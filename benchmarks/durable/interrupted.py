"""
Stored runs with something left to do, as a process leaves them that ended in the middle.

Two steps of each are done; the third is in line for a thread that never comes free, so that bringing a run back is all
that happens when it is resumed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.durable.workload import add_one
from weft import AsyncRunner, Policy, Workflow, step
from weft.ports.store import Store

OPTIONS: dict[str, Any] = {"executor": "inline", "threads": 1, "grace": 0.0}
"""The options of a runner that leaves them as they are."""
_DONE = 4
"""How many events there are when two steps are done: the definition, the input and theirs."""
_TOGETHER = 1_000
_over = threading.Event()


def hold(x: int) -> int:
    """Keep a thread until nothing is measured any more."""
    _over.wait()
    return x


WORKFLOW = Workflow(
    "interrupted", step(add_one, name="first") >> step(add_one, name="second") >> step(hold, name="third")
).with_policies([("third", Policy(executor="thread"))])


@contextmanager
def holding() -> Iterator[None]:
    """Let third steps keep their threads inside of this, and end after it."""
    _over.clear()
    try:
        yield
    finally:
        _over.set()


async def leave(store: Store, count: int) -> None:
    """Leave *count* interrupted runs in *store*."""
    async with AsyncRunner(store, **OPTIONS) as runner:
        for _ in range(0, count, _TOGETHER):
            handles = await runner.start_many(WORKFLOW, range(min(count, _TOGETHER)))
            await asyncio.gather(*(runner.wait_until(run, lambda run: len(run.log()) >= _DONE) for run in handles.ids))


async def resume_all(runner: AsyncRunner, count: int) -> None:
    """Bring all of them back."""
    resumed = await runner.resume_all()
    assert len(resumed) == count
