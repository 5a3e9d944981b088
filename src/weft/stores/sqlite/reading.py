"""
Reads runs from the file; nothing here changes it.

Every call is one read transaction, so a record and the segments that come with it are of the same moment, even while
another process is appending.
"""

from __future__ import annotations

import heapq
import math
import sqlite3
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

from weft.errors import DamagedRow, MissingContent, RunNotFound, StoreError
from weft.ports.store import ContentHash, LoadedRun, RunRecord, RunStatus
from weft.stores.sqlite import rows
from weft.stores.sqlite.statements import query
from weft.typing import RunId

Row = tuple[Any, ...]


def _of_workflow(sql: str) -> str:
    """Return *sql* for the runs of one workflow, which have their own index."""
    return sql.replace("where r.status = :status", "where r.workflow = :workflow and r.status = :status")


_RECORD = query("record")
_FIRST_PAGE = query("first_page")
_PAGE = query("page")
_PAGES = {False: (_FIRST_PAGE, _PAGE), True: (_of_workflow(_FIRST_PAGE), _of_workflow(_PAGE))}
_COUNT = query("count")
_COUNT_OF_WORKFLOW = _of_workflow(_COUNT)
_FREE_PAGE = query("free_page")
_SEGMENTS = query("segments")
_FACT_BODY = query("fact_body")
_SEEN = query("statuses")
_STRAYS = query("strays")
_STATUSES = get_args(RunStatus)

Damaged = Callable[[DamagedRow], object]
"""Told of a row that cannot be read, and is left out."""


def find(db: sqlite3.Connection, run: RunId) -> tuple[int, RunRecord]:
    """
    Return the key and the record of a run.

    Raises:
        RunNotFound: nothing is stored under this id.
        DamagedRow: it cannot be read.
    """
    row = _row(db, run)
    return row[0], rows.record(row)


def find_owned(db: sqlite3.Connection, run: RunId) -> tuple[int, int | None, RunRecord]:
    """Return the key of a run, that of the session that took it, and its record; it raises what :func:`find` does."""
    row = _row(db, run)
    return row[0], row[10], rows.record(row)


def _row(db: sqlite3.Connection, run: RunId) -> Row:
    found = fetched(db, _RECORD, (run,))
    if not found:
        raise RunNotFound(run)
    return found[0]


def exists(db: sqlite3.Connection, run: RunId) -> bool:
    """Whether something is stored under this id."""
    return bool(db.execute("select exists (select 1 from runs where id = ?)", (run,)).fetchone()[0])


def load(db: sqlite3.Connection, run: RunId, position: int) -> LoadedRun:
    """Return the segments that hold what came after *position*."""
    with _one_moment(db):
        return _load(db, run, position)


def _load(db: sqlite3.Connection, run: RunId, position: int) -> LoadedRun:
    row = _row(db, run)
    found = fetched(db, _SEGMENTS, {"run": row[0], "position": position})
    known = rows.blob(f"run {run!r}", "runs.chain", row[6])
    return LoadedRun(rows.record(row), rows.segments(run, found, position), known)


def load_many(db: sqlite3.Connection, runs: Collection[RunId]) -> dict[RunId, LoadedRun | StoreError]:
    """Return the whole logs of *runs*, or why one cannot be read."""
    with _one_moment(db):
        return {run: _loaded(db, run) for run in runs}


def _loaded(db: sqlite3.Connection, run: RunId) -> LoadedRun | StoreError:
    try:
        return _load(db, run, 0)
    except (RunNotFound, DamagedRow) as error:
        return error


def load_facts(db: sqlite3.Connection, run: RunId, hashes: Collection[ContentHash]) -> dict[ContentHash, bytes]:
    """Return large values of a run."""
    with _one_moment(db):
        key = _row(db, run)[0]
        found = {each: db.execute(_FACT_BODY, (key, each)).fetchall() for each in hashes}
    if missing := [each for each, parts in found.items() if not parts]:
        raise MissingContent("fact", missing, run)
    return {each: rows.content(f"run {run!r}", parts) for each, parts in found.items()}


def load_definitions(db: sqlite3.Connection, hashes: Collection[ContentHash]) -> dict[ContentHash, bytes]:
    """Return definitions."""
    with _one_moment(db):
        sql = "select body from definitions where hash = ?"
        found = {each: db.execute(sql, (each,)).fetchone() for each in hashes}
    if missing := [each for each, row in found.items() if row is None]:
        raise MissingContent("definition", missing)
    return {each: rows.blob(definition(each), "definitions.body", row[0]) for each, row in found.items()}


