"""
The schedules of an embedded runner: it fires those whose workflows were passed to it.

The loop begins with the first schedule that is declared, so a runner without schedules asks its store nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from weft.core.workflow import Workflow
from weft.errors import RunNotFound, RunOwned
from weft.ports.schedules import ScheduleStore
from weft.ports.store import FINISHED
from weft.runner.runtime import Runtime
from weft.runner.schedules.decision import Schedule
from weft.runner.schedules.loop import ScheduleLoop
from weft.runner.schedules.rows import input_of
from weft.runner.schedules.timing import firing_id

Start = Callable[[Workflow[Any, Any], Any, str, str], Awaitable[object]]
"""Starts a run of a workflow with an input, under an id, for a caller."""


async def is_finished(runtime: Runtime, run: str) -> bool:
    """Return whether *run* has finished, or does not exist."""
    try:
        return (await runtime.ownership.record(run)).status in FINISHED
    except RunNotFound:
        return True


class EmbeddedSchedules:
    """The loop of one runner."""

    def __init__(self, runtime: Runtime, start: Start, cancel: Callable[[str, str], Awaitable[object]]) -> None:
        self._runtime, self._start, self._cancel = runtime, start, cancel
        self._workflows: dict[str, Workflow[Any, Any]] = {}
        self._loop: ScheduleLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, store: ScheduleStore, workflow: Workflow[Any, Any]) -> None:
        """Fire the schedules of *workflow* from now on."""
        self._workflows[workflow.name] = workflow
        if self._loop is None or self._task is None or self._task.done():
            runtime = self._runtime
            self._loop = ScheduleLoop(
                store,
                lambda: self._workflows,
                self._fire,
                self._cancel,
                lambda run: is_finished(runtime, run),
                runtime.dispatcher.clock.time,
                runtime.dispatcher.draw,
            )
            self._task = asyncio.get_running_loop().create_task(self._loop.run(), name="weft-schedules")
        self._loop.wake()

    def wake(self) -> None:
        """A schedule has changed."""
        if self._loop is not None:
            self._loop.wake()

    async def close(self) -> None:
        """Fire nothing more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _fire(self, schedule: Schedule, at: float) -> None:
        workflow = self._workflows[schedule.workflow]
        value, run = input_of(schedule, at, workflow), firing_id(schedule.name, at)
        with suppress(RunOwned):  # another process has started it
            await self._start(workflow, value, run, f"schedule {schedule.name}")
