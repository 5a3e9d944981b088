"""
The changes of a run besides appending to it: saving, acquiring, releasing, deleting.

Each is one statement, or one transaction whose first statement locks the runs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from weft.errors import (
    ConcurrentAppend,
    DamagedRow,
    InvalidAppend,
    OwnershipLost,
    RunNotFound,
    RunOwned,
    StoreError,
    StoreUnavailable,
)
from weft.ports.queue import QueueStatus
from weft.ports.store import ContentHash, RunRecord, RunStatus, StoredSnapshot
from weft.ports.truncation import check_truncation, too_old_snapshot
from weft.stores.postgres import rows
from weft.stores.postgres.appending import storable
from weft.stores.postgres.process import Process, is_dead
from weft.stores.postgres.reading import can_exist, check_id
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

_log = logging.getLogger("weft.stores")

_TRIES = 5
"""How often runs are asked for that were free and are not: other processes take and release them meanwhile."""
_REMOVED_AT_ONCE = 1_000  # segments of a truncated run, in one transaction
_PURGED_AT_ONCE = 200  # runs; between two such transactions others get their turn


async def save(db: Any, statements: Statements, record: RunRecord, body: bytes, owner: int, queue: str) -> None:
    """Replace the whole log of a run."""
    told = (
        *(
            record.workflow,
            record.version,
            record.status,
            storable(record.reason),
            record.failures,
            record.dead_letters,
        ),
        *(record.outcome, record.head, record.chain, record.updated_at, record.finished_at),
    )
    async with db.transaction():
        key = await db.fetchval(statements["create"], record.id, *told, record.created_at, record.epoch, owner, queue)
        if key is None:
            row = await db.fetchrow(statements["lock_run"], record.id)
            if row is None:
                raise StoreUnavailable(f"run {record.id!r}", "another process deletes it")
            key, epoch = row
            if epoch != record.epoch:
                raise OwnershipLost(record.id, record.epoch, epoch)
            await db.execute(statements["replace"], key, *told)
        if record.head:
            await db.execute(statements["segment"], key, 1, record.updated_at, record.head, record.chain, body)


async def save_facts(db: Any, statements: Statements, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
    """Keep large values of a run; those that are there already stay."""
    check_id(run)
    if not await db.fetchval(statements["save_facts"], run, list(facts), list(facts.values())):
        raise RunNotFound(run)


async def save_snapshot(db: Any, statements: Statements, run: RunId, snapshot: StoredSnapshot, epoch: int) -> None:
    """Replace the snapshot of a run by one of events that are stored."""
    check_id(run)
    found = await db.fetchrow(statements["save_snapshot"], run, epoch, snapshot.position, snapshot.body)
    if found is None:
        raise RunNotFound(run)
    if found[0] != epoch:
        raise OwnershipLost(run, epoch, found[0])
    if found[1] < snapshot.position:
        raise InvalidAppend(
            f"the snapshot of run {run!r} is of {snapshot.position} events; {found[1]} are stored, append them first"
        )
    if snapshot.position < found[2] - 1:
        raise InvalidAppend(too_old_snapshot(run, snapshot.position, found[2]))


async def truncate_before(
    db: Any,
    statements: Statements,
    run: RunId,
    first: int,
    *,
    link: bytes,
    expected: int,
    epoch: int,
    facts: Collection[ContentHash],
) -> None:
    """Let the log of a run begin with event *first*; what stands before it is removed later."""
    check_id(run)
    async with db.transaction():
        found = await db.fetchrow(statements["lock_truncated"], run, first)
        if found is None:
            raise RunNotFound(run)
        key, current, head, begins, position, is_begin = found
        if current != epoch:
            raise OwnershipLost(run, epoch, current)
        if head != expected:
            raise ConcurrentAppend(run, expected, head)
        if first > begins:
            snapshot = None if position is None else StoredSnapshot(position, b"")
            check_truncation(run, first, head, snapshot, {first} if is_begin else ())
            await db.execute(statements["truncate"], key, first, link)
        if facts:
            await db.execute(statements["removed_facts"], key, list(facts))


async def remove_truncated(db: Any, statements: Statements, run: RunId) -> bool:
    """Remove some of what stands before the first event of a truncated run; return whether there may be more."""
    removed: int = await db.fetchval(statements["removed_events"], run, _REMOVED_AT_ONCE)
    return removed == _REMOVED_AT_ONCE


async def acquire_many(
    db: Any, statements: Statements, runs: Collection[RunId], owner: int, process: Process
) -> dict[RunId, RunRecord | StoreError]:
    """Own each of *runs* that is free, in its next epoch; return its record, or why not."""
    taken: dict[RunId, RunRecord | StoreError] = {run: RunNotFound(run) for run in runs if not can_exist(run)}
    left = [run for run in dict.fromkeys(runs) if run not in taken]
    for attempt in range(_TRIES):
        if not left:
            break
        for died_in, *row in await db.fetch(statements["acquire"], left, owner, process.name):
            taken[row[1]] = _record(row, died_in=died_in)
        left = [run for run in left if run not in taken]
        if left:
            refused = await _refusals(db, statements, left)
            has_dead = any(isinstance(each, RunOwned) for each in refused.values()) and not attempt
            if has_dead and await expire_dead_processes(db, statements, process):
                refused = {run: each for run, each in refused.items() if not isinstance(each, RunOwned)}
            taken.update(refused)
            left = [run for run in left if run not in taken]
    for run in left:
        taken[run] = StoreUnavailable(f"run {run!r}", "other processes take and release it all the time")
    return {run: taken[run] for run in dict.fromkeys(runs)}


async def claim(
    db: Any,
    statements: Statements,
    limit: int,
    queues: Sequence[str],
    workflows: Sequence[tuple[str, str]],
    owner: int,
    process: Process,
    number: int,
    *,
    few: bool,
) -> list[RunRecord]:
    """
    Own runs that are due and free; one whose row is damaged is logged, and left alone by the others too.

    Args:
        few: whether few are expected.
    """
    names, versions = [name for name, _ in workflows], [version for _, version in workflows]
    statement = statements.kept("claim") if few else statements["claim"]
    return _readable(await db.fetch(statement, limit, queues, names, versions, owner, process.name, number))


async def settle(
    db: Any, statements: Statements, numbers: Sequence[int], owner: int, process: Process
) -> list[RunRecord]:
    """Return the runs that the claims of these *numbers* have taken; they take nothing more from now on."""
    async with db.transaction():
        await db.execute(statements["settle"], owner, max(numbers))
        return _readable(await db.fetch(statements["settled"], owner, list(numbers), process.name))


def _readable(claimed: Sequence[Any]) -> list[RunRecord]:
    records: list[RunRecord] = []
    for died_in, unread, *row in claimed:
        record = _record(row, died_in=died_in, unread=unread)
        if isinstance(record, RunRecord):
            records.append(record)
        else:
            _log.error("a damaged run is skipped: %s", record)
    return records


async def defer(db: Any, statements: Statements, runs: Sequence[RunId], owner: int, seconds: float) -> None:
    """Release *runs* of *owner*; they are due again after *seconds*."""
    await db.execute(statements["defer"], runs, owner, seconds)


async def queue_depth(db: Any, statements: Statements, queue: str | None) -> int:
    """Return how many runs have something to do."""
    return await db.fetchval(statements["depth"], queue)  # type: ignore[no-any-return]


async def queues(db: Any, statements: Statements) -> list[QueueStatus]:
    """Return the queues that have runs."""
    return [
        QueueStatus(queue, waiting, max(0.0, oldest or 0.0), *others)
        for queue, waiting, oldest, *others in await db.fetch(statements["queues"])
    ]


async def _refusals(db: Any, statements: Statements, runs: Collection[RunId]) -> dict[RunId, StoreError]:
    """Return why *runs* were not acquired; those that are free by now are left out."""
    refused: dict[RunId, StoreError] = {run: RunNotFound(run) for run in runs}
    for row in await db.fetch(statements["find"], list(runs)):
        run, owner = row["id"], row["owner"]
        if owner is None:
            del refused[run]
        else:
            refused[run] = RunOwned(run, owner)
    return refused


def _record(row: Sequence[Any], *, died_in: int | None, unread: int = 0) -> RunRecord | StoreError:
    try:
        return rows.record(row, died_in=died_in, unread=unread)
    except DamagedRow as error:
        return error


async def expire_dead_processes(db: Any, statements: Statements, process: Process) -> bool:
    """End the leases of processes of this machine that are dead; return whether there were some."""
    if not process.machine:
        return False
    found = await db.fetch(statements["neighbours"], process.machine)
    dead = [key for key, pid, born in found if is_dead(pid, born)]
    if dead:
        await db.execute(statements["expire"], dead)
    return bool(dead)


async def delete(db: Any, statements: Statements, run: RunId, owner: int | None, process: Process) -> None:
    """Delete a run, its log and its facts."""
    check_id(run)
    for attempt in range(2):
        async with db.transaction():
            keys = [key for (key,) in await db.fetch(statements["lock_runs"], [run])]
            if not keys:
                raise RunNotFound(run)
            if await db.fetchval(statements["delete_runs"], keys, owner):
                return
            (row,) = await db.fetch(statements["find"], [run])
        if attempt or not await expire_dead_processes(db, statements, process):
            raise RunOwned(run, row["owner"] or "another process")


async def purge(
    db: Any, statements: Statements, before: float, statuses: Collection[RunStatus], limit: int | None
) -> tuple[int, bool]:
    """Delete some old runs that have no living owner; return how many, and whether there may be more."""
    most = _PURGED_AT_ONCE if limit is None else min(limit, _PURGED_AT_ONCE)
    async with db.transaction():
        found = await db.fetch(statements["lock_old_runs"], before, list(statuses), most)
        if not found:
            return 0, False
        gone = await db.fetchval(statements["delete_runs"], [key for (key,) in found], None)
    return gone, len(found) == most and gone > 0
