"""
The commands of jobs: previewing, starting, listing, watching, pausing, resuming and cancelling them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from weft.errors import InvalidOption, JobNotFound, JobTimeout, StoreUnavailable
from weft.ports.jobs import StoredJob
from weft.ports.store import FINISHED, RunStatus
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.jobs import decision, rows
from weft.runner.jobs.decision import Change, Job, Operation, OperationKind, Place, RunFilter, reason_of, skip_reason
from weft.runner.jobs.loop import JobRunStore
from weft.runner.jobs.rows import JobStatus
from weft.runner.option_checks import Time, as_statuses, as_time, check_choice, check_listing, check_text, check_undo
from weft.runner.runtime import Runtime

T = TypeVar("T")

_TRIES: Final = 50
"""How often a change is tried while a worker writes pages of the same job."""
_LOOKS: Final = 0.5
"""Seconds between two looks at a job that is watched."""
_EXAMPLES: Final = 100
"""Among how many runs examples are looked for."""


class BulkPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The effect that an operation on many runs would have now."""

    operation: OperationKind
    text: str
    """The operation and the filter, in words."""
    matched: int
    """How many runs match."""
    sent: int
    """To how many of them the request would be sent."""
    skipped: dict[str, int]
    """How many of them would be skipped, by reason."""
    counts: dict[tuple[str, RunStatus], int]
    """How many runs match, by workflow and status."""
    examples: tuple[str, ...]
    """The ids of a few of those to which it would be sent, the newest first."""


