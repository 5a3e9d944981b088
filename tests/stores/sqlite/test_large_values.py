"""Large values are written ahead in parts: others have their turn in between, and nothing counts before the append."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from opening import inside, trace

from weft.errors import (
    BrokenChain,
    DamagedRow,
    OwnershipLost,
    RunExists,
    RunNotFound,
    StoreFull,
    StoreUnavailable,
)
from weft.ports.store import Append
from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite import schema
from weft.stores.sqlite.checkup import Checkup, Finding
from weft.stores.sqlite.large_values import LARGE, PART
from weft.testing.contracts.cases import first, more, write

BOUND = 1000
VALUE = os.urandom(3500)  # four parts


def store_at(path: Path, **options: Any) -> SQLiteStore:
    """Return a store that writes more than a thousand bytes ahead, in parts of a thousand."""
    store = SQLiteStore(path, **options)
    store._large = BOUND
    return store


def large(run: str, **given: Any) -> Append:
    return first(run, facts={b"f": VALUE}, **given)


async def on_writer(store: SQLiteStore, work: Callable[[sqlite3.Connection], Any]) -> Any:
    assert store._opened is not None
    return await store._opened.writer.call(work)


async def each_part(store: SQLiteStore, act: Callable[[int], object]) -> None:
    """Have *act* called with the number of every part that is about to be written."""
    seen: list[str] = []

    def trace(statement: str) -> None:
        if statement.lower().startswith("insert into parts"):
            seen.append(statement)
            act(len(seen))

    await on_writer(store, lambda db: db.set_trace_callback(trace))


async def held(store: SQLiteStore, number: int = 2) -> tuple[threading.Event, threading.Event]:
    """Have the writer stop in front of a part; return what says that it did, and what lets it go on."""
    reached, go_on = threading.Event(), threading.Event()

    def act(part: int) -> None:
        if part == number:
            reached.set()
            assert go_on.wait(20)

    await each_part(store, act)
    return reached, go_on


def counted(db: sqlite3.Connection) -> dict[str, int]:
    (values,), (parts,) = (db.execute(f"select count(*) from {name}").fetchone() for name in ("large", "parts"))  # noqa: S608
    return {"large": values, "parts": parts}


def rows_of(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        return counted(db)


async def left(store: SQLiteStore) -> dict[str, int]:
    """Return how many rows are there once nothing is left to be removed."""
    assert store._opened is not None
    while store._opened.writer._needs_cleaning:
        await on_writer(store, counted)
    return await store._opened.writer.call(counted)


NOTHING = {"large": 0, "parts": 0}


# -- what is stored ------------------------------------------------------------------------------


def test_a_large_value_is_stored_in_parts_and_read_as_it_was(path: Path) -> None:
    async def act(store: SQLiteStore) -> Any:
        assert await store.append([large("r"), first("s", facts={b"f": b"small"})]) == [None, None]
        return await store.load_facts("r", [b"f"]), await store.load_facts("s", [b"f"]), await left(store)

    assert inside(store_at(path), act) == ({b"f": VALUE}, {b"f": b"small"}, {"large": 1, "parts": 4})
    with SQLiteView(path) as view:
        assert (dict(view.facts("r")), dict(view.facts("s"))) == ({b"f": VALUE}, {b"f": b"small"})


@pytest.mark.parametrize(("size", "parts"), [(LARGE, 0), (LARGE + 1, LARGE // PART + 1)])
def test_by_default_more_than_a_mebibyte_is_written_in_parts_of_a_quarter(path: Path, size: int, parts: int) -> None:
    value = os.urandom(size)
    inside(SQLiteStore(path), lambda store: store.append([first("r", facts={b"f": value})]))

    assert rows_of(path)["parts"] == parts
    assert inside(SQLiteStore(path), lambda store: store.load_facts("r", [b"f"])) == {b"f": value}


def test_many_values_that_are_much_together_share_transactions(path: Path) -> None:
    facts = {b"%d" % i: bytes([i]) * 100 for i in range(50)}
    commits: list[str] = []

    async def act(store: SQLiteStore) -> Any:
        await trace(store, lambda statement: commits.append(statement) if statement.lower() == "commit" else None)
        assert await store.append([first("r", facts=facts)]) == [None]
        count = len(commits)
        return await store.load_facts("r", list(facts)), count

    assert inside(store_at(path), act) == (facts, 6)  # five of a thousand bytes, and the append


def test_a_value_that_the_run_has_is_not_kept_twice(path: Path) -> None:
    async def act(store: SQLiteStore) -> Any:
        await write(store, large("r"))
        await write(store, more("r", 1, facts={b"f": VALUE}))
        return await store.load_facts("r", [b"f"]), await left(store)

    assert inside(store_at(path), act) == ({b"f": VALUE}, {"large": 1, "parts": 4})


def nth(run: str, position: int, values: list[int]) -> Append:
    """Return the append after *position*, with values of these sizes."""
    body = f"{run}.{position}".encode()
    facts = {b"%d.%d" % (position, number): os.urandom(size) for number, size in enumerate(values)}
    return more(run, position, body, facts=facts) if position else first(run, body, facts=facts)


sizes = st.integers(0, 3) | st.integers(BOUND - 2, BOUND + 2) | st.integers(0, 5 * BOUND)


@settings(max_examples=40)
@given(script=st.lists(st.lists(st.lists(sizes, max_size=3), max_size=4), min_size=1, max_size=4))
def test_what_is_stored_is_what_was_appended_whatever_its_size(script: list[list[list[int]]]) -> None:
    """A list per run, of its appends, of the sizes of their values; the runs write at the same time."""
    appends = [
        [nth(f"r{run}", position, values) for position, values in enumerate(each)] for run, each in enumerate(script)
    ]

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with store_at(Path(folder) / "runs.db", synchronous="normal") as store:
                asked = [store.append([each]) for run in appends for each in run]  # in order, and all at once
                assert await asyncio.gather(*asked) == [[None]] * len(asked)
                for run in filter(None, appends):
                    loaded = await store.load(run[0].run)
                    assert [segment.body for segment in loaded.segments] == [each.body for each in run]
                    facts = {content: body for each in run for content, body in each.facts.items()}
                    assert await store.load_facts(run[0].run, list(facts)) == facts
            checkup = Checkup(store.path, is_quick=True, tell=lambda *_: None)
            assert [each for each in checkup.findings() if "large" in each.where or "parts" in each.where] == []

    asyncio.run(main())


# -- the others ----------------------------------------------------------------------------------


def test_others_have_their_turn_between_two_parts(path: Path) -> None:
    answered: list[str] = []

    async def told(name: str, answer: Awaitable[Any]) -> None:
        await answer
        answered.append(name)

    async def act(store: SQLiteStore) -> None:
        await write(store, first("own"), first("given up"), first("old"))
        reached, go_on = await held(store)
        longer = first("r", facts={b"f": VALUE * 3})  # more parts than there are others
        tasks = [asyncio.ensure_future(told("large", store.append([longer])))]
        await asyncio.to_thread(reached.wait)
        tasks += [
            asyncio.ensure_future(told(name, answer))
            for name, answer in (
                ("next of the same", store.append([more("r", 1)])),
                ("append", store.append([first("s"), more("own", 1)])),
                ("command", store.release(["given up"])),
                ("delete", store.delete("old")),
                ("another large", store.append([large("t")])),
                ("another", store.append([first("u")])),
            )
        ]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*tasks)

    inside(store_at(path), act)

    assert set(answered[:4]) == {"append", "command", "delete", "another"}
    assert answered[4:] == ["large", "next of the same", "another large"]


def test_what_is_about_the_run_or_about_any_waits_and_nothing_passes_that(path: Path) -> None:
    answered: list[str] = []

    async def told(name: str, answer: Awaitable[Any]) -> None:
        await answer
        answered.append(name)

    async def act(store: SQLiteStore) -> None:
        reached, go_on = await held(store)
        tasks = [asyncio.ensure_future(told("large", store.append([large("r")])))]
        await asyncio.to_thread(reached.wait)
        tasks += [
            asyncio.ensure_future(told(name, answer))
            for name, answer in (
                ("release", store.release(["r"])),
                ("purge", store.purge(before=0.0)),
                ("after it", store.append([first("s")])),
                ("delete", store.delete("r")),
            )
        ]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*tasks)
        assert await left(store) == NOTHING

    inside(store_at(path), act)

    assert answered == ["large", "release", "purge", "after it", "delete"]


def test_closing_writes_it_to_the_end(path: Path) -> None:
    async def main() -> Any:
        store = store_at(path)
        await store.open()
        pending = [asyncio.ensure_future(store.append([large(name)])) for name in "rs"]
        await asyncio.sleep(0)
        await store.close()
        return await asyncio.gather(*pending)

    assert asyncio.run(main()) == [[None], [None]]
    assert inside(store_at(path), lambda store: store.load_facts("s", [b"f"])) == {b"f": VALUE}


READ = """
import sys
from weft.errors import RunNotFound
from weft.stores import SQLiteView

