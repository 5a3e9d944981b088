"""``weft doctor``: whether everything in a file is what was written."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, step
from weft.errors import StoreError
from weft.stores import SQLiteStore
from weft.stores.sqlite import schema
from weft.stores.sqlite.checkup import Checkup, Finding

WORK = Workflow("work", step(lambda n: "x" * n, name="grow") >> step(len, name="size"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with thirty runs, some of which have large values."""
    path = tmp_path_factory.mktemp("template") / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        for i in range(30):
            runner.start(WORK, 10 + 5_000 * (i % 3), id=f"run-{i}", open=True).wait()
    return path


@pytest.fixture
def file(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "runs.db"))


def findings(path: Path, *, is_quick: bool = False) -> list[Finding]:
    return list(Checkup(path, is_quick=is_quick, tell=lambda *_: None).findings())


def altered(path: Path, offset: int, value: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    content[offset] = content[offset] ^ 0x21 if value is None else value
    path.write_bytes(content)


def test_a_file_that_is_whole_is_fine_and_stays_as_it_is(weft: Callable[..., Any], file: Path) -> None:
    before = file.read_bytes()

    said = weft("doctor", "--store", file)

    assert (said.code, said.err) == (0, "")
    assert said.out == "30 runs checked, 120 events as they were written, no damage found\n"
    assert file.read_bytes() == before


def test_an_answer_in_json(weft: Callable[..., Any], file: Path) -> None:
    said = weft("doctor", "--store", file, "--json")

    assert said.code == 0
    assert json.loads(said.out) == {
        "file": str(file),
        "verdict": "fine",
        "reason": "",
        "runs": 30,
        "events": 120,
        "findings": [],
        "more_findings": 0,
    }


def test_an_altered_event_is_found_with_its_run_and_the_others_are_checked(
    weft: Callable[..., Any], file: Path
) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(
            "update segments set body = cast(substr(body, 1, length(body) - 1) || x'7f' as blob)"
            " where place = (select max(place) from segments where place >> 32 ="
            " (select key from runs where id = 'run-7'))"
        )

    said = weft("doctor", "--store", file)

    assert said.code == 1
    assert said.out.count("damaged (certain): ") == 1
    assert "damaged (certain): run 'run-7': its log is not what was written" in said.out
    assert "delete the run" in said.out
    assert "30 runs checked" in said.out
    assert said.err == f"weft: {file} is damaged: 1 finding above, each with what to do about it\n"


def test_a_missing_part_of_a_large_value_is_found_with_its_run(weft: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "parts.db"
    store = SQLiteStore(file)
    store._large = 1_000
    with Runner(store) as runner:
        for name in ("hurt", "well"):
            runner.start(WORK, 5_000, id=name).wait()
    assert weft("doctor", "--store", file).out == "2 runs checked, 8 events as they were written, no damage found\n"
    with closing(sqlite3.connect(file)) as db, db:
        assert db.execute("delete from parts where place = (1 << 32) + 3").rowcount == 1

    said = weft("doctor", "--store", file)

    assert said.code == 1
    assert "damaged (certain): run 'hurt': parts.body is " in said.out
    assert said.out.count("damaged") == 1


def test_wherever_a_byte_is_damaged_the_doctor_gets_to_the_end(template: Path, tmp_path: Path) -> None:
    size = template.stat().st_size
    dice = random.Random(3)  # noqa: S311 - the same every time
    verdicts: list[str] = []
    for number in range(150):
        path = Path(shutil.copy(template, tmp_path / f"{number}.db"))
        altered(path, dice.randrange(size), dice.choice([None, 0xFF, 0x00]))
        try:
            verdicts.append("damaged" if any(each.is_damage for each in findings(path)) else "fine")
        except StoreError:
            verdicts.append("unreadable")
        path.unlink()

    assert verdicts.count("damaged") > 75  # the rest fell on what is not used, or is free to be anything


@pytest.mark.parametrize("kept", [1, 3, 10])
def test_a_file_that_was_cut_off_is_damaged(weft: Callable[..., Any], file: Path, kept: int) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: kept * 4096])

    said = weft("doctor", "--store", file)

    assert said.code == 1
    assert "damaged (certain)" in said.out


