"""A look at a SQLite file changes nothing in it, and disturbs no other process."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opening import filled, inside

from weft.errors import CorruptStore, ForeignStore, InvalidStoreOption, NewerStore, RunNotFound, StoreNotFound
from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite import reading, schema
from weft.stores.sqlite.view import Written
from weft.testing.contracts.cases import first, more, write


@pytest.fixture
def child(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has written the run 'r' and holds it."""
    program = (
        "import asyncio, sys\n"
        "from weft.stores import SQLiteStore\n"
        "from weft.testing.contracts.cases import first, write\n"
        "async def main():\n"
        "    async with SQLiteStore(sys.argv[1]) as store:\n"
        "        await write(store, first('r'))\n"
        "        print('held', flush=True)\n"
        "        sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.stdin.close()
    process.stdout.close()
    process.wait(20)


def test_what_was_written_is_seen(path: Path) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r", b"one"), more("r", 1, b"two")))

    with SQLiteView(path) as view:
        [record] = view.list()
        assert (view.count(), view.count(statuses=["idle"], workflow="nope")) == (1, 0)
        loaded = view.load("r")

    assert (record.id, record.head) == ("r", 2)
    assert [segment.body for segment in loaded.segments] == [b"one", b"two"]


def test_it_is_known_when_events_were_written(path: Path) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r", b"one"), more("r", 1, b"two")))

    with SQLiteView(path) as view:
        times = view.times("r")

    assert times == [Written(1, 1, 1.0), Written(2, 1, 2.0)]


def test_definitions_and_facts_are_read_when_they_are_asked_for(path: Path) -> None:
    async def act(store: SQLiteStore) -> None:
        await write(store, first("r"))
        await store.save_facts("r", {b"large": b"value"})

    inside(SQLiteStore(path), act)

    with SQLiteView(path) as view:
        facts = view.facts("r")
        assert facts[b"large"] == b"value"
        assert facts.get(b"other") is None
        assert dict(facts) == {b"large": b"value"}
        assert view.facts("another").get(b"large") is None
        assert view.definitions().get(b"large") is None


def test_a_run_that_is_not_there_is_said_so(path: Path) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r")))

    with SQLiteView(path) as view, pytest.raises(RunNotFound, match="'s'"):
        view.load("s")


def test_a_run_that_is_created_while_it_is_looked_for_is_not_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r")))
    load = reading.load

    def too_early(db: sqlite3.Connection, run: str, position: int) -> Any:
        try:
            return load(db, run, position)
        finally:
            inside(SQLiteStore(path), lambda store: write(store, first(run)))

    monkeypatch.setattr(reading, "load", too_early)

    with SQLiteView(path) as view, pytest.raises(RunNotFound, match="'s'"):
        view.load("s")


def test_looking_makes_no_owner_and_writes_nothing(path: Path) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r")))
    before = path.read_bytes()

    with SQLiteView(path) as view:
        view.list()
        view.owners()
        beside = sorted(each.name for each in path.parent.iterdir() if "-owner-" in each.name)

    assert beside == []
    assert path.read_bytes() == before


def test_the_holder_is_named_while_it_lives_and_goes_on_undisturbed(path: Path, child: subprocess.Popen[str]) -> None:
    with SQLiteView(path) as view:
        owners = view.owners()
        of_one, of_another = view.owners("r"), view.owners("s")

    assert list(owners) == ["r"]
    assert owners["r"].startswith(f"process {child.pid} on ")
    assert (of_one, of_another) == (owners, {})
    assert child.poll() is None


def test_a_process_that_was_killed_holds_nothing_and_its_traces_are_left_to_owners(
    path: Path, child: subprocess.Popen[str]
) -> None:
    os.kill(child.pid, signal.SIGKILL)
    child.wait(20)

    with SQLiteView(path) as view:
        owners = view.owners()
        [record] = view.list()

    assert owners == {}
    assert record.head == 1
    assert len(list(path.parent.glob("*-owner-*"))) == 1


def test_a_missing_file_is_not_made(path: Path) -> None:
    with pytest.raises(StoreNotFound, match="no file"):
        SQLiteView(path)

    assert not path.exists()


def test_an_empty_file_stays_empty(path: Path) -> None:
    path.touch()

    with pytest.raises(StoreNotFound, match="nothing has been stored"):
        SQLiteView(path)

    assert path.stat().st_size == 0


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound):
        SQLiteView(tmp_path)


def test_what_is_not_a_database_is_refused(path: Path) -> None:
    path.write_bytes(b"these are no pages " * 100)

    with pytest.raises(ForeignStore):
        SQLiteView(path)


def test_the_database_of_another_application_is_refused(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("create table songs (title)")
    db.close()

    with pytest.raises(ForeignStore, match="is not a Weft store"):
        SQLiteView(path)


def test_a_file_that_another_process_makes_a_store_of_meanwhile_is_not_foreign(path: Path) -> None:
    maker = schema.connect(path, "full", 1.0)

    class Slow(sqlite3.Connection):
        """Asks whose the file is, and is held up before it asks what is in it."""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            answer = super().execute(sql, *parameters)
            if "application_id" in sql:
                schema.migrate(maker, path)
            return answer

    looker = sqlite3.connect(path, isolation_level=None, factory=Slow)

    with pytest.raises(StoreNotFound, match="nothing has been stored"):
        schema._check_current(looker, path)
    schema._check_current(looker, path)

    looker.close()
    maker.close()


def test_damage_is_said_so(path: Path) -> None:
    filled(path)
    damaged = bytearray(path.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    path.write_bytes(damaged)

    with pytest.raises(CorruptStore), SQLiteView(path) as view:
        view.list()


def test_a_newer_file_is_refused(path: Path) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r")))
    db = sqlite3.connect(path)
    db.execute(f"pragma user_version = {schema.VERSION + 1}")
    db.close()

    with pytest.raises(NewerStore):
        SQLiteView(path)


def test_an_older_file_is_not_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)

    with pytest.raises(InvalidStoreOption, match="up to date"):
        SQLiteView(path)


def test_a_file_can_be_looked_at_where_nothing_may_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inside(SQLiteStore(path), lambda store: write(store, first("r")))
    copy = tmp_path / "backup" / "runs.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    monkeypatch.setattr(schema.os, "access", lambda *_, **__: False)

    with SQLiteView(copy) as view:
        found = [record.id for record in view.list()]

    assert found == ["r"]
    assert [each.name for each in copy.parent.iterdir()] == ["runs.db"]
