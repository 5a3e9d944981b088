"""Files that were edited by hand or damaged row by row: every way to read them says what is wrong with which run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, Runner, Workflow, step
from weft.cli.app import app
from weft.errors import StoreError, WeftError
from weft.stores import SQLiteStore, SQLiteView

_gate = threading.Event()


@step
def large(x: int) -> str:
    return "x" * 5_000


@step
def last(text: str) -> int:
    _gate.wait()
    return len(text)


WORK = Workflow("work", large >> last).with_policies([("last", Policy(timeout=600.0))])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two runs that were interrupted, each with a large value, and a session that is dead."""
    path = tmp_path_factory.mktemp("template") / "runs.db"
    _gate.clear()
    runner = Runner(SQLiteStore(path), grace=0.0)
    with runner:
        for name in ("hurt", "well"):
            runner.start(WORK, 1, id=name)
            runner.wait_until(name, lambda run: bool(run.values("large")))
    _gate.set()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("insert into sessions (key, token, host, pid) values (77, ?, 'here', 1)", ("0" * 32,))
    db.execute("update runs set owner = 77 where id = 'hurt'")
    _allow_anything(db)
    assert db.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
    db.close()
    return path


def _allow_anything(db: sqlite3.Connection) -> None:
    """Take the constraints away, as a file has none that is put together from what could be saved of another."""
    db.execute("pragma writable_schema = on")
    db.execute("update sqlite_schema set sql = replace(sql, ' not null', '') where type = 'table'")
    db.execute("pragma writable_schema = reset")


def damaged(template: Path, folder: Path, *statements: str) -> Path:
    """Return a copy of the file to which *statements* were done."""
    path = folder / "runs.db"
    shutil.copy(template, path)
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        assert db.execute(statement).rowcount > 0, statement
    db.close()
    return path


# -- every way to read -----------------------------------------------------------------------------


def looked(path: Path) -> Iterator[Callable[[], object]]:
    """Return every question to a view."""

    def asked(question: Callable[[SQLiteView], object]) -> object:
        with SQLiteView(path) as view:
            return question(view)

    questions: list[Callable[[SQLiteView], object]] = [
        lambda view: view.list(),
        lambda view: view.list(statuses=["running"]),
        lambda view: view.find("hurt"),
        lambda view: view.load("hurt"),
        lambda view: view.load_since("hurt", 2),
        lambda view: view.load_since("hurt", 100),
        lambda view: view.times("hurt"),
        lambda view: view.owners(),
        lambda view: view.owners("hurt"),
        lambda view: dict(view.facts("hurt")),
        lambda view: dict(view.definitions()),
    ]
    for question in questions:
        yield lambda question=question: asked(question)


def stored(path: Path) -> Iterator[Callable[[], object]]:
    """Return every call of a store that reads."""

    async def called(call: Callable[[SQLiteStore], Awaitable[object]]) -> object:
        async with SQLiteStore(path) as store:
            return await call(store)

    async def contents(store: SQLiteStore) -> None:
        with sqlite3.connect(path) as db:
            facts = [row[0] for row in db.execute("select hash from facts") if isinstance(row[0], bytes)]
            kept = [row[0] for row in db.execute("select hash from definitions") if isinstance(row[0], bytes)]
        db.close()
        await store.load_definitions(kept)
        await store.load_facts("hurt", facts[:1])

    async def told(answer: Awaitable[Mapping[str, object]]) -> None:
        for each in (await answer).values():
            if isinstance(each, StoreError):
                raise each

    calls: list[Callable[[SQLiteStore], Awaitable[object]]] = [
        lambda store: store.list(),
        lambda store: store.find("hurt"),
        lambda store: store.exists("hurt"),
        lambda store: store.load("hurt"),
        lambda store: store.load_since("hurt", 2),
        contents,
        lambda store: store.acquire("hurt"),
        lambda store: store.list_free(),
        lambda store: told(store.acquire_many(["well", "hurt"])),
        lambda store: told(store.load_many(["well", "hurt"])),
    ]
    for call in calls:
        yield lambda call=call: asyncio.run(called(call))


def resumed(path: Path) -> Iterator[Callable[[], object]]:
    """Return every way to bring a run back."""

    async def one() -> None:
        async with AsyncRunner(SQLiteStore(path)) as runner:
            await (await runner.resume("hurt", workflow=WORK)).wait()

    async def all_of_them() -> None:
        async with AsyncRunner(SQLiteStore(path)) as runner:
            runner.register(WORK)
            for handle in await runner.resume_all():
                await handle.wait()

    yield lambda: asyncio.run(one())
    yield lambda: asyncio.run(all_of_them())


