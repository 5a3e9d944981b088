"""Steps that overlap, and how many of them do."""

from __future__ import annotations

import asyncio
import threading

from weft import Run, Workflow, accumulator, reduce, step
from weft.core.components.step import Step

PATIENCE = 20

collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")


class Gauge:
    """How many are inside at once, at most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def meeting(count: int) -> list[Step]:
    """Coroutines that wait until all of them have begun."""
    begun: list[asyncio.Event] = []
    together = asyncio.Event()

    async def meet(x: int) -> int:
        begun.append(together)
        if len(begun) == count:
            together.set()
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return x

    return [step(meet, name=f"s{n}") for n in range(count)]


def slow_and_fast() -> Workflow:
    """A slow branch that ends only after the fast one has been applied and gone on."""
    released = threading.Event()
    root = step(lambda x: x, name="root")
    slow = step(lambda x: (x + 1, released.wait(PATIENCE)), name="slow")
    fast = step(lambda x: x + 2, name="fast")
    release = step(lambda x: (x, released.set())[0], name="release")
    gather = step(lambda a, b: (a, b), name="gather")
    return Workflow("w", root >> [slow, fast], fast >> release, [slow, release] >> gather)


def order(run: Run) -> list[str | None]:
    """The components in the order in which they were applied."""
    return [fact.producer for fact in run.productions()]
