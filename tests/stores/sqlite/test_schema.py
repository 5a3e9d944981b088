"""The file: whose it is, which version it has, and that it is left alone if it is another's."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from appending_process import child, killed, said
from opening import filled, inside, nothing

from weft.errors import ForeignStore, InvalidStoreOption, NewerStore, StoreError
from weft.log.hash_chain import GENESIS
from weft.ports.store import FINISHED, RunStatus
from weft.stores import SQLiteStore, SQLiteView
from weft.stores.sqlite import schema
from weft.stores.sqlite.checkup import Checkup
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


WITH_ONE_INDEX = 17
"""The first version in which lists of runs have one index."""


def before_outcomes(path: Path) -> None:
    """Make a file as it was before runs had outcomes, with runs in every status."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for migration in schema.MIGRATIONS[: schema.WITH_OUTCOMES - 1]:
            db.executescript(migration.script)
        db.execute(f"pragma application_id = {schema.APPLICATION_ID}")
        db.execute(f"pragma user_version = {schema.WITH_OUTCOMES - 1}")
        for key, status in enumerate(get_args(RunStatus), 1):
            row = (key, status, "w", "", status, "", GENESIS, 1, float(key), key + 100.0, None)
            db.execute("insert into runs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def test_a_run_from_before_there_were_outcomes_was_finished_when_it_was_last_written(path: Path) -> None:
    before_outcomes(path)

    found = inside(SQLiteStore(path), lambda store: store.list())

    assert [each.id for each in found] == [*reversed(get_args(RunStatus))]
    assert {(each.failures, each.dead_letters, each.outcome) for each in found} == {(0, 0, b"")}
    assert all(each.finished_at == (each.updated_at if each.status in FINISHED else None) for each in found)


def test_a_file_from_before_there_were_outcomes_is_looked_at_after_it_was_opened_once(path: Path) -> None:
    before_outcomes(path)

    with pytest.raises(InvalidStoreOption, match=r"open it once with SQLiteStore"):
        SQLiteView(path)
    assert list(Checkup(path, is_quick=False, tell=lambda *_: None).findings()) == []
    inside(SQLiteStore(path), nothing)

    with SQLiteView(path) as view:
        assert view.count() == len(get_args(RunStatus))
        assert view.find("cancelled").finished_at == 107.0


def test_a_file_with_two_indexes_of_runs_has_one_after_it_was_opened_and_the_same_lists(path: Path) -> None:
    before = [each for each in schema.MIGRATIONS if each.version < WITH_ONE_INDEX]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for migration in before:
            db.executescript(migration.script)
        db.execute(f"pragma application_id = {schema.APPLICATION_ID}")
        db.execute(f"pragma user_version = {before[-1].version}")
        for key in range(1, 31):
            status, workflow, failures = ("running", "completed", "failed")[key % 3], f"w{key % 4}", int(key % 3 == 2)
            row = (key, f"r{key:02}", workflow, status, GENESIS, float(key // 2), failures)
            db.execute(
                "insert into runs (key, id, workflow, version, status, reason, chain, epoch, created_at, updated_at, "
                "failures) values (?1, ?2, ?3, '', ?4, '', ?5, 1, ?6, ?6, ?7)",
                row,
            )

    async def act(store: SQLiteStore) -> tuple[list[str], list[str], int]:
        some = await store.list(workflow="w1", statuses=["failed"])
        return [each.id for each in await store.list()], [each.id for each in some], await store.count(failed=True)

    found = inside(SQLiteStore(path), act)

    names = [f"r{key:02}" for key in range(30, 0, -1)]
    assert found == (names, [each for each in names if int(each[1:]) % 12 == 5], 10)
    with closing(sqlite3.connect(path)) as db:
        indexes = {name for _, name, *_ in db.execute("pragma index_list (runs)")}
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert indexes == {"runs_by_state", "runs_by_unique_key", "sqlite_autoindex_runs_1"}


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
