"""Runners in good and bad weather, on virtual time: what several tests of the runner need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from weft import AsyncRunner, Runnable, Workflow, step
from weft.local.counters import LocalCounters
from weft.testing import run_virtually
from weft.testing.executor import SimulatedExecutor
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")

double = Workflow("double", step(lambda x: x * 2, name="double"))


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop on virtual time."""

    @wraps(test)
    def call(*args: Any, **kwargs: Any) -> None:
        run_virtually(test(*args, **kwargs))

    return call


def now() -> float:
    """Return the virtual time."""
    return asyncio.get_running_loop().time()


class LoopClock:
    """The time of day, as the loop counts it."""

    def time(self) -> float:
        """Return the virtual time, in seconds since an epoch."""
        return 1_000_000.0 + now()


class SlowStore(WrappedStore):
    """Takes a second for everything, half of it before it is done and half of it after."""

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do it in the middle of a second."""
        await asyncio.sleep(0.5)
        result = await act()
        await asyncio.sleep(0.5)
        return result


def runner_on(
    store: Any = None,
    *,
    lasts: float | Callable[[Runnable], float] = 0.0,
    workers: int = 8,
    names: tuple[str, ...] = ("inline", "async", "thread"),
    refuses: Callable[[Runnable], bool] | None = None,
    **options: Any,
) -> AsyncRunner:
    """Return a runner without threads, on which every step takes *lasts* seconds."""
    lengths: Callable[[Runnable], float] = lasts if callable(lasts) else lambda _: lasts
    executors = {name: SimulatedExecutor(lengths, max_workers=workers, refuses=refuses) for name in names}
    known: dict[str, Any] = {"clock": LoopClock(), "counters": LocalCounters(), **options}
    return AsyncRunner(store, executors=executors, **known)
