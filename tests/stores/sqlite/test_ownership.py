"""Runs are free when the process that has them ends, and not before."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from appending_process import child, killed, said
from opening import inside, nothing

from weft.errors import StoreError
from weft.stores import SQLiteStore
from weft.stores.sqlite import ownership
from weft.testing.contracts.cases import first, more, write


def test_a_store_that_was_not_closed_says_so_and_frees_its_runs(path: Path) -> None:
    async def forgotten() -> None:
        store = SQLiteStore(path)
        await store.open()
        await write(store, first("r"))

    def collected() -> None:
        asyncio.run(forgotten())
        gc.collect()

    with pytest.warns(ResourceWarning, match="never closed"):
        collected()

    assert inside(SQLiteStore(path), lambda store: store.acquire("r")).epoch == 2


def test_a_killed_process_frees_its_runs_at_once_and_loses_nothing_it_was_told(path: Path) -> None:
    process = child(path, "r")
    told = said(process, 20)
    with pytest.raises(StoreError, match=f"process {process.pid} on"):
        inside(SQLiteStore(path), lambda store: store.acquire("r"))

    told = max(told, killed(process))
    record = inside(SQLiteStore(path), lambda store: store.acquire("r"))

    assert (record.epoch, record.died_in) == (2, 1)
    assert told <= record.head <= told + 1  # the last one may have been written and not told
    loaded = inside(SQLiteStore(path), lambda store: store.load("r"))
    assert [each.first for each in loaded.segments] == list(range(1, record.head + 1))
    assert [each.name for each in path.parent.iterdir()] == ["runs.db"]


def test_processes_append_to_different_runs_of_one_file(path: Path) -> None:
    inside(SQLiteStore(path), nothing)
    processes = [child(path, f"r{i}") for i in range(3)]
    for each in processes:
        said(each, 15)

    told = [max(15, killed(each)) for each in processes]

    async def heads(store: SQLiteStore) -> list[int]:
        return [(await store.acquire(f"r{i}")).head for i in range(3)]

    assert all(head >= least for head, least in zip(inside(SQLiteStore(path), heads), told, strict=True))


FORKING = """
import asyncio, os, sys, time
from weft.errors import RunOwned
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first

async def main(path):
    store = SQLiteStore(path)
    await store.open()
    await store.append([first("r")])
    told, tell = os.pipe()
    if os.fork() == 0:
        os.write(tell, b"open" if store.is_open else b"gone")
        sys.stdout.close()
        os.close(1)
        os.read(0, 1)  # outlive the parent, until the test says otherwise
        os._exit(0)
    print(os.read(told, 4).decode(), flush=True)
    async with SQLiteStore(path) as other:
        try:
            await other.acquire("r")
        except RunOwned:
            print("held", flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_neither_frees_nor_keeps_the_runs_of_its_parent(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    is_open_in_child, is_held_by_parent = (process.stdout.readline().strip() for _ in range(2))
    process.wait()

    record = inside(SQLiteStore(path), lambda store: store.acquire("r"))

    assert (is_open_in_child, is_held_by_parent) == ("gone", "held")
    assert record.epoch == 2
    process.stdin.close()  # which ends the child
    process.stdout.close()


def test_a_program_that_was_started_does_not_free_the_runs_of_the_process_that_started_it(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        await write(store, first("r"))
        assert store._opened is not None
        program = [sys.executable, "-c", "pass"]
        await asyncio.to_thread(subprocess.run, program, check=True, close_fds=False)
        async with SQLiteStore(path) as other:
            with pytest.raises(StoreError, match="alive"):
                await other.acquire("r")
        await write(store, more("r", 1))

    inside(SQLiteStore(path), act)


def test_what_dead_sessions_left_is_removed_by_the_next_to_open(path: Path) -> None:
    for name in "ab":
        process = child(path, name)
        said(process, 1)
        killed(process)
    stray = path.with_name("runs.db-owner-0123")
    stray.touch()

    inside(SQLiteStore(path), nothing)

    assert [each.name for each in path.parent.iterdir()] == ["runs.db"]
    db = sqlite3.connect(path)
    assert db.execute("select count(*) from sessions").fetchone() == (0,)
    db.close()


def test_a_store_is_closed_and_its_runs_are_free_while_another_process_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> str | None:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            holder = sqlite3.connect(path, isolation_level=None)
            holder.execute("begin immediate")
        holder.rollback()
        holder.close()
        async with SQLiteStore(path) as other:
            await other.acquire("r")
            return (await other.find("r")).owner

    assert asyncio.run(main()) is not None


def test_a_store_that_was_closed_while_the_file_was_locked_has_not_died(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> bool:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            holder = sqlite3.connect(path, isolation_level=None)
            holder.execute("begin immediate")
        holder.rollback()
        holder.close()
        async with SQLiteStore(path) as other:
            return (await other.acquire("r")).died_in is not None

    assert asyncio.run(main()) is False


def test_only_the_last_deaths_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    monkeypatch.setattr(ownership, "_MOST_DEATHS", 2)

    async def dies(run: str) -> None:
        store = SQLiteStore(path)
        await store.open()
        await write(store, first(run))
        opened, store._opened = store._opened, None
        assert opened is not None
        opened.session.abandon()
        await opened.reader.stop()
        await opened.writer.stop()

    for run in "abc":
        asyncio.run(dies(run))

    taken = inside(SQLiteStore(path), lambda store: store.acquire_many("abc"))

    assert {run: record.died_in is not None for run, record in taken.items()} == {"a": False, "b": True, "c": True}
