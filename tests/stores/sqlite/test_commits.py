"""The write-ahead log does not keep what it need not, and what is lost of it is noticed."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft.errors import CorruptStore, InvalidAppend, LostCommits
from weft.ports.store import Append, RunRecord
from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite import commits, schema, wal_room
from weft.stores.sqlite import writer as writers
from weft.testing.contracts.cases import bodies, first, more, write

FILES = ("", "-wal", "-commits")
HEADER, FRAME = 32, 24 + 4096


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def crashed(path: Path, to: Path) -> Path:
    """Copy what a crash at this moment would leave; return where."""
    to.mkdir()
    for end in FILES:
        if beside(path, end).exists():
            shutil.copy(beside(path, end), beside(to / path.name, end))
    return to / path.name


def heads(path: Path) -> dict[str, int]:
    """Open the store at *path*; return how far its runs have come."""

    async def main() -> dict[str, int]:
        async with SQLiteStore(path) as store:
            return {record.id: record.head for record in await store.list()}

    return asyncio.run(main())


@pytest.fixture
def left(path: Path, tmp_path: Path) -> Path:
    """The files that a process leaves that was killed after thirty commits to three runs."""

    async def main() -> Path:
        async with SQLiteStore(path) as store:
            await write(store, *(first(run, run.encode(), chain=run.encode()) for run in "abc"))
            for position in range(1, 10):
                for run in "abc":
                    await write(store, more(run, position, b"%d" % position, chain=b"%s%d" % (run.encode(), position)))
            return crashed(path, tmp_path / "left")

    return asyncio.run(main())


def flipped(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x40
    path.write_bytes(content)


# -- what is lost is noticed ---------------------------------------------------------------------

CHILD = """
import asyncio, sys
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, more, write

async def main(path):
    async with SQLiteStore(path) as store:
        await write(store, first("r", chain=b"0"))
        for position in range(1, 1_000_000):
            await write(store, more("r", position, chain=b"%d" % position))
            print(position, flush=True)

