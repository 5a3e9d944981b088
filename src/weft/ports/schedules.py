"""
The port of schedules: rows with a revision, which stores keep beside runs (ADR 46).

A store knows when a row is due, and nothing else of it.  Every change of a row is a compare-and-set on its revision.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

import msgspec


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one schedule."""

    name: str
    workflow: str
    """The name of the workflow that it starts."""
    look_at: float
    """When a process has to look at it, in seconds since the epoch; infinite for never."""
    body: bytes
    revision: int = 0
    """The version of the row, from 1; 0 in a row that is to be created."""


class DueSchedules(msgspec.Struct, frozen=True):
    """The answer to the question which schedules are due."""

    now: float
    """The time by which they are."""
    found: tuple[StoredSchedule, ...] = ()
    next_at: float = float("inf")
    """When the next of the others is due."""


@runtime_checkable
class ScheduleStore(Protocol):
    """Rows of schedules, by name."""

    async def put_schedule(self, row: StoredSchedule) -> bool:
        """
        Write *row* in place of the one with its revision, or as a new one if that is 0; the revision is raised by 1.

        Return False, and write nothing, if the stored row has another revision, or is or is not there.
        """
        ...

    async def list_schedules(self, name: str | None = None) -> Sequence[StoredSchedule]:
        """Return all rows, in the order of their names, or the one of this *name*."""
        ...

    async def due_schedules(self, workflows: Collection[str], now: float, *, limit: int = 100) -> DueSchedules:
        """
        Return rows that start one of *workflows* and are due, *limit* at most, those that are due longest first.

        A store that many machines share goes by its own clock, and ignores *now*.
        """
        ...

    async def delete_schedule(self, name: str) -> bool:
        """Delete a row; return whether it was there."""
        ...
