"""
Rows of jobs; a change is a compare-and-set on their revision, in one transaction with messages.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

from weft.errors import StoreError
from weft.ports.jobs import DueJobs, StoredJob
from weft.ports.store import Message
from weft.stores.sqlite import inbox, rows
from weft.stores.sqlite.ownership import Session, transaction
from weft.stores.sqlite.reading import fetched
from weft.stores.sqlite.statements import query

_CREATE = query("create_job")
_CHANGE = query("change_job")
_JOBS = query("jobs")


def put(
    db: sqlite3.Connection, _: Session, row: StoredJob, messages: Sequence[Message]
) -> tuple[list[int | StoreError], dict[int, int | None]] | None:
    """Write *row* and post *messages*, as :func:`inbox.post` does; None if the row has another revision."""
    given = {"id": row.id, "look_at": row.look_at, "body": row.body}
    with transaction(db):
        if row.revision:
            changed = db.execute(_CHANGE, {**given, "revision": row.revision})
        else:
            changed = db.execute(_CREATE, {**given, "created_at": row.created_at})
        return inbox.post_within(db, messages) if changed.rowcount == 1 else None


def listed(db: sqlite3.Connection, id: str | None, limit: int) -> Sequence[StoredJob]:
    """Return the newest rows, or the one of this *id*."""
    return [_row(found) for found in fetched(db, _JOBS, {"id": id, "limit": limit})]


def due(db: sqlite3.Connection, now: float, limit: int) -> DueJobs:
    """Return the rows that are due; a file has few, so all are read."""
    known = sorted(listed(db, None, -1), key=lambda row: row.look_at)
    later = (row.look_at for row in known if row.look_at > now)
    return DueJobs(now, tuple(row for row in known if row.look_at <= now)[:limit], next(later, float("inf")))


def delete(db: sqlite3.Connection, _: Session, id: str) -> bool:
    """Delete a row; return whether it was there."""
    with transaction(db):
        return db.execute("delete from jobs where id = ?", (id,)).rowcount == 1


def _row(found: Sequence[object]) -> StoredJob:
    id, created_at, look_at, body, revision = found
    whose = f"the job {id!r}"
    return StoredJob(
        id=rows.text(whose, "jobs.id", id),
        created_at=rows.moment(whose, "jobs.created_at", created_at),
        look_at=math.inf if look_at == math.inf else rows.moment(whose, "jobs.look_at", look_at),
        body=rows.blob(whose, "jobs.body", body),
        revision=rows.whole(whose, "jobs.revision", revision, 1),
    )
