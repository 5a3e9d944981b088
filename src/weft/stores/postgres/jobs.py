"""Rows of jobs; a change is a compare-and-set on their revision, in one transaction with messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.errors import StoreError
from weft.ports.jobs import DueJobs, StoredJob
from weft.ports.store import Message
from weft.stores.postgres import inbox
from weft.stores.postgres.statements import Statements

TOLD: Final = "jobs"
"""The payload in the channel of the queue when a job is due."""


async def put(
    db: Any, statements: Statements, row: StoredJob, messages: Sequence[Message], owner: int | None
) -> tuple[list[int | StoreError], bool] | None:
    """Write *row* and post *messages*, as :func:`inbox.post` does; None if the row has another revision."""
    async with db.transaction():
        written, _ = await db.fetchrow(
            statements["put_job"], row.id, float(row.created_at), float(row.look_at), row.body, row.revision
        )
        if not written:
            return None
        return await inbox.post(db, statements, messages, owner) if messages else ([], False)


async def listed(db: Any, statements: Statements, id: str | None, limit: int) -> Sequence[StoredJob]:
    """Return the newest rows, or the one of this *id*."""
    return [_row(found) for found in await db.fetch(statements["list_jobs"], id, limit)]


async def due(db: Any, statements: Statements, limit: int) -> DueJobs:
    """Return the rows that are due, by the clock of the database."""
    found = await db.fetch(statements["due_jobs"], limit)
    now, next_at, *_ = found[0]
    rows = tuple(_row(row) for _, _, *row in found if row[0] is not None)
    return DueJobs(now, rows, float("inf") if next_at is None else next_at)


async def delete(db: Any, statements: Statements, id: str) -> bool:
    """Delete a row; return whether it was there."""
    return await db.fetchval(statements["delete_job"], id) is not None


def _row(found: Sequence[Any]) -> StoredJob:
    id, created_at, look_at, body, revision = found
    return StoredJob(id=id, created_at=created_at, look_at=look_at, body=body, revision=revision)
