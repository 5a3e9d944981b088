"""Old segments in fewer rows: what is read is the same, and nothing waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from weft import Runner, Workflow, step
from weft.errors import DamagedRow, RunNotFound
from weft.ports.store import Message, StoredSnapshot
from weft.ports.streams import Chunk
from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite import packs
from weft.stores.sqlite.checkup import Checkup
from weft.testing.contracts.cases import again, first, more, opened, write


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    return SQLiteStore(tmp_path / "runs.db", synchronous="normal")


def count_rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"select count(*) from {table}").fetchone()[0])  # noqa: S608


async def fill(store: SQLiteStore, count: int, run: str = "r", since: int = 0, size: int = 30) -> None:
    """Append *count* segments to a run, of one to three events each."""
    if not since:
        await write(store, first(run, b"0" * size))
    head = (await store.find(run)).head
    for number in range(since + (not since), since + count):
        events = 1 + number % 3
        await write(store, more(run, head, f"{number}".encode() * size, count=events, at=float(number)))
        head += events


class TestCompaction:
    @opened
    async def test_what_is_read_is_the_same_before_and_after(self, store: SQLiteStore) -> None:
        await fill(store, 200)
        await fill(store, 5, "other")
        before = await store.load("r")
        parts = [(since, await store.load_since("r", since)) for since in range(0, before.record.head + 1, 7)]
        between = [(at, await store.load_between("r", at, at + 20)) for at in range(1, before.record.head, 7)]

        moved = await store.compact("r")

        assert moved == 200 - packs.KEPT
        assert count_rows(store.path, "segments") == packs.KEPT + 5
        assert 0 < count_rows(store.path, "packs") < 10
        assert await store.load("r") == before
        assert await store.load_many(["r"]) == {"r": before}
        assert [(since, await store.load_since("r", since)) for since, _ in parts] == parts
        assert [(at, await store.load_between("r", at, at + 20)) for at, _ in between] == between

    @opened
    async def test_a_run_goes_on_and_is_compacted_again(self, store: SQLiteStore) -> None:
        await fill(store, 100)
        await store.compact("r")
        await fill(store, 100, since=100)
        before = await store.load("r")

        assert await store.compact("r") == 100
        assert await store.compact("r") == 0

        assert await store.load("r") == before
        assert count_rows(store.path, "packs") == 1, "the last pack had room"

    @opened
    async def test_a_transaction_moves_a_bounded_number(
        self, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(packs, "MOVED_AT_ONCE", 20)
        await fill(store, 200)
        before = await store.load("r")
        seen: list[int] = []

        def noting(db: sqlite3.Connection, whose: str, key: int) -> tuple[int, bool]:
            moved = real(db, whose, key)
            seen.append(moved[0])
            return moved

        real = packs.move_some
        monkeypatch.setattr(packs, "move_some", noting)

        assert await store.compact("r") == sum(seen) > 150

        assert max(seen) == 20
        assert await store.load("r") == before

    @opened
    async def test_a_short_run_is_left_alone(self, store: SQLiteStore) -> None:
        await fill(store, 20)

        assert await store.compact("r") == 0
        with pytest.raises(RunNotFound):
            await store.compact("nope")

    @opened
    async def test_an_append_whose_answer_was_lost_is_found_in_a_pack(self, store: SQLiteStore) -> None:
        await fill(store, 100)
        old = more("r", 1, b"1" * 30, count=2, at=1.0)
        await store.compact("r")

        assert list(await store.append([again(old)])) == [None]
        refused = (await store.append([again(replace(old, body=b"another"))]))[0]
        assert refused is not None

    @opened
    async def test_a_compacted_log_is_truncated(self, store: SQLiteStore) -> None:
        await fill(store, 200)
        whole = await store.load("r")
        await store.compact("r")
        await store.save_snapshot("r", StoredSnapshot(whole.record.head, b"all"), epoch=1)
        cut = whole.segments[150]

        await store.truncate_before("r", cut.first, link=b"link", expected=whole.record.head, epoch=1)

        assert list((await store.load("r")).segments) == list(whole.segments[150:])
        last = whole.segments[-1]
        await store.truncate_before("r", last.first, link=b"link", expected=whole.record.head, epoch=1)
        assert list((await store.load("r")).segments) == [last]
        assert (count_rows(store.path, "packs"), count_rows(store.path, "segments")) == (0, 1)

    @opened
    async def test_a_compacted_run_is_deleted_as_a_whole_and_no_commit_is_missed(self, store: SQLiteStore) -> None:
        await fill(store, 100)
        await store.compact("r")
        await store.delete("r")
        await store.close()

        assert [count_rows(store.path, table) for table in ("packs", "segments", "runs")] == [0, 0, 0]
        await store.open()

    def test_a_commit_that_was_noted_and_moved_is_not_missed(self, tmp_path: Path) -> None:
        path = tmp_path / "runs.db"

        async def crashed() -> None:
            store = SQLiteStore(path)
            await store.open()
            await fill(store, 100)
            note = (tmp_path / "runs.db-commits").read_bytes()
            await fill(store, 100, since=100)
            await store.compact("r")
            await store.close()
            (tmp_path / "runs.db-commits").write_bytes(note)  # as of a process that was killed before
            await store.open()
            await store.close()

        asyncio.run(crashed())

    def test_a_pack_that_was_altered_is_found(self, tmp_path: Path) -> None:
        path = tmp_path / "runs.db"

        async def compacted() -> None:
            async with SQLiteStore(path) as store:
                await fill(store, 100)
                await store.compact("r")

        asyncio.run(compacted())
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("update packs set body = substr(body, 1, length(body) - 9)")

        with SQLiteView(path) as view, pytest.raises(DamagedRow, match=r"packs\.body"):
            view.load("r")

    def test_a_run_of_a_runner_is_compacted_checked_and_resumed(self, tmp_path: Path) -> None:
        path = tmp_path / "runs.db"
        add = step(lambda x: x + 1, name="add")
        with Runner(path, executor="inline") as runner:
            runner.start(Workflow("w", add), id="r")
            for number in range(100):
                runner.send("r", number).result()
            log = runner.log("r")
            assert runner.compact("r") > 50
            runner.send("r", 100).result()

        with Runner(path, executor="inline") as runner:
            assert runner.log("r")[: len(log)] == log
            assert runner.resume("r", workflow=Workflow("w", add)).wait().values("add") == [
                number + 1 for number in range(101)
            ]
        checkup = Checkup(path, is_quick=False, tell=lambda *_: None)
        assert list(checkup.findings()) == []
        assert checkup.events > 200
        with SQLiteView(path) as view:
            assert sum(each.count for each in view.times("r")) == view.find("r").head


class TestRetention:
    """CONFORMANCE 97, of what a run leaves behind: nothing."""

    @pytest.fixture
    def store(self, store: SQLiteStore) -> SQLiteStore:
        store._large = 8  # values of more bytes are in parts
        return store

    @pytest.mark.parametrize("way", ["delete", "purge"])
    @opened
    async def test_everything_goes_with_a_run(self, store: SQLiteStore, way: str) -> None:
        empty = {table: count_rows(store.path, table) for table in TABLES}
        await fill(store, 100)
        head = (await store.find("r")).head
        large = more("r", head, b"v", facts={b"1": b"one", b"2": b"a large value" * 10}, wake_at=5.0, snapshot=b"s")
        await write(store, large)
        await write(store, first("old"), first("new", continues="old"))
        await store.compact("r")
        await store.truncate_before("r", 4, link=b"l", expected=head + 1, epoch=1)
        await store.post([Message(run="r", kind="signal", body=b"m", at=1.0)] * 3)
        await store.write_chunks(
            [Chunk(run="r", stream="s", items=(b"x",), component="c", attempt=1, execution="e", at=1.0)]
        )
        await store.save_progress("r", b"half")
        filled = {table for table in TABLES if count_rows(store.path, table) > empty[table]}
        assert filled == set(TABLES), "each of them has rows of the run"

        if way == "delete":
            for run in ("r", "old", "new"):
                await store.delete(run)
        else:
            ends = [more("r", head + 1, status="completed", release=True)]
            ends += [more(run, 1, status="completed", release=True) for run in ("old", "new")]
            await write(store, *ends)
            assert await store.purge(before=1e9) == 3
        await store.checkpoint()  # what is done when the writer is idle comes before

        await asyncio.to_thread(lambda: None)
        for _ in range(200):  # large values are removed in slices, when there is nothing else to do
            if not count_rows(store.path, "parts"):
                break
            await store.exists("r")
        assert {table: count_rows(store.path, table) for table in TABLES} == empty


TABLES = (
    *("runs", "segments", "packs", "truncations", "facts", "large", "parts", "snapshots", "inbox", "mail", "wakes"),
    *("successors", "chunks", "progress"),
)


@given(st.lists(st.tuples(st.sampled_from(["append", "compact"]), st.integers(1, 60)), max_size=6))
def test_compaction_at_any_time_changes_nothing(tmp_path_factory: Any, acts: list[tuple[str, int]]) -> None:
    path = tmp_path_factory.mktemp("packs") / "runs.db"

    async def act() -> None:
        async with SQLiteStore(path, synchronous="normal") as store:
            await write(store, first("r"))
            model = [b"1"]
            for what, count in acts:
                if what == "compact":
                    await store.compact("r")
                    continue
                batch = [more("r", len(model) + n, f"{len(model) + n}".encode() * 40) for n in range(count)]
                await write(store, *batch)
                model += [each.body for each in batch]
                assert [each.body for each in (await store.load("r")).segments] == model
            assert [each.body for each in (await store.load("r")).segments] == model

    asyncio.run(act())