def test_a_damaged_schema_is_damage(weft: Callable[..., Any], file: Path) -> None:
    altered(file, file.read_bytes().index(b"tablesessionssessions") + 5, 0xFF)

    said = weft("doctor", "--store", file)

    assert said.code == 1
    assert "damaged (certain): the schema" in said.out


def test_an_index_that_does_not_agree_with_its_table_is_found_unless_it_must_be_quick(
    weft: Callable[..., Any], file: Path
) -> None:
    with closing(sqlite3.connect(file)) as db:
        (root,) = db.execute("select rootpage from sqlite_schema where name = 'runs_by_state'").fetchone()
    altered(file, file.read_bytes().index(b"idle", (root - 1) * 4096))

    full, quick = weft("doctor", "--store", file), weft("doctor", "--store", file, "--quick")

    assert (full.code, quick.code) == (1, 0)
    assert "SQLite says: " in full.out
    assert ".recover" in full.out


def test_a_page_that_stops_the_whole_check_is_named_as_the_quick_one_names_it(
    weft: Callable[..., Any], file: Path
) -> None:
    with closing(sqlite3.connect(file)) as db:
        (root,) = db.execute("select rootpage from sqlite_schema where name = 'sqlite_autoindex_runs_1'").fetchone()
    content = bytearray(file.read_bytes())
    content[(root - 1) * 4096 + 8 : (root - 1) * 4096 + 48] = b"\xff" * 40  # where its entries are
    file.write_bytes(content)

    full, quick = weft("doctor", "--store", file), weft("doctor", "--store", file, "--quick")

    assert (full.code, quick.code) == (1, 1)
    for said in (full, quick):
        assert f"page {root} " in said.out
        assert "30 runs checked, 120 events as they were written" in said.out


def crashed(path: Path, to: Path) -> Path:
    """Leave what a crash would leave of a run in the file at *path*; return where."""
    with Runner(SQLiteStore(path)) as runner:
        runner.start(WORK, 10, id="last").wait()
        for end in ("", "-wal", "-commits"):
            shutil.copy(f"{path}{end}", f"{to}{end}")
    return to


def test_a_last_commit_that_is_missing_is_found(weft: Callable[..., Any], file: Path, tmp_path: Path) -> None:
    left = crashed(file, tmp_path / "left.db")
    assert weft("doctor", "--store", left).code == 0
    Path(f"{left}-wal").unlink()

    said = weft("doctor", "--store", left)

    assert said.code == 1
    assert "the last commit: event" in said.out
    assert "left.db-commits" in said.out


def test_a_note_that_cannot_be_read_is_a_remark(weft: Callable[..., Any], file: Path) -> None:
    Path(f"{file}-commits").write_bytes(b"?")

    said = weft("doctor", "--store", file)

    assert said.code == 0
    assert said.out.startswith("remark: ")


def test_a_folder_is_said_to_be_one(weft: Callable[..., Any], tmp_path: Path) -> None:
    for command in (["doctor"], ["ls"]):
        said = weft(*command, "--store", tmp_path)

        assert said.code != 0
        assert "is a folder" in said.err


def test_a_damaged_header_may_be_what_makes_a_file_foreign(weft: Callable[..., Any], file: Path) -> None:
    altered(file, 0)

    assert "or its header is damaged; choose another path, or restore a copy" in weft("doctor", "--store", file).err


