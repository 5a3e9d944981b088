"""The SQLite store against the contract, and what only a file can do."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from weft.errors import (
    BrokenChain,
    CorruptStore,
    ForeignStore,
    InvalidAppend,
    InvalidStoreOption,
    NewerStore,
    ReadOnlyStore,
    RunOwned,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreRemoved,
    StoreUnavailable,
    WrongLoop,
)
from weft.ports.store import Append
from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite import schema
from weft.testing import (
    FactStoreContract,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    SharedStoreContract,
)
from weft.testing.contracts.cases import first, more, write


class TestSQLiteStore(
    LogStoreContract, FactStoreContract, OwnedStoreContract, ListableStoreContract, SharedStoreContract
):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "runs.db")

    @pytest.fixture
    def another(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(str(tmp_path / "runs.db"))


class TestSQLiteStoreInParts(TestSQLiteStore):
    """Every value is written ahead of its append, byte by byte."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> SQLiteStore:
        return in_parts(tmp_path / "runs.db")

    @pytest.fixture
    def another(self, tmp_path: Path) -> SQLiteStore:
        return in_parts(tmp_path / "runs.db")


def in_parts(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    store._large = 0
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def inside(store: SQLiteStore, act: Callable[[SQLiteStore], Awaitable[Any]]) -> Any:
    """Do something to an open store."""

    async def main() -> Any:
        async with store:
            return await act(store)

    return asyncio.run(main())


async def nothing(_: SQLiteStore) -> None:
    """Only open and close."""


def filled(path: Path, runs: int = 50) -> None:
    """Make a store with something in it."""
    inside(SQLiteStore(path), lambda store: store.append([first(f"r{i}", b"x" * 500) for i in range(runs)]))


# -- the file ------------------------------------------------------------------------------------


def test_a_new_file_has_the_latest_schema_and_says_whose_it_is(path: Path) -> None:
    inside(SQLiteStore(path), nothing)

    db = sqlite3.connect(path)
    assert db.execute("pragma application_id").fetchone() == (schema.APPLICATION_ID,)
    assert db.execute("pragma user_version").fetchone() == (schema.VERSION,)
    assert db.execute("pragma journal_mode").fetchone() == ("wal",)
    db.close()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()

    inside(SQLiteStore(path), lambda store: write(store, first("r")))

    assert inside(SQLiteStore(path), lambda store: store.exists("r"))


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = schema.MIGRATIONS[0]._replace(script="create table half (x); create nonsense;")
    monkeypatch.setattr(schema, "MIGRATIONS", [broken])

    with pytest.raises(StoreError):
        inside(SQLiteStore(path), nothing)

    db = sqlite3.connect(path)
    assert db.execute("select count(*) from sqlite_master").fetchone() == (0,)
    db.close()


def test_an_older_file_is_brought_up_to_date_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, runs=3)
    newer = schema.MIGRATIONS[-1]._replace(version=schema.VERSION + 1, script="create table later (x);")
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, newer])
    monkeypatch.setattr(schema, "VERSION", newer.version)

    for _ in range(2):
        assert inside(SQLiteStore(path), lambda store: store.exists("r2"))

    db = sqlite3.connect(path)
    assert db.execute("pragma user_version").fetchone() == (newer.version,)
    assert db.execute("select count(*) from later").fetchone() == (0,)
    db.close()


def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    filled(path, runs=1)
    db = sqlite3.connect(path)
    db.execute(f"pragma user_version = {schema.VERSION + 1}")
    db.close()

    with pytest.raises(NewerStore, match="upgrade Weft") as caught:
        inside(SQLiteStore(path), nothing)

    assert (caught.value.found, caught.value.known) == (schema.VERSION + 1, schema.VERSION)


