"""A file that is moved, removed or replaced while a store has it open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from opening import inside

from weft.errors import RunOwned, StoreError, StoreRemoved, StoreUnavailable
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, more, write


def put_aside(path: Path, *, is_replaced: bool) -> Path:
    """Give a file another name; a copy may take its place."""
    aside = path.rename(path.with_name("elsewhere.db"))
    if is_replaced:
        shutil.copy(aside, path)
    return aside


async def is_refused(store: SQLiteStore, kind: type[StoreError], match: str) -> None:
    """See that nothing can be written or read."""
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.append([first("b")]),
        lambda: store.append([more("a", 1)]),
        lambda: store.find("a"),
        lambda: store.acquire("a"),
        store.checkpoint,
    ]
    for call in calls:
        with pytest.raises(kind, match=match) as caught:
            await call()
        assert type(caught.value) is kind


@pytest.mark.parametrize(("is_replaced", "match"), [(False, "is not there"), (True, "another file is in its place")])
def test_a_file_that_was_moved_away_is_unavailable_until_it_is_back(path: Path, is_replaced: bool, match: str) -> None:
    async def act(store: SQLiteStore) -> None:
        await write(store, first("a"))
        aside = put_aside(path, is_replaced=is_replaced)
        before = aside.read_bytes(), path.with_name("runs.db-wal").read_bytes()
        await is_refused(store, StoreUnavailable, match)
        assert (aside.read_bytes(), path.with_name("runs.db-wal").read_bytes()) == before, "nothing was written"

        os.replace(aside, path)  # noqa: PTH105 - in a coroutine, where a path may not be asked
        assert await store.append([more("a", 1), first("b")]) == [None, None], "it is there again"
        assert (await store.find("a")).head == 2

    inside(SQLiteStore(path), act)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_removed_for_good_is_no_longer_written_to(path: Path, is_replaced: bool) -> None:
    async def act(store: SQLiteStore) -> None:
        await write(store, first("a"))
        if is_replaced:
            os.replace(shutil.copy(path, path.with_name("copy.db")), path)  # noqa: PTH105 - as above
        else:
            os.unlink(path)  # noqa: PTH108 - as above
        await is_refused(store, StoreRemoved, "was removed while it was open")

    inside(SQLiteStore(path), act)


def test_a_commit_into_a_file_that_is_moved_away_meanwhile_is_in_doubt(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        await write(store, first("a"))
        assert store._opened is not None
        moved: list[Path] = []

        def move(statement: str) -> None:
            if statement.lower().startswith("insert into segments") and not moved:
                moved.append(put_aside(path, is_replaced=False))

        await store._opened.writer.call(lambda db: db.set_trace_callback(move))
        with pytest.raises(StoreUnavailable, match="is not there"):
            await store.append([more("a", 1)])
        os.replace(moved[0], path)  # noqa: PTH105 - as above
        assert await store.append([more("a", 1, again=True)]) == [None]
        assert (await store.find("a")).head == 2

    inside(SQLiteStore(path), act)


def test_a_file_is_given_up_in_order_while_it_is_moved_away(path: Path) -> None:
    async def act(store: SQLiteStore) -> Path:
        await write(store, first("a"))
        return put_aside(path, is_replaced=False)

    aside = inside(SQLiteStore(path), act)
    aside.rename(path)

    assert inside(SQLiteStore(path), lambda store: store.find("a")).owner is None


def test_a_link_to_a_store_is_that_store(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)

    async def act(store: SQLiteStore) -> None:
        await write(store, first("r"))
        async with SQLiteStore(link) as other:
            with pytest.raises(RunOwned):
                await other.acquire("r")

    inside(SQLiteStore(path), act)
