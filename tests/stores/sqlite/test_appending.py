"""A batch of appends: one transaction, few statements, and nothing that one run does to another."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from opening import inside, trace

from weft.errors import BrokenChain, InvalidAppend
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, more, write


def test_data_that_cannot_be_stored_leaves_the_batch_alone(path: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[list[type], bool]:
        results = await store.append([first("\ud800"), first("good"), first("huge", count=2**70)])
        return [type(each) for each in results], await store.exists("good")

    assert inside(SQLiteStore(path), act) == ([InvalidAppend, type(None), InvalidAppend], True)


def test_a_log_that_was_altered_under_its_writer_takes_nothing_more(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[type]:
        await write(store, first("r", b"a", chain=b"h1", previous=b""), first("s", b"x", chain=b"i1", previous=b""))
        await write(store, more("r", 1, b"b", chain=b"h2", previous=b"h1"))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("delete from segments where chain = ?", (b"h2",))
            db.execute(
                "insert into segments select place + 1, 1, ?, at, body from segments where chain = ?", (b"x", b"h1")
            )
        alone = await store.append([more("r", 2, b"c", chain=b"h3", previous=b"h2")])
        both = await store.append(
            [more("r", 2, b"c", chain=b"h3", previous=b"h2"), more("s", 1, b"y", chain=b"i2", previous=b"i1")]
        )
        return [type(each) for each in (*alone, *both)]

    assert inside(SQLiteStore(path), act) == [BrokenChain, BrokenChain, type(None)]


def test_a_new_run_follows_nothing() -> None:
    with pytest.raises(InvalidAppend, match="names a previous log"):
        first("r", previous=b"h0")


def test_what_waits_is_committed_together(path: Path) -> None:
    """A hundred tasks that append at once need few transactions."""

    async def act(store: SQLiteStore) -> int:
        assert store._opened is not None
        commits: list[str] = []
        writer, all_wait = store._opened.writer, threading.Event()
        await trace(store, lambda statement: commits.append(statement) if statement.lower() == "commit" else None)
        busy = writer.call(lambda _: all_wait.wait(20))
        appending = [asyncio.ensure_future(store.append([first(f"r{i}")])) for i in range(100)]
        await asyncio.sleep(0)  # each of them hands its append over
        all_wait.set()
        await asyncio.gather(busy, *appending)
        return len(commits)

    assert inside(SQLiteStore(path), act) == 1


@pytest.mark.usefixtures("no_pause")
def test_an_append_is_one_statement_for_many_runs(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        statements: list[str] = []
        names = [f"r{i}" for i in range(64)]
        await write(store, *(first(name) for name in names))
        await trace(store, statements.append)
        await write(store, *(more(name, 1) for name in names))
        return list(statements)

    assert len(inside(SQLiteStore(path), act)) == 3  # begin, events, commit


def test_what_was_given_up_is_not_remembered(path: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[int, int]:
        assert store._opened is not None
        appender = store._opened.writer._appender
        assert appender is not None
        await store.append([first(f"r{i}") for i in range(10)])
        before = len(appender._keys)
        await store.release([f"r{i}" for i in range(10)])
        return before, len(appender._keys)

    assert inside(SQLiteStore(path), act) == (10, 0)


@pytest.mark.usefixtures("no_pause")
def test_a_lone_append_is_one_statement_and_dirties_one_page(path: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[list[str], int]:
        statements: list[str] = []
        await write(store, first("r"))
        await write(store, more("r", 1))
        await store.checkpoint()
        await trace(store, statements.append)
        await write(store, more("r", 2))
        return list(statements), path.with_name("runs.db-wal").stat().st_size

    statements, size = inside(SQLiteStore(path), act)

    assert len(statements) == 1
    assert size == 32 + 24 + 4096  # the header of the log, the header of a frame, and a page
