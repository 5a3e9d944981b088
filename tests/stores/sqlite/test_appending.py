"""A batch of appends: one transaction, few statements, and nothing that one run does to another."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from opening import inside, trace

from weft.errors import BrokenChain, ConcurrentAppend, InvalidAppend, OwnershipLost, RunNotFound, StoreError
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.contracts.cases import first, more, write

MANY = [f"r{i}" for i in range(8)]
"""As many runs as a batch has to have before the store asks whether others have written."""


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


@pytest.mark.parametrize(
    "more_to_say",
    [
        {"reason": "because"},
        {"failures": 1},
        {"dead_letters": 2},
        {"outcome": b"all of it"},
        {"release": True},
        {"release": False},
        {"status": "idle"},
        {"status": "failed", "release": True},
        {"version": "v2"},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", ["running", "completed", None])
def test_what_is_said_of_a_run_is_in_its_record_whether_it_is_the_usual_or_more(
    path: Path, status: Any, more_to_say: dict[str, Any]
) -> None:
    async def act(store: Any) -> list[Any]:
        said = {"status": status, "release": status == "completed"} | more_to_say
        usual: Any = {"status": "completed", "release": True, "outcome": b"out"}
        await write(store, first("new", **said), first("plain", status="running"), first("old", status="running"))
        await write(store, more("plain", 1, **usual), more("old", 1, **said), first("other", **said))
        records = [(await store.load(run)).record for run in ("new", "plain", "old", "other")]
        return [structs.replace(each, owner=each.owner and "a process") for each in records]

    assert inside(SQLiteStore(path), act) == inside(MemoryStore(), act)


@pytest.mark.usefixtures("no_pause")
def test_an_append_is_one_statement_for_many_runs(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        statements: list[str] = []
        names = [f"r{i}" for i in range(64)]
        await write(store, *(first(name) for name in names))
        await trace(store, statements.append)
        await write(store, *(more(name, 1) for name in names))
        return list(statements)

    assert len(inside(SQLiteStore(path), act)) == 4  # begin, have others written, events, commit


@pytest.mark.usefixtures("no_pause")
def test_where_a_log_ends_is_not_looked_up_if_nobody_else_has_written(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        statements: list[str] = []
        await trace(store, statements.append)
        await write(store, *(first(name) for name in MANY))
        await write(store, *(more(name, 1) for name in MANY))
        return [each for each in statements if "segments" in each and "column9" in each]

    assert inside(SQLiteStore(path), act) == []


def _bump_epoch(path: Path) -> None:
    """Take over a run, as another process does."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update runs set epoch = epoch + 1 where id = 'r3'")


def _add_event(path: Path) -> None:
    """Write what this process does not know of, in its epoch."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("insert into segments select max(place) + 1, 1, chain, at, body from segments where place >> 32 = 4")


@pytest.mark.parametrize(
    ("change", "refused"), [(_bump_epoch, OwnershipLost), (_add_event, ConcurrentAppend)], ids=["epoch", "events"]
)
def test_what_another_process_has_changed_is_seen(
    path: Path, change: Callable[[Path], None], refused: type[StoreError]
) -> None:
    async def act(store: SQLiteStore) -> list[StoreError | None]:
        await write(store, *(first(name) for name in MANY))
        await write(store, *(more(name, 1) for name in MANY))
        change(path)
        return list(await store.append([more(name, 2) for name in MANY]))

    results = inside(SQLiteStore(path), act)

    assert [type(each) for each in results] == [refused if name == "r3" else type(None) for name in MANY]


def test_what_this_process_has_done_meanwhile_is_seen(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[type]:
        await write(store, *(first(name) for name in MANY))
        await store.acquire("r1")
        await store.delete("r2")
        results = await store.append([more(name, 1) for name in MANY])
        again = await store.append([more(name, 1, epoch=2) for name in ("r1", *MANY[8:])])
        return [type(each) for each in (*results[:4], *again)]

    found = inside(SQLiteStore(path), act)

    assert found == [type(None), OwnershipLost, RunNotFound, type(None), type(None)]


def test_two_appends_of_a_run_in_a_batch_follow_each_other(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[StoreError | None]:
        await write(store, *(first(name) for name in MANY))
        _bump_epoch(path)  # so that it is not known where the logs end
        others = [name for name in MANY if name != "r3"]
        twice = [each for name in others for each in (more(name, 1, b"b"), more(name, 2, b"c"))]
        return list(await store.append(twice))

    assert inside(SQLiteStore(path), act) == [None] * 14


@pytest.mark.parametrize(("expected", "previous"), [(0, None), (2, None), (1, b"another")])
def test_an_append_that_does_not_follow_is_refused_beside_others(
    path: Path, expected: int, previous: bytes | None
) -> None:
    async def act(store: SQLiteStore) -> list[bool]:
        await write(store, *(first(name) for name in MANY))
        batch = [more(name, 1) for name in MANY]
        batch[5] = more("r5", expected, previous=previous)
        return [each is None for each in await store.append(batch)]

    assert inside(SQLiteStore(path), act) == [name != "r5" for name in MANY]


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


def test_a_run_that_has_finished_is_not_remembered(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[int]:
        assert store._opened is not None
        appender = store._opened.writer._appender
        assert appender is not None
        await write(store, *(first(name) for name in MANY))
        await write(store, *(more(name, 1, status="completed", release=True) for name in MANY))
        await write(store, first("whole", status="completed", release=True))
        return [len(appender._keys), len(appender._ends)]

    assert inside(SQLiteStore(path), act) == [0, 0]


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