def definition(content: ContentHash) -> str:
    """Return how to speak of a definition, which may be that of many runs."""
    return f"the definition {content.hex()}"


def page(
    db: sqlite3.Connection,
    statuses: Collection[RunStatus] | None,
    workflow: str | None,
    after: RunRecord | None,
    limit: int,
    damaged: Damaged | None = None,
) -> list[RunRecord]:
    """
    Return a page of runs, oldest first, merged from one page per status: that is what the index is for.

    Args:
        damaged: told of the runs that cannot be read, and are left out.

    Raises:
        DamagedRow: a run cannot be read, and *damaged* is None.
    """
    tell = damaged or _raise
    with _one_moment(db):
        if statuses is None and after is None:
            _look_for_strays(db, workflow, tell)
        among = dict.fromkeys(_STATUSES if statuses is None else statuses)
        sql, asked = _PAGES[workflow is not None][after is not None], _beginning(after) | {"workflow": workflow}
        pages = [_page(db, sql, asked | {"status": status}, limit, tell) for status in among]
    return _merged(pages, limit)


def count(db: sqlite3.Connection, statuses: Collection[RunStatus] | None, workflow: str | None) -> int:
    """Return how many runs there are; one that cannot be read is one of them."""
    with _one_moment(db):
        if statuses is None:
            sql = "select count(*) from runs" if workflow is None else "select count(*) from runs where workflow = ?"
            return int(db.execute(sql, () if workflow is None else (workflow,)).fetchone()[0])
        sql = _COUNT if workflow is None else _COUNT_OF_WORKFLOW
        asked = ({"status": status, "workflow": workflow} for status in dict.fromkeys(statuses))
        return sum(db.execute(sql, each).fetchone()[0] for each in asked)


def free_page(
    db: sqlite3.Connection, statuses: Collection[RunStatus], after: RunRecord | None, limit: int, damaged: Damaged
) -> list[RunRecord]:
    """Return a page of runs that belong to no session; *damaged* is told of what is left out."""
    with _one_moment(db):
        asked, among = _beginning(after), dict.fromkeys(statuses)
        pages = [_page(db, _FREE_PAGE, asked | {"status": status}, limit, damaged) for status in among]
    return _merged(pages, limit)


def _beginning(after: RunRecord | None) -> dict[str, Any]:
    """Return where a page begins: after a run, or before all of them."""
    if after is None:
        return {"created_at": -math.inf, "id": ""}
    return {"created_at": after.created_at, "id": after.id}


def _merged(pages: Sequence[Sequence[RunRecord]], limit: int) -> list[RunRecord]:
    return list(heapq.merge(*pages, key=lambda record: (record.created_at, record.id)))[:limit]


def _look_for_strays(db: sqlite3.Connection, workflow: str | None, tell: Damaged) -> None:
    """Tell of runs whose status does not exist, and which no page would show."""
    if all(row[0] in _STATUSES for row in fetched(db, _SEEN, ())):
        return
    for row in fetched(db, _STRAYS, ()):
        if workflow is None or row[2] == workflow:
            _read(row, tell)


def _page(db: sqlite3.Connection, sql: str, asked: dict[str, Any], limit: int, tell: Damaged) -> list[RunRecord]:
    """Return up to *limit* runs in one status, however many damaged ones there are among them."""
    records: list[RunRecord] = []
    asked |= {"limit": limit, "offset": 0}
    while len(records) < limit:
        found = fetched(db, sql, asked)
        records += [record for row in found if (record := _read(row, tell)) is not None]
        if len(found) < limit:
            break
        asked["offset"] += len(found)
    return records[:limit]


def _read(row: Row, tell: Damaged) -> RunRecord | None:
    try:
        return rows.record(row)
    except DamagedRow as error:
        tell(error)
        return None


def _raise(error: DamagedRow) -> None:
    raise error


def fetched(db: sqlite3.Connection, sql: str, asked: Sequence[Any] | dict[str, Any]) -> list[Row]:
    """Return all rows; bytes that are not valid text become stray surrogates, so that the caller learns the run."""
    try:
        return db.execute(sql, asked).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    db.text_factory = lenient
    try:
        return db.execute(sql, asked).fetchall()
    finally:
        db.text_factory = str


def lenient(found: bytes) -> str:
    """Return text as it is stored; bytes that are not text become stray surrogates."""
    return found.decode(errors="surrogateescape")


@contextmanager
def _one_moment(db: sqlite3.Connection) -> Generator[None, None, None]:
    db.execute("begin")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("commit")
