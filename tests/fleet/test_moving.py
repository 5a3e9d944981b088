"""Runs stay where they are while they can, and move when a worker drains or has too many."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import fleet_flows as flows
import pytest
from test_worker import until, with_worker

from weft import AsyncClient, registry
from weft.errors import InvalidOption, NewerStore, WorkerNotFound
from weft.fleet import FleetWorker
from weft.fleet.health import HealthServer
from weft.stores import PostgresStore


@asynccontextmanager
async def working(dsn: str, workflows: Sequence[Any] = (), **options: Any) -> AsyncIterator[FleetWorker]:
    """Yield a worker of *workflows*, or of all that are registered, which works, and stop it."""
    worker = FleetWorker(dsn, workflows or registry.workflows(), **options)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await task


async def is_in(worker: FleetWorker, state: str) -> None:
    async def found() -> bool:
        return worker.state == state

    await until(found)


async def owner_of(client: AsyncClient, run: str) -> str | None:
    return (await client.find(run)).owner


def test_what_is_sent_to_a_run_that_a_worker_holds_costs_no_load(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = PostgresStore.load_many

    async def counted(self: PostgresStore, runs: Any) -> Any:
        loads.extend(runs)
        return await load(self, runs)

    monkeypatch.setattr(PostgresStore, "load_many", counted)
    monkeypatch.setattr("weft.fleet.decisions.LINGER", 3600.0)

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        handle = await client.start("approval", 1, id="a")

        async def waits() -> bool:
            return (await client.find("a")).status == "waiting"

        await until(waits)
        loads.clear()
        await client.signal("a", "go", "yes")

        assert await handle.result(timeout=30) == "yes"
        assert (await client.find("a")).epoch == 2
        assert loads == []

    with_worker(dsn, act, lease=3600.0)


def test_a_worker_that_drains_lets_its_steps_end_and_others_have_its_runs(dsn: str) -> None:
    async def main() -> None:
        flows.gate.clear()
        flows.entered.clear()
        flows.entries.clear()
        async with asyncio.timeout(90), AsyncClient(dsn) as client, working(dsn) as one:
            await is_in(one, "working")
            handle = await client.start("gated", 1, id="a")
            await asyncio.to_thread(flows.entered.wait, 60)
            async with working(dsn) as two:
                await is_in(two, "working")

                await client.drain(one.id)
                await is_in(one, "draining")
                assert (await client.find("a")).epoch == 2  # the step that is in flight is not taken away

                flows.gate.set()
                assert await handle.result(timeout=60) == 3
                await is_in(one, "drained")
                record = await client.find("a")
                assert flows.entries == [1]
                assert record.epoch == 3
                states = {each.id: (each.state, each.held) for each in await client.workers()}
                assert states[one.id] == ("drained", 0)

                two.stop()
                await client.drain(one.id, resume=True)
                assert await (await client.start("chain", 1)).result(timeout=60) == 1
                assert one.state == "working"

        with pytest.raises(WorkerNotFound):
            async with AsyncClient(dsn) as client:
                await client.drain("nope")

    asyncio.run(main())


def test_a_worker_that_was_told_by_a_signal_drains_and_resumes(dsn: str) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        await is_in(worker, "working")
        worker.drain()
        await is_in(worker, "drained")
        waiting = await client.start("chain", 1)
        assert await client.queue_depth() == 1
        assert not worker.status()["ready"]

        worker.resume()

        assert await waiting.result(timeout=30) == 1

    with_worker(dsn, act)


def test_a_worker_that_drains_can_be_stopped(dsn: str) -> None:
    async def main() -> None:
        flows.gate.clear()
        flows.entered.clear()
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            worker = FleetWorker(dsn, registry.workflows(), grace=0.1)
            task = asyncio.create_task(worker.run())
            await client.start("gated", 1, id="a")
            await asyncio.to_thread(flows.entered.wait, 60)
            worker.drain()
            await is_in(worker, "draining")

            worker.stop()
            await task

            assert worker.state == "stopped"
            assert await owner_of(client, "a") is None
        flows.gate.set()

    asyncio.run(main())


def test_a_fleet_that_is_out_of_balance_evens_out(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(90), AsyncClient(dsn) as client, working(dsn, lease=5.0) as one:
            await is_in(one, "working")
            handles = await client.start_many("busy", range(60))

            async def has_all() -> bool:
                return one.status()["active"] == 60

            await until(has_all)
            async with working(dsn, lease=5.0) as two:

                async def has_some() -> bool:
                    return bool(two.status()["active"] >= 10)

                await until(has_some)
                for handle in handles:
                    await client.cancel(handle.id)

    asyncio.run(main())


def test_a_worker_whose_schema_is_migrated_by_a_newer_weft_says_so_and_ends(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            worker = FleetWorker(dsn, registry.workflows(), lease=1.0)
            task = asyncio.create_task(worker.run())
            await is_in(worker, "working")
            async with PostgresStore(dsn) as store:
                await store._ask(_newer)
            with pytest.raises(NewerStore):
                await task
            assert worker.state == "stopped"

    asyncio.run(main())


async def _newer(db: Any, *_: Any) -> None:
    await db.execute("insert into weft_schema (version) values (999)")


def test_health_and_readiness_are_told_over_http() -> None:
    status: dict[str, Any] = {"ready": False, "state": "opening"}

    async def asked(port: int, path: str, method: str = "GET") -> tuple[int, Any]:
        def ask() -> tuple[int, Any]:
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - it is ours
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)

        return await asyncio.to_thread(ask)

    async def main() -> None:
        server = HealthServer("0", lambda: status)
        port = await server.open()
        try:
            assert await asked(port, "/health") == (200, status)
            assert (await asked(port, "/ready"))[0] == 503
            status["ready"] = True
            assert (await asked(port, "/ready?now"))[0] == 200
            assert (await asked(port, "/other"))[0] == 404
            assert (await asked(port, "/health", "POST"))[0] == 405
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x00" * 20_000)
            writer.close()
            assert (await asked(port, "/ready"))[0] == 200
        finally:
            await server.close()

    asyncio.run(main())


@pytest.mark.parametrize("address", ["port", "", "70000", "127.0.0.1:", "192.0.2.1:0"])
def test_an_address_where_health_cannot_be_reported_is_refused(address: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(f"health cannot be reported on {address!r}")):
        asyncio.run(HealthServer(address, dict).open())


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidOption, match=f"on '{port}': .*in use; use another"):
            asyncio.run(HealthServer(str(port), dict).open())


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_health_is_reported_on_an_address_in_brackets() -> None:
    async def main() -> None:
        server = HealthServer("[::1]:0", dict)
        assert await server.open() > 0
        await server.close()

    asyncio.run(main())
