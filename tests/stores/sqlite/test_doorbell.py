"""The doorbell: rung by datagrams, and by a change of the file without a datagram."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

from opening import inside

from weft.ports.store import Message
from weft.stores import SQLiteStore
from weft.stores.sqlite import schema
from weft.stores.sqlite.doorbell import Doorbell, ring
from weft.testing.contracts.cases import first, write

POSTS = """
import asyncio, sys
from weft.ports.store import Message
from weft.stores import SQLiteStore

async def main(path):
    async with SQLiteStore(path) as store:
        print(await store.post([Message(run="r", kind="signal", body=b"yes", at=1.0)]), flush=True)

asyncio.run(main(sys.argv[1]))
"""


def test_another_process_is_heard(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[bytes]:
        heard = asyncio.Event()
        await write(store, first("r"))
        await store.listen(heard.set)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", POSTS, str(path), stdout=subprocess.PIPE)
        await asyncio.wait_for(heard.wait(), 60)
        await process.communicate()
        return [each.body for each in await store.messages()]

    assert inside(SQLiteStore(path), act) == [b"yes"]


def test_a_change_that_no_datagram_told_of_is_heard_all_the_same(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        heard = asyncio.Event()
        look = partial(schema.connect_for_reading, path, 5.0)
        doorbell = Doorbell("doorbell", look, heard.set, seldom=0.01)
        await write(store, first("r"))  # on another connection
        await asyncio.wait_for(heard.wait(), 30)
        await doorbell.close()
        doorbell._thread.join(30)
        assert not doorbell._thread.is_alive()

    inside(SQLiteStore(path), act)


def test_many_datagrams_at_once_are_one_ring_or_a_few(path: Path) -> None:
    async def act(store: SQLiteStore) -> int:
        rings: list[None] = []
        heard = asyncio.Event()

        def rung() -> None:
            rings.append(None)
            heard.set()

        doorbell = Doorbell("doorbell", partial(schema.connect_for_reading, path, 5.0), rung, seldom=3600)
        ring([doorbell.port] * 100)
        await asyncio.wait_for(heard.wait(), 30)
        await doorbell.close()
        return len(rings)

    assert inside(SQLiteStore(path), act) <= 100


def test_a_port_that_nobody_listens_at_is_no_error() -> None:
    ring([1, 1])  # no process is given this port by chance


def test_a_closed_store_listens_no_more(path: Path) -> None:
    async def act(store: SQLiteStore) -> Doorbell:
        await store.listen(lambda: None)
        assert store._doorbell is not None
        return store._doorbell

    doorbell = inside(SQLiteStore(path), act)

    doorbell._thread.join(30)
    assert not doorbell._thread.is_alive()
    with sqlite3.connect(path) as db:
        assert db.execute("select count(*) from sessions").fetchone() == (0,)
    db.close()


def test_closing_a_store_that_listens_leaves_no_write_ahead_log(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        await store.listen(lambda: None)
        await write(store, first("r"))

    inside(SQLiteStore(path), act)

    assert not path.with_name(f"{path.name}-wal").exists()


def test_a_file_of_the_version_before_gets_an_inbox(path: Path) -> None:
    with sqlite3.connect(path) as db:
        for _, script in schema.MIGRATIONS[:7]:
            for statement in schema._statements(script):
                db.execute(statement)
        db.execute(f"pragma application_id = {schema.APPLICATION_ID}")
        db.execute("pragma user_version = 7")
        db.execute(
            "insert into runs (key, id, workflow, version, status, reason, chain, epoch, created_at, updated_at) "
            "values (1, 'old', 'w', '', 'waiting', '', x'', 1, 1.0, 1.0)"
        )
    db.close()

    async def act(store: SQLiteStore) -> tuple[object, object]:
        await store.post([Message(run="old", kind="signal", body=b"", at=1.0)])
        return (await store.find("old")).wake_at, len(await store.messages(["old"]))

    assert inside(SQLiteStore(path), act) == (None, 1)
