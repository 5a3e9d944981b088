"""Errors of SQLite and of the file system, as callers of the store see them."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from opening import filled, inside, nothing

from weft.errors import CorruptStore, ReadOnlyStore, StoreError, StoreFull, StoreUnavailable
from weft.stores import SQLiteStore, SQLiteView
from weft.testing.contracts.cases import first, more, write


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


def test_a_mistake_of_the_caller_is_not_told_as_damage(path: Path) -> None:
    filled(path)

    with pytest.raises(StoreError, match="nothing is damaged") as raised:
        inside(SQLiteStore(path), lambda store: store.compact(object()))

    assert not isinstance(raised.value, CorruptStore)