def test_the_database_of_another_application_is_left_alone(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("create table precious (x)")
    db.close()
    before = path.read_bytes()

    with pytest.raises(ForeignStore):
        inside(SQLiteStore(path), nothing)

    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("Dear diary, " * 500)

    with pytest.raises(ForeignStore):
        inside(SQLiteStore(path), nothing)

    assert path.read_text() == "Dear diary, " * 500


def test_a_damaged_page_is_reported_by_what_reads_it(path: Path) -> None:
    filled(path)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(CorruptStore, match="restore"):
        inside(SQLiteStore(path), lambda store: store.load("r7"))


@pytest.mark.parametrize("looks", [False, True], ids=["store", "view"])
def test_a_schema_whose_text_is_damaged_is_reported(path: Path, looks: bool) -> None:
    filled(path, runs=1)
    content = bytearray(path.read_bytes())
    content[content.index(b"tablesessionssessions") + 5] = 0xFF  # the name, which SQLite quotes in what it says
    path.write_bytes(content)

    with pytest.raises(CorruptStore, match="damaged"):
        SQLiteView(path) if looks else inside(SQLiteStore(path), nothing)


def test_a_schema_that_is_damaged_under_an_open_store_is_reported(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        await write(store, first("r"))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("pragma writable_schema = on")
            db.execute(
                "update sqlite_schema set name = cast(x'ff' as text), sql = 'create nothing' where name = 'facts'"
            )
            (cookie,) = db.execute("pragma schema_version").fetchone()
            db.execute(f"pragma schema_version = {cookie + 1}")
        calls = [
            lambda: store.load("r"),
            lambda: store.append([more("r", 1)]),
            lambda: store.append([first("s"), more("r", 1)]),
        ]
        for call in calls:
            with pytest.raises(CorruptStore, match="damaged"):
                await call()

    with suppress(CorruptStore):  # closing needs the schema too
        inside(SQLiteStore(path), act)


def test_a_file_that_was_cut_off_is_reported(path: Path) -> None:
    filled(path)
    os.truncate(path, path.stat().st_size // 2)

    with pytest.raises(CorruptStore):
        inside(SQLiteStore(path), lambda store: asyncio.gather(*(store.load(f"r{i}") for i in range(50))))


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


@pytest.mark.parametrize("wrong", ["", ":memory:", "file:x?mode=memory"])
def test_a_path_that_is_no_file_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidStoreOption, match="MemoryStore"):
        SQLiteStore(wrong)


@pytest.mark.parametrize(("option", "value"), [("synchronous", "off"), ("busy_timeout", -1.0)])
def test_an_option_that_makes_no_sense_is_refused(path: Path, option: str, value: Any) -> None:
    with pytest.raises(InvalidStoreOption, match=option):
        SQLiteStore(path, **{option: value})


@pytest.mark.parametrize(("option", "level"), [("normal", 1), ("full", 2), ("extra", 3)])
def test_the_writer_syncs_as_it_was_told(path: Path, option: Any, level: int) -> None:
    async def asked(store: SQLiteStore) -> Any:
        assert store._opened is not None
        return await store._opened.writer.call(lambda db: db.execute("pragma synchronous").fetchone())

    assert inside(SQLiteStore(path, synchronous=option), asked) == (level,)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreOption, match="no folder"):
        inside(SQLiteStore(tmp_path / "nowhere" / "runs.db"), nothing)
    with pytest.raises(InvalidStoreOption, match="is a folder"):
        inside(SQLiteStore(tmp_path), nothing)


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Return a folder, in a test that is not run as root: to root nothing is read-only."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    if os.getuid() == 0:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("is_folder_writable", [True, False])
def test_a_file_that_cannot_be_written_is_reported(unprivileged: Path, is_folder_writable: bool) -> None:
    path = unprivileged / "runs.db"
    filled(path, runs=1)
    path.chmod(0o444)
    unprivileged.chmod(0o777 if is_folder_writable else 0o555)
    if os.getuid() == 0:
        os.seteuid(65534)

    with pytest.raises(ReadOnlyStore, match="write access"):
        inside(SQLiteStore(path), nothing)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with room for a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        os.getuid()
        or not mount
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run([shutil.which("umount") or "umount", folder], check=True)


def test_a_full_file_system_is_reported_and_nothing_is_written(small: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[bool, bool]:
        await write(store, first("kept"))
        with pytest.raises(StoreFull, match="free some on its disk"):
            await store.append([first("small"), first("large", os.urandom(2_000_000))])
        small = await store.exists("small")
        await write(store, more("kept", 1))
        return small, await store.exists("kept")

    assert inside(SQLiteStore(small / "runs.db"), act) == (False, True)


def test_on_a_full_disk_a_purge_has_no_space_either_and_works_once_there_is_some(small: Path) -> None:
    other = small / "other"

    async def act(store: SQLiteStore) -> int:
        await write(store, *(first(f"r{i}", os.urandom(3_000), status="completed", release=True) for i in range(50)))
        await store.checkpoint()
        with other.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        with pytest.raises(StoreFull, match="purging finished runs needs space too"):
            await store.purge(before=99.0)
        other.unlink()
        return await store.purge(before=99.0)

    assert inside(SQLiteStore(small / "runs.db"), act) == 50


def test_a_file_that_may_not_grow_is_reported_and_goes_on_when_it_may(path: Path) -> None:
    async def limit(store: SQLiteStore, pages: int) -> None:
        assert store._opened is not None
        await store._opened.writer.call(lambda db: db.execute(f"pragma max_page_count = {pages}").fetchone())

    async def act(store: SQLiteStore) -> list[bool]:
        await write(store, first("a"))
        await limit(store, 30)
        with pytest.raises(StoreFull):
            await store.append([first("b"), first("c", b"x" * 500_000, definitions={b"d": b"D"})])
        await limit(store, 1_000_000)
        await write(store, first("c", b"x" * 500_000, definitions={b"d": b"D"}))
        assert await store.load_definitions([b"d"]) == {b"d": b"D"}
        return [await store.exists(run) for run in "abc"]

    assert inside(SQLiteStore(path), act) == [True, False, True]


def test_a_failing_disk_is_a_reason_to_try_again(path: Path) -> None:
    """The limit on the size of files makes every write beyond it fail, as a bad disk does."""

    async def act(store: SQLiteStore) -> list[bool]:
        await write(store, first("a"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            with pytest.raises(StoreUnavailable):
                await store.append([first("b", b"x" * 1_000_000)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await write(store, first("b", b"x" * 1_000_000, again=True))
        return [await store.exists(run) for run in "ab"]

    assert inside(SQLiteStore(path), act) == [True, True]


def test_a_database_that_stays_locked_is_a_reason_to_try_again(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.append([first("r")])
        db.execute("rollback")
        db.close()
        await write(store, first("r"))

    inside(SQLiteStore(path, busy_timeout=0.0), act)


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


# -- the loop and the threads --------------------------------------------------------------------


def test_an_open_store_belongs_to_one_loop(path: Path) -> None:
    caught: list[BaseException] = []

    async def act(store: SQLiteStore) -> None:
        def elsewhere() -> None:
            with pytest.raises(WrongLoop) as raised:
                asyncio.run(store.load("r"))
            caught.append(raised.value)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    inside(SQLiteStore(path), act)

    assert len(caught) == 1


def test_a_store_can_be_opened_on_another_loop_after_it_was_closed(path: Path) -> None:
    store = SQLiteStore(path)
    inside(store, lambda opened: write(opened, first("r")))

    assert inside(store, lambda opened: opened.exists("r"))


def test_closing_writes_what_was_handed_over(path: Path) -> None:
    async def main() -> list[Any]:
        store = SQLiteStore(path)
        await store.open()
        pending = [asyncio.ensure_future(store.append([first(f"r{i}")])) for i in range(20)]
        await asyncio.sleep(0)
        await store.close()
        return await asyncio.gather(*pending)

    assert asyncio.run(main()) == [[None]] * 20
    assert len(inside(SQLiteStore(path), lambda store: store.list())) == 20


def test_a_closed_store_leaves_no_thread_and_no_file_behind(path: Path) -> None:
    threads = set(threading.enumerate())
    filled(path, runs=3)

    for each in set(threading.enumerate()) - threads:
        each.join()

    assert [each.name for each in path.parent.iterdir()] == ["runs.db"]


def test_a_store_that_could_not_be_opened_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_text("Dear diary, " * 500)
    threads = set(threading.enumerate())

    with pytest.raises(ForeignStore):
        inside(SQLiteStore(path), nothing)

    for each in set(threading.enumerate()) - threads:
        each.join()
    assert [each.name for each in path.parent.iterdir()] == ["runs.db"]


def test_what_waits_is_committed_together(path: Path) -> None:
    """A hundred tasks that append at once need few transactions."""

    async def act(store: SQLiteStore) -> int:
        assert store._opened is not None
        commits: list[str] = []
        trace = lambda statement: commits.append(statement) if statement.lower() == "commit" else None  # noqa: E731
        writer, all_wait = store._opened.writer, threading.Event()
        await writer.call(lambda db: db.set_trace_callback(trace))
        busy = writer.call(lambda _: all_wait.wait())
        appending = [asyncio.ensure_future(store.append([first(f"r{i}")])) for i in range(100)]
        await asyncio.sleep(0)  # each of them hands its append over
        all_wait.set()
        await asyncio.gather(busy, *appending)
        return len(commits)

    assert inside(SQLiteStore(path), act) == 1


def test_an_append_is_one_statement_for_many_runs(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        assert store._opened is not None
        statements: list[str] = []
        names = [f"r{i}" for i in range(64)]
        await write(store, *(first(name) for name in names))
        await store._opened.writer.call(lambda db: db.set_trace_callback(statements.append))
        await write(store, *(more(name, 1) for name in names))
        return list(statements)

    assert len(inside(SQLiteStore(path), act)) == 3  # begin, events, commit


@pytest.mark.parametrize(
    ("workflow", "index"), [(None, "runs_by_status (status=?"), ("orders", "runs_by_workflow (workflow=? AND status=?")]
)
def test_pages_and_counts_are_found_by_an_index_and_in_order(path: Path, workflow: str | None, index: str) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        assert store._opened is not None
        await write(store, first("r", status="idle"), first("s", status="idle"))
        statements: list[str] = []
        await store._opened.reader.call(lambda db: db.set_trace_callback(statements.append))
        (record,) = await store.list(statuses=["idle"], workflow=workflow, limit=1)
        assert len(await store.list(statuses=["idle"], workflow=workflow, after=record)) == 1
        assert await store.count(statuses=["idle"], workflow=workflow) == 2
        return [each for each in statements if "select" in each]

    asked = inside(SQLiteStore(path), act)

    assert len(asked) == 3
    with closing(sqlite3.connect(path)) as db:
        for sql in asked:
            plan = [row[3] for row in db.execute(f"explain query plan {sql}")]
            assert any(index in each for each in plan), plan
            assert not any(each.startswith("SCAN") or "TEMP B-TREE" in each for each in plan), plan


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


def test_a_lone_append_is_one_statement_and_dirties_one_page(path: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[list[str], int]:
        assert store._opened is not None
        statements: list[str] = []
        await write(store, first("r"))
        await write(store, more("r", 1))
        await store.checkpoint()
        await store._opened.writer.call(lambda db: db.set_trace_callback(statements.append))
        await write(store, more("r", 2))
        return list(statements), path.with_name("runs.db-wal").stat().st_size

    statements, size = inside(SQLiteStore(path), act)

    assert len(statements) == 1
    assert size == 32 + 24 + 4096  # the header of the log, the header of a frame, and a page


def test_a_checkpoint_empties_the_write_ahead_log(path: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[int, int]:
        await write(store, *(first(f"r{i}") for i in range(100)))
        log = path.with_name("runs.db-wal")
        before = log.stat().st_size
        await store.checkpoint()
        return before, log.stat().st_size

    before, after = inside(SQLiteStore(path), act)

    assert before > 0
    assert after == 0


def test_an_idle_writer_makes_a_checkpoint_by_itself(path: Path) -> None:
    seen = threading.Event()

    def trace(statement: str) -> None:
        if "wal_checkpoint" in statement:
            seen.set()

    async def act(store: SQLiteStore) -> bool:
        assert store._opened is not None
        await store._opened.writer.call(lambda db: db.set_trace_callback(trace))
        await write(store, *(first(f"r{i}") for i in range(1000)))
        return await asyncio.to_thread(seen.wait, 60)

    assert inside(SQLiteStore(path), act)


def test_a_store_that_nobody_closed_says_so_and_frees_its_runs(path: Path) -> None:
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


def test_a_link_to_a_store_is_that_store(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)

    async def act(store: SQLiteStore) -> None:
        await write(store, first("r"))
        async with SQLiteStore(link) as other:
            with pytest.raises(RunOwned):
                await other.acquire("r")

    inside(SQLiteStore(path), act)


# -- processes -----------------------------------------------------------------------------------

CHILD = """
import asyncio, os, sys, time
from msgspec.structs import replace
from weft.errors import StoreUnavailable
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, more

async def main(path, name):
    store = SQLiteStore(path)
    await store.open()
    await store.append([first(name)])
    print(1, flush=True)
    for position in range(1, 100_000):
        append = more(name, position, b"%d" % position)
        while True:
            try:
                (refused,) = await store.append([append])
                break
            except StoreUnavailable:  # the others write without a pause, and SQLite does not queue
                append = replace(append, again=True)
        assert refused is None, refused
        print(position + 1, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def child(path: Path, name: str) -> subprocess.Popen[str]:
    """Start a process that appends for ever, and says how far it was told it is."""
    return subprocess.Popen([sys.executable, "-c", CHILD, str(path), name], stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str], lines: int) -> int:
    assert process.stdout is not None
    last = 0
    for _ in range(lines):
        last = int(process.stdout.readline())
    return last


def killed(process: subprocess.Popen[str]) -> int:
    """Kill it; return the last position that it was told is durable."""
    process.kill()
    assert process.stdout is not None
    rest = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    return int(rest[-1]) if rest else 0


def test_a_killed_process_frees_its_runs_at_once_and_loses_nothing_it_was_told(path: Path) -> None:
    process = child(path, "r")
    told = said(process, 20)
    with pytest.raises(StoreError, match=f"process {process.pid} on"):
        inside(SQLiteStore(path), lambda store: store.acquire("r"))

    told = max(told, killed(process))
    record = inside(SQLiteStore(path), lambda store: store.acquire("r"))

    assert record.epoch == 2
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


def test_processes_that_open_a_new_file_at_once_make_it_once(path: Path) -> None:
    processes = [child(path, f"r{i}") for i in range(4)]

    reached = [said(each, 1) for each in processes]
    for each in processes:
        killed(each)

    assert reached == [1, 1, 1, 1]
    assert len(inside(SQLiteStore(path), lambda store: store.list())) == 4


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


def test_a_program_that_was_started_does_not_free_the_runs_of_who_started_it(path: Path) -> None:
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


def test_a_used_up_store_says_that_it_is_closed(path: Path) -> None:
    store = SQLiteStore(path)
    inside(store, nothing)

    with pytest.raises(StoreClosed, match="async with"):
        asyncio.run(store.append([Append(run="r", expected=1, count=1, body=b"x", chain=b"h", at=0.0)]))


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
