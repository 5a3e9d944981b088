"""An owner of an executor that uses it as a runner does."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from weft.core.components.step import step
from weft.core.run.runnable import Outcome, Runnable
from weft.core.workflow import Workflow
from weft.ports.executor import Executor

PATIENCE = 60.0
"""Seconds after which a test that waits forever fails."""

P = ParamSpec("P")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous *test* in a new event loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE))

    return run


def runnable_of(function: Callable[[Any], Any], value: object) -> Runnable:
    """Return *function*, ready to run on *value*."""
    [runnable] = Workflow("contract", step(function, name="it")).plan(value).prepare()
    return runnable


class Owner:
    """Owns an executor as a runner does: collects when woken, and notes violations of the contract."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.outcomes: dict[int, Outcome] = {}
        self.order: list[int] = []
        self.wakes = self.collects = 0
        self._loop, self._woken = asyncio.get_running_loop(), asyncio.Event()
        executor.open(self._wake)

    def _wake(self) -> None:
        self.wakes += 1
        self._loop.call_soon_threadsafe(self._woken.set)

    def submit(self, ticket: int, function: Callable[[Any], Any], value: object) -> Runnable:
        """Submit *function* on *value*."""
        runnable = runnable_of(function, value)
        self.executor.submit(ticket, runnable)
        return runnable

    async def woken(self) -> None:
        """Wait for the next wake-up."""
        await self._woken.wait()
        self._woken.clear()

    def collect(self) -> None:
        """Collect outcomes."""
        self.collects += 1
        for ticket, outcome in self.executor.collect():
            assert ticket not in self.outcomes, f"ticket {ticket} was collected twice"
            self.outcomes[ticket] = outcome
            self.order.append(ticket)

    async def until(self, done: Callable[[], bool]) -> None:
        """Collect, whenever woken, until *done* returns true."""
        while not done():
            await self.woken()
            self.collect()

    async def result(self, ticket: int) -> Outcome:
        """Return the outcome of *ticket*."""
        await self.until(lambda: ticket in self.outcomes)
        return self.outcomes[ticket]

    async def close(self, grace: float = PATIENCE) -> list[int]:
        """Close the executor."""
        return await self.executor.close(grace)