with SQLiteView(sys.argv[1]) as view:
    try:
        print(view.find("r").head, {content: len(value) for content, value in view.facts("r").items()})
    except RunNotFound:
        print("nothing")
"""


def test_a_reader_in_another_process_sees_all_of_it_or_nothing(path: Path) -> None:
    said: list[str] = []

    def look(_: int = 0) -> None:
        command = [sys.executable, "-c", READ, str(path)]
        said.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())

    async def act(store: SQLiteStore) -> None:
        await each_part(store, look)
        await write(store, large("r"))
        look()

    inside(store_at(path), act)

    assert said == ["nothing"] * 4 + ["1 {b'f': 3500}"]


def test_the_write_ahead_log_does_not_become_as_long_as_the_value(path: Path) -> None:
    async def act(store: SQLiteStore) -> int:
        await write(store, first("r", facts={b"f": os.urandom(16 << 20)}))
        return path.with_name("runs.db-wal").stat().st_size

    assert inside(SQLiteStore(path), act) < 3 << 20


@pytest.mark.usefixtures("no_pause")
def test_an_append_without_large_values_is_not_asked_more_often(path: Path) -> None:
    statements: list[str] = []

    async def act(store: SQLiteStore) -> None:
        await write(store, first("r"))
        await left(store)
        await trace(store, statements.append)
        await write(store, more("r", 1))
        await write(store, more("r", 2, facts={b"f": b"x" * BOUND}))

    inside(store_at(path), act)

    kinds = [" ".join(statement.split()[:3]).lower() for statement in statements]
    assert kinds[:4] == ["insert into segments", "begin immediate", "insert into segments", "insert into facts"]


# -- what goes wrong -----------------------------------------------------------------------------


def test_what_is_refused_leaves_nothing_behind(path: Path) -> None:
    async def act(store: SQLiteStore) -> Any:
        await write(store, first("r", chain=b"h"))
        batch = [
            replace(more("r", 1, facts={b"f": VALUE}), epoch=7),
            more("r", 1, facts={b"f": VALUE}, previous=b"other"),
            large("r"),
            more("missing", 1, facts={b"f": VALUE}),
            more("r", 1, b"taken", facts={b"g": VALUE}),
        ]
        refused = await store.append(batch)
        return [type(each) for each in refused], await left(store), await store.load_facts("r", [b"g"])

    kinds = [OwnershipLost, BrokenChain, RunExists, RunNotFound, type(None)]
    assert inside(store_at(path), act) == (kinds, {"large": 1, "parts": 4}, {b"g": VALUE})


def test_ownership_that_is_lost_between_two_parts_refuses_the_append(path: Path) -> None:
    def take(statement: str) -> None:
        if statement.lower() == "begin immediate" and rows_of(path)["parts"] == 2:  # the lock is not held yet
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("update runs set epoch = 2")

    async def act(store: SQLiteStore) -> Any:
        await write(store, first("r"))
        await on_writer(store, lambda db: db.set_trace_callback(take))
        (refused,) = await store.append([more("r", 1, facts={b"f": VALUE})])
        return type(refused), await left(store)

    assert inside(store_at(path), act) == (OwnershipLost, NOTHING)


async def is_written_again(store: SQLiteStore, mend: Callable[[], object]) -> None:
    """Check that a failed append leaves nothing, and can be repeated after *mend*."""  # words: allow
    mend()
    await write(store, first("small"))
    assert not await store.exists("r")
    assert await left(store) == NOTHING
    assert await store.append([large("r", again=True)]) == [None]
    assert await store.load_facts("r", [b"f"]) == {b"f": VALUE}
    assert await store.append([large("r", again=True)]) == [None]
    assert await left(store) == {"large": 1, "parts": 4}


def test_a_lock_between_two_parts_is_an_outage(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:

            def trace(statement: str) -> None:
                if statement.lower() == "begin immediate" and rows_of(path)["parts"] == 2:
                    other.execute("begin immediate")

            def mend() -> None:
                other.execute("rollback")
                other.close()

            await on_writer(store, lambda db: db.set_trace_callback(trace))
            with pytest.raises(StoreUnavailable):
                await store.append([large("r")])
            await on_writer(store, lambda db: db.set_trace_callback(None))
            await is_written_again(store, mend)

    inside(store_at(path, busy_timeout=0.0), act)


def test_a_disk_that_is_full_between_two_parts_is_an_outage(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        db = await on_writer(store, lambda db: db)

        def fill(part: int) -> None:
            if part == 3:
                (pages,) = db.execute("pragma page_count").fetchone()
                db.execute(f"pragma max_page_count = {pages}")

        await each_part(store, fill)
        with pytest.raises(StoreFull):
            await store.append([first("r", facts={b"f": VALUE * 9})])
        await on_writer(store, lambda db: db.execute("pragma max_page_count = 1000000").fetchone())
        await is_written_again(store, lambda: None)

    inside(store_at(path), act)


def test_a_file_that_is_moved_away_between_two_parts_is_an_outage(path: Path) -> None:
    aside = path.with_name("elsewhere.db")

    async def act(store: SQLiteStore) -> None:
        await each_part(store, lambda part: path.rename(aside) if part == 2 else None)
        with pytest.raises(StoreUnavailable):
            await store.append([large("r")])
        await is_written_again(store, lambda: aside.rename(path))

    inside(store_at(path), act)


def test_what_another_store_is_writing_is_left_to_it(path: Path) -> None:
    seen: list[dict[str, int]] = []

    def look(statement: str) -> None:
        if statement.lower() == "begin immediate" and rows_of(path)["parts"] == 2:  # the lock is not held yet
            seen.append(inside(store_at(path), left))

    async def act(store: SQLiteStore) -> Any:
        await on_writer(store, lambda db: db.set_trace_callback(look))
        assert await store.append([large("r")]) == [None]
        return await store.load_facts("r", [b"f"])

    assert inside(store_at(path), act) == {b"f": VALUE}
    assert seen == [{"large": 1, "parts": 2}]


# -- what is forgotten ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_purged", [False, True], ids=["deleted", "purged"])
def test_the_parts_of_a_run_that_is_forgotten_are_removed(path: Path, is_purged: bool) -> None:
    async def act(store: SQLiteStore) -> Any:
        await write(store, large("r", status="completed", release=True), large("s"))
        if is_purged:
            assert await store.purge(before=99.0) == 1
        else:
            await store.delete("r")
        return await left(store), await store.load_facts("s", [b"f"])

    assert inside(store_at(path), act) == ({"large": 1, "parts": 4}, {b"f": VALUE})


def test_a_run_that_is_saved_again_keeps_its_values(path: Path) -> None:
    async def act(store: SQLiteStore) -> Any:
        await write(store, large("r"))
        await store.save(await store.find("r"), b"saved")
        return await store.load_facts("r", [b"f"]), await left(store)

    assert inside(store_at(path), act) == ({b"f": VALUE}, {"large": 1, "parts": 4})


def test_what_was_not_removed_is_removed_by_the_next_to_open(path: Path) -> None:
    inside(store_at(path), lambda store: store.append([large("r"), large("s")]))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update large set session = 0 where key = 1")
        db.execute("delete from facts where large = 1")

    assert [(each.where, each.is_damage) for each in findings(path)] == [("large values of no run", False)]
    assert inside(store_at(path), left) == {"large": 1, "parts": 4}
    assert findings(path) == []


# -- the doctor ----------------------------------------------------------------------------------


def findings(path: Path) -> list[Finding]:
    """Return what is found, apart from that these are not logs."""
    found = Checkup(path, is_quick=False, tell=lambda *_: None).findings()
    return [each for each in found if "its log is not what was written" not in each.what]


@contextmanager
def damaged(path: Path, *statements: str) -> Iterator[None]:
    inside(store_at(path), lambda store: store.append([large("r"), large("s")]))
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            assert db.execute(statement).rowcount > 0, statement
    yield


@pytest.mark.parametrize(
    "statement",
    [
        "delete from parts where place = (1 << 32) + 2",
        "delete from parts where place = (1 << 32) + 4",
        "delete from parts where place >> 32 = 1",
        "update parts set place = (1 << 32) + 9 where place = (1 << 32) + 4",
        "update parts set body = substr(body, 2) where place = (1 << 32) + 3",
        "update parts set body = 'text' where place = (1 << 32) + 3",
        "update large set length = length + 1 where key = 1",
        "update large set length = 'long' where key = 1",
        "update facts set large = 77 where large = 1",
        "update facts set large = 'text' where large = 1",
        "delete from large where key = 1",
    ],
)
def test_a_value_whose_parts_are_not_what_was_written_is_damaged(path: Path, statement: str) -> None:
    with damaged(path, statement):
        with pytest.raises(DamagedRow, match="run 'r'"):
            inside(store_at(path), lambda store: store.load_facts("r", [b"f"]))
        with SQLiteView(path) as view, pytest.raises(DamagedRow, match="run 'r'"):
            dict(view.facts("r"))
        assert inside(store_at(path), lambda store: store.load_facts("s", [b"f"])) == {b"f": VALUE}


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("delete from large where key = 1", "parts of no large value"),
        ("insert into parts values (77 << 32, x'00')", "parts of no large value"),
        ("delete from facts where large = 1", "large values of no run"),
    ],
)
def test_parts_that_belong_to_nothing_are_found(path: Path, statement: str, where: str) -> None:
    with damaged(path, statement):
        found = [each for each in findings(path) if each.where == where]

    assert [(each.certainty, each.is_damage) for each in found] == [("likely", True)]


# -- an older file -------------------------------------------------------------------------------


def test_a_file_without_parts_is_read_by_the_doctor_and_brought_up_to_date(
    path: Path,
) -> None:
    older = schema.MIGRATIONS[:2]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for migration in older:
            db.executescript(migration.script)
        db.execute(f"pragma application_id = {schema.APPLICATION_ID}")
        db.execute(f"pragma user_version = {older[-1].version}")
        db.execute("insert into runs values (1, 'r', 'w', '', 'idle', '', x'00', 1, 0.0, 0.0, null)")
        db.execute("insert into facts values (1, x'66', x'0102')")
    shutil.copy(path, path.with_name("older.db"))

    assert findings(path.with_name("older.db")) == []
    assert inside(store_at(path), lambda store: store.load_facts("r", [b"f"])) == {b"f": b"\x01\x02"}