@pytest.mark.parametrize("content", [None, b"", b"Dear diary, " * 500])
def test_what_is_not_a_store_cannot_be_read(weft: Callable[..., Any], tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "runs.db"
    if content is not None:
        path.write_bytes(content)

    said, as_json = weft("doctor", "--store", path), weft("doctor", "--store", path, "--json")

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("weft: ")
    assert (as_json.code, json.loads(as_json.out)["verdict"]) == (2, "unreadable")


def test_a_newer_store_cannot_be_read(weft: Callable[..., Any], file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"pragma user_version = {schema.VERSION + 1}")

    said = weft("doctor", "--store", file)

    assert said.code == 2
    assert "upgrade Weft" in said.err


def test_an_older_store_is_checked_without_being_brought_up_to_date(weft: Callable[..., Any], file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("drop table store")
        db.execute("pragma user_version = 1")

    said = weft("doctor", "--store", file)

    assert said.code == 0
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("pragma user_version").fetchone() == (1,)


def test_what_belongs_to_no_run_is_likely_to_be_damage(weft: Callable[..., Any], file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("delete from runs where id = 'run-2'")

    said = json.loads(weft("doctor", "--store", file, "--json").out)

    assert said["verdict"] == "damaged"
    assert {each["certainty"] for each in said["findings"]} == {"likely"}
    assert {each["where"] for each in said["findings"]} == {"events of no run", "large values of no run"}


def test_nothing_that_is_stored_commands_the_terminal(weft: Callable[..., Any], file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("update runs set id = ?, status = ? where id = 'run-3'", ("\x1b[31mred\x07", "\x1b]0;gone\x07"))

    said, as_json = weft("doctor", "--store", file), weft("doctor", "--store", file, "--json")

    assert said.code == as_json.code == 1
    assert "\\x1b[31mred\\x07" in said.out
    assert "\x1b" not in said.out + said.err + as_json.out + as_json.err


def test_a_store_that_is_being_written_is_checked_beside_its_writer(file: Path) -> None:
    async def main() -> list[Finding]:
        async with SQLiteStore(file) as store:
            checking = asyncio.ensure_future(asyncio.to_thread(findings, file))
            while not checking.done():
                await store.acquire_many([record.id for record in await store.list()])
                await store.release([record.id for record in await store.list()])
            return await checking

    assert asyncio.run(main()) == []


def test_without_a_store_it_looks_at_the_installation(
    weft: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_STORE", raising=False)

    said, told = weft("doctor"), json.loads(weft("doctor", "--json").out)

    assert said.code == 0
    assert "only the installation was looked at" in said.err
    assert told["verdict"] == "fine"
    assert {"weft", "Python", "SQLite", "msgspec"} <= told["installation"].keys()


def test_a_part_that_cannot_be_imported_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.cli import installation

    def broken(name: str) -> None:
        raise ImportError(f"{name} is half installed")

    monkeypatch.setattr(installation, "import_module", broken)
    _, findings = installation.installation()

    assert ("msgspec", True) in [(each.where, each.is_damage) for each in findings]


def test_a_run_that_no_process_drives_is_a_remark_with_the_command(weft: Callable[..., Any], killed: Any) -> None:
    said = weft("doctor", "--store", killed.file)

    assert said.code == 0
    assert "remark: runs: 1 run has work left and no process: greeting\n" in said.out
    assert f"    to go on: weft resume --all --import shop --store {killed.file}\n" in said.out
    [finding] = json.loads(weft("doctor", "--json", "--store", killed.file).out)["findings"]
    assert (finding["run"], finding["certainty"], finding["is_damage"]) == ("greeting", "certain", False)


def test_a_run_that_a_process_drives_is_not_a_remark(weft: Callable[..., Any], shop: Any, busy: Any) -> None:
    assert busy.poll() is None
    assert "remark" not in weft("doctor", "--store", shop.file).out


def test_messages_that_no_process_takes_are_a_remark(weft: Callable[..., Any], file: Path) -> None:
    assert weft("send", "run-3", "7", "--store", file).code == 0
    assert weft("send", "run-3", "8", "--store", file).code == 0

    said = weft("doctor", "--store", file)

    assert said.code == 0
    assert "remark: the inbox: 2 messages for run-3 wait for a process that takes them; the oldest came " in said.out
    assert "to go on: weft resume run-3 " in said.out


def test_what_a_dead_process_has_left_is_removed_from_a_file(weft: Callable[..., Any], killed: Any) -> None:
    said = weft("doctor", "--repair", "--store", killed.file)
    again = weft("doctor", "--repair", "--store", killed.file)

    assert (said.code, again.code) == (0, 0)
    assert "repaired: rows of dead processes removed: 1\n" in said.out
    assert "repaired" not in again.out
    assert "there was nothing to repair" in again.err
    with closing(sqlite3.connect(killed.file)) as db:
        assert db.execute("select count(*) from sessions").fetchone() == (0,)
    assert weft("verify", "greeting", "--store", killed.file).code == 0
    assert "1 run has work left and no process" in again.out


def test_a_damaged_file_is_not_repaired(weft: Callable[..., Any], file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("update segments set body = x'00' where rowid = (select min(rowid) from segments)")
        db.commit()
    before = file.read_bytes()

    said = weft("doctor", "--repair", "--store", file)

    assert said.code == 1
    assert "nothing was repaired: what is damaged is lost here" in said.err
    assert file.read_bytes() == before
