"""
The decisions of jobs: which runs an operation is for, what a page of them does to a job, and how a job is changed.

    running ──page──► running ──empty page──► completed
       │  ▲              │
     pause │           cancel ──► cancelled   (also of a paused one)
       ▼  resume
     paused

Invariants: the position goes from newer runs to older ones and never back, so no run is visited twice; counts and
position are of the same page.  See docs/adr/0055-an-operation-on-many-runs-is-a-job.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from weft.ports.store import FINISHED, RunRecord, RunStatus

OperationKind: TypeAlias = Literal["cancel", "finish", "retry", "signal"]
JobState: TypeAlias = Literal["running", "paused", "completed", "cancelled"]

ENDED: Final[frozenset[JobState]] = frozenset({"completed", "cancelled"})
"""The states in which a job does nothing more."""
DELETED: Final = "was deleted meanwhile"
_NOTHING_FAILED: Final = "nothing has failed"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """The change of each run, and the caller."""

    kind: OperationKind
    reason: str = ""
    """Of a cancel: why, for the log."""
    undo: bool = True
    """Of a cancel: whether compensations run."""
    component: str = ""
    """Of a retry: only the failures of this component; empty for all."""
    name: str = ""
    """Of a signal: its name."""
    message: bytes = b""
    """The message for each run, except of a retry, whose message says how far the run has come."""
    by: str | None = None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a job is for, as ``runs()`` lists them with these filters."""

    workflow: str | None = None
    statuses: tuple[RunStatus, ...] | None = None
    failed: bool | None = None
    since: float | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all runs match."""
        return (self.workflow, self.statuses, self.failed, self.since) == (None, None, None, None)


class Place(NamedTuple):
    """A place in the order of runs."""

    created_at: float
    id: str


class Change(msgspec.Struct, frozen=True):
    """The last time that a caller has changed a job."""

    what: str
    at: float
    by: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and how far it has come."""

    operation: Operation
    filter: RunFilter
    newest: Place | None
    """The newest run that matched when the job was created; None if none did."""
    matched: int
    """How many runs matched then."""
    state: JobState = "running"
    position: Place | None = None
    """The last run that was visited; None before the first page."""
    sent: int = 0
    """To how many runs the request was sent."""
    skipped: Mapping[str, int] = {}
    """How many runs were skipped, by reason."""
    driver: str = ""
    """The worker that drives it, or drove it last."""
    problem: str = ""
    """Why the last page could not be done; it is tried again."""
    begun_at: float | None = None
    """When it was first driven, or driven again after a pause."""
    begun_with: int = 0
    """How many runs had been visited then."""
    updated_at: float = 0.0
    finished_at: float | None = None
    changed: Change | None = None

    @property
    def visited(self) -> int:
        """How many runs were visited."""
        return self.sent + sum(self.skipped.values())


def skip_reason(kind: OperationKind, status: RunStatus, *, has_failures: bool) -> str | None:
    """
    Return why a run in this *status* is skipped by an operation; None if the operation is for it.

    >>> skip_reason("cancel", "completed", has_failures=False), skip_reason("cancel", "parked", has_failures=True)
    ('has completed', None)
    >>> skip_reason("retry", "failed", has_failures=True), skip_reason("retry", "idle", has_failures=False)
    (None, 'nothing has failed')
    """
    if kind == "retry" and status not in ("completed", "cancelled"):
        return None if status == "failed" or has_failures else _NOTHING_FAILED
    if status not in FINISHED:
        return None
    return "was cancelled" if status == "cancelled" else f"has {status}"


def reason_of(kind: OperationKind, run: RunRecord) -> str | None:
    """Return why *run* is skipped by an operation; None if the operation is for it."""
    return skip_reason(kind, run.status, has_failures=run.failures > 0 or run.dead_letters > 0)


class Page(NamedTuple):
    """The next state of a job, and the runs to which its request is sent in the same transaction."""

    job: Job
    runs: tuple[RunRecord, ...]


def take_page(job: Job, found: Sequence[RunRecord], now: float) -> Page:
    """Return the effect of the page *found*, the next runs behind the position of *job*, which is running."""
    if not found:
        return Page(replace(job, state="completed", problem="", updated_at=now, finished_at=now), ())
    chosen = tuple(run for run in found if reason_of(job.operation.kind, run) is None)
    reasons = Counter(reason for run in found if (reason := reason_of(job.operation.kind, run)) is not None)
    last = found[-1]
    done = replace(
        job,
        position=Place(last.created_at, last.id),
        sent=job.sent + len(chosen),
        skipped=_added(job.skipped, reasons),
        problem="",
        updated_at=now,
    )
    return Page(done, chosen)


def without_deleted(job: Job, count: int) -> Job:
    """Return *job*, of whose last page *count* runs turned out to be deleted."""
    return replace(job, sent=job.sent - count, skipped=_added(job.skipped, {DELETED: count})) if count else job


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {reason: one.get(reason, 0) + other.get(reason, 0) for reason in sorted({*one, *other})}


def taken(job: Job, driver: str, now: float) -> Job:
    """Return *job*, which is running, driven by *driver* from now on."""
    begun = (now, job.visited) if job.begun_at is None else (job.begun_at, job.begun_with)
    return replace(job, driver=driver, begun_at=begun[0], begun_with=begun[1], updated_at=now)


def paused(job: Job) -> Job:
    """Return *job* paused; a job that has ended stays as it is."""
    return replace(job, state="paused", begun_at=None) if job.state == "running" else job


def resumed(job: Job) -> Job:
    """Return *job* resumed; a job that is not paused stays as it is."""
    return replace(job, state="running", problem="") if job.state == "paused" else job


def cancelled(job: Job, now: float) -> Job:
    """Return *job* cancelled; the requests that were sent stay sent."""
    return job if job.state in ENDED else replace(job, state="cancelled", finished_at=now)


def rate(job: Job) -> float | None:
    """Return how many runs a second are visited, since the job was last begun; None if that is not known yet."""
    if job.begun_at is None or job.updated_at <= job.begun_at or job.visited <= job.begun_with:
        return None
    return (job.visited - job.begun_with) / (job.updated_at - job.begun_at)
