"""Callers of a runner, of which a test cancels some: a call is a task, and says how it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from virtual_time import runner_on

from weft import Run, Workflow
from weft.stores import MemoryStore

T = TypeVar("T")


def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return another caller, that makes this *call*."""
    return asyncio.get_running_loop().create_task(call)


async def cut_off(call: Coroutine[Any, Any, object], seconds: float) -> None:
    """Make a *call*, and stop waiting for it after *seconds*."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await call


async def resumed(inner: MemoryStore, run: str, workflow: Workflow) -> Run:
    """Return *run* as it ends in another runner."""
    async with runner_on(inner) as other:
        return await (await other.resume(run, workflow=workflow)).wait()


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


async def owned(store: MemoryStore) -> list[str]:
    """Return the runs that have an owner."""
    return [record.id for record in await store.list() if record.owner is not None]


def cancel_all_tasks(*but: asyncio.Task[Any]) -> None:
    """Do what some frameworks do when they shut down."""
    for task in asyncio.all_tasks() - {asyncio.current_task(), *but}:
        task.cancel()
