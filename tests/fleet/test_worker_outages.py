"""A worker whose database is gone, or takes no writes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import fleet_flows as flows
import pytest
from test_worker import until

from weft import AsyncClient, registry
from weft.fleet import FleetWorker
from weft.fleet.supervisor import Supervisor


async def order(server_dsn: str, *statements: str) -> None:
    """Execute statements over a connection to another database of the same server."""
    db = await asyncpg.connect(server_dsn)
    try:
        for each in statements:
            await db.execute(each)
    finally:
        await db.close()


def name_of(dsn: str) -> str:
    return urlsplit(dsn).path.lstrip("/")


def cut_all(dsn: str) -> str:
    return f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name_of(dsn)}'"  # noqa: S608


@asynccontextmanager
async def unreachable(server_dsn: str, dsn: str) -> AsyncIterator[None]:
    """Cut all connections to a database, and refuse new ones."""
    await order(server_dsn, f"alter database {name_of(dsn)} allow_connections false", cut_all(dsn))
    try:
        yield
    finally:
        await order(server_dsn, f"alter database {name_of(dsn)} allow_connections true")


@asynccontextmanager
async def read_only(server_dsn: str, dsn: str) -> AsyncIterator[None]:
    """Let a database take no writes, as a standby does."""
    setting = f"alter database {name_of(dsn)} set default_transaction_read_only"
    await order(server_dsn, f"{setting} = on", cut_all(dsn))
    try:
        yield
    finally:
        await order(server_dsn, f"{setting} = off", cut_all(dsn))


def test_a_worker_is_not_ready_while_its_database_is_gone(
    dsn: str, server_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(FleetWorker, "_tell_health", lambda self: said.append(self.status()))

    async def main() -> None:
        worker = FleetWorker(dsn, registry.workflows(), lease=1.0)
        working = asyncio.create_task(worker.run())
        async with asyncio.timeout(90):
            await until(lambda: told(lambda: bool(said) and said[-1]["ready"]))
            async with unreachable(server_dsn, dsn):
                await until(lambda: told(lambda: worker._runner is not None and not worker._runner.is_sure))
                said.clear()
                await until(lambda: told(lambda: len(said) >= 4))

                assert [each["ready"] for each in said] == [False] * len(said)
                assert all(each["problem"] for each in said)
                assert not worker.status()["ready"]
            await until(lambda: told(lambda: said[-1]["ready"] and not said[-1]["problem"]))
        worker.stop()
        await working

    asyncio.run(main())


def test_a_worker_that_starts_while_the_server_is_read_only_waits(dsn: str, server_dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await client.migrate()
            handle = await client.start(flows.chain, 1, id="a")
        worker = FleetWorker(dsn, registry.workflows(), lease=1.0)
        async with asyncio.timeout(90):
            async with read_only(server_dsn, dsn):
                working = asyncio.create_task(worker.run())
                await until(lambda: told(lambda: working.done() or "read-only" in worker.status()["problem"]))
                assert not working.done()
                assert not worker.status()["ready"]
            async with AsyncClient(dsn) as client:
                assert await client.result(handle.id, timeout=60) == 1
        worker.stop()
        await working

    asyncio.run(main())


async def told(found: Any) -> bool:
    return bool(found())


WORKER = """
import json, os, signal, sys, time
path = sys.argv[sys.argv.index("--health") + 1]
pid, age = json.loads(sys.argv[1])
pid = pid or os.getpid()
with open(path + ".new", "w") as file:
    json.dump({"ready": True, "state": "working", "at": time.time() - age, "pid": pid}, file)
os.replace(path + ".new", path)
signal.pause()
"""


@pytest.mark.parametrize(
    ("pid", "age", "is_ready"),
    [
        pytest.param(0, 0.0, True, id="said just now"),
        pytest.param(0, 60.0, False, id="said long ago"),
        pytest.param(1, 0.0, False, id="said by a process before it"),
    ],
)
def test_a_supervisor_is_ready_if_a_worker_that_runs_says_so_now(pid: int, age: float, is_ready: bool) -> None:
    async def main() -> None:
        supervisor = Supervisor([sys.executable, "-c", WORKER, json.dumps([pid, age])], 1)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            await until(lambda: told(lambda: supervisor._running and supervisor._file(0).exists()))
            status = supervisor.status()
            supervisor.stop()
            await running

        assert status["ready"] is is_ready

    asyncio.run(main())


def test_a_supervisor_that_cannot_start_a_process_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start, refused = asyncio.create_subprocess_exec, iter([BlockingIOError(11, "no more processes"), MemoryError()])

    async def refuse_at_first(*command: Any, **options: Any) -> Any:
        for error in refused:
            raise error
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse_at_first)

    async def main() -> None:
        supervisor = Supervisor([sys.executable, "-c", WORKER, "[0, 0.0]"], 1)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            await until(lambda: told(lambda: running.done() or supervisor.status()["ready"]))
            restarts = supervisor.status()["restarts"]
            supervisor.stop()
            await running
        assert restarts == 2

    asyncio.run(main())


def test_a_supervisor_reports_the_workers_that_it_has_given_up(tmp_path: Path) -> None:
    first = tmp_path / "first"
    program = f"import os, sys; from pathlib import Path; p = Path({str(first)!r})\n"
    program += "if p.exists() and p.read_text() != str(os.getpid()): sys.exit(3)\n"
    program += f"p.write_text(str(os.getpid()))\n{WORKER}"

    async def main() -> None:
        supervisor = Supervisor([sys.executable, "-c", program, "[0, 0.0]"], 2)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            await until(lambda: told(lambda: running.done() or supervisor.status()["given_up"]))
            status: dict[str, Any] = supervisor.status()
            supervisor.stop()
            await running
        assert status["given_up"] == 1
        assert status["ready"]
        assert status["problem"] == "1 of 2 workers cannot be started, and is given up"

    asyncio.run(main())