COMMANDS = [
    ["ls"],
    ["ls", "--json"],
    ["show", "hurt"],
    ["show", "hurt", "--json"],
    ["log", "hurt"],
    ["log", "hurt", "--json"],
    ["verify", "hurt"],
    ["resume", "hurt"],
    ["resume", "--all"],
]


class Said(Exception):
    """The complaint of a command."""


def commanded(path: Path, capsys: pytest.CaptureFixture[str], answers: list[str]) -> Iterator[Callable[[], object]]:
    """Return every command; what it answers is added to *answers*."""

    def ran(command: list[str]) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            app([*command, "--store", str(path)], prog_name="weft")
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        answers.append(out)
        if ended.value.code:
            assert any(line.startswith("weft: ") for line in err.splitlines()), err
            raise Said(err)

    for command in COMMANDS:
        yield lambda command=command: ran(command)


def everything(path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """
    Read *path* in every way, each time as it was; return all complaints, and what commands answered.

    An error that is not one of ours is raised.
    """
    complaints, answers = list[str](), list[str]()
    copy = folder / "copy.db"
    ways = [*looked(copy), *stored(copy), *resumed(copy), *commanded(copy, capsys, answers)]
    for way in ways:
        for old in folder.glob("copy.db*"):
            old.unlink(missing_ok=True)
        shutil.copy(path, copy)
        try:
            way()
        except (WeftError, Said) as error:
            complaints.append(str(error))
    return complaints, answers


# -- every column ----------------------------------------------------------------------------------

TEXT = ["null", "x'00ff'", "cast(x'ff' as text)"]
BLOB = ["null", "'text'", "7"]
WHOLE = ["null", "'many'", "x'00'", "-3", "1.5"]
REAL = ["null", "'late'", "x'00'", "9e999"]

LAST = "place = (select max(s.place) from segments s join runs r on s.place >> 32 = r.key where r.id = 'hurt')"
FIRST = LAST.replace("max", "min")
HURT = "id = 'hurt'"

COLUMNS = [
    *(("runs", HURT, column, TEXT) for column in ("id", "workflow", "version", "reason")),
    ("runs", HURT, "status", [*TEXT, "'gone'", "''"]),
    ("runs", HURT, "chain", BLOB),
    ("runs", HURT, "epoch", [*WHOLE, "0"]),
    ("runs", HURT, "created_at", REAL),
    ("runs", HURT, "updated_at", REAL),
    ("runs", HURT, "owner", WHOLE[1:]),
    *(("runs", HURT, column, WHOLE) for column in ("failures", "dead_letters")),
    ("runs", HURT, "finished_at", REAL[1:]),
    ("runs", HURT, "outcome", BLOB),
    *(("segments", where, "count", [*WHOLE, "0"]) for where in (FIRST, LAST)),
    *(("segments", where, "at", REAL) for where in (FIRST, LAST)),
    *(("segments", where, "body", BLOB) for where in (FIRST, LAST)),
    ("segments", LAST, "chain", BLOB),
    ("segments", LAST, "place", ["place + 1", "place + 1000"]),
    ("sessions", "key = 77", "token", [*TEXT, "'../up'", "''"]),
    ("sessions", "key = 77", "host", TEXT),
    ("sessions", "key = 77", "pid", WHOLE),
    ("facts", "run = (select key from runs where id = 'hurt')", "body", BLOB),
    ("definitions", "true", "body", BLOB),
]
CASES = [
    pytest.param(table, where, column, value, id=f"{table}.{column}={value}{'@first' if where is FIRST else ''}")
    for place, (table, where, column, values) in enumerate(COLUMNS)
    for value in (values if "WEFT_THOROUGH" in os.environ else [values[place % len(values)]])
]
"""Every column with one wrong value, another kind from column to column; ``make thorough`` tries all of them."""


@pytest.mark.parametrize(("table", "where", "column", "value"), CASES)
def test_what_a_column_must_not_hold_is_said_with_the_run_and_the_column(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, where: str, column: str, value: str
) -> None:
    path = damaged(template, tmp_path, f"update {table} set {column} = {value} where {where}")  # noqa: S608

    complaints, answers = everything(path, tmp_path, capsys)

    named = [each for each in complaints if f"{table}.{column}" in each]
    assert named, complaints
    whose = r"run 'hurt'|run with the key 1\b|session 77|definition [0-9a-f]{8}"
    assert all(re.search(whose, each) for each in named), named
    assert all("restore the file" in each and "delete" in each for each in named), named
    if table in ("runs", "segments", "facts"):  # what is damaged is one run's, and the other one goes on
        assert "well" in answers[COMMANDS.index(["ls"])]
        assert "well: has completed" in answers[COMMANDS.index(["resume", "--all"])]


GONE = {
    "the first segment": f"delete from segments where {FIRST}",  # noqa: S608
    "all segments": "delete from segments where place >> 32 = (select key from runs where id = 'hurt')",
    "the values": "delete from facts where run = (select key from runs where id = 'hurt')",
    "the definitions": "delete from definitions",
    "what a value is called": "update facts set hash = x'00' where run = (select key from runs where id = 'hurt')",
    "whose a value is": "update facts set run = 99 where run = (select key from runs where id = 'hurt')",
    "what a value is": "update facts set body = x'00' where run = (select key from runs where id = 'hurt')",
    "what a definition is": "update definitions set body = x'00'",
    "an event twice": f"update segments set count = count + 1 where {FIRST}",  # noqa: S608
    "the key of the run": "update runs set key = 99 where id = 'hurt'",
}


@pytest.mark.parametrize("what", GONE)
def test_what_is_missing_or_altered_is_said_with_the_run(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    path = damaged(template, tmp_path, GONE[what])

    complaints, _ = everything(path, tmp_path, capsys)

    assert complaints
    assert all("'hurt'" in each or "the definition " in each for each in complaints), complaints


# -- the doctor ------------------------------------------------------------------------------------


def diagnosed(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Return the exit code of ``weft doctor``, and what it says."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        app(["doctor", "--store", str(path), "--json"], prog_name="weft")
    return int(str(ended.value.code or 0)), json.loads(capsys.readouterr().out)


def test_the_doctor_finds_nothing_wrong_with_what_is_whole(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(template, tmp_path)

    code, said = diagnosed(path, capsys)

    assert (code, said["verdict"], said["runs"]) == (0, "fine", 2)
    assert [each["what"] for each in said["findings"]] == ["2 runs have work left and no process: well, hurt"]


@pytest.mark.parametrize(("table", "where", "column", "value"), CASES)
def test_the_doctor_names_every_column_that_holds_what_it_must_not(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, where: str, column: str, value: str
) -> None:
    path = damaged(template, tmp_path, f"update {table} set {column} = {value} where {where}")  # noqa: S608

    code, said = diagnosed(path, capsys)

    assert (code, said["verdict"], said["reason"], said["runs"]) == (1, "damaged", "", 2)
    whose = r"run 'hurt'|run with the key 1\b|session 77|definition [0-9a-f]{8}|event \d"
    assert any(re.search(whose, f"{each['where']} {each['what']}") for each in said["findings"]), said
    assert all(each["next"] for each in said["findings"])


@pytest.mark.parametrize("what", GONE)
def test_the_doctor_finds_what_is_missing_or_altered(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    path = damaged(template, tmp_path, GONE[what])

    code, said = diagnosed(path, capsys)

    assert (code, said["verdict"]) == (1, "damaged")
    hurt = [each for each in said["findings"] if each["run"] == "hurt"]
    assert hurt, said["findings"]
    assert all(each["certainty"] == "certain" for each in hurt)


# -- and nothing else ------------------------------------------------------------------------------


def test_a_damaged_run_can_be_deleted(template: Path, tmp_path: Path) -> None:
    path = damaged(template, tmp_path, "update runs set epoch = 'many' where id = 'hurt'")

    async def act() -> list[str]:
        async with SQLiteStore(path) as store:
            await store.delete("hurt")
            return [record.id for record in await store.list()]

    assert asyncio.run(act()) == ["well"]


@pytest.mark.parametrize("statuses", [None, ["running"]])
@pytest.mark.parametrize("time", ["null", "'late'", "9e999"])
def test_a_run_of_no_time_is_told_of_once_and_before_the_others(
    template: Path, tmp_path: Path, statuses: Any, time: str
) -> None:
    path = damaged(template, tmp_path, f"update runs set created_at = {time} where id = 'hurt'")  # noqa: S608
    told: list[StoreError] = []

    with SQLiteView(path) as view:
        (record,) = view.list(statuses=statuses, limit=1, damaged=told.append)
        rest = view.list(statuses=statuses, after=record, damaged=told.append)
        elsewhere = view.list(workflow="another", damaged=told.append)

    assert (record.id, rest, elsewhere) == ("well", [], [])
    assert [str(each).partition(" is ")[0] for each in told] == ["run 'hurt'"]


def test_a_page_of_damaged_runs_is_not_the_end_of_the_list(template: Path, tmp_path: Path) -> None:
    path = damaged(template, tmp_path, "update runs set epoch = -1, created_at = created_at + 9 where id = 'hurt'")
    told: list[StoreError] = []

    with SQLiteView(path) as view:
        found = view.list(limit=1, damaged=told.append)

    assert [record.id for record in found] == ["well"]
    assert [str(each).partition(" is ")[0] for each in told] == ["run 'hurt'"]
