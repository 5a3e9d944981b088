"""Deadlines of runs that are in danger.  An append writes the row of its run (appending.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from weft.ports.deadlines import Endangered
from weft.ports.store import NO_DEADLINE, Append
from weft.stores.sqlite import rows
from weft.stores.sqlite.ownership import Session, transaction
from weft.stores.sqlite.reading import fetched
from weft.stores.sqlite.statements import query
from weft.typing import RunId

_DUE_BY = query("due_by")
_UNTOLD = query("untold")
_TELL = query("tell_danger")
_ENDANGERED = query("endangered")


def note(db: sqlite3.Connection, key: int, append: Append) -> None:
    """Write the deadline that *append* has for the run with this *key*."""
    if append.due == NO_DEADLINE:
        db.execute("delete from deadlines where run = ?", (key,))
    elif append.due is not None:
        db.execute(_DUE_BY, (key, *append.due))


def endangered(db: sqlite3.Connection, now: float, limit: int, run: RunId | None = None) -> Sequence[Endangered]:
    """Return the runs whose deadline is in danger, or this *run* if its own is."""
    return [_row(found) for found in fetched(db, _ENDANGERED, {"now": now, "limit": limit, "run": run})]


def mark_reported(db: sqlite3.Connection, _: Session, run: RunId, deadline: float, now: float) -> Endangered | None:
    """Mark one danger as reported and return it; None if there is none."""
    with transaction(db):
        if db.execute(_TELL, {"run": run, "deadline": deadline, "now": now}).rowcount != 1:
            return None
        return next(iter(endangered(db, now, 1, run)), None)


def mark_all_reported(
    db: sqlite3.Connection, session: Session, now: float, limit: int
) -> tuple[Sequence[Endangered], float | None]:
    """Mark all unreported dangers as reported; return them and the time of the next one."""
    found = db.execute(_UNTOLD, (limit + 1,)).fetchall()
    due = [(run, deadline) for run, deadline, danger_at in found[:limit] if danger_at <= now]
    reported = [mark_reported(db, session, run, deadline, now) for run, deadline in due]
    later = found[len(reported) :]
    return [each for each in reported if each is not None], later[0][2] if later else None


def _row(found: Sequence[object]) -> Endangered:
    run, workflow, status, deadline, danger_at, is_held = found
    whose = f"the deadline of run {run!r}"
    return Endangered(
        run=rows.text(whose, "runs.id", run),
        workflow=rows.text(whose, "runs.workflow", workflow),
        status=rows.status_of(whose, status),
        deadline=rows.moment(whose, "deadlines.deadline", deadline),
        danger_at=rows.moment(whose, "deadlines.danger_at", danger_at),
        is_held=bool(is_held),
    )
