"""
Execution on a Dask cluster: the contract, and what becomes of work whose worker is lost.

The cluster is real, on this machine.  ``make test-cluster`` installs Dask; without it these tests are skipped.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from cluster_steps import Declined, add, decline, repeat

from weft import Policy, Runner, Workflow, each, reduce, step
from weft.errors import ClusterUnreachable, WorkerDied
from weft.executors import DaskExecutor
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import Gate, knock
from weft.testing.contracts.owner import Owner, in_a_loop
from weft.testing.contracts.steps import double, own_pid

distributed = pytest.importorskip("distributed", reason="Dask is not installed: make test-cluster")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of two workers with one thread each."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, host="127.0.0.1", silence_logs=50) as local:
        yield local.scheduler_address


class TestDaskExecutor(ConcurrentExecutorContract):
    """The contract."""

    stops: ClassVar[bool] = False

    @pytest.fixture
    def executor(self, cluster: str) -> DaskExecutor:
        return DaskExecutor(cluster, capacity=20)


@in_a_loop
async def test_a_worker_that_dies_fails_one_attempt_which_dask_does_not_repeat(cluster: str) -> None:
    owner = Owner(DaskExecutor(cluster, max_workers=1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result
    async with Gate() as gate:
        owner.submit(2, knock, gate.address)
        await gate.until(lambda: gate.came == 1)

        os.kill(pid, signal.SIGKILL)
        died = await owner.result(2)
        owner.submit(3, double, 3)
        after = await owner.result(3)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert "has left the cluster" in str(died.error)
    assert gate.came == 1
    assert after.result == 6


@in_a_loop
async def test_an_exception_of_the_application_keeps_its_class(cluster: str) -> None:
    owner = Owner(DaskExecutor(cluster))
    owner.submit(1, decline, "tea")
    error = (await owner.result(1)).error
    await owner.close()

    assert type(error) is Declined
    assert error.args == ("no money", "tea")
    assert "on the cluster" in error.__notes__[0]


@in_a_loop
async def test_large_and_small_results_come_back_in_order(cluster: str) -> None:
    owner = Owner(DaskExecutor(cluster, max_workers=1))
    sizes = [1, 100_000, 2, 5_000_000, 3] * 20
    for ticket, size in enumerate(sizes):
        owner.submit(ticket, repeat, size)
    await owner.until(lambda: len(owner.outcomes) == len(sizes))
    await owner.close()

    assert owner.order == sorted(owner.order)
    assert [len(owner.outcomes[ticket].result) for ticket in range(len(sizes))] == sizes


def test_a_wide_map_runs_on_the_cluster_in_parcels(cluster: str) -> None:
    lines = each(step(double)) >> reduce(add, init=0, name="total")
    workflow = Workflow("wide", lines, policies=[("double", Policy(executor="dask"))])
    executor = _Counting(cluster)

    with Runner(executors={"dask": executor}) as runner:
        result: Any = runner.start(workflow, list(range(10_000)), max_concurrency=2_000).result()

    assert result == sum(2 * x for x in range(10_000))
    assert executor.frames == 10_000
    assert executor.parcels < 500


@in_a_loop
async def test_a_cluster_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.executors.cluster.dask.LONGEST", 0.5)

    with pytest.raises(ClusterUnreachable, match="pass the address of a scheduler"):
        Owner(DaskExecutor("tcp://127.0.0.1:9"))


class _Counting(DaskExecutor):
    """Counts what is sent."""

    parcels = frames = 0

    def send(self, slot: Any, frames: list[bytes]) -> None:
        self.parcels += 1
        self.frames += len(frames)
        super().send(slot, frames)
