"""
Rows of schedules; a change is a compare-and-set on their revision.  A file has few, so all are read.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Sequence

from weft.ports.schedules import DueSchedules, StoredSchedule
from weft.stores.sqlite import rows
from weft.stores.sqlite.ownership import Session, transaction
from weft.stores.sqlite.reading import fetched
from weft.stores.sqlite.statements import query

_CREATE = query("create_schedule")
_CHANGE = query("change_schedule")
_SCHEDULES = query("schedules")


def put(db: sqlite3.Connection, _: Session, row: StoredSchedule) -> bool:
    """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
    given = {"name": row.name, "workflow": row.workflow, "look_at": row.look_at, "body": row.body}
    with transaction(db):
        if row.revision:
            changed = db.execute(_CHANGE, {**given, "revision": row.revision})
        else:
            changed = db.execute(_CREATE, given)
        return changed.rowcount == 1


def listed(db: sqlite3.Connection, name: str | None) -> Sequence[StoredSchedule]:
    """Return all rows, or the one of this *name*."""
    return [_row(found) for found in fetched(db, _SCHEDULES, {"name": name})]


def due(db: sqlite3.Connection, workflows: Collection[str], now: float, limit: int) -> DueSchedules:
    """Return the rows that are due."""
    known = sorted((row for row in listed(db, None) if row.workflow in workflows), key=lambda row: row.look_at)
    later = (row.look_at for row in known if row.look_at > now)
    return DueSchedules(now, tuple(row for row in known if row.look_at <= now)[:limit], next(later, float("inf")))


def delete(db: sqlite3.Connection, _: Session, name: str) -> bool:
    """Delete a row; return whether it was there."""
    with transaction(db):
        return db.execute("delete from schedules where name = ?", (name,)).rowcount == 1


def _row(found: Sequence[object]) -> StoredSchedule:
    name, workflow, look_at, body, revision = found
    whose = f"the schedule {name!r}"
    return StoredSchedule(
        name=rows.text(whose, "schedules.name", name),
        workflow=rows.text(whose, "schedules.workflow", workflow),
        look_at=math.inf if look_at == math.inf else rows.moment(whose, "schedules.look_at", look_at),
        body=rows.blob(whose, "schedules.body", body),
        revision=rows.whole(whose, "schedules.revision", revision, 1),
    )
