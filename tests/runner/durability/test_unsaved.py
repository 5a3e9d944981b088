"""The appends of a run: what they say of themselves is true, and a long history is made in parts."""

from __future__ import annotations

import asyncio

from weft import AsyncRunner, Run, Workflow, step
from weft.ports.store import Append
from weft.runner.durability.unsaved import MOST, UnsavedLog, whole
from weft.stores import MemoryStore
from weft.testing import RecordingStore

FIRST = (*("run", "expected", "count", "body", "chain", "at", "epoch", "previous"), "only_events")


def _changed(append: Append) -> set[str]:
    """Return the fields that are not as they are in an append of events alone."""
    plain = Append(**{name: getattr(append, name) for name in FIRST})
    return {name for name in Append.__struct_fields__ if getattr(append, name) != getattr(plain, name)}


def test_an_append_that_says_so_has_only_events() -> None:
    async def main() -> list[Append]:
        store = RecordingStore(MemoryStore())
        chain = step(abs, name="first") >> step(abs, name="second") >> step("x".__mul__, name="long")
        async with AsyncRunner(store, executor="inline", snapshot_every=3) as runner:
            handle = await runner.start(Workflow("w", chain), -3000)
            await handle.result()
        return [write.append for write in store.writes]

    appends = asyncio.run(main())

    assert [append.only_events for append in appends] == [False, False, True, False]
    assert [bool(_changed(append)) for append in appends] == [not append.only_events for append in appends]


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
