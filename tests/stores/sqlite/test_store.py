"""The SQLite store against the contract, as it is opened and closed."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opening import filled, inside, nothing

from weft.errors import ForeignStore, InvalidStoreOption, StoreClosed, WrongLoop
from weft.ports.store import Append
from weft.stores import SQLiteStore
from weft.testing import (
    DeadlineStoreContract,
    FactStoreContract,
    InboxStoreContract,
    JobStoreContract,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    ScheduleStoreContract,
    SharedInboxContract,
    SharedStoreContract,
    SnapshotStoreContract,
    StatisticsStoreContract,
    StreamStoreContract,
    TransactionalStoreContract,
    TruncatingStoreContract,
    UniqueStoreContract,
    WaitingStoreContract,
)
from weft.testing.contracts.cases import first, write


class TestSQLiteStore(
    LogStoreContract,
    FactStoreContract,
    SnapshotStoreContract,
    TruncatingStoreContract,
    UniqueStoreContract,
    OwnedStoreContract,
    DeadlineStoreContract,
    ScheduleStoreContract,
    ListableStoreContract,
    WaitingStoreContract,
    StatisticsStoreContract,
    InboxStoreContract,
    JobStoreContract,
    SharedStoreContract,
    SharedInboxContract,
    StreamStoreContract,
    TransactionalStoreContract,
):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "runs.db")

    @pytest.fixture
    def another(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(str(tmp_path / "runs.db"))

    async def crash(self, store: SQLiteStore) -> None:
        """Give up the lock, and leave the file of the session, as the operating system does."""
        opened, store._opened = store._opened, None
        assert opened is not None
        opened.reader.abandon()
        opened.writer.abandon()
        opened.session.abandon()

    async def put(self, store: SQLiteStore, connection: Any, word: str) -> None:
        """Write a word into a table beside those of the store."""
        self.put_blocking(store, connection, word)

    def put_blocking(self, store: SQLiteStore, connection: Any, word: str) -> None:
        """Write a word, as a plain function does."""
        connection.execute("create table if not exists words (key integer primary key, word text)")
        connection.execute("insert into words (word) values (?)", (word,))

    async def words(self, store: SQLiteStore) -> list[str]:
        """Return the words that are committed."""
        with closing(sqlite3.connect(store.path)) as db:
            if not db.execute("select 1 from sqlite_master where name = 'words'").fetchall():
                return []
            return [word for (word,) in db.execute("select word from words order by key")]


class TestSQLiteStoreInParts(TestSQLiteStore):
    """Every value is written ahead of its append, byte by byte."""

    large_fact = 2_000  # that many parts

    @pytest.fixture
    def store(self, tmp_path: Path) -> SQLiteStore:
        return in_parts(tmp_path / "runs.db")

    @pytest.fixture
    def another(self, tmp_path: Path) -> SQLiteStore:
        return in_parts(tmp_path / "runs.db")


def in_parts(path: Path) -> SQLiteStore:
    store = SQLiteStore(path, synchronous="normal")  # thousands of commits, and a busy disk takes long for each
    store._large = 0
    return store


@pytest.mark.parametrize("wrong", ["", ":memory:", "file:x?mode=memory"])
def test_a_path_that_is_not_a_file_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidStoreOption, match="MemoryStore"):
        SQLiteStore(wrong)


@pytest.mark.parametrize(("option", "value"), [("synchronous", "off"), ("busy_timeout", -1.0)])
def test_an_option_that_makes_no_sense_is_refused(path: Path, option: str, value: Any) -> None:
    with pytest.raises(InvalidStoreOption, match=option):
        SQLiteStore(path, **{option: value})


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreOption, match="no folder"):
        inside(SQLiteStore(tmp_path / "nowhere" / "runs.db"), nothing)
    with pytest.raises(InvalidStoreOption, match="is a folder"):
        inside(SQLiteStore(tmp_path), nothing)


def test_an_open_store_belongs_to_one_loop(path: Path) -> None:
    caught: list[BaseException] = []

    async def act(store: SQLiteStore) -> None:
        def elsewhere() -> None:
            with pytest.raises(WrongLoop) as raised:
                asyncio.run(store.load("r"))
            caught.append(raised.value)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(60)

    inside(SQLiteStore(path), act)

    assert len(caught) == 1


def test_a_store_can_be_opened_on_another_loop_after_it_was_closed(path: Path) -> None:
    store = SQLiteStore(path)
    inside(store, lambda opened: write(opened, first("r")))

    assert inside(store, lambda opened: opened.exists("r"))


def test_a_closed_store_leaves_no_thread_and_no_file_behind(path: Path) -> None:
    threads = set(threading.enumerate())
    filled(path, runs=3)

    for each in set(threading.enumerate()) - threads:
        each.join(60)

    assert [each.name for each in path.parent.iterdir()] == ["runs.db"]


def test_a_store_that_could_not_be_opened_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_text("Dear diary, " * 500)
    threads = set(threading.enumerate())

    with pytest.raises(ForeignStore):
        inside(SQLiteStore(path), nothing)

    for each in set(threading.enumerate()) - threads:
        each.join(60)
    assert [each.name for each in path.parent.iterdir()] == ["runs.db"]


def test_a_used_up_store_says_that_it_is_closed(path: Path) -> None:
    store = SQLiteStore(path)
    inside(store, nothing)

    with pytest.raises(StoreClosed, match="async with"):
        asyncio.run(store.append([Append(run="r", expected=1, count=1, body=b"x", chain=b"h", at=0.0)]))
