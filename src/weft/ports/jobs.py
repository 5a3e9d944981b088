"""
The port of jobs, operations on many runs: rows with a revision, which stores keep beside runs (ADR 55).

A store knows when a row is due, and nothing else of it.  Every change of a row is a compare-and-set on its revision,
and the messages of a page are posted in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from weft.errors import StoreError
from weft.ports.store import Message


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one job."""

    id: str
    created_at: float
    look_at: float
    """When a process has to look at it, in seconds since the epoch; infinite for never."""
    body: bytes
    revision: int = 0
    """The version of the row, from 1; 0 in a row that is to be created."""


class DueJobs(msgspec.Struct, frozen=True):
    """The answer to the question which jobs are due."""

    now: float
    """The time by which they are."""
    found: tuple[StoredJob, ...] = ()
    next_at: float = float("inf")
    """When the next of the others is due."""


@runtime_checkable
class JobStore(Protocol):
    """Rows of jobs, by id."""

    async def put_job(self, row: StoredJob, messages: Sequence[Message] = ()) -> Sequence[int | StoreError] | None:
        """
        Write *row* in place of the one with its revision, or as a new one if that is 0, and post *messages*.

        Both are one transaction; the revision is raised by 1.  Return the answers of ``InboxStore.post``; None, with
        nothing written or posted, if the stored row has another revision, or is or is not there.
        """
        ...

    async def list_jobs(self, id: str | None = None, *, limit: int = 100) -> Sequence[StoredJob]:
        """Return the newest rows (then by id, the last one first), *limit* at most, or the one of this *id*."""
        ...

    async def due_jobs(self, now: float, *, limit: int = 10) -> DueJobs:
        """
        Return rows that are due, those that are due longest first.

        A store that many machines share goes by its own clock, and ignores *now*.
        """
        ...

    async def delete_job(self, id: str) -> bool:
        """Delete a row; return whether it was there."""
        ...
