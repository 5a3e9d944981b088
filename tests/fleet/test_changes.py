"""Clients are notified of what workers do: they wait without polling, and miss nothing if notifications are lost."""

from __future__ import annotations

import asyncio
from typing import Any

import fleet_flows as flows
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_worker import until, with_worker

from weft import AsyncClient
from weft.core import events as ev
from weft.fleet import FleetWorker
from weft.stores import PostgresStore
from weft.stores.postgres.hints import Hints, payloads, runs_in


def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows whenever the record of a run is read."""
    seen: list[str] = []
    find = PostgresStore.find

    async def counted(self: PostgresStore, run: str) -> Any:
        seen.append(run)
        return await find(self, run)

    monkeypatch.setattr(PostgresStore, "find", counted)
    return seen


def test_a_client_that_waits_is_told_of_the_end_and_hardly_looks(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await (await client.start("chain", 1)).result(timeout=30)  # it listens from now on
        monkeypatch.setattr("weft.runner.waiting.changes.HEARD", (3600.0, 1.0, 3600.0))
        for i in range(10):
            seen.clear()

            assert await (await client.start("chain", i)).result(timeout=30) == (i + 1) * 2 - 3

            assert len(seen) <= 8  # one for each change of its status, and the first

    with_worker(dsn, act)


def test_a_client_that_is_told_nothing_finds_the_end_by_looking(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None:
        """Lose all notifications of changes."""

    monkeypatch.setattr(Hints, "_send", nothing)

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        assert await (await client.start("chain", 4)).result(timeout=30) == 7

    with_worker(dsn, act)


def test_notifications_that_come_twice_or_without_reason_change_nothing(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        handle = await client.start("approval", 4)
        waiting = asyncio.create_task(handle.result(timeout=30))
        hints = client._store._opened.hints  # type: ignore[union-attr]
        for told in ([f'["{handle.id}"]'] * 3, [""], ["not JSON"], ['["another"]']):
            await hints._send(client._store._statements.changes, told)
        await client.signal(handle.id, "go", "yes")

        assert await waiting == "yes"

    with_worker(dsn, act)


def test_the_events_of_a_run_of_another_process_are_followed(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(client: AsyncClient, worker: FleetWorker) -> None:
        handle = await client.start("approval", 4, id="a")

        async def follow() -> list[ev.AnyEvent]:
            return [event async for event in handle.events()]

        following = asyncio.create_task(follow())

        async def is_followed() -> bool:
            store = worker._runner and worker._runner._queue_store
            opened = store._opened if isinstance(store, PostgresStore) else None
            return opened is not None and "a" in opened.hints.followed

        await until(is_followed)
        monkeypatch.setattr("weft.runner.waiting.changes.HEARD", (3600.0, 1.0, 3600.0))
        await client.signal("a", "go", "yes")

        assert await following == await client.log("a")

    with_worker(dsn, act)


def test_what_a_step_streams_reaches_a_client(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        handle = await client.start(flows.streamed, 5)

        items = [item.value async for item in handle.stream("numbers")]

        assert items == [0, 1, 2, 3, 4]

    with_worker(dsn, act)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300), max_size=60).map(
        lambda runs: runs * 8
    )
)
def test_what_is_told_of_runs_names_all_of_them_or_any(runs: list[str]) -> None:
    sent = payloads(runs)

    assert all(len(each.encode()) < 8000 for each in sent)
    heard = [runs_in(each) for each in sent]
    if None in heard:
        assert sent == [""]
    else:
        assert [run for each in heard for run in each or ()] == runs
