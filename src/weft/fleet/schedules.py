"""
The schedules of a fleet: the loop that every worker has, and how it starts a run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from weft.core.workflow import Workflow
from weft.errors import RunExists
from weft.fleet.starting import new_run
from weft.ports.queue import Placement, QueueStore
from weft.ports.schedules import ScheduleStore
from weft.runner.options import RunOptions, StartRequest
from weft.runner.runtime import Runtime
from weft.runner.schedules.decision import Schedule
from weft.runner.schedules.embedded import is_finished
from weft.runner.schedules.loop import ScheduleLoop
from weft.runner.schedules.rows import input_of
from weft.runner.schedules.timing import firing_id


def schedule_loop(
    store: ScheduleStore,
    queue: QueueStore,
    runtime: Runtime,
    options: RunOptions,
    workflows: Mapping[str, Workflow[Any, Any]],
    cancel: Callable[[str, str], Awaitable[object]],
) -> ScheduleLoop:
    """Return the loop that fires the schedules of *workflows*, by name; their runs are put into the *queue*."""

    async def start(schedule: Schedule, at: float) -> None:
        workflow = workflows[schedule.workflow]
        request = StartRequest(input_of(schedule, at, workflow), by=f"schedule {schedule.name}")
        now = runtime.dispatcher.clock.time()
        append = await new_run(firing_id(schedule.name, at), workflow, options, request, now)
        (refused,) = await queue.enqueue([append], Placement(schedule.queue, schedule.priority))
        if refused is not None and not isinstance(refused, RunExists):
            raise refused

    return ScheduleLoop(
        store,
        lambda: workflows,
        start,
        cancel,
        lambda run: is_finished(runtime, run),
        runtime.dispatcher.clock.time,
    )
