"""Workers and clients in one process, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import fleet_flows as flows
import pytest
from servers import asked

from weft import AsyncClient, registry
from weft.errors import InvalidOption, RunClosed, RunExists, RunFailed, RunNotFound, RunReplaced, UnknownWorkflow
from weft.fleet import FleetWorker
from weft.stores import PostgresStore
from weft.stores.postgres.server_clock import ServerClock
from weft.testing.contracts.inbox_store import message


def with_worker(dsn: str, act: Callable[[AsyncClient, FleetWorker], Awaitable[None]], **options: Any) -> None:
    """Do something with a client while a worker works."""

    async def main() -> None:
        worker = FleetWorker(dsn, registry.workflows(), **options)
        async with asyncio.timeout(60), AsyncClient(dsn) as client:
            working = asyncio.create_task(worker.run())
            try:
                await act(client, worker)
            finally:
                worker.stop()
                await working

    asyncio.run(main())


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again and again, until the answer is true."""
    while not (answer := await found()):  # noqa: ASYNC110 - another task decides when
        await asyncio.sleep(0.01)
    return answer


def test_a_worker_drives_what_a_client_has_started(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        one = await client.start(flows.chain, 1, id="one")
        many = await client.start_many("chain", range(100))

        assert await one.result(timeout=30) == 1
        assert await many.gather(timeout=30) == [(x + 1) * 2 - 3 for x in range(100)]
        assert (await client.find("one")).epoch == 2
        await until(lambda: _empty(client))

    with_worker(dsn, act)


def test_a_handle_of_a_run_that_was_deleted_does_not_answer_for_the_next_one_of_its_id(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client, PostgresStore(dsn) as store:
            old = [await client.start(flows.chain, 1, id="r"), await client.start(flows.chain, 1, id="r")]
            (many,) = await client.start_many("chain", [1], ids=["r"])
            await store.delete("r")
            with pytest.raises(RunNotFound):
                await old[0].status()
            new = await client.start(flows.chain, 1, id="r")
            for handle in [*old, many]:
                with pytest.raises(RunReplaced):
                    await handle.status()
            assert await new.status() == "running"
            assert await client.status("r") == "running", "an id is whichever run has it"

    asyncio.run(main())


async def _empty(client: AsyncClient) -> bool:
    return await client.queue_depth() == 0


def test_the_same_start_is_the_same_run_and_another_one_is_refused(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        first = await client.start("chain", 1, id="a")
        assert (await client.start("chain", 1, id="a")).id == first.id
        for again in (client.start("chain", 2, id="a"), client.start_many("chain", [2], ids=["a"])):
            with pytest.raises(RunExists, match=r"exists already, with another input; choose another id$"):
                await again
        with pytest.raises(UnknownWorkflow, match="nope"):
            await client.start("nope", 2)

        assert await first.result(timeout=30) == 1
        assert await (await client.start("chain", 1, id="a")).result(timeout=30) == 1
        assert await client.count() == 1

    with_worker(dsn, act)


def test_a_sleeping_run_is_released_and_wakes_when_it_is_due(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    later = 0.0
    told = ServerClock.time
    monkeypatch.setattr(ServerClock, "time", lambda clock: told(clock) + later)

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        nonlocal later
        handle = await client.start("long nap", 4, id="nap")

        async def is_released() -> bool:
            record = await client.find("nap")
            return record.status == "waiting" and record.owner is None

        await until(is_released)
        later = 3600.0  # for the worker; the next statement is for the database
        await asyncio.to_thread(asked, dsn, lambda db: db.execute("update weft_queue set scheduled_at = 0"))
        assert await handle.result(timeout=30) == 2
        assert (await client.find("nap")).epoch == 3

    with_worker(dsn, act, lease=2.0)


def test_signals_and_cancellations_reach_a_run(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        approved, dropped = await client.start("approval", 1), await client.start("approval", 2)

        await client.signal(approved.id, "go", "yes")
        await client.cancel(dropped.id, "not needed")

        assert await approved.result(timeout=30) == "yes"
        with pytest.raises(RunClosed, match="not needed"):
            await dropped.result(timeout=30)

    with_worker(dsn, act)


def test_a_failed_run_is_retried(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_FIXED", str(tmp_path / "fixed"))

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        handle = await client.start("fragile", 7, id="f")
        with pytest.raises(RunFailed):
            await handle.result(timeout=30)
        (tmp_path / "fixed").touch()

        again = await client.retry("f")

        assert await again.result(timeout=30) == 7
        await until(lambda: _empty(client))

    with_worker(dsn, act)


def test_a_message_that_came_too_late_leaves_the_inbox(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await (await client.start("chain", 1, id="a")).result(timeout=30)
        async with PostgresStore(dsn) as store:
            await store.post([message("a", b"x")])
            await until(lambda: _empty(client))
            assert list(await store.messages(["a"])) == []

    with_worker(dsn, act)


def test_an_orderly_stop_leaves_runs_that_can_be_claimed_at_once(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), AsyncClient(dsn) as client, PostgresStore(dsn) as store:
            worker = FleetWorker(dsn, registry.workflows(), lease=3600.0)
            working = asyncio.create_task(worker.run())
            await client.start("approval", 1, id="a")

            async def waits() -> bool:
                return (await client.find("a")).status == "waiting"

            await until(waits)
            worker.stop()
            await working
            await client.signal("a", "go", "yes")

            known = [(each.name, each.version) for each in registry.workflows()]
            (record,) = await store.claim(5, queues=["default"], workflows=known)
            assert (record.id, record.died_in) == ("a", None)
            assert worker.state == "stopped"

    asyncio.run(main())


def test_a_process_that_is_not_sure_of_its_lease_starts_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        await client.start("approval", 1, id="a")

        async def waits() -> bool:
            return (await client.find("a")).status == "waiting"

        await until(waits)
        sure = PostgresStore.is_sure
        monkeypatch.setattr(PostgresStore, "is_sure", property(lambda _: False))
        runner = worker._runner
        assert runner is not None
        queues = runner._runtime.dispatcher.queues
        await client.signal("a", "go", "yes")

        async def is_held() -> bool:
            return any(queue.line for queue in queues.values())

        await until(is_held)
        assert (await client.find("a")).status != "completed"
        monkeypatch.setattr(PostgresStore, "is_sure", sure)
        assert await client.result("a", timeout=30) == "yes"

    with_worker(dsn, act, lease=2.0)


def test_a_worker_without_workflows_is_refused(dsn: str) -> None:
    with pytest.raises(InvalidOption, match="needs workflows"):
        FleetWorker(dsn, [])
