"""Room in the write-ahead log: the file seldom grows, and what made it long is never part of the database."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from weft.stores import SQLiteStore
from weft.stores.sqlite import wal_room
from weft.stores.sqlite.statements import query
from weft.testing.contracts.cases import first, more, write

COMMITS = 400
FRAME = 24 + 4096


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def lengths(store: SQLiteStore, commits: int, body: bytes = b"x") -> list[int]:
    """Return how long the log is after each of so many lone appends, and what the writer does after it."""
    opened = store._opened
    assert opened is not None
    await write(store, first("r"))
    found: list[int] = []
    for position in range(1, commits + 1):
        await write(store, more("r", position, body))
        found.append(await opened.writer.call(lambda _: log_of(store.path).stat().st_size))
    return found


def lengths_in(path: Path, commits: int, body: bytes = b"x", **options: Any) -> list[int]:
    async def main() -> list[int]:
        async with SQLiteStore(path, **options) as store:
            return await lengths(store, commits, body)

    return asyncio.run(main())


def steps(lengths: list[int]) -> list[int]:
    """Return by how much the file grew, where it did."""
    return [after - before for before, after in pairwise(lengths) if after != before]


def test_few_of_many_small_commits_lengthen_the_file(path: Path) -> None:
    grown = steps(lengths_in(path, COMMITS))

    assert len(grown) <= COMMITS // 5  # without room: all of them


def test_a_file_that_has_room_is_as_long_as_needed_and_a_megabyte_at_most(path: Path) -> None:
    found = lengths_in(path, COMMITS)

    assert COMMITS * FRAME < found[-1] < COMMITS * FRAME + (1 << 20) + (1 << 17)


def test_large_commits_are_left_alone(path: Path) -> None:
    found = lengths_in(path, 24, os.urandom(200_000))

    assert max(steps(found)) < 60 * FRAME  # its own pages, and no more


def test_commits_that_do_not_wait_for_the_disk_are_left_alone(path: Path) -> None:
    found = lengths_in(path, 40, synchronous="normal")

    assert set(steps(found)) == {FRAME}


def test_the_database_holds_nothing_of_it(path: Path) -> None:
    lengths_in(path, COMMITS)

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        assert db.execute("select count(*) from definitions").fetchone() == (0,)
        assert db.execute("pragma freelist_count").fetchone() == (0,)
    assert path.stat().st_size < COMMITS * FRAME


@pytest.mark.parametrize("is_made", [True, False], ids=["when it is made", "while it is made"])
def test_a_crash_loses_nothing(path: Path, tmp_path: Path, is_made: bool) -> None:
    """A crash leaves the two files, as they are at that moment."""
    crashed = tmp_path / "crashed.db"
    length: list[int] = []

    def copy() -> None:
        shutil.copy(path, crashed)
        shutil.copy(log_of(path), log_of(crashed))
        length.append(log_of(crashed).stat().st_size)

    async def main() -> None:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            if is_made:
                wal_room.lengthen(path, 1 << 19)
                await write(store, more("r", 1))
                copy()
            else:
                await write(store, more("r", 1))
                with closing(sqlite3.connect(path, isolation_level=None)) as db:
                    db.execute("pragma cache_size = 10")
                    db.execute("begin immediate")
                    db.execute(query("room"), (1 << 19,))
                    copy()
        async with SQLiteStore(crashed) as store:
            assert [segment.first for segment in (await store.load("r")).segments] == [1, 2]
            await write(store, more("r", 2))

    asyncio.run(main())

    assert length[0] > 100 * FRAME  # far more than two commits
    with closing(sqlite3.connect(crashed)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        assert db.execute("select count(*) from segments").fetchone() == (3,)


def test_none_is_made_while_another_process_writes(path: Path) -> None:
    async def main() -> tuple[int, int]:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("begin immediate")
                before = log_of(path).stat().st_size
                wal_room.lengthen(path, 1 << 19)
                return before, log_of(path).stat().st_size

    before, after = asyncio.run(main())

    assert before == after


def test_a_file_that_is_gone_is_not_made_again(path: Path) -> None:
    wal_room.lengthen(path, 1 << 16)

    assert not path.exists()


def test_a_log_that_was_emptied_gets_room_again(path: Path) -> None:
    async def main() -> list[int]:
        async with SQLiteStore(path) as store:
            await lengths(store, 100)
            await store.checkpoint()
            opened = store._opened
            assert opened is not None
            found: list[int] = []
            for position in range(101, 201):
                await write(store, more("r", position))
                found.append(await opened.writer.call(lambda _: log_of(path).stat().st_size))
            return found

    grown = steps(asyncio.run(main()))

    assert len(grown) <= 40
    assert max(grown) > FRAME