class JobCommands:
    """The methods of a client that are about jobs."""

    _runtime: Runtime

    async def _job_stores(self) -> Sequence[JobRunStore]:
        """Return the databases, each of which has its own row of a job."""
        raise NotImplementedError

    async def preview_bulk(
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
        """
        Return what :meth:`bulk` would do with this *operation* and filter now; nothing is changed.

        Args:
            component: of a retry: only the failures of this component; the counts are of all failures.
            name: of a signal: its name.
            examples: how many ids of runs it has at most.

        Raises:
            InvalidOption: one of these is something else.
        """
        chosen = _chosen(operation, workflow, status, failed, since)
        counts: Counter[tuple[str, RunStatus]] = Counter()
        skipped: Counter[str] = Counter()
        found: list[tuple[float, str]] = []
        for store in await self._job_stores():
            for key, has_failures, count in await self._counted(store, operation, chosen):
                counts[key] += count
                reason = skip_reason(operation, key[1], has_failures=has_failures)
                if reason is not None:
                    skipped[reason] += count
            page = await self._asked(partial(store.list, **_listed(chosen), limit=_EXAMPLES))
            found += [(run.created_at, run.id) for run in page if reason_of(operation, run) is None]
        matched = sum(counts.values())
        return BulkPreview(
            operation=operation,
            text=rows.in_words(Operation(kind=operation, component=component or "", name=name or ""), chosen),
            matched=matched,
            sent=matched - sum(skipped.values()),
            skipped=dict(sorted(skipped.items())),
            counts=dict(sorted(counts.items())),
            examples=tuple(id for _, id in sorted(found, reverse=True)[:examples]),
        )

    async def _counted(
        self, store: JobRunStore, operation: OperationKind, chosen: RunFilter
    ) -> list[tuple[tuple[str, RunStatus], bool, int]]:
        """Return how many runs match, by workflow, status and whether they have failures, as far as that matters."""
        statuses: tuple[RunStatus, ...] = chosen.statuses or get_args(RunStatus)
        if chosen.workflow is None:
            tally: Mapping[tuple[str, RunStatus], int] = await self._asked(cast("Any", store).tally)
            keys: list[tuple[str, RunStatus]] = sorted(key for key in tally if key[1] in statuses)
        else:
            keys = [(chosen.workflow, status) for status in statuses]
        found: list[tuple[tuple[str, RunStatus], bool, int]] = []
        for key in keys:
            is_split = operation == "retry" and key[1] not in FINISHED and chosen.failed is None
            for failed in (True, False) if is_split else (chosen.failed,):
                asked = partial(store.count, statuses=[key[1]], workflow=key[0], failed=failed, since=chosen.since)
                if count := await self._asked(asked):
                    found.append((key, bool(failed), count))
        return found

    async def bulk(
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
        """
        Start a job that does *operation* to all runs that a filter matches; workers do it, and this returns at once.

        Each run is sent the request once, as :meth:`cancel`, :meth:`finish`, :meth:`retry` or :meth:`signal` would send
        it.  Runs that are created later are not touched.  See docs/how-to/fleet.md.

        Args:
            operation: ``"cancel"``, ``"finish"``, ``"retry"`` or ``"signal"``.
            workflow: only runs of the workflow with this name; this and the next three are those of :meth:`runs`.
            status: only runs in this status, or in one of these.
            failed: only runs with failures that nothing has handled; False: only those without.
            since: only runs that were created at this time or later.
            everything: required if none of these is given.
            reason: of a cancel: why, for the log.
            undo: of a cancel: whether the runs undo what they have done.
            component: of a retry: only the failures of this component.
            name: of a signal: its name.
            value: of a signal: its value.
            id: the id of the job.  Starting a job again that has this id, the same operation and the same filter
                returns it.
            by: the name of the caller; kept in the logs of the runs.

        Raises:
            InvalidOption: one of these is something else, or another job has this id.
            UnencodableValue: the value could not be stored.
        """
        chosen = _chosen(operation, workflow, status, failed, since)
        if chosen.is_everything and not everything:
            raise InvalidOption("bulk() without a filter is about all runs: name some, or say everything=True")
        _check_arguments(operation, reason, undo, component, name, value)
        job = uuid.uuid4().hex[:12] if id is None else id
        check_text("id", job)
        now = self._runtime.dispatcher.clock.time()
        asked = Operation(kind=operation, reason=reason, undo=undo, component=component or "", name=name or "", by=by)
        told = replace(asked, message=rows.message_of(job, asked, value, now))
        stores = await self._job_stores()
        return rows.status_of(
            [await self._asked(partial(self._created, store, job, told, chosen, now)) for store in stores]
        )

    async def _created(
        self, store: JobRunStore, id: str, operation: Operation, chosen: RunFilter, now: float
    ) -> StoredJob:
        """Return the row of a job in *store*: a new one, or that of the same job."""
        newest = await store.list(**_listed(chosen), limit=1)
        job = Job(
            operation=operation,
            filter=chosen,
            newest=Place(newest[0].created_at, newest[0].id) if newest else None,
            matched=await store.count(**_listed(chosen)),
            updated_at=now,
        )
        row = rows.stored(StoredJob(id=id, created_at=now, look_at=0.0, body=b""), job, 0.0)
        if await store.put_job(row) is None:
            found = await store.list_jobs(id)
            if found and _is_same(rows.kept(found[0]), job):
                return found[0]
            raise InvalidOption(f"id={id!r}: another job has this id; choose another one")
        return replace(row, revision=1)

    async def jobs(self, *, limit: int = 100) -> list[JobStatus]:
        """Return the jobs, newest first."""
        if type(limit) is not int or limit < 1:
            raise InvalidOption(f"limit={limit!r}: use a number of jobs, 1 or more")
        found: dict[str, list[StoredJob]] = {}
        for store in await self._job_stores():
            for row in await self._asked(partial(store.list_jobs, limit=limit)):
                found.setdefault(row.id, []).append(row)
        known = sorted(found.values(), key=lambda parts: (parts[0].created_at, parts[0].id), reverse=True)
        return [rows.status_of(parts) for parts in known[:limit]]

    async def job(self, id: str) -> JobStatus:
        """
        Return the job *id*.

        Raises:
            JobNotFound: there is no such job.
        """
        found = [row for store in await self._job_stores() for row in await self._asked(partial(store.list_jobs, id))]
        if not found:
            raise JobNotFound(id)
        return rows.status_of(found)

    async def watch_job(self, id: str) -> AsyncGenerator[JobStatus, None]:
        """
        Yield the job *id* whenever it has changed, until it has ended; the last one says how.

        Raises:
            JobNotFound: there is no such job.
        """
        last: JobStatus | None = None
        while True:
            found = await self.job(id)
            if found != last:
                last = found
                yield found
            if found.has_ended:
                return
            await asyncio.sleep(_LOOKS)

    async def wait_job(self, id: str, timeout: float | None = None) -> JobStatus:
        """
        Wait until the job *id* has ended; return it.

        Raises:
            JobNotFound: there is no such job.
            JobTimeout: it has not ended within *timeout* seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                async for found in self.watch_job(id):
                    if found.has_ended:
                        return found
        except TimeoutError:
            pass
        found = await self.job(id)
        if found.has_ended:
            return found
        why = f"worker {found.driver!r} drives it" if found.driver else "no worker has taken it, workers() lists them"
        if found.state == "paused":
            why = "it goes on with resume_job()"
        raise JobTimeout(id, timeout or 0.0, found.state, found.visited, found.matched, found.problem or why)

    async def pause_job(self, id: str, *, by: str | None = None) -> JobStatus:
        """
        Let the job *id* send nothing more until :meth:`resume_job`; one that has ended stays as it is.

        Args:
            by: the name of the caller; :meth:`job` shows it.

        Raises:
            JobNotFound: there is no such job.
        """
        return await self._changed_job(id, lambda job, _: decision.paused(job), "paused", by)

    async def resume_job(self, id: str, *, by: str | None = None) -> JobStatus:
        """
        Let the job *id* go on after a pause, or look at it now if its driver has died.

        Args:
            by: the name of the caller; :meth:`job` shows it.

        Raises:
            JobNotFound: there is no such job.
        """
        return await self._changed_job(id, lambda job, _: decision.resumed(job), "resumed", by)

    async def cancel_job(self, id: str, *, by: str | None = None) -> JobStatus:
        """
        Let the job *id* send nothing more, for good; what was sent stays sent.

        Args:
            by: the name of the caller; :meth:`job` shows it.

        Raises:
            JobNotFound: there is no such job.
        """
        return await self._changed_job(id, decision.cancelled, "cancelled", by)

    # --------------------------------------------------------------------------------------------

    async def _changed_job(self, id: str, change: Callable[[Job, float], Job], what: str, by: str | None) -> JobStatus:
        found = [
            row
            for store in await self._job_stores()
            if (row := await self._asked(partial(self._change_job, store, id, change, what, by))) is not None
        ]
        if not found:
            raise JobNotFound(id)
        return rows.status_of(found)

    async def _change_job(
        self, store: JobRunStore, id: str, change: Callable[[Job, float], Job], what: str, by: str | None
    ) -> StoredJob | None:
        """Change the row of a job in *store*; return it, or None if it is not there."""
        for _ in range(_TRIES):
            known = await store.list_jobs(id)
            if not known:
                return None
            row, job = known[0], rows.kept(known[0])
            if job.state in decision.ENDED:
                return row
            now = self._runtime.dispatcher.clock.time()
            changed = replace(change(job, now), changed=Change(what, now, by or ""), updated_at=now)
            new = rows.stored(row, changed, 0.0)
            if await store.put_job(new) is not None:
                return replace(new, revision=row.revision + 1)
        raise StoreUnavailable(f"the job {id!r}", "a worker changes it all the time")

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        self._runtime.check_open()
        return await retry_while_unavailable(call, while_=self._runtime.is_open)


def _chosen(
    operation: OperationKind,
    workflow: str | None,
    status: RunStatus | Collection[RunStatus] | None,
    failed: bool | None,
    since: Time | None,
) -> RunFilter:
    check_choice("operation", operation, OperationKind)
    check_listing(workflow, failed)
    statuses = as_statuses(status)
    return RunFilter(
        workflow=workflow,
        statuses=None if statuses is None else tuple(sorted(statuses)),
        failed=failed,
        since=as_time("since", since),
    )


def _listed(chosen: RunFilter) -> dict[str, Any]:
    """Return the filter as arguments of ``list`` and ``count``."""
    return {
        "statuses": chosen.statuses,
        "workflow": chosen.workflow,
        "failed": chosen.failed,
        "since": chosen.since,
    }


def _check_arguments(
    operation: OperationKind, reason: str, undo: object, component: str | None, name: str | None, value: Any
) -> None:
    """Refuse arguments of another operation."""
    check_undo(undo, None)
    if operation == "signal":
        check_text("name", name)
    given: dict[str, list[tuple[str, Any]]] = {
        "cancel": [("reason", reason or None), ("undo", None if undo else undo)],
        "retry": [("component", component)],
        "signal": [("name", name), ("value", value)],
    }
    for kind, options in given.items():
        for option, said in options:
            if said is not None and kind != operation:
                raise InvalidOption(f"{option}={said!r:.60} is for a {kind}, and this is a {operation}: leave it out")


def _is_same(known: Job, new: Job) -> bool:
    """Whether *new* is the job that is *known*; a signal has the time in its message."""
    return known.filter == new.filter and replace(known.operation, message=b"") == replace(new.operation, message=b"")
