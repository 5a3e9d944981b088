"""Rows of schedules; a change is a compare-and-set on their revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ports.schedules import DueSchedules, StoredSchedule
from weft.stores.postgres.statements import Statements


async def put(db: Any, statements: Statements, row: StoredSchedule, fence: str | None) -> bool:
    """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
    found = await db.fetchrow(
        statements["put_schedule"], row.name, row.workflow, float(row.look_at), row.body, row.revision, fence
    )
    return bool(found[0])


async def listed(db: Any, statements: Statements, name: str | None) -> Sequence[StoredSchedule]:
    """Return all rows, or the one of this *name*."""
    return [_row(found) for found in await db.fetch(statements["list_schedules"], name)]


async def due(db: Any, statements: Statements, workflows: Sequence[str], limit: int) -> DueSchedules:
    """Return the rows that are due, by the clock of the database."""
    found = await db.fetch(statements["due_schedules"], workflows, limit)
    now, next_at, *_ = found[0]
    rows = tuple(_row(row) for _, _, *row in found if row[0] is not None)
    return DueSchedules(now, rows, float("inf") if next_at is None else next_at)


async def delete(db: Any, statements: Statements, name: str) -> bool:
    """Delete a row; return whether it was there."""
    return await db.fetchval(statements["delete_schedule"], name) is not None


def _row(found: Sequence[Any]) -> StoredSchedule:
    name, workflow, look_at, body, revision = found
    return StoredSchedule(name=name, workflow=workflow, look_at=look_at, body=body, revision=revision)
