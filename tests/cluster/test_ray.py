"""
Execution on a Ray cluster: the contract, and what becomes of work whose worker is lost.

The cluster is real, on this machine.  ``make test-cluster`` installs Ray; without it these tests are skipped.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_steps import add, hang_at_first

from weft import Policy, Runner, Workflow, each, reduce, step
from weft.errors import NotTransferable, WorkerDied
from weft.executors import RayExecutor
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import Gate, knock
from weft.testing.contracts.owner import Owner, in_a_loop
from weft.testing.contracts.steps import double, own_pid

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-cluster")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, log_to_driver=False, include_dashboard=False, configure_logging=False)
    yield
    ray.shutdown()


class TestRayExecutor(ConcurrentExecutorContract):
    """The contract."""

    @pytest.fixture
    def executor(self) -> RayExecutor:
        return RayExecutor(max_workers=2, capacity=20)


@in_a_loop
async def test_a_worker_that_dies_fails_one_attempt() -> None:
    owner = Owner(RayExecutor(max_workers=1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result
    async with Gate() as gate:
        owner.submit(2, knock, gate.address)
        await gate.until(lambda: gate.came == 1)
        owner.submit(3, double, 3)

        os.kill(pid, signal.SIGKILL)
        died = await owner.result(2)
        after = await owner.result(3)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert "'it'" in str(died.error)
    assert after.result == 6


@in_a_loop
async def test_an_argument_that_is_not_data_fails_the_attempt_and_is_named() -> None:
    owner = Owner(RayExecutor(max_workers=1))

    owner.submit(1, double, object())
    outcome = await owner.result(1)
    await owner.close()

    assert isinstance(outcome.error, NotTransferable)
    assert "its argument 1, an object" in str(outcome.error)


@in_a_loop
async def test_a_lambda_fails_the_attempt_with_what_to_do() -> None:
    owner = Owner(RayExecutor(max_workers=1))

    owner.submit(1, lambda x: x, 1)
    outcome = await owner.result(1)
    await owner.close()

    assert isinstance(outcome.error, NotTransferable)
    assert "top level of a module" in str(outcome.error)


def test_a_wide_map_runs_on_the_cluster_in_parcels() -> None:
    lines = each(step(double)) >> reduce(add, init=0, name="total")
    workflow = Workflow("wide", lines, policies=[("double", Policy(executor="ray"))])
    executor = _Counting(max_workers=2)

    with Runner(executors={"ray": executor}) as runner:
        result: Any = runner.start(workflow, list(range(10_000)), max_concurrency=2_000).result()

    assert result == sum(2 * x for x in range(10_000))
    assert executor.frames == 10_000
    assert executor.parcels < 500


def test_a_step_that_exceeds_its_timeout_is_stopped_and_tried_again() -> None:
    hang = step(hang_at_first)
    workflow = Workflow("slow", hang, policies=[("hang_at_first", Policy(executor="ray", timeout=5, max_retries=1))])

    with Runner(executors={"ray": RayExecutor(max_workers=1)}) as runner:
        assert runner.start(workflow, "x").result() == 2


class _Counting(RayExecutor):
    """Counts what is sent."""

    parcels = frames = 0

    def send(self, slot: Any, frames: list[bytes]) -> None:
        self.parcels += 1
        self.frames += len(frames)
        super().send(slot, frames)
