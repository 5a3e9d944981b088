"""
Schedules and jobs: the part of the store that keeps them.

Both are rows with a revision, and due by the clock of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from weft.errors import StoreError
from weft.ports.jobs import DueJobs, StoredJob
from weft.ports.schedules import DueSchedules, StoredSchedule
from weft.ports.store import Message
from weft.stores.postgres import jobs, schedules
from weft.stores.postgres.shard_store import ShardPart


class SchedulePart(ShardPart):
    """The schedules and jobs in a database."""

    # -- schedules ----------------------------------------------------------------------------------

    async def put_schedule(self, row: StoredSchedule) -> bool:
        """Write *row* in place of the one with its revision, or as a new one; return whether it was written."""
        is_written = await self._ask(schedules.put, row, self.fence)
        if not is_written and not row.revision:
            await self.check_fence()
        return is_written

    async def list_schedules(self, name: str | None = None) -> Sequence[StoredSchedule]:
        """Return all rows of schedules, or the one of this *name*."""
        return await self._ask(schedules.listed, name)

    async def due_schedules(self, workflows: Collection[str], now: float, *, limit: int = 100) -> DueSchedules:  # noqa: ARG002
        """Return the schedules that are due, by the clock of the database."""
        return await self._ask(schedules.due, sorted(workflows), limit)

    async def delete_schedule(self, name: str) -> bool:
        """Delete the row of a schedule; return whether it was there."""
        return await self._ask(schedules.delete, name)

    # -- jobs ---------------------------------------------------------------------------------------

    async def put_job(self, row: StoredJob, messages: Sequence[Message] = ()) -> Sequence[int | StoreError] | None:
        """Write *row* in place of the one with its revision, or as a new one, and post *messages*; else None."""
        opened = self._usable()
        written = await self._ask(jobs.put, row, list(messages), opened.lease.known)
        if written is None:
            return None
        answers, is_own = written
        if is_own:
            opened.hints.notify(opened.channel)
        return answers

    async def list_jobs(self, id: str | None = None, *, limit: int = 100) -> Sequence[StoredJob]:
        """Return the newest rows of jobs, or the one of this *id*."""
        return await self._ask(jobs.listed, id, limit)

    async def due_jobs(self, now: float, *, limit: int = 10) -> DueJobs:  # noqa: ARG002
        """Return the jobs that are due, by the clock of the database."""
        return await self._ask(jobs.due, limit)

    async def delete_job(self, id: str) -> bool:
        """Delete the row of a job; return whether it was there."""
        return await self._ask(jobs.delete, id)

    async def watch_jobs(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after a job may have become due."""
        return await self._usable().hints.listen(
            self._statements.channel, lambda told: notify() if told is None or told == jobs.TOLD else None
        )
