"""How the runs of a client are made and stored: without pauses, and the next ones while the database writes."""

from __future__ import annotations

import asyncio
from typing import Any

import fleet_flows as flows
import pytest

import weft.fleet.client
from weft import AsyncClient
from weft.fleet.starting import new_run
from weft.runner.options import StartRequest


def test_a_new_run_is_made_in_one_go() -> None:
    options = AsyncClient("postgresql://nowhere/x")._reader.usual
    making = new_run("a", flows.chain, options, StartRequest(1), 0.0)

    with pytest.raises(StopIteration) as made:  # it waits for nothing: a pause took longer than all the rest
        making.send(None)

    assert (made.value.value.run, made.value.value.create, made.value.value.release) == ("a", True, True)


def test_the_next_runs_are_made_while_the_database_writes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Watched(AsyncClient):
        async def _new_runs(self, runs: Any, *others: Any) -> Any:
            said.append(f"makes {len(runs)}")
            return await super()._new_runs(runs, *others)

        async def _enqueue(self, batch: Any, *others: Any) -> Any:
            said.append(f"stores {len(batch)}")
            answers = await super()._enqueue(batch, *others)
            said.append("stored")
            return answers

    async def main() -> None:
        monkeypatch.setattr(weft.fleet.client, "AT_ONCE", 2)
        async with Watched(dsn) as client:
            handles = await client.start_many(flows.chain, range(5))
            assert len(set(handles.ids)) == await client.count() == 5
            assert len(await client.start_many(flows.chain, [])) == 0

    asyncio.run(main())

    assert said[:-1] == [
        *("makes 2", "stores 2", "makes 2", "stored"),
        *("stores 2", "makes 1", "stored"),
        *("stores 1", "makes 0", "stored"),
    ]
