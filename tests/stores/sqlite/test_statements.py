"""The SQL of the store: what it looks like to SQLite, and that one row and many come to the same."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from typing import Any

import pytest

from weft.stores.sqlite.statements import RowStatement, migrations, narrowed, query

QUERIES = sorted(path.name.removesuffix(".sql") for path in (files("weft.stores.sqlite") / "queries").iterdir())
NUMBERED = re.compile(r"\?\d")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """A database of two hundred runs, in memory."""
    with closing(sqlite3.connect(":memory:")) as made:
        for migration in migrations():
            made.executescript(migration.script)
        new = RowStatement("create")
        new.execute(
            made,
            [
                (key, f"r{key}", "w", "v", "ready", "", b"", 1, 0.0, 0.0, 7, 5, 4, 3.5, b"kept", None)
                for key in range(1, 201)
            ],
        )
        yield made


def change(key: int, **parts: Any) -> tuple[Any, ...]:
    """A row of the statement ``change``: nothing but the time changes unless *parts* say so."""
    unsaid = {"status": None, "reason": None, "workflow": None, "version": None, "released": False, "previous": None}
    unsaid |= {"failures": 0, "dead_letters": 0, "finished_at": None, "outcome": b""}
    told = unsaid | parts
    return (key, 1, f"r{key}", 0, 5.5, *told.values())


@pytest.mark.parametrize("name", QUERIES)
def test_no_placeholder_has_a_number_that_a_sequence_cannot_be_bound_to(name: str) -> None:
    sql = query(name)

    one, _ = narrowed(sql)

    assert NUMBERED.search(sql) is None
    assert NUMBERED.search(one) is None


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_as_many_rows_as_there_are_take_their_own_values(db: sqlite3.Connection, count: int) -> None:
    rows = [
        change(
            key,
            status=f"s{key}",
            reason=f"because {key}",
            workflow=f"w{key}",
            version=f"v{key}",
            released=key % 2,
            failures=key,
            dead_letters=key + 1,
            finished_at=key / 2,
            outcome=b"%d" % key,
        )
        for key in range(1, count + 1)
    ]

    touched = RowStatement("change").execute(db, rows)

    found = db.execute(
        "select key, status, reason, workflow, version, owner, updated_at, "
        "failures, dead_letters, finished_at, outcome from runs where key <= ? order by key",
        [count],
    ).fetchall()
    assert touched == count
    assert found == [
        (
            *(key, f"s{key}", f"because {key}", f"w{key}", f"v{key}", None if key % 2 else 7, 5.5),
            *(key, key + 1, key / 2, b"%d" % key),
        )
        for key in range(1, count + 1)
    ]
    assert db.execute("select count(*) from runs where updated_at = 0.0").fetchone() == (200 - count,)


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_not_said_stays(db: sqlite3.Connection, count: int) -> None:
    RowStatement("change").execute(db, [change(key) for key in range(1, count + 1)])

    said = db.execute("select distinct status, reason, workflow, version, owner from runs").fetchall()
    assert said == [("ready", "", "w", "v", 7)]
    came = db.execute("select distinct failures, dead_letters, finished_at, outcome from runs").fetchall()
    assert came == [(5, 4, 3.5, b"kept")]


@pytest.mark.parametrize("count", [1, 3])
def test_a_run_in_another_epoch_is_not_touched(db: sqlite3.Connection, count: int) -> None:
    rows = [change(key, status="lost", reason="") for key in range(1, count + 1)]
    db.execute("update runs set epoch = 2 where key = 1")

    touched = RowStatement("change").execute(db, rows)

    assert touched == count - 1
    assert db.execute("select status from runs where key = 1").fetchone() == ("ready",)


@pytest.mark.parametrize("count", [1, 3])
def test_a_run_that_ends_in_another_link_is_not_touched(db: sqlite3.Connection, count: int) -> None:
    rows = [change(key, status="lost", reason="", previous=b"") for key in range(1, count + 1)]
    db.execute("update runs set chain = x'01' where key = 1")

    touched = RowStatement("change").execute(db, rows)

    assert touched == count - 1
    assert db.execute("select status from runs where key = 1").fetchone() == ("ready",)
