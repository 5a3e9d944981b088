"""The lease of a store: it is renewed, its holder stops in time when it is not, and then others take over."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_stores import ask, die, expire, inside, nothing, until

from weft.errors import InvalidStoreOption, OwnershipLost, RunOwned, StoreUnavailable
from weft.stores import PostgresStore
from weft.stores.postgres import process
from weft.stores.postgres.lease import Lease, pause, sure_until
from weft.stores.postgres.process import is_dead, this_process
from weft.testing.contracts.cases import bodies, first, more, write

seconds = st.floats(0, 1000)


@given(sent=seconds, to_the_server=seconds, lease=st.floats(0.1, 1000), later=seconds, drift=st.floats(0.95, 1.05))
def test_a_holder_is_never_sure_after_the_database_sees_its_lease_as_expired(
    sent: float, to_the_server: float, lease: float, later: float, drift: float
) -> None:
    expired_at = sent + to_the_server + lease
    now = sent + later
    own_clock = sent + later * drift  # two clocks do not run at one speed

    if now >= expired_at:
        assert own_clock >= sure_until(sent, lease)


@given(lease=st.floats(0.1, 1000), polling=st.booleans())
def test_a_lease_is_renewed_at_least_twice_before_its_holder_is_unsure(lease: float, polling: bool) -> None:
    wait = pause(lease, has_failed=False, is_polling=polling)

    assert 2 * wait <= sure_until(0.0, lease)
    assert pause(lease, has_failed=True, is_polling=polling) <= wait


@pytest.mark.parametrize("lease", [0, -1, float("nan"), float("inf"), 0.01])
def test_a_lease_that_is_not_a_time_is_refused(dsn: str, lease: float) -> None:
    with pytest.raises(InvalidStoreOption, match="lease"):
        PostgresStore(dsn, lease=lease)


def test_a_store_that_only_reads_has_no_lease(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await store.list()
        await store.listen(lambda: None)

        assert await ask(store, "select 1 from weft_workers") == []

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_lease_is_renewed_while_the_event_loop_is_busy(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        assert store._opened is not None
        lease = store._opened.lease
        began = lease._sure_until

        lease.renew_soon()
        while lease._sure_until == began:
            pass  # the loop does nothing else

        assert lease.is_sure
        await write(store, more("r", 1))

    inside(PostgresStore(dsn, schema=schema, lease=60.0), act)


def test_a_holder_that_is_not_sure_of_its_lease_writes_nothing_until_it_is_renewed(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed, may_renew = Lease._renewed, threading.Event()

    async def held(lease: Lease, db: Any) -> Any:
        await asyncio.to_thread(may_renew.wait, 60)
        return await renewed(lease, db)

    monkeypatch.setattr(Lease, "_renewed", held)

    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        assert store._opened is not None
        lease = store._opened.lease
        lease._sure_until = 0.0

        with pytest.raises(StoreUnavailable, match=r"lease of 600 s was not renewed"):
            await store.append([more("r", 1)])
        with pytest.raises(StoreUnavailable, match="lease"):
            await store.acquire("r")
        assert (await store.find("r")).head == 1  # reading owns nothing

        may_renew.set()
        lease.renew_soon()
        await until(lambda: asyncio.sleep(0, lease.is_sure))
        await write(store, more("r", 1))

    inside(PostgresStore(dsn, schema=schema, lease=600.0), act)


def test_an_owner_that_was_frozen_past_its_lease_loses_what_was_taken_and_keeps_the_rest(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("taken"), first("kept"))
        assert store._opened is not None
        await expire(store, store._opened.lease.known)
        async with PostgresStore(dsn, schema=schema) as other:
            record = await other.acquire("taken")
            assert record.died_in is not None
            await write(other, more("taken", 1, b"theirs", epoch=record.epoch))

            late, kept = await store.append([more("taken", 1, b"mine"), more("kept", 1)])

            assert isinstance(late, OwnershipLost)
            assert kept is None
            assert bodies(await other.load("taken")) == [b"1", b"theirs"]

    inside(PostgresStore(dsn, schema=schema), act)


def test_the_row_of_a_lease_that_was_removed_comes_back_with_its_runs(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        assert store._opened is not None
        owner = store._opened.lease.known

        await ask(store, "delete from weft_workers")
        await until(lambda: ask(store, "select 1 from weft_workers where key = $1", owner))

        async with PostgresStore(dsn, schema=schema) as other:
            with pytest.raises(RunOwned):
                await other.acquire("r")

    inside(PostgresStore(dsn, schema=schema, lease=1.0), act)


def test_old_rows_of_workers_are_removed_when_no_run_names_them(dsn: str, schema: str) -> None:
    async def main() -> None:
        store = PostgresStore(dsn, schema=schema)
        for run in "ab":
            await store.open()
            await write(store, first(run))
            await die(store)
        await ask(store, "update weft_workers set expires_at = now() - interval '8 days'")
        await store.open()
        await store.acquire("a")
        await store.close()
        await store.open()
        await store.acquire("a")

        assert len(await ask(store, "select 1 from weft_workers where expires_at < now() - interval '8 days'")) == 1
        assert (await store.acquire("b")).died_in is not None
        await store.close()

    asyncio.run(main())


CHILD = """
import asyncio, sys
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first

async def main(dsn, schema):
    store = PostgresStore(dsn, schema=schema, lease=3600)
    await store.open()
    await store.append([first("r")])
    print("written", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_killed_process_of_this_machine_frees_its_runs_at_once(dsn: str, schema: str) -> None:
    inside(PostgresStore(dsn, schema=schema), nothing)
    process = subprocess.Popen([sys.executable, "-c", CHILD, dsn, schema], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        with pytest.raises(RunOwned, match=f"process {process.pid} on"):
            inside(PostgresStore(dsn, schema=schema), lambda store: store.acquire("r"))
        process.kill()

    async def act(store: PostgresStore) -> tuple[list[str], int, bool]:
        free = [each.id for each in await store.list_free()]
        record = await store.acquire("r")
        return free, record.epoch, record.died_in is not None

    assert inside(PostgresStore(dsn, schema=schema), act) == (["r"], 2, True)


def test_the_runs_of_another_machine_are_free_when_the_lease_has_expired_and_not_before(dsn: str, schema: str) -> None:
    async def main() -> None:
        gone = PostgresStore(dsn, schema=schema, lease=3600)
        await gone.open()
        await write(gone, first("r"))
        await die(gone, expired=False)
        await ask(gone, "update weft_workers set machine = 'another', pid = 1")
        async with PostgresStore(dsn, schema=schema) as store:
            assert list(await store.list_free()) == []
            with pytest.raises(RunOwned):
                await store.acquire("r")
            with pytest.raises(RunOwned):
                await store.delete("r")

            await ask(gone, "update weft_workers set expires_at = clock_timestamp() where machine = 'another'")

            assert [each.id for each in await store.list_free()] == ["r"]
            assert (await store.acquire("r")).died_in is not None

    asyncio.run(main())


def test_this_process_is_alive_and_one_that_has_ended_is_dead() -> None:
    me = this_process()
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass

    assert not is_dead(me.pid, me.born)
    assert is_dead(me.pid, me.born + 1)  # another one had this number
    assert is_dead(ended.pid, 1)
    assert not is_dead(ended.pid, 0)  # it is not known when it began
    assert not is_dead(1, 0)


def test_a_process_reads_once_when_it_began(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    me = this_process()
    monkeypatch.setattr(process, "_PROC", tmp_path)  # each run that is loaded asks whether its owner is alive

    assert not is_dead(me.pid, me.born)
    assert is_dead(me.pid, me.born + 1)
