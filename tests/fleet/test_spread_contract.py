"""The executor of steps that any worker may run: the contract of executors, with worker processes on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import spread_flows as flows
from processes import workers

from weft.core.run.runnable import Runnable
from weft.fleet.spread.executor import QueueExecutor, Route
from weft.ports.executor import Executor
from weft.stores.postgres import PostgresStore
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import aknock
from weft.testing.contracts.owner import Owner, in_a_loop, runnable_of
from weft.testing.contracts.steps import Mark, mark

FLOWS = Path(flows.__file__)


def route(runnable: Runnable) -> Route:
    """Send *runnable* to the queue of the tests, where its function is a step of the workflow of the contract."""
    workflow = flows.contract
    call: Any = runnable.node.call
    return Route(flows.QUEUE, 0, 1, workflow.name, workflow.version, call.__name__, "thread", {})


class _WithStore(QueueExecutor):
    """Opens its store with itself, since the contract has no runner that does."""

    def __init__(self, dsn: str) -> None:
        self.own = PostgresStore(dsn)
        super().__init__(self.own, route, capacity=20)

    async def _run(self) -> None:
        async with self.own:
            await super()._run()


@pytest.fixture(scope="module")
def fleet(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A worker that serves the queue; the tests share it."""
    with workers(module_dsn, tmp_path_factory.mktemp("fleet"), FLOWS) as fleet:
        fleet.start("--queues", flows.QUEUE, lease=10.0)
        yield module_dsn


class TestQueueExecutor(ConcurrentExecutorContract):
    """The contract."""

    hold: ClassVar[Callable[..., Any]] = staticmethod(aknock)

    @pytest.fixture
    def executor(self, fleet: str) -> Executor:
        return _WithStore(fleet)

    @in_a_loop
    async def test_the_entries_of_a_runnable_are_called_in_its_context_alone(self, executor: Executor) -> None:
        """Entries are functions, which are not stored: a step on another worker has none."""
        owner = Owner(executor)

        executor.submit(1, msgspec.structs.replace(runnable_of(mark, 1), entries=(Mark(6), Mark(7))))
        entered = await owner.result(1)
        await owner.close()

        assert entered.result == 0
