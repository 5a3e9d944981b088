"""
The changes of a run besides appending to it: saving, acquiring, releasing, deleting.

Each is one transaction on the connection of the writer.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from msgspec.structs import replace

from weft.errors import (
    ConcurrentAppend,
    DamagedRow,
    InvalidAppend,
    OwnershipLost,
    RunNotFound,
    RunOwned,
    StoreError,
)
from weft.ports.store import ContentHash, RunRecord, RunStatus, StoredSnapshot
from weft.ports.truncation import check_truncation, too_old_snapshot
from weft.stores.sqlite import packs, reading, streams
from weft.stores.sqlite.ownership import Session, transaction
from weft.stores.sqlite.reading import find, find_owned
from weft.stores.sqlite.statements import query
from weft.typing import RunId

_log = logging.getLogger("weft.stores")

_CREATE = query("create")
_REPLACE = query("replace_run")
_SEGMENT = query("segment")
_FACT = query("fact")
_STANDING = query("standing")
_ACQUIRE = query("acquire")
_RELEASE = query("release")
_FORSAKE_LARGE = query("forsake_large")
_SNAPSHOT = query("snapshot")
_TRUNCATE = query("truncate")
_REMOVED_SEGMENTS = query("removed_segments")
_REMOVED_PACKS = query("removed_packs")
_BEGINS_SEGMENT = query("begins_segment")
_FORSAKE_LARGE_FACT = query("forsake_large_fact")
_ACQUIRE_MAIL = query("acquire_mail")
_DIED = "select died_epoch, died_head from runs where key = ?"
_FORGET_SNAPSHOT = "delete from snapshots where run = ?"
_REMOVED = "update store set generation = generation + 1"  # so that the note of the last commit is not trusted

_PURGED_AT_ONCE = 200  # runs; between two such transactions others get their turn
_REMOVED_AT_ONCE = 1_000  # segments of a truncated run


def save(db: sqlite3.Connection, session: Session, record: RunRecord, body: bytes) -> None:
    """Replace the whole log of a run."""
    with transaction(db):
        row = db.execute(_STANDING, (record.id,)).fetchone()
        told = (record.workflow, record.version, record.status, record.reason, record.chain)
        came_of = (record.failures, record.dead_letters, record.finished_at, record.outcome)
        if row is None:
            (key,) = db.execute("select coalesce(max(key), 0) + 1 from runs").fetchone()
            times = (record.created_at, record.updated_at)
            db.execute(_CREATE, (key, record.id, *told, record.epoch, *times, session.key, *came_of, None))
        else:
            key, _, epoch, *_ = row
            if epoch != record.epoch:
                raise OwnershipLost(record.id, record.epoch, epoch)
            db.execute(_REPLACE, (*told, record.updated_at, *came_of, key))
            _forget_segments(db, key)
            db.execute(_FORGET_SNAPSHOT, (key,))
            db.execute(_REMOVED)
        if record.head:
            db.execute(_SEGMENT, ((key << 32) + 1, record.head, record.chain, record.updated_at, body))


def save_facts(db: sqlite3.Connection, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
    """Store large values of a run; those that are stored already stay."""
    with transaction(db):
        key, _ = find(db, run)
        db.executemany(_FACT, [(key, content, body) for content, body in facts.items()])


def save_snapshot(db: sqlite3.Connection, run: RunId, snapshot: StoredSnapshot, epoch: int) -> None:
    """Replace the snapshot of a run."""
    with transaction(db):
        key, record = find(db, run)
        if record.epoch != epoch:
            raise OwnershipLost(run, epoch, record.epoch)
        if snapshot.position > record.head:
            raise InvalidAppend(
                f"a snapshot of {snapshot.position} events of run {run!r}, which has {record.head}; append them first"
            )
        if snapshot.position < record.first - 1:
            raise InvalidAppend(too_old_snapshot(run, snapshot.position, record.first))
        db.execute(_SNAPSHOT, (key, snapshot.position, snapshot.body))


def truncate_before(
    db: sqlite3.Connection,
    _: Session,
    run: RunId,
    first: int,
    *,
    link: bytes,
    expected: int,
    epoch: int,
    facts: Collection[ContentHash],
) -> None:
    """Note that the log of a run begins with event *first*: what stands before it is not read any more."""
    with transaction(db):
        key, record = find(db, run)
        if record.epoch != epoch:
            raise OwnershipLost(run, epoch, record.epoch)
        if record.head != expected:
            raise ConcurrentAppend(run, expected, record.head)
        if first > record.first:
            check_truncation(run, first, record.head, reading.load_snapshot(db, run), _begins(db, run, key, first))
            db.execute(_TRUNCATE, (key, first, link))
            # The link that is known may stand in what is removed: from now on it is that of the head.
            db.execute("update runs set chain = ? where key = ?", (record.chain, key))
        of_run = [(key, content) for content in facts]
        db.executemany(_FORSAKE_LARGE_FACT, of_run)
        db.executemany("delete from facts where run = ? and hash = ?", of_run)


def _begins(db: sqlite3.Connection, run: RunId, key: int, first: int) -> set[int]:
    """Return *first* if a segment of the run with this *key* begins there."""
    if db.execute(_BEGINS_SEGMENT, {"run": key, "first": first}).fetchone()[0]:
        return {first}
    return {each.first for each in packs.read(db, f"run {run!r}", key, first - 1, first)}


def remove_truncated(db: sqlite3.Connection, _: Session, run: RunId) -> bool:
    """Remove some of what stands before the first event of a truncated run; return whether there is more."""
    with transaction(db):
        row = db.execute(
            "select r.key, t.first from runs r join truncations t on t.run = r.key where r.id = ?", (run,)
        ).fetchone()
        if row is None:  # it was deleted meanwhile
            return False
        key, first = row
        asked = {"run": key, "first": first, "most": _REMOVED_AT_ONCE}
        db.execute(_REMOVED_PACKS, asked)
        packs.cut(db, f"run {run!r}", key, first)
        gone = db.execute(_REMOVED_SEGMENTS, asked).rowcount
        db.execute(_REMOVED)
    return gone == _REMOVED_AT_ONCE


def compact(db: sqlite3.Connection, _: Session, run: RunId) -> tuple[int, bool]:
    """Move some old segments of a run into packs; return how many, and whether there are more."""
    with transaction(db):
        key, _record = find(db, run)
        moved, more = packs.move_some(db, f"run {run!r}", key)
        if moved:
            db.execute(_REMOVED)
    return moved, more


def acquire(db: sqlite3.Connection, session: Session, run: RunId) -> RunRecord:
    """Own the run, in a new epoch."""
    with transaction(db):
        key = _key_if_free(db, session, run)
        _, owner, record = find_owned(db, run)  # what is damaged is not touched
        return _acquired(db, session, key, owner, record)


def acquire_many(
    db: sqlite3.Connection, session: Session, runs: Iterable[RunId]
) -> dict[RunId, RunRecord | StoreError]:
    """Own each of *runs*, in a new epoch; return its record, or why not."""
    taken: dict[RunId, RunRecord | StoreError] = {}
    with transaction(db):
        holders = session.others_alive(db)
        for run in dict.fromkeys(runs):
            try:
                key, owner, record = find_owned(db, run)
            except (RunNotFound, DamagedRow) as refused:
                taken[run] = refused
                continue
            if owner in holders:
                taken[run] = RunOwned(run, holders[owner])
            else:
                taken[run] = _acquired(db, session, key, owner, record)
    return taken


def _acquired(db: sqlite3.Connection, session: Session, key: int, owner: int | None, record: RunRecord) -> RunRecord:
    """Own the run of *record*, whose last owner was the session *owner*; return its record as it is then."""
    is_left = session.is_left_by_death(db, owner)
    db.execute(_ACQUIRE, (session.key, key, is_left, record.head))
    db.execute(_ACQUIRE_MAIL, (session.key, key))
    died_epoch, died_head = db.execute(_DIED, (key,)).fetchone()
    died_in = died_epoch if died_head == record.head else None
    return replace(record, epoch=record.epoch + 1, owner=session.words, died_in=died_in)


def remove_dead_sessions(db: sqlite3.Connection, session: Session) -> None:
    """Remove what dead sessions have left: what they owned is free."""
    with transaction(db):
        session.others_alive(db)


def log_unreadable(error: DamagedRow) -> None:
    """Log that a run cannot be read, and is left out."""
    _log.error("a damaged run is skipped: %s", error)


def release(db: sqlite3.Connection, session: Session, runs: Iterable[RunId]) -> None:
    """Release those of *runs* that this session owns."""
    with transaction(db):
        db.executemany(_RELEASE, [(run, session.key) for run in runs])


def delete(db: sqlite3.Connection, session: Session, run: RunId) -> None:
    """Delete a run, its log and its facts."""
    with transaction(db):
        _forget(db, _key_if_free(db, session, run))


def purge(
    db: sqlite3.Connection, session: Session, before: float, statuses: Collection[RunStatus], limit: int | None
) -> tuple[int, bool]:
    """Delete some old runs that no live session owns; return how many, and whether there may be more."""
    most = _PURGED_AT_ONCE if limit is None else min(limit, _PURGED_AT_ONCE)
    with transaction(db):
        taken = {session.key, *session.others_alive(db)}
        found = reading.old_runs(db, statuses, before)
        keys = list(islice((key for key, owner in found if owner not in taken), most))
        for key in keys:
            _forget(db, key)
    return len(keys), len(keys) == most


def _key_if_free(db: sqlite3.Connection, session: Session, run: RunId) -> int:
    """Return the key of *run*; raise RunOwned if another session that is alive owns it."""
    row = db.execute(_STANDING, (run,)).fetchone()
    if row is None:
        raise RunNotFound(run)
    key, _, _, owner, *_ = row
    if owner not in {None, session.key}:
        holder = session.others_alive(db).get(owner)
        if holder is not None:
            raise RunOwned(run, holder)
    return int(key)


def _forget(db: sqlite3.Connection, key: int) -> None:
    _forget_segments(db, key)
    db.execute(_FORGET_SNAPSHOT, (key,))
    db.execute(_FORSAKE_LARGE, (key,))
    db.execute("delete from facts where run = ?", (key,))
    db.execute("delete from inbox where run = ?", (key,))
    db.execute("delete from successors where run = ?", (key,))
    db.execute("delete from wakes where run = ?", (key,))
    db.execute("delete from deadlines where run = ?", (key,))
    streams.forget(db, key)
    db.execute("delete from runs where key = ?", (key,))


def _forget_segments(db: sqlite3.Connection, key: int) -> None:
    for table in ("segments", "packs"):
        db.execute(f"delete from {table} where place between ? << 32 and (? << 32) + 4294967295", (key, key))  # noqa: S608
    db.execute("delete from truncations where run = ?", (key,))
