"""Calls for workers: the chosen worker looks at once, the backup a moment later, and others not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from weft.ports.calls import Call
from weft.ports.queue import Placement
from weft.stores import PostgresStore
from weft.stores.postgres.presence import Presence, WorkerReport
from weft.stores.postgres.queue_watch import QueueWatch
from weft.testing import run_virtually
from weft.testing.contracts.cases import first


def a_worker(rank: int, size: int) -> Presence:
    """Return the presence of a worker that has renewed its lease."""
    presence = Presence()
    presence.report = WorkerReport(worker=f"w{rank}", state="working")
    presence.receive("", 1, [0] * (size - 1), [8] * (size - 1), rank)
    return presence


async def unsent(_: list[str]) -> None:
    raise AssertionError("nothing is passed on here")


def watches(size: int, told: list[int], **options: Any) -> list[QueueWatch]:
    """Return the watches of *size* workers, which note their ranks when they are called."""
    found: list[QueueWatch] = []
    for rank in range(size):
        note: Callable[[], object] = lambda rank=rank: told.append(rank)  # type: ignore[misc]  # noqa: E731
        found.append(QueueWatch(a_worker(rank, size), note, options.get("queues", ()), unsent))
    return found


def test_a_call_for_one_run_reaches_one_worker_and_later_its_backup() -> None:
    async def main() -> tuple[list[int], list[int]]:
        told: list[int] = []
        workers = watches(4, told)
        for _ in range(3):
            for each in workers:
                each.receive(Call(1, 0.25).text)
        at_once = told[:]
        await asyncio.sleep(1.0)
        return at_once, told

    at_once, told = run_virtually(main())

    assert at_once == [1, 1, 1]
    assert told == [1, 1, 1, 2], "the backup looks once for all calls meanwhile"


def test_a_call_without_a_number_is_for_all_and_one_for_another_queue_for_none() -> None:
    async def main() -> list[int]:
        told: list[int] = []
        for each in watches(3, told, queues=["mine"]):
            each.receive("")
            each.receive(None)
            each.receive(Call(3, 0.0, queue="others").text)
            each.receive(Call(3, 0.0, queue="mine").text)
            each.stop()
        return told

    assert run_virtually(main()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_worker_that_does_not_know_its_rank_and_a_store_that_is_not_a_worker_are_always_told() -> None:
    new = Presence()
    new.report = WorkerReport(worker="w", state="working")
    told: list[str] = []

    QueueWatch(new, lambda: told.append("new"), (), unsent).receive(Call(1, 0.9).text)
    QueueWatch(Presence(), lambda: told.append("client"), (), unsent).receive(Call(1, 0.9).text)

    assert told == ["new", "client"]


def test_a_start_says_how_many_runs_there_are_and_in_which_queue(dsn: str, schema: str) -> None:
    async def main() -> str | None:
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        async with PostgresStore(dsn, schema=schema) as store:
            hints = store._usable().hints
            await hints.listen(store._statements.channel, heard.put_nowait)
            given = [first(f"r{i}", release=True) for i in range(3)]
            await store.enqueue(given, Placement(queue="fast lane"))
            return await heard.get()

    call = Call.read(asyncio.run(main()))

    assert call is not None
    assert (call.count, call.hops, call.queue) == (3, 0, "fast lane")
