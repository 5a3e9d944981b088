"""
What can be asked of the file without changing it.

Every question is one read transaction, so a record and the segments that come with it are
of the same moment, whoever is appending.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

from weft.errors import MissingContent, RunNotFound
from weft.ports.store import ContentHash, LoadedRun, RunRecord, RunStatus, Segment
from weft.stores.sqlite.statements import query
from weft.typing import RunId

_RECORD = query("record")
_FIRST_PAGE = query("first_page")
_PAGE = query("page")
_SEGMENTS = query("segments")


def find(db: sqlite3.Connection, run: RunId) -> tuple[int, RunRecord]:
    """Return the key and the record of a run."""
    row = db.execute(_RECORD, (run,)).fetchone()
    if row is None:
        raise RunNotFound(run)
    return row[0], _record(row)


def exists(db: sqlite3.Connection, run: RunId) -> bool:
    """Whether something is stored under this id."""
    return bool(db.execute("select exists (select 1 from runs where id = ?)", (run,)).fetchone()[0])


def load(db: sqlite3.Connection, run: RunId, position: int) -> LoadedRun:
    """Return the segments that hold what came after *position*."""
    with _one_moment(db):
        key, record = find(db, run)
        found = db.execute(_SEGMENTS, {"run": key, "position": position})
        segments = [Segment(*row) for row in found]
        (known,) = db.execute("select chain from runs where key = ?", (key,)).fetchone()
        return LoadedRun(record, segments, known)


def load_facts(db: sqlite3.Connection, run: RunId, hashes: Collection[ContentHash]) -> dict[ContentHash, bytes]:
    """Return large values of a run."""
    with _one_moment(db):
        key, _ = find(db, run)
        return _contents(db, "fact", hashes, "select body from facts where hash = ? and run = ?", key)


def load_definitions(db: sqlite3.Connection, hashes: Collection[ContentHash]) -> dict[ContentHash, bytes]:
    """Return definitions."""
    with _one_moment(db):
        return _contents(db, "definition", hashes, "select body from definitions where hash = ?")


def page(
    db: sqlite3.Connection,
    statuses: Collection[RunStatus] | None,
    workflow: str | None,
    after: RunRecord | None,
    limit: int,
) -> list[RunRecord]:
    """Return a page of runs, oldest first, merged from one page per status: that is what the index is for."""
    asked: dict[str, Any] = {"workflow": workflow, "limit": limit}
    if after is not None:
        asked |= {"created_at": after.created_at, "id": after.id}
    sql = _FIRST_PAGE if after is None else _PAGE
    with _one_moment(db):
        pages: list[Sequence[RunRecord]] = [
            [_record(row) for row in db.execute(sql, {**asked, "status": status})]
            for status in (get_args(RunStatus) if statuses is None else dict.fromkeys(statuses))
        ]
    return list(heapq.merge(*pages, key=lambda record: (record.created_at, record.id)))[:limit]


def _record(row: Sequence[Any]) -> RunRecord:
    _, id_, workflow, version, status, reason, head, chain, epoch, created_at, updated_at, owner = row
    return RunRecord(
        id=id_,
        workflow=workflow,
        version=version,
        status=status,
        reason=reason,
        head=head,
        chain=chain,
        epoch=epoch,
        created_at=created_at,
        updated_at=updated_at,
        owner=owner,
    )


def _contents(
    db: sqlite3.Connection, kind: str, hashes: Collection[ContentHash], sql: str, *key: int
) -> dict[ContentHash, bytes]:
    rows = {each: db.execute(sql, (each, *key)).fetchone() for each in hashes}
    if missing := [each for each, row in rows.items() if row is None]:
        raise MissingContent(kind, missing)
    return {each: row[0] for each, row in rows.items()}


@contextmanager
def _one_moment(db: sqlite3.Connection) -> Generator[None, None, None]:
    db.execute("begin")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("commit")
