"""
Checks the rows of the file before anything uses them.

A file can be edited by hand, repaired by a tool or damaged where SQLite has no checksum.  Everything that is read is
checked here: a value that a column must not have is an error that names the run, the column and the value, and only
that run fails with it.

    >>> moment("run 'a'", "runs.created_at", "yesterday")
    Traceback (most recent call last):
        ...
    weft.errors.DamagedRow: run 'a' is damaged in its store: runs.created_at is 'yesterday' and should be a time, ...
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast, get_args

from weft.errors import DamagedRow
from weft.ports.store import FIRST_EPOCH, Message, RunRecord, RunStatus, Segment, StoredSnapshot
from weft.typing import RunId

_STATUSES = get_args(RunStatus)


def record(row: Sequence[Any]) -> RunRecord:
    """Return what a row of ``record.sql`` says of a run."""
    (key, id_, workflow, version, status, reason, link, epoch, created_at, updated_at, owner, *rest) = row
    (failures, dead_letters, finished_at, outcome, first, count, last_link, at, session, pid, host, *others) = rest
    wake_at, begins, _ = others
    whose = run_named(id_, key)
    if first is None:
        head, last_link, at = 0, link, updated_at
    else:
        head = _first(whose, first) + _count(whose, count) - 1
        at = moment(whose, "segments.at", at)
    if owner is not None:
        whole(whose, "runs.owner", owner, 0)
    return RunRecord(
        id=text(whose, "runs.id", id_),
        workflow=text(whose, "runs.workflow", workflow),
        version=text(whose, "runs.version", version),
        status=status_of(whose, status),
        reason=text(whose, "runs.reason", reason),
        failures=whole(whose, "runs.failures", failures, 0),
        dead_letters=whole(whose, "runs.dead_letters", dead_letters, 0),
        outcome=blob(whose, "runs.outcome", outcome),
        head=head,
        first=1 if begins is None else whole(whose, "truncations.first", begins, 1),
        chain=blob(whose, "runs.chain" if first is None else "segments.chain", last_link),
        epoch=whole(whose, "runs.epoch", epoch, FIRST_EPOCH),
        created_at=moment(whose, "runs.created_at", created_at),
        updated_at=max(moment(whose, "runs.updated_at", updated_at), at),
        finished_at=None if finished_at is None else moment(whose, "runs.finished_at", finished_at),
        wake_at=None if wake_at is None else moment(whose, "wakes.at", wake_at),
        owner=None if session is None else holder(whose, pid, host),
    )


def link_of(row: Sequence[Any]) -> bytes:
    """Return the link before the first event that a truncated run has left, from a row of ``record.sql``."""
    return blob(run_named(row[1], row[0]), "truncations.link", row[-1])


def segments(run: RunId, found: Sequence[Sequence[Any]], position: int) -> list[Segment]:
    """Return the segments in *found* that hold what came after *position*; they follow one another without a gap."""
    whose, kept = f"run {run!r}", list[Segment]()
    following = 0
    for first, count, body in found:
        segment = one_segment(whose, first, count, body)
        if first != (following or min(first, position + 1)):
            raise DamagedRow(whose, "segments.place", *_out_of_order(first, following or position + 1))
        following = segment.last + 1
        if segment.last > position:
            kept.append(segment)
    return kept


def one_segment(whose: str, first: Any, count: Any, body: Any) -> Segment:
    """Return a segment, wherever it stands."""
    return Segment(_first(whose, first), _count(whose, count), blob(whose, "segments.body", body))


def snapshot(run: RunId, position: Any, body: Any) -> StoredSnapshot:
    """Return the snapshot of a run."""
    whose = f"run {run!r}"
    return StoredSnapshot(whole(whose, "snapshots.position", position, 0), blob(whose, "snapshots.body", body))


def content(whose: str, found: Sequence[Sequence[Any]]) -> bytes:
    """Return the large value of which ``fact_body.sql`` has *found* one row, or a row for each of its parts."""
    body, key, length, *_ = found[0]
    if key is None:
        return blob(whose, "facts.body", body)
    if length is None:
        raise _damaged(whose, "facts.large", key, "the key of a large value that is there")
    whole(whose, "large.length", length, 0)
    numbers = [row[3] for row in found]
    parts = [blob(whose, "parts.body", row[4]) for row in found if row[3] is not None]
    size = sum(map(len, parts))
    if size != length or numbers != list(range(1, len(numbers) + 1)):
        expected = f"{length} bytes in parts that follow one another"
        raise DamagedRow(whose, "parts.body", f"{size} bytes in {len(parts)} parts", expected)
    return b"".join(parts)


def written(run: RunId, first: Any, count: Any, at: Any) -> tuple[int, int, float]:
    """Return a row of ``times.sql``."""
    whose = f"run {run!r}"
    return _first(whose, first), _count(whose, count), moment(whose, "segments.at", at)


def message(row: Sequence[Any]) -> Message:
    """Return a row of ``inbox_of_run.sql``."""
    number, run, kind, at, body = row
    whose = f"message {number}"
    return Message(
        number=whole(whose, "inbox.number", number, 1),
        run=text(whose, "runs.id", run),
        kind=text(whose, "inbox.kind", kind),
        at=moment(whose, "inbox.at", at),
        body=blob(whose, "inbox.body", body),
    )


def token(whose: str, found: Any) -> str:
    """Return the text after which the file of a session is named."""
    if not isinstance(found, str) or not found.isalnum():
        raise _damaged(whose, "sessions.token", found, "the letters and digits of a session")
    return found


def holder(whose: str, pid: Any, host: Any) -> str:
    """Return the process of a session, in words."""
    return f"process {whole(whose, 'sessions.pid', pid, 0)} on {text(whose, 'sessions.host', host)}"


def run_named(id_: Any, key: int) -> str:
    """Return the name of a run in messages, also if its id is damaged."""
    return f"run {id_!r}" if isinstance(id_, str) and _is_unicode(id_) else f"the run with the key {key}"


# -- columns -------------------------------------------------------------------------------------


def text(whose: str, column: str, found: Any) -> str:
    """Return what is *found* in a *column* of text."""
    if not isinstance(found, str) or not _is_unicode(found):
        raise _damaged(whose, column, found, "text")
    return found


def blob(whose: str, column: str, found: Any) -> bytes:
    """Return what is *found* in a *column* of bytes."""
    if not isinstance(found, bytes):
        raise _damaged(whose, column, found, "a blob")
    return found


def whole(whose: str, column: str, found: Any, least: int) -> int:
    """Return what is *found* in a *column* of numbers that are not less than *least*."""
    if not isinstance(found, int) or found < least:
        raise _damaged(whose, column, found, f"a whole number of at least {least}")
    return found


def moment(whose: str, column: str, found: Any) -> float:
    """Return what is *found* in a *column* of times."""
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise _damaged(whose, column, found, "a time, in seconds since the epoch")
    return found


def _damaged(whose: str, column: str, found: Any, expected: str) -> DamagedRow:
    return DamagedRow(whose, column, f"{found!r:.60}", expected)


def _out_of_order(first: int, expected: int) -> tuple[str, str]:
    """Return, in words, the event that a segment begins with, and the one that it should begin with."""
    why = f"so that event {expected} is missing," if first > expected else "which is there twice,"
    return f"event {first}, {why}", f"event {expected}"


def status_of(whose: str, found: Any) -> RunStatus:
    if found not in _STATUSES:
        raise _damaged(whose, "runs.status", found, f"one of {', '.join(_STATUSES)}")
    return cast("RunStatus", found)


def _first(whose: str, found: Any) -> int:
    return whole(whose, "segments.place", found, 1)


def _count(whose: str, found: Any) -> int:
    return whole(whose, "segments.count", found, 1)


def _is_unicode(found: str) -> bool:
    try:
        found.encode()
    except UnicodeEncodeError:
        return False
    return True
