"""Starts that no worker could honour are refused by the client, and nothing is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import fleet_flows as flows
import pytest

from weft import AsyncClient, Policy, Workflow, step, transaction
from weft.errors import InvalidPolicy


@step
def pay(x: int, tx: Any = transaction()) -> int:
    return x


SPREAD = [("pay", Policy(queue="wide"))]
paid = Workflow("paid", pay, policies=SPREAD)


@pytest.mark.parametrize(
    ("workflow", "rules", "match"),
    [
        pytest.param(paid, None, "a transaction runs where its run is", id="of the workflow"),
        pytest.param(Workflow("plain", pay), SPREAD, "a transaction runs where its run is", id="of the start"),
        pytest.param(flows.chain, [("begin", Policy(executor="async"))], "coroutine", id="a plain function"),
    ],
)
def test_a_policy_that_no_worker_can_honour_is_refused(dsn: str, workflow: Any, rules: Any, match: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            with pytest.raises(InvalidPolicy, match=match):
                await client.start(workflow, 1, policies=rules)
            if rules is None:
                with pytest.raises(InvalidPolicy, match=match):
                    await client.start_many(workflow, [1, 2])
            assert await client.count() == 0

    asyncio.run(main())


def test_an_executor_that_only_workers_have_is_left_to_them(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await client.start(flows.chain, 1, policies=[("middle", Policy(executor="cluster"))])
            assert await client.count() == 1

    asyncio.run(main())
