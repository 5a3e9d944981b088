"""The appends of a run that is stored as a whole."""

from __future__ import annotations

import asyncio

from weft import Run, Workflow, step
from weft.ports.store import Append
from weft.runner.durability.unsaved import MOST, UnsavedLog, whole


def test_other_work_runs_between_the_parts_of_a_long_history() -> None:
    workflow = Workflow("one", step(lambda x: x, name="same"))
    short, long = Run(workflow), Run(workflow)
    short.plan(1)
    for i in range(MOST):
        long.plan(i)

    async def turns(run: Run) -> tuple[list[Append], int]:
        others = 0

        async def work() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(work())
        appends = await whole(run, UnsavedLog(run), 0.0)
        other.cancel()
        return appends, others

    for run, parts in ((short, 1), (long, 2)):
        appends, others = asyncio.run(turns(run))
        assert (len(appends), others) == (parts, parts - 1)
        assert sum(each.count for each in appends) == len(run.memory.log)
