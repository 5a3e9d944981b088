"""The file: whose it is, which version it has, and that it is left alone if it is another's."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from appending_process import child, killed, said
from opening import filled, inside, nothing

from weft.errors import ForeignStore, NewerStore, StoreError
from weft.stores import SQLiteStore
from weft.stores.sqlite import schema
from weft.testing.contracts.cases import first, write


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


def test_a_file_that_is_not_a_database_is_left_alone(path: Path) -> None:
    path.write_text("Dear diary, " * 500)

    with pytest.raises(ForeignStore):
        inside(SQLiteStore(path), nothing)

    assert path.read_text() == "Dear diary, " * 500


@pytest.mark.parametrize(("option", "level"), [("normal", 1), ("full", 2), ("extra", 3)])
def test_the_writer_syncs_as_it_was_told(path: Path, option: Any, level: int) -> None:
    async def asked(store: SQLiteStore) -> Any:
        assert store._opened is not None
        return await store._opened.writer.call(lambda db: db.execute("pragma synchronous").fetchone())

    assert inside(SQLiteStore(path, synchronous=option), asked) == (level,)


def test_processes_that_open_a_new_file_at_once_make_it_once(path: Path) -> None:
    processes = [child(path, f"r{i}") for i in range(4)]

    reached = [said(each, 1) for each in processes]
    for each in processes:
        killed(each)

    assert reached == [1, 1, 1, 1]
    assert len(inside(SQLiteStore(path), lambda store: store.list())) == 4
