"""Unique keys of runs across a fleet: of the unfinished runs of a workflow, one has a key."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import asyncpg
import fleet_flows as flows
import pytest
from shard_databases import Databases
from test_worker import until, with_worker

from weft import AsyncClient, Client
from weft.errors import InvalidOption, RunExists, RunFailed, UniqueKeyTaken
from weft.fleet import FleetWorker


def test_of_many_clients_that_start_runs_with_one_key_at_once_one_starts_a_run(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as one, AsyncClient(dsn) as two:
            starts = [
                client.start(flows.chain, 1, unique="k", if_exists=how)
                for client in (one, two)
                for how in ("same", "return", "same")
            ]
            handles = await asyncio.gather(*starts)

            assert len({handle.id for handle in handles}) == 1
            assert await one.count() == 1
            with pytest.raises(UniqueKeyTaken, match=f"run {handles[0].id!r} of 'chain' has it, with another input"):
                await one.start(flows.chain, 2, unique="k")
            with pytest.raises(UniqueKeyTaken):
                await one.start(flows.chain, 1, unique="k", if_exists="error")
            with pytest.raises(InvalidOption, match="if_exists='restart': use 'same' or 'return' or 'error'"):
                await one.start(flows.chain, 1, unique="k", if_exists="restart")  # type: ignore[call-overload]

    asyncio.run(main())


def test_an_id_that_exists_is_returned_or_refused_as_the_caller_says(dsn: str) -> None:
    with Client(dsn) as client:
        client.start(flows.chain, 1, id="a")

        assert client.start(flows.chain, 2, id="a", if_exists="return").id == "a"
        with pytest.raises(RunExists):
            client.start(flows.chain, 1, id="a", if_exists="error")
        assert [each.id for each in client.start_many(flows.chain, [9], ids=["a"], if_exists="return")] == ["a"]


def test_a_key_is_free_when_its_run_has_finished(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        first = await client.start(flows.chain, 1, unique="k")
        assert await first.result(timeout=30) == 1

        second = await client.start(flows.chain, 1, unique="k")

        assert second.id != first.id
        assert await second.result(timeout=30) == 1

    with_worker(dsn, act)


def test_many_starts_have_a_key_each(dsn: str) -> None:
    with Client(dsn) as client:
        handles = client.start_many(flows.chain, [1, 2, 1, 3], unique=["k", "l", "k", "m"])

        assert [handle.id == handles[0].id for handle in handles] == [True, False, True, False]
        assert client.count() == 3
        with pytest.raises(UniqueKeyTaken):
            client.start_many(flows.chain, [5, 6], unique=["k", "n"])
        assert client.count() == 4


def test_a_key_is_kept_inside_the_transaction_of_the_caller(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await client.start(flows.chain, 1, id="a", unique="k")
            db = await asyncpg.connect(dsn)
            try:
                async with db.transaction():
                    assert (await client.start(flows.chain, 1, unique="k", within=db)).id == "a"
                    with pytest.raises(UniqueKeyTaken, match="run 'a' of 'chain' has it, with another input"):
                        await client.start(flows.chain, 2, unique="k", within=db)
                    assert (await client.start(flows.chain, 2, id="b", unique="l", within=db)).id == "b"
                    with pytest.raises(RunExists, match="or one with its unique key, was started in the same trans"):
                        await client.start(flows.chain, 2, id="c", unique="l", within=db)
                assert sorted(each.id for each in await client.runs()) == ["a", "b"]
            finally:
                await db.close()

    asyncio.run(main())


def test_a_start_waits_for_a_transaction_that_has_its_key_and_has_not_ended(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            db = await asyncpg.connect(dsn)
            try:
                transaction = db.transaction()
                await transaction.start()
                await client.start(flows.chain, 1, id="a", unique="k", within=db)
                second = asyncio.create_task(client.start(flows.chain, 1, id="b", unique="k"))
                await until(lambda: _is_blocked(db))
                assert not second.done()

                await transaction.rollback()

                assert (await second).id == "b"
            finally:
                await db.close()

    asyncio.run(main())


async def _is_blocked(db: asyncpg.Connection) -> bool:
    asked = "select count(*) from pg_locks l where not l.granted and pg_backend_pid() = any(pg_blocking_pids(l.pid))"
    return bool(await db.fetchval(asked))


def test_a_retry_is_refused_while_another_run_has_the_key(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fixed = tmp_path / "fixed"
    monkeypatch.setenv("FLEET_FIXED", str(fixed))
    caplog.set_level(logging.WARNING, "weft.runner")

    async def act(client: AsyncClient, _: FleetWorker) -> None:
        with pytest.raises(RunFailed):
            await (await client.start("fragile", 1, id="a", unique="k")).result(timeout=30)
        await client.start("fragile", id="b", unique="k")  # open, without input
        with pytest.raises(UniqueKeyTaken, match="'a' cannot have the unique key 'k': run 'b' of 'fragile' has it"):
            await client.retry("a")
        fixed.touch()

        # A retry that was asked for before the other run had the key: the worker refuses it.
        client._store.key_rival = _none  # type: ignore[method-assign,assignment,union-attr]
        await client.retry("a")
        await until(lambda: _has_read(client, "a"))
        assert (await client.find("a")).status == "failed"
        assert "run 'a' has refused a message (retry): run 'a' cannot have the unique key 'k'" in caplog.text

        await client.cancel("b")
        await client.wait("b", timeout=30)
        assert await (await client.retry("a")).result(timeout=30) == 1

    with_worker(dsn, act)


async def _none(_: str) -> None:
    return None


async def _has_read(client: AsyncClient, run: str) -> bool:
    return await client.unread(run) == [] and await client.queue_depth() == 0


def test_on_several_databases_a_key_has_one_home(shards: Databases) -> None:
    async def act(client: AsyncClient) -> None:
        keys = [f"customer-{number}" for number in range(12)]
        first = await client.start_many(flows.chain, range(12), unique=keys)
        again = [await client.start(flows.chain, number, unique=key) for number, key in enumerate(keys)]

        assert [handle.id for handle in first] == [handle.id for handle in again]
        assert await client.count() == 12
        with pytest.raises(UniqueKeyTaken):
            await client.start(flows.chain, 99, unique=keys[0])

    shards.on((0, 1), act)

    async def grown(client: AsyncClient) -> None:
        for number in range(12):
            with pytest.raises(UniqueKeyTaken):
                await client.start(flows.chain, 99, unique=f"customer-{number}")
        with pytest.raises(InvalidOption, match="leave the id out"):
            await _start_with_ids(client)
        assert await client.start(flows.chain, 1, unique="another")

    shards.on((0, 1, 2), grown)


async def _start_with_ids(client: AsyncClient) -> None:
    """Start runs with one key and ids that belong to all databases."""
    for number in range(64):
        await client.start(flows.chain, 1, id=f"order-{number}", unique="one key", if_exists="return")
