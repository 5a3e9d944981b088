"""
Jobs as rows of a store, and back; the messages that they send; and how they are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.errors import CorruptStore
from weft.log.messages import encode_message
from weft.ports.jobs import StoredJob
from weft.ports.store import Message, RunRecord, RunStatus
from weft.runner.jobs.decision import ENDED, Change, Job, JobState, Operation, OperationKind, RunFilter, rate

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Job).decode

_ORDER: Final[tuple[JobState, ...]] = ("running", "paused", "cancelled", "completed")
"""The state of a job in several databases is the first of these that it has in one of them."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job as ``jobs()`` shows it."""

    id: str
    operation: OperationKind
    text: str
    """The operation and the filter, in words."""
    workflow: str | None
    status: tuple[RunStatus, ...] | None
    failed: bool | None
    since: datetime | None
    by: str | None
    state: JobState
    matched: int
    """How many runs matched when it was created."""
    visited: int
    """How many runs it has come to."""
    sent: int
    """To how many of them the request was sent."""
    skipped: dict[str, int]
    """How many of them were skipped, by reason."""
    rate: float | None
    """How many runs a second it visits; None if that is not known."""
    left: float | None
    """Estimated seconds for the rest; None if unknown."""
    driver: str
    """The worker that drives it, or drove it last."""
    problem: str
    """Why the last page could not be done; it is tried again."""
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    changed: Change | None
    """The last pause, resume or cancel, with the caller and the time."""

    @property
    def has_ended(self) -> bool:
        """Whether it does nothing more."""
        return self.state in ENDED


def kept(row: StoredJob) -> Job:
    """
    Return the job in *row*.

    Raises:
        CorruptStore: it cannot be read.
    """
    try:
        return _decode(row.body)
    except msgspec.MsgspecError as error:
        raise CorruptStore(f"the job {row.id!r}", str(error)) from error


def stored(row: StoredJob, job: Job, look_at: float) -> StoredJob:
    """Return *row* with *job* in it; one that is not running is not looked at."""
    at = look_at if job.state == "running" else float("inf")
    return msgspec.structs.replace(row, body=_encode(job), look_at=at)


def message_of(job: str, operation: Operation, value: Any, at: float) -> bytes:
    """
    Return the message that *operation* sends to each run; empty for a retry.

    Args:
        job: the id of the job, the key of a signal.
        value: the value of a signal.

    Raises:
        UnencodableValue: the value cannot be stored.
    """
    match operation.kind:
        case "cancel":
            return encode_message(ev.RunCancelled(0, operation.reason, operation.by, operation.undo))
        case "finish":
            return encode_message(ev.RunFinished(0, operation.by))
        case "signal":
            return encode_message(ev.SignalReceived(0, operation.name, value, at, f"job {job}", operation.by))
        case "retry":
            return b""


def messages_for(operation: Operation, runs: Sequence[RunRecord], at: float) -> list[Message]:
    """Return the messages for *runs*."""
    return [
        Message(run=run.id, kind=operation.kind, body=operation.message or _retry(operation, run), at=at)
        for run in runs
    ]


def _retry(operation: Operation, run: RunRecord) -> bytes:
    """Return the message that retries what has failed in *run* so far."""
    return encode_message(ev.RunnableRetried(run.head, operation.component, (), None, None, operation.by))


def status_of(found: Sequence[StoredJob]) -> JobStatus:
    """Return a job as users see it, of its row, or of its rows in several databases."""
    parts = [kept(row) for row in found]
    first, operation, chosen = parts[0], parts[0].operation, parts[0].filter
    state: JobState = next(each for each in _ORDER if any(part.state == each for part in parts))
    rates = [each for part in parts if part.state == "running" and (each := rate(part)) is not None]
    visited, matched = sum(part.visited for part in parts), sum(part.matched for part in parts)
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.skipped)
    speed = sum(rates) if rates else None
    ends = [part.finished_at for part in parts]
    return JobStatus(
        id=found[0].id,
        operation=operation.kind,
        text=in_words(operation, chosen),
        workflow=chosen.workflow,
        status=chosen.statuses,
        failed=chosen.failed,
        since=None if chosen.since is None else _time(chosen.since),
        by=operation.by,
        state=state,
        matched=matched,
        visited=visited,
        sent=sum(part.sent for part in parts),
        skipped=dict(sorted(skipped.items())),
        rate=speed,
        left=max(0, matched - visited) / speed if speed and state == "running" else None,
        driver=", ".join(dict.fromkeys(part.driver for part in parts if part.driver)),
        problem="; ".join(part.problem for part in parts if part.problem),
        created_at=_time(found[0].created_at),
        updated_at=_time(max(part.updated_at for part in parts)),
        finished_at=_time(max(end or 0.0 for end in ends)) if None not in ends else None,
        changed=first.changed,
    )


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def in_words(operation: Operation, chosen: RunFilter) -> str:
    """
    Return what a job does.

    >>> in_words(Operation(kind="signal", name="go"), RunFilter(workflow="orders", statuses=("waiting",)))
    "signal 'go' to runs of 'orders' that are waiting"
    >>> in_words(Operation(kind="retry"), RunFilter(failed=True))
    'retry runs with failures'
    >>> in_words(Operation(kind="signal"), RunFilter())
    'signal to runs'
    """
    what: str = operation.kind
    if operation.kind == "signal":
        what = f"signal {operation.name!r} to" if operation.name else "signal to"
    if operation.component:
        what = f"retry {operation.component!r} of"
    words = [f"{what} runs"]
    if chosen.workflow is not None:
        words.append(f"of {chosen.workflow!r}")
    if chosen.failed is not None:
        words.append("with failures" if chosen.failed else "without failures")
    if chosen.statuses is not None:
        words.append(f"that are {' or '.join(chosen.statuses)}")
    if chosen.since is not None:
        words.append(f"created since {_time(chosen.since):%Y-%m-%d %H:%M:%S} UTC")
    return " ".join(words)
