"""
The corners of the orderly paths: two things in one round of the loop, and tasks that are cancelled before they begin.

On virtual time, where a hang is the error ``Stuck``; as ``test_orderly.py``, which has the broad ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from weather import double, now, runner_on, virtually

from weft import Runnable
from weft.stores import MemoryStore

T = TypeVar("T")


def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a caller of its own that makes this *call*."""
    return asyncio.get_running_loop().create_task(call)


async def ended(task: asyncio.Task[Any]) -> str:
    """Return how a call has ended: ``"returned"``, or with which error."""
    try:
        await task
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the test looks at it
        return type(error).__name__
    return "returned"


def cancel_tasks_of(function: str) -> None:
    """Cancel all tasks that run this *function*, as code that shares the loop may."""
    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__name__", "") == function:
            task.cancel()


# -- crashes -------------------------------------------------------------------------------------


class Refuses:
    """Lets executors refuse the first *times* attempts, which crashes their workers; calls *then* just before."""

    def __init__(self, times: int, then: Callable[[], object] = lambda: None) -> None:
        self.left, self._then = times, then

    def __call__(self, _: Runnable) -> bool:
        self.left -= 1
        if self.left >= 0:
            self._then()
        return self.left >= 0


@virtually
async def test_a_worker_is_rebuilt_although_other_code_cancels_that_before_it_begins() -> None:
    def cancel() -> None:
        asyncio.get_running_loop().call_soon(cancel_tasks_of, "_restart")

    async with runner_on(MemoryStore(), refuses=Refuses(1, cancel)) as runner:
        handle = await runner.start(double, 1)

        assert await handle.result() == 2


@virtually
async def test_a_run_whose_worker_crashes_while_it_is_stopped_leaves_at_once() -> None:
    async with runner_on(MemoryStore(), lasts=50.0, refuses=lambda runnable: runnable.args == (2,)) as runner:
        await runner.start(double, 1, id="a")
        worker = runner._premises.roster.get("a")
        assert worker is not None
        stopping = started(runner.stop("a", grace=20.0))
        await asyncio.sleep(1.0)

        worker.office.blame(worker, ValueError("a bug"))
        await stopping

        assert now() < 2.0


@virtually
async def test_crashes_are_forgotten_after_a_while() -> None:
    crashed: set[str] = set()

    def once(runnable: Runnable) -> bool:
        is_first = runnable.run_id not in crashed
        crashed.add(runnable.run_id)
        return is_first

    async with runner_on(MemoryStore(), refuses=once) as runner:
        for number in range(10):
            await (await runner.start(double, 1, id=f"run {number}")).wait()
            await runner.stop(f"run {number}")
            await asyncio.sleep(50.0)

        assert list(runner._premises.roster.supervisor._restarts) == ["run 8", "run 9"]