asyncio.run(main(sys.argv[1]))
"""


def test_a_damaged_byte_in_the_log_of_a_killed_process_is_noticed(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(40):
            process.stdout.readline()
        process.kill()
    log = beside(path, "-wal")
    flipped(log, HEADER + 10 * FRAME + 500)
    before = {end: beside(path, end).read_bytes() for end in FILES}

    for _ in range(2):
        with pytest.raises(LostCommits, match=r"event \d+ of run 'r' is noted in .*runs.db-commits") as caught:
            heads(path)

    assert isinstance(caught.value, CorruptStore)
    assert {end: beside(path, end).read_bytes() for end in FILES} == before, "nothing is changed that may help"
    Path(caught.value.note).unlink()
    assert 0 < heads(path)["r"] < 40


def test_a_log_that_is_whole_is_not_complained_about(left: Path) -> None:
    assert heads(left) == {"a": 10, "b": 10, "c": 10}


def test_whatever_byte_is_damaged_nothing_is_missing_unnoticed(left: Path, tmp_path: Path) -> None:
    size = beside(left, "-wal").stat().st_size
    dice = random.Random(7)  # noqa: S311 - the same every time
    offsets = [*range(HEADER), *(HEADER + i for i in range(24)), *(dice.randrange(size) for _ in range(40))]

    noticed = 0
    for number, offset in enumerate(offsets):
        copy = crashed(left, tmp_path / f"damaged-{number}")
        flipped(beside(copy, "-wal"), offset)
        try:
            assert heads(copy) == {"a": 10, "b": 10, "c": 10}, offset
        except LostCommits:
            noticed += 1

    assert noticed > 30


@pytest.mark.parametrize("kept", [0, HEADER, HEADER + 5 * FRAME, HEADER + 5 * FRAME + 1000])
def test_a_log_that_was_cut_off_is_noticed(left: Path, kept: int) -> None:
    os.truncate(beside(left, "-wal"), kept)

    with pytest.raises(LostCommits):
        heads(left)


def test_a_log_that_was_removed_is_noticed(left: Path) -> None:
    beside(left, "-wal").unlink()

    with pytest.raises(LostCommits, match="write-ahead log"):
        heads(left)


def test_the_creation_of_a_run_that_is_lost_is_noticed(path: Path, tmp_path: Path) -> None:
    async def main() -> Path:
        async with SQLiteStore(path) as store:
            await write(store, first("a"))
            await write(store, first("b"))
            return crashed(path, tmp_path / "left")

    left = asyncio.run(main())
    beside(left, "-wal").unlink()

    with pytest.raises(LostCommits, match="a run that is not there"):
        heads(left)


def test_an_older_copy_that_was_put_in_place_is_noticed_and_can_be_accepted(left: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    asyncio.run(_opened(older))
    for end in ("", "-wal"):
        beside(left, end).rename(tmp_path / f"kept{end}")
    shutil.copy(tmp_path / "kept", left)

    with pytest.raises(LostCommits, match="an older copy that was put there on purpose") as caught:
        heads(left)

    Path(caught.value.note).unlink()
    assert heads(left) == {}


async def _opened(path: Path) -> None:
    async with SQLiteStore(path):
        pass


# -- no false alarms -------------------------------------------------------------------------------


def test_without_a_note_nothing_is_complained_about(left: Path) -> None:
    beside(left, "-commits").unlink()
    beside(left, "-wal").unlink()

    assert heads(left) == {}


@pytest.mark.parametrize("content", [b"x", b"\0" * 59 + b"x", b"weft c1\n" + b"\xff" * 52, b"weft c1\n" + b"x" * 500])
def test_a_note_that_is_torn_is_a_warning(left: Path, caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    beside(left, "-commits").write_bytes(content)

    with caplog.at_level(logging.WARNING):
        assert heads(left)["a"] == 10

    assert "runs.db-commits cannot be read" in caplog.text


def test_a_note_in_which_nothing_is_noted_yet_is_not_an_alarm(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with SQLiteStore(path), SQLiteStore(path):
            assert not any(beside(path, "-commits").read_bytes())

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())

    assert caplog.text == ""


@pytest.mark.parametrize(
    "removed",
    [
        lambda store: store.delete("r"),
        lambda store: store.purge(before=99.0, statuses=["completed"]),
        lambda store: store.save(RunRecord(id="r", workflow="w", head=1, created_at=1.0, updated_at=1.0), b"x"),
    ],
    ids=["deleted", "purged", "saved anew"],
)
@pytest.mark.parametrize("is_another", [False, True], ids=["by itself", "by another"])
def test_what_was_removed_is_not_missed(
    path: Path, tmp_path: Path, removed: Callable[[SQLiteStore], Any], is_another: bool
) -> None:
    async def main() -> tuple[Path, Path]:
        async with SQLiteStore(path) as store, SQLiteStore(path) as another:
            await write(store, first("kept"))
            await write(store, first("r"), more("r", 1, status="completed", release=True))
            await removed(another if is_another else store)
            at_once = crashed(path, tmp_path / "at once")
            await write(store, more("kept", 1))
            return at_once, crashed(path, tmp_path / "later")

    at_once, later = asyncio.run(main())

    assert heads(at_once)["kept"] == 1
    assert heads(later)["kept"] == 2


def test_what_an_older_weft_has_removed_is_not_missed(path: Path, tmp_path: Path) -> None:
    """It has had the file open since before there was anything to count, and counts nothing."""

    async def main() -> Path:
        async with SQLiteStore(path) as store:
            with closing(sqlite3.connect(path)) as older:
                await write(store, first("kept"))
                await write(store, first("r"), more("r", 1, release=True))
                older.execute("delete from segments where place >= 2 << 32")
                older.execute("delete from runs where id = 'r'")
                older.commit()
            return crashed(path, tmp_path / "left")

    assert heads(asyncio.run(main())) == {"kept": 1}


def test_what_is_lost_after_something_was_removed_is_noticed(path: Path, tmp_path: Path) -> None:
    async def main() -> Path:
        async with SQLiteStore(path) as store:
            await write(store, first("kept"), first("r"))
            await store.delete("r")
            await write(store, more("kept", 1))
            return crashed(path, tmp_path / "left")

    left = asyncio.run(main())
    beside(left, "-wal").unlink()

    with pytest.raises(LostCommits):
        heads(left)


def test_a_removal_by_another_is_learned_of(path: Path, tmp_path: Path) -> None:
    async def main() -> Path:
        async with SQLiteStore(path) as store, SQLiteStore(path) as another:
            await write(store, first("kept"), first("r", release=True))
            await another.delete("r")
            for position in range(1, 100):
                await write(store, more("kept", position))
            return crashed(path, tmp_path / "left")

    left = asyncio.run(main())
    beside(left, "-wal").unlink()

    with pytest.raises(LostCommits):
        heads(left)


@pytest.mark.parametrize("refused", [{"reason": "\udc80", "status": "failed"}, {"facts": {b"h": "\udc80"}}])
@pytest.mark.parametrize("goes_with", [(), (first("s", chain=b"s"),)], ids=["alone", "with another"])
def test_an_append_that_was_refused_is_not_noted(
    path: Path, tmp_path: Path, refused: dict[str, Any], goes_with: tuple[Append, ...]
) -> None:
    async def main() -> Path:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            batch = (*goes_with, more("r", 1, **refused))
            assert isinstance((await store.append(batch))[-1], InvalidAppend)
            return crashed(path, tmp_path / "left")

    left = asyncio.run(main())

    assert heads(left) == {"r": 1, **{each.run: 1 for each in goes_with}}


def test_a_new_store_beside_an_old_note_is_opened(left: Path) -> None:
    for end in ("", "-wal"):
        beside(left, end).unlink()

    assert heads(left) == {}


def test_an_emptied_file_beside_an_old_note_is_a_new_store(left: Path) -> None:
    beside(left, "-wal").unlink()
    os.truncate(left, 0)

    assert heads(left) == {}


def test_a_store_that_was_closed_leaves_no_note(path: Path) -> None:
    async def main() -> bool:
        async with SQLiteStore(path) as store:
            async with SQLiteStore(path) as another:
                await write(another, first("r"))
            await write(store, first("s"))
            return beside(path, "-commits").exists()

    assert asyncio.run(main())
    assert not beside(path, "-commits").exists()


def test_a_note_that_was_removed_is_made_again(path: Path, tmp_path: Path) -> None:
    async def main() -> Path:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            beside(path, "-commits").unlink()
            for position in range(1, 100):
                await write(store, more("r", position))
            return crashed(path, tmp_path / "left")

    noted = commits.read(asyncio.run(main()))

    assert noted is not None
    assert noted.place & 0xFFFFFFFF > 1


def test_commits_that_do_not_wait_for_the_disk_are_not_noted(path: Path) -> None:
    async def main() -> bool:
        async with SQLiteStore(path, synchronous="normal") as store:
            await write(store, first("r"))
            return beside(path, "-commits").exists()

    assert not asyncio.run(main())


def test_where_no_note_can_be_written_commits_go_on(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    beside(path, "-commits").mkdir()

    async def main() -> None:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())

    assert "commits are not noted in" in caplog.text


def test_an_older_schema_gets_an_identity(path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(schema.MIGRATIONS[0].script)
    db.execute(f"pragma application_id = {schema.APPLICATION_ID}")
    db.execute("pragma user_version = 1")
    db.close()

    heads(path)

    with closing(sqlite3.connect(path)) as db:
        told = commits.store_of(db)
    assert told is not None
    assert (len(told[0]), told[1]) == (16, 0)


# -- a quiet store keeps nothing in its log ------------------------------------------------------


async def pause(store: SQLiteStore) -> bool:
    """Let the writer do what it does in a pause, up to its end; return whether the log was emptied."""
    assert store._opened is not None
    writer = store._opened.writer

    def twice(db: sqlite3.Connection) -> bool:
        writer._tidy(db, is_much=False)
        writer._tidy(db, is_much=False)
        return not writer._is_behind

    return await writer.call(twice)


def committed(path: Path) -> list[bytes]:
    """Return what is in the database without its log."""
    alone = path.with_name("alone.db")
    shutil.copy(path, alone)
    with SQLiteView(alone) as view:
        return bodies(view.load("r"))


def test_a_pause_ends_with_an_empty_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def told(db: sqlite3.Connection) -> bool:
        is_done = wal_room.emptied(db)
        done.set()
        return is_done

    async def main() -> bool:
        async with SQLiteStore(path) as store:
            await write(store, first("r", b"a"))
            return await asyncio.to_thread(done.wait, 60)

    monkeypatch.setattr(writers, "emptied", told)
    monkeypatch.setattr(writers, "_QUIET", 0.0)

    assert asyncio.run(main())


@pytest.mark.usefixtures("no_pause")
def test_a_quiet_store_has_everything_in_its_file(path: Path) -> None:
    async def main() -> tuple[bool, list[bytes]]:
        async with SQLiteStore(path) as store:
            await write(store, first("r", b"a"))
            await write(store, more("r", 1, b"b"))
            return await pause(store), committed(path)

    assert asyncio.run(main()) == (True, [b"a", b"b"])


@pytest.mark.usefixtures("no_pause")
def test_after_a_pause_the_log_has_room_again(path: Path) -> None:
    async def main() -> tuple[int, int]:
        async with SQLiteStore(path) as store:
            await write(store, first("r", os.urandom(500_000)))
            assert await pause(store)
            before = beside(path, "-wal").stat().st_size
            await write(store, more("r", 1))
            return before, beside(path, "-wal").stat().st_size

    before, after = asyncio.run(main())

    assert HEADER + 8 * FRAME < before < 1 << 17
    assert after == before


@pytest.mark.usefixtures("no_pause")
def test_a_reader_in_the_way_does_not_stop_commits_and_the_log_is_emptied_after_it(path: Path) -> None:
    async def main() -> tuple[bool, bool, list[bytes]]:
        async with SQLiteStore(path) as store:
            await write(store, first("r", b"a"))
            with closing(sqlite3.connect(path, isolation_level=None)) as reader:
                reader.execute("begin")
                reader.execute("select count(*) from segments").fetchone()
                await write(store, more("r", 1, b"b"))
                in_the_way = await pause(store)
                await write(store, more("r", 2, b"c"))
                reader.execute("rollback")
            return in_the_way, await pause(store), committed(path)

    assert asyncio.run(main()) == (False, True, [b"a", b"b", b"c"])


@pytest.mark.usefixtures("no_pause")
def test_while_another_process_writes_its_log_is_left_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[str] = []

    async def main() -> None:
        async with SQLiteStore(path) as store:
            await write(store, first("r"))
            assert store._opened is not None
            writer = store._opened.writer

            def pause(db: sqlite3.Connection) -> None:
                writer._tidy(db, is_much=False)
                with closing(sqlite3.connect(path)) as another, another:
                    another.execute("update runs set reason = 'why'")
                writer._tidy(db, is_much=False)
                pauses.append("another has written")
                writer._tidy(db, is_much=False)

            await writer.call(pause)

    def told(db: sqlite3.Connection) -> bool:
        pauses.append("emptied")
        return wal_room.emptied(db)

    monkeypatch.setattr(writers, "emptied", told)
    asyncio.run(main())

    assert pauses == ["another has written", "emptied"]
