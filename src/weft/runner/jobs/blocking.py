"""
The commands of jobs for scripts and threads: the methods of :class:`JobCommands`, but blocking.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Coroutine, Iterator
from typing import Any, TypeVar

from weft.ports.store import RunStatus
from weft.runner.jobs.commands import BulkPreview, JobCommands
from weft.runner.jobs.decision import OperationKind
from weft.runner.jobs.rows import JobStatus
from weft.runner.option_checks import Time

T = TypeVar("T")


class BlockingJobCommands:
    """The methods of a blocking client that are about jobs."""

    @property
    def _job_commands(self) -> JobCommands:
        raise NotImplementedError

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def _iterated(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        raise NotImplementedError

    def preview_bulk(
        self,
        operation: OperationKind,
        *,
        workflow: str | None = None,
        status: RunStatus | Collection[RunStatus] | None = None,
        failed: bool | None = None,
        since: Time | None = None,
        component: str | None = None,
        name: str | None = None,
        examples: int = 5,
    ) -> BulkPreview:
        """Return what :meth:`bulk` would do now; see :meth:`JobCommands.preview_bulk`."""
        return self._do(
            self._job_commands.preview_bulk(
                operation,
                workflow=workflow,
                status=status,
                failed=failed,
                since=since,
                component=component,
                name=name,
                examples=examples,
            )
        )

    def bulk(
        self,
        operation: OperationKind,
        *,
        workflow: str | None = None,
        status: RunStatus | Collection[RunStatus] | None = None,
        failed: bool | None = None,
        since: Time | None = None,
        everything: bool = False,
        reason: str = "",
        undo: bool = True,
        component: str | None = None,
        name: str | None = None,
        value: Any = None,
        id: str | None = None,
        by: str | None = None,
    ) -> JobStatus:
        """Start a job that does *operation* to all runs that a filter matches; see :meth:`JobCommands.bulk`."""
        return self._do(
            self._job_commands.bulk(
                operation,
                workflow=workflow,
                status=status,
                failed=failed,
                since=since,
                everything=everything,
                reason=reason,
                undo=undo,
                component=component,
                name=name,
                value=value,
                id=id,
                by=by,
            )
        )

    def jobs(self, *, limit: int = 100) -> list[JobStatus]:
        """Return the jobs, newest first."""
        return self._do(self._job_commands.jobs(limit=limit))

    def job(self, id: str) -> JobStatus:
        """Return the job *id*."""
        return self._do(self._job_commands.job(id))

    def watch_job(self, id: str) -> Iterator[JobStatus]:
        """Iterate over the job *id* as it changes, until it has ended; see :meth:`JobCommands.watch_job`."""
        return self._iterated(self._job_commands.watch_job(id))

    def wait_job(self, id: str, timeout: float | None = None) -> JobStatus:
        """Wait until the job *id* has ended; return it."""
        return self._do(self._job_commands.wait_job(id, timeout))

    def pause_job(self, id: str, *, by: str | None = None) -> JobStatus:
        """Let the job *id* send nothing more until :meth:`resume_job`."""
        return self._do(self._job_commands.pause_job(id, by=by))

    def resume_job(self, id: str, *, by: str | None = None) -> JobStatus:
        """Let the job *id* go on after a pause, or look at it now if its driver has died."""
        return self._do(self._job_commands.resume_job(id, by=by))

    def cancel_job(self, id: str, *, by: str | None = None) -> JobStatus:
        """Let the job *id* send nothing more, for good; what was sent stays sent."""
        return self._do(self._job_commands.cancel_job(id, by=by))
