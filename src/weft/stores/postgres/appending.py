"""
A batch of appends, in one transaction.

The fast way is one statement for the whole batch, which writes the appends that are accepted and says which those are.
The reasons for the others are looked up afterwards.  The slow way is one statement for each append, between savepoints:
for batches with several appends to one run, with groups or with runs that continue others, and for those with data that
PostgreSQL refuses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple

import msgspec

from weft.errors import (
    BrokenChain,
    ConcurrentAppend,
    InvalidAppend,
    OwnershipLost,
    RunExists,
    RunNotFound,
    StoreError,
    StoreUnavailable,
    UniqueKeyTaken,
)
from weft.ports.queue import Placement
from weft.ports.store import Append, ContentHash
from weft.stores.postgres.connection import Connection
from weft.stores.postgres.driver import ONE_ROW
from weft.stores.postgres.error_mapping import is_bad_data, is_taken_key
from weft.stores.postgres.reading import can_exist
from weft.stores.postgres.statements import Statements

_TRIES = 5
"""How often an append is tried that should be accepted and was not: it changed while it was looked up."""
_MOST_DEFINITIONS = 10_000


class Standing(NamedTuple):
    """The state of a run, for an append that was not written."""

    head: int
    epoch: int
    chain: bytes
    created_at: float
    owner: int | None
    holds_segment: bool
    """Whether the events of the append are at their position, or were there and have been removed since."""


class Retry(Exception):
    """The append would be accepted now."""


def judged(append: Append, run: Standing | None, owner: int | None, holder: str | None = None) -> StoreError | None:
    """
    Return why *append* was not written to *run*, or None if it was written by an earlier attempt.

    Args:
        holder: the run that has the unique key of a new one.

    Raises:
        Retry: it would be accepted now.
    """
    if run is None:
        if append.create and holder is not None:
            return UniqueKeyTaken(append.run, append.workflow or "", append.unique, holder)
        if append.create:
            raise Retry
        return RunNotFound(append.run)
    if append.again and _holds(append, run, owner):
        return None
    if append.create:
        return RunExists(append.run)
    if run.epoch != append.epoch:
        return OwnershipLost(append.run, append.epoch, run.epoch)
    if run.head != append.expected:
        return ConcurrentAppend(append.run, append.expected, run.head)
    if append.previous is not None and append.previous != run.chain:
        return BrokenChain(append.run, append.expected)
    raise Retry


def _holds(append: Append, run: Standing, owner: int | None) -> bool:
    """Whether *append* was written before: in an epoch one owner writes, so its events are there or nowhere."""
    if run.epoch != append.epoch:
        return False
    # A run that this append has created was created then; it may have been released later in its batch.
    if append.create and (run.created_at != append.at or run.owner not in {owner, None}):
        return False
    return run.holds_segment if append.count else append.create or run.head > append.expected


class _Refused(Exception):
    """One append of a group is refused; never leaves this module."""

    def __init__(self, reason: StoreError) -> None:
        self.reason = reason


def _check(refused: StoreError | None) -> None:
    """Leave the group of an append that was *refused*."""
    if refused is not None:
        raise _Refused(refused)


class Appender:
    """Writes batches to the tables of *statements*, as one owner."""

    def __init__(self, statements: Statements, store: str, queue: str) -> None:
        """Put runs that this owner creates for itself, and releases later, into *queue*."""
        self._statements, self._store, self._queue = statements, store, queue
        self._advance_one = statements["advance_one"]
        self.fence: str | None = None
        """The fence that a client knows; None for a worker."""
        self._definitions: set[ContentHash] = set()
        """Definitions that are known to be stored; they are never removed."""

    async def append(
        self, db: Any, batch: Sequence[Append], owner: int | None, placement: Placement | None = None
    ) -> list[StoreError | None]:
        """Write *batch* and commit; return None, or why it was refused, for each append."""
        if _is_simple(batch):
            try:
                return await self._write(db, batch, owner, placement)
            except Exception as error:
                if not is_bad_data(error):
                    raise
        async with db.transaction():
            continued = sorted({each.continues for each in batch if each.continues})
            if continued:
                await db.execute(self._statements["lock_continued"], continued)
            known = [run for run in (*continued, *(each.run for each in batch)) if can_exist(run)]
            await db.execute(self._statements["lock_batch"], known)
            refused = {
                group: await self._write_group(db, [each for each in batch if each.group == group], owner, placement)
                for group in dict.fromkeys(each.group for each in batch if each.group)
            }
            return [
                refused[each.group] if each.group else await self._write_alone(db, each, owner, placement)
                for each in batch
            ]

    def append_lone(self, connection: Connection, append: Append) -> Awaitable[bool]:
        """Write *append*, which has only events, and commit; return False if nothing was written."""
        return connection.insert(self._advance_one, _events(append))

    async def append_within(self, db: Any, append: Append, owner: int | None) -> StoreError | None:
        """Write *append* in the transaction that is open on *db*, without a commit; return why it was refused."""
        try:
            (answer,) = await self._write(db, [append], owner)
        except Exception as error:
            if not is_bad_data(error):
                raise
            return InvalidAppend(f"the append to run {append.run!r} cannot be stored: {error}")
        return answer

    async def lock(self, db: Any, run: str) -> None:
        """Lock *run* in the transaction that is open on *db*: what it has read of the run is as it will be written."""
        await db.fetchrow(self._statements["lock_run"], run)

    async def has_committed(self, db: Any, append: Append) -> bool:
        """
        Return whether *append*, which was written in a transaction, is there; that transaction has ended then.

        Raises:
            OwnershipLost: another owner has the run.
        """
        async with db.transaction():
            row = await db.fetchrow(self._statements["lock_run"], append.run)
            if row is not None and row["epoch"] != append.epoch:
                raise OwnershipLost(append.run, append.epoch, row["epoch"])
            (standing,) = await self._look_up(db, [msgspec.structs.replace(append, again=True)])
        if standing is None:
            return False
        return standing.holds_segment if append.count else standing.head > append.expected

    async def _write_group(
        self, db: Any, group: Sequence[Append], owner: int | None, placement: Placement | None
    ) -> StoreError | None:
        """Write all of *group*, or nothing; return why it was refused."""
        try:
            async with db.transaction():
                for each in group:
                    _check(await self._write_alone(db, each, owner, placement))
        except _Refused as error:
            return error.reason
        return None

    async def _write_alone(
        self, db: Any, append: Append, owner: int | None, placement: Placement | None = None
    ) -> StoreError | None:
        try:
            async with db.transaction():
                (answer,) = await self._write(db, [append], owner, placement)
                if append.continues and answer is None:
                    await db.execute(self._statements["succeed"], append.continues, append.run)
        except Exception as error:
            if is_taken_key(error):
                return await self._taken_key(db, append)
            if not is_bad_data(error):
                raise
            return InvalidAppend(f"the append to run {append.run!r} cannot be stored: {error}")
        return answer

    async def _taken_key(self, db: Any, append: Append) -> StoreError:
        """Return why *append*, which lets a run go on whose unique key another one has, was refused."""
        workflow, unique, holder = await db.fetchrow(self._statements["key_rival"], append.run)
        if holder is None:  # that one has finished meanwhile
            why = f"another run had the unique key {unique!r} of run {append.run!r} a moment ago"
            return StoreUnavailable(self._store, why)
        return UniqueKeyTaken(append.run, workflow, unique, holder)

    async def _write(
        self, db: Any, batch: Sequence[Append], owner: int | None, placement: Placement | None = None
    ) -> list[StoreError | None]:
        answers: list[StoreError | None] = [None] * len(batch)
        left: list[int] = list(range(len(batch)))  # the places of appends that were not written
        for _ in range(_TRIES):
            asked = [batch[place] for place in left]
            written, released = await self._write_accepted(db, asked, owner, placement)
            if released and owner is not None:
                await release(db, self._statements, released, owner)
            if len(written) == len(asked):
                return answers
            done = set(written)
            refused = [place for number, place in enumerate(left, 1) if number not in done]
            standing = await self._look_up(db, [batch[place] for place in refused])
            holders = await self._holders(db, [batch[place] for place in refused])
            left = []
            repeated: list[str] = []
            for place, run, holder in zip(refused, standing, holders, strict=True):
                try:
                    answers[place] = judged(batch[place], run, owner, holder)
                except Retry:
                    left.append(place)
                else:
                    if answers[place] is None and batch[place].release:
                        repeated.append(batch[place].run)
            if repeated and owner is not None:  # the first attempt may have ended between writing and releasing
                await release(db, self._statements, repeated, owner)
            if not left:
                return answers
        raise StoreUnavailable(self._store, f"run {batch[left[0]].run!r} changes all the time")

    async def _write_accepted(
        self, db: Any, batch: Sequence[Append], owner: int | None, placement: Placement | None = None
    ) -> tuple[list[int], list[str]]:
        """Write those of *batch* that are accepted; return their places, from 1, and runs that are to be released."""
        if all(each.has_only_events for each in batch):
            if len(batch) == 1:
                said = await db.execute(self._advance_one, *_events(batch[0]))
                return [1] if said == ONE_ROW else [], []
            row = await db.fetchrow(self._statements["advance"], *_columns([_events(each) for each in batch], 8))
        else:
            row = await db.fetchrow(self._statements["append"], *self.values(batch, owner, placement))
        written, released, *_ = row
        return written, released

    def values(self, batch: Sequence[Append], owner: int | None, placement: Placement | None) -> list[Any]:
        """Return the values of the statement ``append``."""
        events = _columns([_events(each) for each in batch], 8)
        *where, key = (None,) * 4 if placement is None else msgspec.structs.astuple(placement)
        snapshots = [(place, each.snapshot) for place, each in enumerate(batch, 1) if each.snapshot]
        tasks = [(place, *task) for place, each in enumerate(batch, 1) for task in each.tasks]
        due = [(place, *each.due) for place, each in enumerate(batch, 1) if each.due is not None]
        keys = [each.unique or None for each in batch]
        beside = [*_columns(snapshots, 2), self._queue, key, *_columns(tasks, 3), self.fence, *_columns(due, 3), keys]
        return [*events, *self._changes(batch), owner, *where, *beside]

    def _changes(self, batch: Sequence[Append]) -> list[list[Any]]:
        """Return the columns of an append that are more than events."""
        known = self._definitions
        facts = [(place, *fact) for place, each in enumerate(batch, 1) for fact in each.facts.items()]
        definitions = [
            (place, content, body)
            for place, each in enumerate(batch, 1)
            for content, body in each.definitions.items()
            if content not in known
        ]
        taken = [(place, number) for place, each in enumerate(batch, 1) for number in each.taken]
        return [
            [each.create for each in batch],
            [each.workflow for each in batch],
            [each.version for each in batch],
            [each.status for each in batch],
            [storable(each.reason) if each.status else "" for each in batch],
            [each.failures if each.status else 0 for each in batch],
            [each.dead_letters if each.status else 0 for each in batch],
            [each.outcome if each.status else b"" for each in batch],
            [each.wake_at for each in batch],
            [each.release for each in batch],
            *_columns(facts, 3),
            *_columns(definitions, 3),
            *_columns(taken, 2),
        ]

    def remember(self, batch: Sequence[Append], answers: Sequence[StoreError | None]) -> None:
        """
        *batch* is committed: the definitions of what was written need not be sent again.

        Of an append that was repeated it is not known what was written.
        """
        for each, refused in zip(batch, answers, strict=True):
            if each.definitions and refused is None and not each.again:
                if len(self._definitions) > _MOST_DEFINITIONS:
                    self._definitions.clear()
                self._definitions.update(each.definitions)

    async def _look_up(self, db: Any, batch: Sequence[Append]) -> list[Standing | None]:
        rows = await db.fetch(
            self._statements["standing"],
            [each.run for each in batch],
            [each.expected + 1 for each in batch],
            [each.count for each in batch],
            [each.body if each.again else b"" for each in batch],
            [each.chain for each in batch],
        )
        found = {row[0]: Standing(*tuple(row)[1:]) for row in rows}
        return [found.get(place) for place in range(1, len(batch) + 1)]

    async def _holders(self, db: Any, batch: Sequence[Append]) -> list[str | None]:
        """Return the runs that have the unique keys of *batch*."""
        if not any(each.unique for each in batch):
            return [None] * len(batch)
        keys = [each.unique or None for each in batch]
        rows = await db.fetch(self._statements["key_holders"], [each.workflow for each in batch], keys)
        found: dict[int, str] = dict(rows)
        return [found.get(place) for place in range(1, len(batch) + 1)]


def _is_simple(batch: Sequence[Append]) -> bool:
    """Whether each append of *batch* is about another run, and none depends on another one."""
    if any(each.group or each.continues for each in batch):
        return False
    return len(batch) == 1 or len({each.run for each in batch}) == len(batch)


async def release(db: Any, statements: Statements, runs: Sequence[str], owner: int) -> None:
    """Release those of *runs* that *owner* has; one that gets a message at the same moment is tried again."""
    while await db.fetchval(statements["release"], runs, owner):
        pass


def _events(append: Append) -> tuple[Any, ...]:
    """Return the values of an append that every append has."""
    return (
        *(append.run, append.expected, append.epoch, append.count),
        *(append.previous, append.chain, append.body, append.at),
    )


def storable(reason: str) -> str:
    """
    Return *reason* as text that PostgreSQL can store: an exception may say anything.

    >>> storable("zero \\0 and half a character \\ud800")
    'zero \ufffd and half a character ?'
    """
    return reason.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[i] for row in rows] for i in range(width)]
