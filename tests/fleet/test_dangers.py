"""Deadlines in danger on a fleet: also of runs that no worker has claimed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import fleet_flows as flows
import pytest
from servers import asked

from weft import AsyncClient, Workflow, step, telemetry
from weft.fleet import FleetWorker

begun, go_on = threading.Event(), threading.Event()


@step
def hold(x: int) -> int:
    begun.set()
    go_on.wait(60)
    return x


holds = Workflow("holds", hold)


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """The dangers that are reported while the test runs."""
    found: list[dict[str, Any]] = []
    telemetry.attach("dangers", "weft.runner.deadline.danger", lambda _, numbers, about: found.append(about | numbers))
    yield found
    telemetry.detach("dangers")


async def heard(told: list[dict[str, Any]], count: int) -> None:
    """Wait until *count* dangers were reported."""
    while len(told) < count:  # noqa: ASYNC110 - a worker decides when
        await asyncio.sleep(0.01)


def test_a_run_that_no_worker_takes_is_told_of_by_one_worker(dsn: str, told: list[dict[str, Any]]) -> None:
    async def main() -> None:
        workers = [FleetWorker(dsn, [flows.chain], queues=["others"], lease=1.0) for _ in range(2)]
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            working = [asyncio.create_task(worker.run()) for worker in workers]
            await client.start(flows.chain, 1, id="stuck", deadline=0.5)
            await client.start(flows.chain, 1, id="in-time", deadline=10_000.0)
            await heard(told, 1)
            (danger,) = await client.endangered()
            assert (danger.run, danger.is_held) == ("stuck", False)
            await client.start(flows.chain, 1, id="second", deadline=0.5)
            await heard(told, 2)
            for worker in workers:
                worker.stop()
            await asyncio.gather(*working)

    asyncio.run(main())

    assert [(each["workflow_id"], each["component"], each["reason"]) for each in told] == [
        ("stuck", None, "the run is running, and no process has it"),
        ("second", None, "the run is running, and no process has it"),
    ]


def test_a_run_that_a_worker_holds_is_told_of_with_the_step_that_is_to_be_done(
    dsn: str, told: list[dict[str, Any]]
) -> None:
    async def main() -> None:
        worker = FleetWorker(dsn, [holds])
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            working = asyncio.create_task(worker.run())
            await client.start(holds, 1, id="r", deadline=10_000.0)
            await asyncio.to_thread(begun.wait, 60)
            assert told == []
            await asyncio.to_thread(asked, dsn, lambda db: db.execute("update weft_deadlines set danger_at = 1.0"))
            await client.start(holds, 2, id="s", deadline=10_000.0)  # whose deadline is the next one to look at
            await heard(told, 1)
            go_on.set()
            await client.wait("r")
            assert await client.endangered() == []
            worker.stop()
            await working

    asyncio.run(main())

    (danger,) = told
    assert (danger["workflow_id"], danger["component"], danger["reason"]) == ("r", "hold", "'hold' is executed")
