"""One runnable, executed: what is the step's to decide, and what is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

import pytest

from weft import Outcome, Runnable
from weft.calling import aattempt, aexecute, attempt, execute
from weft.testing.contracts.owner import in_a_loop, runnable_of


def leave(x: object) -> None:
    raise SystemExit(x)


def interrupt(x: object) -> None:
    raise KeyboardInterrupt


async def aleave(x: object) -> None:
    raise SystemExit(x)


def test_in_a_loop_of_the_caller_an_exit_is_not_the_steps_to_decide() -> None:
    with pytest.raises(SystemExit):
        execute(runnable_of(leave, 1))


def test_on_a_worker_an_exit_fails_the_attempt() -> None:
    outcome = copy_context().run(attempt, runnable_of(leave, 1))  # it leaves the runnable announced

    assert outcome.status == "failed"
    assert isinstance(outcome.error, SystemExit)


def test_a_ctrl_c_goes_through_on_the_main_thread_alone() -> None:
    outcomes = []
    runnable = runnable_of(interrupt, 1)

    with pytest.raises(KeyboardInterrupt):
        copy_context().run(attempt, runnable)
    worker = threading.Thread(target=lambda: outcomes.append(attempt(runnable)))
    worker.start()
    worker.join(60)

    assert isinstance(outcomes[0].error, KeyboardInterrupt)


@in_a_loop
async def test_a_coroutine_that_exits_fails_its_attempt() -> None:
    outcome = await aattempt(runnable_of(aleave, 1))

    assert isinstance(outcome.error, SystemExit)


@pytest.mark.parametrize("run", [aexecute, aattempt])
def test_the_cancellation_of_its_task_goes_through(run: Callable[[Runnable], Coroutine[Any, Any, Outcome]]) -> None:
    async def wait(x: object) -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> bool:
        task = asyncio.ensure_future(run(runnable_of(wait, 1)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())
