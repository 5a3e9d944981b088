"""A run of a fleet that is cancelled is undone, whichever worker dies meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import undoing_flows as flows
from processes import workers

from weft import AsyncRunner, Saga, Workflow, current
from weft.core import events as ev
from weft.errors import RunClosed
from weft.fleet import Client
from weft.stores.postgres import PostgresStore


def until(found: Callable[[], Any]) -> None:
    """Ask again and again, until the answer is true."""
    end = time.monotonic() + 120
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_a_worker_has_begun_to_undo_is_undone_by_the_next_one(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv("UNDOING_NOTES", str(notes))
    with Client(dsn) as client, workers(dsn, tmp_path, Path(flows.__file__)) as fleet:
        first = fleet.start()
        handle = client.start(flows.travel, "Rome", id="r")
        until((notes / "paying").exists)
        client.cancel("r", "no time", by="Ada")
        until((notes / "giving back").exists)
        record = client.find("r")
        first.kill()
        (notes / "giving back.go").touch()
        fleet.start()
        with pytest.raises(RunClosed, match="no time"):
            handle.result(timeout=120)

        assert (record.status, record.reason) == ("running", "undoing, since it was cancelled by Ada: no time")
        after = client.find("r")
        assert (after.status, after.reason) == ("cancelled", "no time")
        log = client.log("r")
        assert [event.component for event in log if isinstance(event, ev.ReactionOccurred)] == [
            "trip.book",
            "trip.give_back",
        ]
        assert len(set((notes / "giving back").read_text().split())) == 1, "the second call has the same key"
        (notes / "paying.go").touch()


def test_a_bulk_cancel_without_undo_leaves_what_was_done(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv("UNDOING_NOTES", str(notes))
    with Client(dsn) as client, workers(dsn, tmp_path, Path(flows.__file__)) as fleet:
        fleet.start()
        client.start(flows.travel, "Rome", id="r")
        until((notes / "paying").exists)
        job = client.bulk("cancel", workflow="travel", reason="closed", undo=False)
        client.wait_job(job.id, timeout=60)
        until(lambda: client.find("r").status == "cancelled")

        assert not (notes / "giving back").exists()
        (notes / "paying.go").touch()


@pytest.mark.parametrize("undo", [True, False])
def test_a_child_that_another_process_drives_is_told_and_its_parent_is_cancelled_after_it(dsn: str, undo: bool) -> None:
    begun, done = asyncio.Event(), list[str]()

    def saga(name: str, pay: Callable[..., Any]) -> Workflow:
        async def give_back(request: Any, results: Any) -> None:
            done.append(name)

        async def book(request: Any, results: Any) -> str:
            return "seat"

        trip = Saga("trip")
        trip.transaction(book, compensate=give_back)
        trip.transaction(pay, name="pay", compensate=None)
        return Workflow(name, trip)

    async def never(request: Any, results: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def delegate(request: Any, results: Any) -> None:
        await current().astart_child(child, request, id="c")
        await asyncio.Event().wait()

    child = saga("child", never)

    async def main() -> None:
        async with AsyncRunner(PostgresStore(dsn)) as runner, AsyncRunner(PostgresStore(dsn)) as other:
            other.register(child)
            await runner.start(saga("parent", delegate), 5, id="p")
            await begun.wait()
            begun.clear()
            await runner.stop("c", grace=0)
            await other.resume("c")
            await begun.wait()

            await runner.cancel("p", "enough", undo=undo)
            await other.wait("p")

            assert {record.id: record.status for record in await runner.runs()} == dict.fromkeys("pc", "cancelled")
            assert await other.unread("c") == []
        assert sorted(done) == (["child", "parent"] if undo else [])

    asyncio.run(asyncio.wait_for(main(), 120))
