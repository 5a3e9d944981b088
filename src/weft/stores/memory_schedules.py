"""
The schedules of a store in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from weft.ports.schedules import DueSchedules, StoredSchedule


class ScheduleRows:
    """The rows of schedules, by name."""

    def __init__(self) -> None:
        self._rows: dict[str, StoredSchedule] = {}

    def put(self, row: StoredSchedule) -> bool:
        """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
        known = self._rows.get(row.name)
        if (0 if known is None else known.revision) != row.revision:
            return False
        self._rows[row.name] = replace(row, revision=row.revision + 1)
        return True

    def listed(self, name: str | None) -> Sequence[StoredSchedule]:
        """Return all rows, or the one of this *name*."""
        return [row for key, row in sorted(self._rows.items()) if name is None or key == name]

    def due(self, workflows: Collection[str], now: float, limit: int) -> DueSchedules:
        """Return the rows that are due."""
        known = sorted((row for row in self._rows.values() if row.workflow in workflows), key=lambda row: row.look_at)
        later = (row.look_at for row in known if row.look_at > now)
        return DueSchedules(now, tuple(row for row in known if row.look_at <= now)[:limit], next(later, float("inf")))

    def delete(self, name: str) -> bool:
        """Delete a row; return whether it was there."""
        return self._rows.pop(name, None) is not None
