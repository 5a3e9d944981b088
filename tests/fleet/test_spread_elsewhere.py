"""Steps of other workers with limits while workers die, on several databases, and behind a pooler."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import spread_flows as flows
from pooler import pooled
from processes import workers
from shard_databases import Databases
from test_moving import working
from test_spread import FLOWS, OWNS, PATIENCE, SERVES, check_squares, rows, until

from weft import AsyncClient, Client
from weft.fleet import ShardedWorker


def test_a_limit_holds_on_several_workers_while_some_of_them_die(dsn: str, tmp_path: Path) -> None:
    steps = 40
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        owner = fleet.start(*OWNS)
        serving = [fleet.start(*SERVES, "--tasks", "8", pause=0.2) for _ in range(3)]
        run = client.start(flows.narrowed, steps).id
        for share in (6, 18):
            until(lambda share=share: len(fleet.noted("leave")) >= share)
            doomed = serving.pop(0)
            doomed.kill()
            doomed.wait()
            with fleet.notes.open("a", encoding="utf-8") as notes:
                notes.write(f"{doomed.pid} {run} died\n")
            serving.append(fleet.start(*SERVES, "--tasks", "8", pause=0.2))

        assert client.result(run, timeout=PATIENCE) == sum(range(steps))

        inside: dict[str, int] = {}
        most, at_work = 0, set[str]()
        for process, _, word in fleet.noted():
            inside[process] = 0 if word == "died" else inside.get(process, 0) + (1 if word == "enter" else -1)
            most = max(most, sum(inside.values()))
            at_work.add(process)
        assert 1 < most <= flows.LIMIT
        assert len(at_work) >= 3
        until(lambda: rows(dsn) == 0)
        until(lambda: all(each.used == 0 for each in client.limits()))
        for process in (owner, *serving):
            process.terminate()
            assert process.wait(60) == 0


def test_an_owner_that_dies_holding_places_leaves_them_to_the_next(dsn: str, tmp_path: Path) -> None:
    steps = 24
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        first = fleet.start(*OWNS)
        fleet.start(*SERVES, "--tasks", "8", pause=0.2, lease=10.0)
        run = client.start(flows.narrowed, steps).id
        until(lambda: len(fleet.noted("enter")) >= 4)
        first.kill()
        fleet.start(*OWNS)

        assert client.result(run, timeout=PATIENCE) == sum(range(steps))

        assert len(fleet.noted("enter")) == steps  # what was in flight was adopted
        until(lambda: rows(dsn) == 0)


def test_steps_are_spread_on_each_of_several_databases(
    shards: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))
    count, elements = 12, 20

    async def main() -> None:
        options = {"schema": shards.schema, "queues": ["default", flows.QUEUE], "tasks": 4}
        both = [ShardedWorker(shards.dsns, [flows.squares], **options) for _ in range(2)]
        async with asyncio.timeout(120), shards.client(0, 1, 2) as client:
            at_work = [asyncio.create_task(each.run()) for each in both]
            try:
                started = await client.start_many(flows.squares, [elements] * count)
                assert await started.gather(timeout=100) == [sum(x * x for x in range(elements))] * count
                assert all([await shards.ids(number) for number in range(3)])
            finally:
                for each in both:
                    each.stop()
                await asyncio.gather(*at_work)

    asyncio.run(main())
    noted = (tmp_path / "notes").read_text(encoding="utf-8").splitlines()
    assert len(noted) == len(set(noted)) == count * elements


@pytest.mark.skipif("WEFT_TEST_DSN" in os.environ, reason="the pooler knows sockets and no passwords")
def test_steps_are_spread_behind_a_pooler(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))
    parts, runs = urlsplit(dsn), []
    (server,) = parse_qs(parts.query)["host"]

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            shared = pooled(Path(server), Path(folder), sessions=3, database=parts.path[1:])
            async with asyncio.timeout(120), AsyncClient(dsn) as client, shared as (pooler, address):
                options = {"prepared": False, "listen_dsn": dsn, "workflows": [flows.squares, flows.names]}
                one = working(address, queues=["default"], **options)
                two, three = (working(address, queues=[flows.QUEUE], **options) for _ in range(2))
                async with one, two, three:
                    runs.append((await client.start(flows.squares, 60)).id)
                    ordered = await client.start(flows.names, 200)
                    assert await ordered.result(timeout=100) == [f"n{x}" for x in range(200)]
                    await client.result(runs[0], timeout=100)
                assert pooler.opened == 3

    asyncio.run(main())
    with Client(dsn) as client:
        check_squares(client, runs[0], 60)
    assert rows(dsn) == 0
