"""Waiting for one input of an open run."""

from __future__ import annotations

import asyncio
import threading

import pytest
from virtual_time import runner_on, virtually

from weft import Runner, Workflow, each, step
from weft.errors import RunClosed, RunFailed, WaitTimeout

double = step(lambda x: x * 2, name="double")


def test_a_result_does_not_wait_for_the_inputs_of_others() -> None:
    gate = threading.Event()

    def wait(x: int) -> int:
        assert x or gate.wait(20)
        return x

    with Runner() as runner:
        runner.start(Workflow("w", step(wait) >> double), id="a")
        held, free = runner.send("a", 0), runner.send("a", 4)

        assert free.result(20) == 8
        assert runner.status("a") == "running"
        with pytest.raises(WaitTimeout):
            held.result(0.0)

        gate.set()
        assert held.result(20) == 0


@virtually
async def test_a_result_waits_for_every_element_of_its_input() -> None:
    async def slow(x: int) -> int:
        await asyncio.sleep(x)
        return x

    workflow = Workflow("w", step(lambda n: list(range(n)), name="count") >> each(step(slow)))
    async with runner_on() as runner:
        await runner.start(workflow, id="a")
        long, short = await runner.send("a", 9), await runner.send("a", 3)

        assert await short.result() == [0, 1, 2]
        assert await long.result() == [0, 1, 2, 3, 4, 5, 6, 7, 8]


@virtually
async def test_a_failure_belongs_to_its_input() -> None:
    async with runner_on() as runner:
        await runner.start(Workflow("w", step(lambda x: 1 // x, name="invert")), id="a")
        bad, good = await runner.send("a", 0), await runner.send("a", 1)

        assert await good.result() == 1
        with pytest.raises(RunFailed) as failed:
            await bad.result()
    assert list(failed.value.failures) == ["invert"]


@virtually
async def test_a_caller_that_waits_for_an_input_of_a_run_that_is_cancelled_is_told() -> None:
    async with runner_on(lasts=60.0) as runner:
        await runner.start(Workflow("w", double), id="a")
        sent = await runner.send("a", 1)
        waits = asyncio.create_task(sent.result())
        await asyncio.sleep(1.0)
        await runner.cancel("a", "enough")

        with pytest.raises(RunClosed, match="enough"):
            await waits
