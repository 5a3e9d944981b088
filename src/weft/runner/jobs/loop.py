"""
The loop that drives jobs: one in every worker of a fleet.

A poll reads the rows that are due.  For each, it writes the name of its process into the row, and then does page after
page: it reads the next runs, and writes the new position together with their messages.  Any number of processes do
that at once: a row is changed by compare-and-set.  See docs/adr/0055 for what happens when a process dies in between.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from weft.errors import RunnerClosed, StoreClosed, StoreError, StoreUnavailable
from weft.ports.jobs import JobStore, StoredJob
from weft.ports.store import ListableStore, RunRecord
from weft.runner.jobs import rows
from weft.runner.jobs.decision import Job, Place, take_page, taken, without_deleted
from weft.runner.poll_loop import PollLoop

_log = logging.getLogger("weft.jobs")

PAGE: Final = 500
"""How many runs are visited in one transaction."""
LEASE: Final = 15.0
"""Seconds after which another process drives a job whose driver says nothing."""
POLL: Final = 30.0
"""Longest time between two checks.  New jobs trigger a check at once."""
TRIED_AGAIN: Final = 5.0
"""Seconds before a failed page is tried again."""


class JobRunStore(JobStore, ListableStore, Protocol):
    """The store of jobs, and of the runs that they visit."""


class JobLoop:
    """
    Drives the jobs in *store*.

    Args:
        driver: the name of this process in the rows that it drives; no other has it.
        clock: the time of day, for messages and for a store without a clock.
        page: how many runs are visited in one transaction.
        draw: returns a number from 0 to 1, by which polls are spread.
    """

    def __init__(
        self,
        store: JobRunStore,
        driver: str,
        clock: Callable[[], float],
        page: int = PAGE,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._store, self._driver, self._clock, self._size = store, driver, clock, page
        self._loop = PollLoop(self.poll, what="jobs", log=_log, longest=POLL, draw=draw)
        self.is_driving = False
        """Whether a job is being driven, so that it is worth waiting for the end of a page."""

    def wake(self) -> None:
        """A job may be due: poll soon."""
        self._loop.wake()

    def stop(self) -> None:
        """End after the page that is being done; another process goes on at once."""
        self._loop.stop()

    async def run(self) -> None:
        """Drive what is due, until it is stopped or the store is closed."""
        await self._loop.run()

    async def poll(self) -> float:
        """Drive what is due; return after how many seconds to poll again."""
        due = await self._store.due_jobs(self._clock())
        since = time.monotonic()

        def now() -> float:
            """Return the time by the clock of the store."""
            return due.now + time.monotonic() - since

        for row in due.found:
            if self._loop.is_stopping:
                return 0.0
            self.is_driving = True
            try:
                await self._drive(row, now)
            except (RunnerClosed, StoreClosed, StoreUnavailable):
                raise
            except Exception as error:  # noqa: BLE001 - the other jobs go on
                await self._could_not(row.id, now, error)
            finally:
                self.is_driving = False
        return 0.0 if due.found else min(max(due.next_at - due.now, 0.0), POLL)

    async def _drive(self, row: StoredJob, now: Callable[[], float]) -> None:
        """Do the pages of a job, until the job has ended, or a caller or another driver has changed its row."""
        job = taken(rows.kept(row), self._driver, now())
        written = await self._put(row, job, now() + LEASE)
        while written is not None and job.state == "running":
            row = written
            if self._loop.is_stopping:
                await self._put(row, job, now())
                return
            page = take_page(job, await self._next_runs(job), now())
            new = rows.stored(row, page.job, now() + LEASE)
            answers = await self._store.put_job(new, rows.messages_for(job.operation, page.runs, self._clock()))
            if answers is None:
                return
            # What turns out to be deleted is counted with the next page; the last one is empty.
            job = without_deleted(page.job, sum(isinstance(answer, StoreError) for answer in answers))
            written = replace(new, revision=row.revision + 1)

    async def _next_runs(self, job: Job) -> Sequence[RunRecord]:
        """Return the next runs that *job* visits."""
        chosen = job.filter
        if job.newest is None:
            return []
        # The order is by (created_at, id), newest first: the id that follows another one directly includes that one.
        after = Place(job.newest.created_at, job.newest.id + "\x01") if job.position is None else job.position
        return await self._store.list(
            statuses=chosen.statuses,
            workflow=chosen.workflow,
            failed=chosen.failed,
            since=chosen.since,
            after=RunRecord(id=after.id, workflow="", created_at=after.created_at, updated_at=after.created_at),
            limit=self._size,
        )

    async def _put(self, row: StoredJob, job: Job, look_at: float) -> StoredJob | None:
        """Write *job*; return its new row, or None if the row has changed meanwhile."""
        new = rows.stored(row, job, look_at)
        answers = await self._store.put_job(new)
        return None if answers is None else replace(new, revision=row.revision + 1)

    async def _could_not(self, id: str, now: Callable[[], float], error: Exception) -> None:
        """Note that a page could not be done, and do it again later."""
        _log.error("job %r could not go on, and is tried again in %g s: %s", id, TRIED_AGAIN, error)
        for row in await self._store.list_jobs(id):
            try:
                job = rows.kept(row)
            except StoreError:  # nothing of it can be read, and so it is left alone
                await self._store.put_job(replace(row, look_at=now() + 100 * TRIED_AGAIN))
                continue
            if job.state == "running":
                await self._put(row, replace(job, problem=f"{type(error).__name__}: {error}"), now() + TRIED_AGAIN)
