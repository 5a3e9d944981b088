"""The workflows that workers in other processes run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.durable.workload import STEPS, add_one
from weft import Policy, Workflow, step
from weft.policy import DEFAULT

PAUSE = 0.02
"""How many seconds a step waits that waits."""


async def pause(x: int) -> int:
    """Wait for something that is not the CPU."""
    await asyncio.sleep(PAUSE)
    return x + 1


def _chain(name: str, size: int, function: Callable[[int], Any], executor: str) -> Workflow:
    flow = step(function, name="step_0")
    for i in range(1, size):
        flow = flow >> step(function, name=f"step_{i}")
    return Workflow(name, flow).with_policies([(DEFAULT, Policy(executor=executor))])


ONE = _chain("one", 1, add_one, "inline")
INLINE = _chain("five_inline", STEPS, add_one, "inline")
THREAD = _chain("five_on_threads", STEPS, add_one, "thread")
WAITING = _chain("five_waits", STEPS, pause, "inline")
SERVED = (ONE, INLINE, THREAD, WAITING)
