"""
The callers of a simulated runner: some are cancelled while they wait for a call, and repeat it, and some use a run at
once.  No caller ever sees an error that its call does not document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeVar

from weft.errors import HistoryTruncated, RunClosed, RunNotFound, RunNotHeld, RunParked, WaitTimeout
from weft.runner import AsyncRunner
from weft.testing.simulation.scenario import Scenario, Trial

T = TypeVar("T")


PATIENCE: Final = 60.0
"""Seconds that a caller waits for a run that another caller may have stopped."""


class Callers:
    """Makes the calls of clients, as impatient callers do."""

    def __init__(self, dice: Random, trial: Trial, scenario: Scenario, tell: Callable[[str], None]) -> None:
        self._dice, self._trial, self._scenario, self._tell = dice, trial, scenario, tell

    def _cancelled_after(self) -> float | None:
        """Return after how many seconds a caller is cancelled; None if it is not."""
        if not self._scenario.impatience or self._dice.random() >= self._scenario.impatience:
            return None
        return self._dice.choice((0.0, 0.001, 0.2, 1.0, 4.0))

    async def made(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; a caller that is cancelled repeats it."""
        while (seconds := self._cancelled_after()) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    return await call()
            self._tell("a caller was cancelled")
        return await call()

    async def close(self, runner: AsyncRunner) -> bool:
        """
        Close *runner*; return whether that was one call, whose result is complete.

        Raises:
            UnwrittenEvents: not everything could be written.
        """
        seconds = self._cancelled_after()
        if seconds is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await runner.close()
                return True
            self._tell("the caller of close() was cancelled, and calls it again")
        await runner.close()
        return seconds is None

    async def stop(self, runner: AsyncRunner, run: str) -> None:
        """Stop a run; a caller that is cancelled may stop it again."""
        seconds = self._cancelled_after()
        if seconds is None:
            await runner.stop(run)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await runner.stop(run)
            return
        self._tell(f"the caller that stops {run} was cancelled")
        if self._dice.random() < 0.5:
            with suppress(RunNotFound, RunNotHeld):  # it has left by now
                await runner.stop(run)

    async def use(
        self,
        runner: AsyncRunner,
        run: str,
        number: int,
        value: Any,
        options: dict[str, Any],
        *,
        may_have_finished: bool,
    ) -> None:
        """Let several callers use a run at once, which has the input *number*; *options* are those of its start."""
        workflow, first = self._trial.workflow, self._trial.inputs[0]
        key, is_open = f"input {number}", self._scenario.ends != "input"
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "start": lambda: runner.start(workflow, first, id=run, open=is_open, **options),
            "start or return": lambda: runner.start(workflow, -1, id=run, if_exists="return", **options),
            "resume": lambda: runner.resume(run, workflow=workflow, **options),
            "resume_all": lambda: runner.resume_all(**options),
            "send": lambda: runner.send(run, value, key=key, deadline=self._scenario.deadline),
            "stop": lambda: runner.stop(run),
            "wait": lambda: runner.wait(run, timeout=PATIENCE),
            "gather": lambda: runner.gather([run], PATIENCE, return_exceptions=True),
            "checkpoint": lambda: runner.checkpoint(run),
            "get": lambda: runner.get(run),
            "results": lambda: runner.results(run),
        }
        if not is_open:
            calls["start_many"] = lambda: runner.start_many(workflow, [first], ids=[run], **options)
        names = self._dice.choices(list(calls), k=self._dice.randint(2, 6))
        self._tell(f"{run} is used by several at once: {', '.join(names)}")
        await asyncio.gather(*(self._one_of_many(name, calls[name], may_have_finished) for name in names))
        await runner.resume(run, workflow=workflow, **options)

    async def _one_of_many(self, name: str, call: Callable[[], Awaitable[object]], may_have_finished: bool) -> None:
        try:
            await self.made(call)
        except WaitTimeout:  # it was stopped, and no process drives it until it is resumed below
            if name != "wait":
                raise
        except HistoryTruncated:  # the last collection of a leaf inside an each was removed, and no input is asked for
            if name != "results":
                raise
        except (RunNotFound, RunNotHeld):  # it was stopped, and is stored
            if name in ("start", "start or return", "start_many", "resume", "resume_all", "get", "results"):
                raise
        except RunClosed:  # it has finished meanwhile
            if name != "send" or not may_have_finished:
                raise
        except RunParked:
            if not self._trial.repairable:
                raise
