"""
The jobs of a store in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from weft.ports.jobs import DueJobs, StoredJob


class JobRows:
    """The rows of jobs, by id."""

    def __init__(self) -> None:
        self._rows: dict[str, StoredJob] = {}

    def put(self, row: StoredJob) -> bool:
        """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
        known = self._rows.get(row.id)
        if (0 if known is None else known.revision) != row.revision:
            return False
        created_at = row.created_at if known is None else known.created_at
        self._rows[row.id] = replace(row, revision=row.revision + 1, created_at=created_at)
        return True

    def listed(self, id: str | None, limit: int) -> Sequence[StoredJob]:
        """Return the newest rows, or the one of this *id*."""
        known = [row for row in self._rows.values() if id is None or row.id == id]
        return sorted(known, key=lambda row: (row.created_at, row.id), reverse=True)[:limit]

    def due(self, now: float, limit: int) -> DueJobs:
        """Return the rows that are due."""
        known = sorted(self._rows.values(), key=lambda row: row.look_at)
        later = (row.look_at for row in known if row.look_at > now)
        return DueJobs(now, tuple(row for row in known if row.look_at <= now)[:limit], next(later, float("inf")))

    def delete(self, id: str) -> bool:
        """Delete a row; return whether it was there."""
        return self._rows.pop(id, None) is not None
