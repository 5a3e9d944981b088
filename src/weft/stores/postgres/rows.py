"""
Makes records and segments of rows.

The columns have types and are never null, so a row can be wrong in few ways; what the types do not say is checked here,
and only that run fails with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from msgspec.structs import replace

from weft.errors import DamagedRow
from weft.ports.store import LoadedRun, Message, RunRecord, RunStatus, Segment
from weft.stores.postgres.process import is_dead, this_machine

_STATUSES = frozenset(get_args(RunStatus))


def owned_record(row: Sequence[Any], dead: dict[tuple[int, int], bool] | None = None) -> RunRecord:
    """Return the record in a row of ``record.sql``; *dead* keeps which processes of this machine are, for a page."""
    *known, owner_died, machine, pid, born = row
    stored = record(known, owner_died=owner_died)
    if stored.owner is None or not machine or machine != this_machine():
        return stored
    dead = {} if dead is None else dead
    if (pid, born) not in dead:
        dead[pid, born] = is_dead(pid, born)
    return replace(stored, owner=None, owner_died=True) if dead[pid, born] else stored


def record(row: Sequence[Any], *, owner_died: bool = False, died_in: int | None = None, unread: int = 0) -> RunRecord:
    """Return the record in a row of a run, of which the last column is the owner."""
    (_, id_, workflow, version, status, reason, failures, dead_letters, outcome, head, chain, epoch, *rest) = row
    created_at, updated_at, finished_at, wake_at, first, owner = rest
    if status not in _STATUSES:
        raise DamagedRow(f"run {id_!r}", "weft_runs.status", repr(status), "a status")
    return RunRecord(
        id=id_,
        workflow=workflow,
        version=version,
        status=status,
        reason=reason,
        failures=failures,
        dead_letters=dead_letters,
        outcome=outcome,
        head=head,
        first=first,
        chain=chain,
        epoch=epoch,
        created_at=created_at,
        updated_at=updated_at,
        finished_at=finished_at,
        wake_at=wake_at,
        owner=owner,
        owner_died=owner_died,
        died_in=died_in,
        unread=unread,
    )


def loaded(row: Sequence[Any], position: int) -> LoadedRun:
    """Return the run in a row of ``load.sql``, which was asked for what came after *position*."""
    firsts, counts, bodies, link, *rest = row
    run = owned_record(rest)
    segments = [
        Segment(first, count, body) for first, count, body in zip(firsts or (), counts or (), bodies or (), strict=True)
    ]
    expected = max(position + 1, run.first)
    for each in segments:
        if each.first != expected and not (each is segments[0] and each.first < expected):
            found = f"an event {each.first} after event {expected - 1}"
            raise DamagedRow(f"run {run.id!r}", "weft_events.first", found, "one that follows it")
        expected = each.last + 1
    if run.head > position and expected != run.head + 1:
        raise DamagedRow(f"run {run.id!r}", "weft_runs.head", str(run.head), f"{expected - 1}, the last event")
    return LoadedRun(run, segments, link=link)


def message(row: Sequence[Any]) -> Message:
    """Return the message in a row of ``messages_of_runs.sql``."""
    number, run, kind, at, body = row
    return Message(number=number, run=run, kind=kind, at=at, body=body)
