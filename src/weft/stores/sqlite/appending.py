"""
A batch of appends, in one transaction.

The fast path assumes that every append of the batch is valid: it adds all events with a compare-and-set and counts the
rows that were added.  If there are fewer than expected, the slow path finds out, run by run, which append is refused
and why.  The two differ in nothing but speed.

The compare-and-set reads the last segment of the run, unless it is known where that stands: this connection has written
it, and since then it has done nothing but append, and no other connection has committed anything.  SQLite counts
the latter (``pragma data_version``), and the number is read in the transaction, when no other process can write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from weft.errors import (
    BrokenChain,
    ConcurrentAppend,
    InvalidAppend,
    OwnershipLost,
    RunExists,
    RunNotFound,
    StoreError,
    UniqueKeyTaken,
)
from weft.ports.store import FINISHED, FIRST_EPOCH, NEVER, Append, ContentHash
from weft.stores.sqlite import deadlines, packs
from weft.stores.sqlite.error_mapping import BAD_DATA
from weft.stores.sqlite.large_values import Loaded
from weft.stores.sqlite.ownership import transaction
from weft.stores.sqlite.statements import RowStatement, query
from weft.typing import RunId

Row = tuple[Any, ...]

_CREATE = RowStatement("create")
_CREATE_RUNNING = RowStatement("create_running")
_ADVANCE = RowStatement("advance")
_SAY = RowStatement("say")
_COMPLETE = RowStatement("complete")
_CHANGE = RowStatement("change")
_FOLLOW = RowStatement("segment")
_SEGMENT = query("segment")
_FACT = query("fact")
_LARGE_FACT = query("large_fact")
_WHOLE_LARGE = query("whole_large")
_DEFINITION = query("definition")
_STANDING = query("standing")
_HAS_SEGMENT = query("has_segment")
_BEGINS_BEHIND = query("begins_behind")
_WAKE = query("wake")
_TAKE = query("take")
_SNAPSHOT = query("snapshot")
_SUCCEED = query("succeed")
_BEQUEATH = query("bequeath")
_PASS_KEY = query("pass_key")
_KEY_HOLDER = query("key_holder")
_KEY_RIVAL = query("key_rival")

_MOST_REMEMBERED = 20_000
"""Keys and definitions: each takes 90 to 300 bytes, and to look one up again takes microseconds."""
_MANY = 8
"""From how many appends on it is worth a statement to learn whether others have written."""
_COPIED = 4096
"""
Bytes: a body that is not longer is bound as a copy.

sqlite3 looks for an adapter of each value that is not exactly an int, a float, a str or a bytearray: 0.5 µs for bytes.
A copy of few bytes takes 0.2 µs, and one of 30,000 takes as long as the search.
"""
_NOTHING: Loaded = {}
_NOTHING_YET: Row = (0, 0, None, bytearray())

_End = tuple[int, int, bytes]
"""Where a log ends: the place of the segment that comes next, the epoch, and the last link."""
_NO_ENDS: dict[RunId, _End] = {}
_PLACES = (1 << 32) - 1
"""The part of a place that is the number of an event."""


class Appender:
    """Writes batches for one session, on the connection of its writer."""

    def __init__(self, session: int) -> None:
        self._session = session
        # What a row is found by.  A key that is no longer right fails the compare-and-set, which looks at the id too.
        self._keys: dict[RunId, int] = {}
        self._ends: dict[RunId, _End] = {}
        """Where the logs of runs end, unless others have written since :attr:`_version`, or this session otherwise."""
        self._version: int | None = None
        """The number that tells whether others have written; None if :attr:`_ends` is not to be relied on."""
        self._definitions: set[ContentHash] = set()
        self.last: tuple[int, bytes] | None = None
        """The place and the link of a segment that was written last, if the last batch has written one."""

    def append(
        self, db: sqlite3.Connection, batch: Sequence[Append], loaded: Loaded = _NOTHING
    ) -> list[StoreError | None]:
        """
        Write *batch* and commit; return None, or why it was refused, for each append.

        Args:
            loaded: values of the batch that were written ahead; those of an append that is refused are unneeded.
        """
        self.last = None
        try:
            if len(batch) == 1 and self._advance_alone(db, batch[0]):
                return [None]
            with transaction(db):
                created, definitions = self._write(db, batch, loaded)
        except (_NotAsExpected, *BAD_DATA):
            self._keys.clear()
            self.doubt()
            self.last = None
        except BaseException:
            self.doubt()
            raise
        else:
            self._remember(created, definitions)
            return [None] * len(batch)
        with transaction(db):
            return self._ask_all(db, batch, loaded)

    def append_within(self, db: sqlite3.Connection, append: Append) -> StoreError | None:
        """Write *append* in the transaction that is open on *db*, without a commit; return why it was refused."""
        self.last = None
        self.doubt()
        return self._ask(db, append, _NOTHING)

    def holds(self, db: sqlite3.Connection, append: Append) -> bool:
        """
        Return whether *append*, which was written in a transaction, is there.

        Raises:
            OwnershipLost: another owner has the run.
        """
        row = db.execute(_STANDING, (append.run,)).fetchone()
        if row is None:
            return False
        key, head, epoch, owner, _, created_at = row
        if epoch != append.epoch:
            raise OwnershipLost(append.run, append.epoch, epoch)
        return self._holds(db, append, key, head, epoch, owner, created_at)

    def forget(self, runs: Iterable[RunId]) -> None:
        """Drop what is remembered of *runs*: a key that is not known is looked up."""
        for run in runs:
            self._keys.pop(run, None)
            self._ends.pop(run, None)

    def doubt(self) -> None:
        """Something else than an append was done on the connection: where logs end is looked up again."""
        self._version = None

    # -- the fast way ----------------------------------------------------------------------------

    def _advance_alone(self, db: sqlite3.Connection, append: Append) -> bool:
        """Write an append that is only events, if it may be written: one statement needs no transaction around it."""
        key = self._keys.get(append.run)
        if key is None or append.facts or append.definitions or not append.count or append.changes_record:
            return False
        if append.snapshot:
            return False
        row = _advance(key, append)
        if _ADVANCE.execute(db, [row]) != 1:
            return False
        self._ends.pop(append.run, None)
        self.last = row[0], append.chain
        return True

    def _known_ends(self, db: sqlite3.Connection) -> dict[RunId, _End]:
        """Return where logs end; no other connection can write until the transaction of *db* is over."""
        version = db.execute("pragma data_version").fetchone()[0]
        if version != self._version:
            self._ends.clear()
            self._version = version
        return self._ends

    def _write(
        self, db: sqlite3.Connection, batch: Sequence[Append], loaded: Loaded
    ) -> tuple[dict[RunId, int], set[ContentHash]]:
        """Write *batch*; return the keys of new runs, and the definitions that were not known to be there."""
        creates: list[Row] = []
        running: list[Row] = []
        follows: list[Row] = []
        advances: list[Row] = []
        said: list[Row] = []
        completed: list[Row] = []
        changes: list[Row] = []
        facts: list[tuple[int, Append]] = []
        waits: list[tuple[int, Append]] = []
        snapshots: list[Row] = []
        definitions: dict[ContentHash, bytes] = {}
        keys, created, ends = self._keys, dict[RunId, int](), self._ends
        known_end = (self._known_ends(db) if len(batch) >= _MANY else _NO_ENDS).get
        next_key, released = 0, list[RunId]()
        for each in batch:
            run, count, is_new = each.run, each.count, each.create
            end = None if is_new or not count else known_end(run)
            key = 0
            if end is not None:  # the usual case, without a call
                place, epoch, link = end
                previous = each.previous
                if (
                    (previous == link or previous is None)
                    and epoch == each.epoch
                    and place & _PLACES == each.expected + 1
                ):
                    body, link = each.body, each.chain
                    bound = bytearray(body) if len(body) <= _COPIED else body
                    follows.append((place, count, bytearray(link), each.at, bound))
                    ends[run] = (place + count, epoch, link)
                    if each.only_events:
                        continue
                    key = place >> 32
            if is_new:
                next_key = next_key + 1 if next_key else _next_key(db)
                key = created[run] = next_key
                link, at = each.chain, each.at
                if _is_just_running(each):
                    version = each.version or ""
                    running.append((key, run, each.workflow, version, bytearray(link), at, self._session))
                else:
                    creates.append(_new_run(key, each, self._session))
                if count:  # the key is new, so there is nothing to compare with
                    place, body = (key << 32) + 1, each.body
                    bound = bytearray(body) if len(body) <= _COPIED else body
                    follows.append((place, count, bytearray(link), at, bound))
                    ends[run] = (place + count, each.epoch, link)
            elif not count:
                key = created.get(run) or keys.get(run) or self._look_up(db, run)
                changes.append(_change(key, each))
            else:
                if not key:
                    key = created.get(run) or keys.get(run) or self._look_up(db, run)
                    place = (key << 32) + each.expected + 1
                    advances.append(_advance(key, each))
                    ends[run] = (place + count, each.epoch, each.chain)
                if each.changes_record:
                    if each.status is None or each.workflow is not None or each.version is not None:
                        changes.append(_change(key, each))
                    elif _has_just_completed(each):
                        chain, outcome = bytearray(each.chain), _bound(each.outcome)
                        completed.append((key, each.epoch, run, each.at, chain, outcome))
                    else:
                        said.append(_status_row(key, each))
            if each.release:
                released.append(run)
            if each.facts:
                facts.append((key, each))
            if each.wake_at is not None or each.due is not None or each.taken or each.continues:
                waits.append((key, each))
            if each.snapshot:
                snapshots.append((key, each.head, each.snapshot))
            for content, body in each.definitions.items():
                if content not in self._definitions:
                    definitions.setdefault(content, body)
        # A change looks for the head that its own events have made, so it comes after all events.
        steps = (
            *((_CREATE_RUNNING, running), (_CREATE, creates)),
            *((_ADVANCE, advances), (_FOLLOW, follows)),
            *((_COMPLETE, completed), (_SAY, said), (_CHANGE, changes)),
        )
        for statement, rows in steps:
            if rows and statement.execute(db, rows) != len(rows):
                raise _NotAsExpected
        if follows or advances:
            place, _, link, *_ = (follows or advances)[-1]
            self.last = place, bytes(link)
        if facts:
            _keep(db, facts, loaded)
        if waits:
            _note_waits(db, waits)
        if snapshots:
            db.executemany(_SNAPSHOT, snapshots)
        if definitions:
            db.executemany(_DEFINITION, [*definitions.items()])
        for run in released:  # it has finished, or is another owner's: nothing more is written here
            created.pop(run, None)
        self.forget(released)
        return created, {*definitions}

    def _look_up(self, db: sqlite3.Connection, run: RunId) -> int:
        row = db.execute(_STANDING, (run,)).fetchone()
        if row is None:
            raise _NotAsExpected
        key = self._keys[run] = int(row[0])
        return key

    def _remember(self, created: dict[RunId, int], definitions: set[ContentHash]) -> None:
        """Keep what need not be looked up again, once it is committed: definitions are never removed."""
        if len(self._keys) + len(self._definitions) > _MOST_REMEMBERED:
            self._keys.clear()
            self._ends.clear()
            self._definitions.clear()
        self._keys.update(created)
        self._definitions |= definitions

    # -- the slow way ----------------------------------------------------------------------------

    def _ask_all(self, db: sqlite3.Connection, batch: Sequence[Append], loaded: Loaded) -> list[StoreError | None]:
        """Write what can be written of *batch*; a group, of which one append is refused, is left out as a whole."""
        groups: dict[str, list[Append]] = {}
        for each in batch:
            if each.group:
                groups.setdefault(each.group, []).append(each)
        refused = {group: self._refused_group(db, appends, loaded) for group, appends in groups.items()}
        return [refused[each.group] if each.group else self._ask(db, each, loaded) for each in batch]

    def _refused_group(self, db: sqlite3.Connection, appends: list[Append], loaded: Loaded) -> StoreError | None:
        last = self.last
        db.execute("savepoint many")
        for each in appends:
            error = self._ask(db, each, loaded)
            if error is not None:
                db.execute("rollback to many")
                db.execute("release many")
                self.last = last
                return error
        db.execute("release many")
        return None

    def _ask(self, db: sqlite3.Connection, append: Append, loaded: Loaded) -> StoreError | None:
        db.execute("savepoint one")
        try:
            refused = self._take(db, append, loaded)
        except UnicodeDecodeError:  # a message about the store, which quotes what cannot be read; not about this row
            raise
        except BAD_DATA as error:
            refused = InvalidAppend(f"the append to run {append.run!r} cannot be stored: {error}; correct its contents")
            refused.__cause__ = error
            db.execute("rollback to one")
        db.execute("release one")
        return refused

    def _take(self, db: sqlite3.Connection, append: Append, loaded: Loaded) -> StoreError | None:
        row = db.execute(_STANDING, (append.run,)).fetchone()
        if row is None:
            if not append.create:
                return RunNotFound(append.run)
            if append.unique and (taken := _taken_key(db, append)) is not None:
                return taken
            key = _next_key(db)
            _CREATE.execute(db, [_new_run(key, append, self._session)])
        else:
            key, head, epoch, owner, link, created_at = row
            if append.again and self._holds(db, append, key, head, epoch, owner, created_at):
                return None
            if append.create:
                return RunExists(append.run)
            if epoch != append.epoch:
                return OwnershipLost(append.run, append.epoch, epoch)
            if head != append.expected:
                return ConcurrentAppend(append.run, append.expected, head)
            if append.previous is not None and append.previous != link:
                return BrokenChain(append.run, append.expected)
            if append.status is not None and append.status not in FINISHED:
                rival = db.execute(_KEY_RIVAL, (append.run,)).fetchone()
                if rival[2] is not None:
                    return UniqueKeyTaken(append.run, *rival)
        segment = _segment((key << 32) + append.expected + 1, append)
        if append.count:
            db.execute(_SEGMENT, segment)
        if row is not None:
            _CHANGE.execute(db, [_change(key, append)])
        _keep(db, [(key, append)], loaded)
        _note_waits(db, [(key, append)])
        if append.snapshot:
            db.execute(_SNAPSHOT, (key, append.head, append.snapshot))
        db.executemany(_DEFINITION, list(append.definitions.items()))
        if append.count:  # not before: what raises above takes the segment back
            self.last = segment[0], append.chain
        return None

    def _holds(
        self, db: sqlite3.Connection, append: Append, key: int, head: int, epoch: int, owner: int | None, created: float
    ) -> bool:
        """Whether *append* was written before: in an epoch one owner writes, so its events are there or nowhere."""
        if epoch != append.epoch:
            return False
        # A run that this append has created was created then; it may have been given up later in its batch.
        if append.create and (created != append.at or owner not in {self._session, None}):
            return False
        if not append.count:
            return append.create or head > append.expected
        place = (key << 32) + append.expected + 1
        if db.execute(_HAS_SEGMENT, (place, append.count, append.body)).fetchone()[0]:
            return True
        if packs.holds(db, f"run {append.run!r}", key, append.expected + 1, append.count, append.body):
            return True
        return bool(db.execute(_BEGINS_BEHIND, (key, append.head + 1, append.chain)).fetchone()[0])  # removed since


class _NotAsExpected(Exception):
    """An append of the batch is refused; never leaves this module."""


def _next_key(db: sqlite3.Connection) -> int:
    return int(db.execute("select coalesce(max(key), 0) + 1 from runs").fetchone()[0])


def _keep(db: sqlite3.Connection, of: Iterable[tuple[int, Append]], loaded: Loaded) -> None:
    """Keep the values of appends to the runs with these keys; those in *loaded* belong to their runs from now on."""
    facts: list[Row] = []
    large: list[tuple[int, ContentHash, int]] = []
    for key, append in of:
        for content, body in append.facts.items():
            known = loaded.get((append.run, content)) if loaded else None
            if known is None:
                facts.append((key, content, body))
            else:
                large.append((key, content, known))
    db.executemany(_FACT, facts)
    if large:
        db.executemany(_LARGE_FACT, large)
        db.executemany(_WHOLE_LARGE, [(known, key, content) for key, content, known in large])


def _note_waits(db: sqlite3.Connection, of: Iterable[tuple[int, Append]]) -> None:
    """Note when runs have to be woken or done, remove the messages that were taken, and pass others on; by key."""
    for key, append in of:
        if append.wake_at == NEVER:
            db.execute("delete from wakes where run = ?", (key,))
        elif append.wake_at is not None:
            db.execute(_WAKE, (key, append.wake_at))
        if append.due is not None:
            deadlines.note(db, key, append)
        if append.taken:
            db.executemany(_TAKE, [(number, key) for number in append.taken])
        if append.continues:
            db.execute(_SUCCEED, {"run": append.continues, "successor": append.run})
            db.execute(_BEQUEATH, {"run": append.continues, "key": key})
            db.execute(_PASS_KEY, {"run": append.continues, "key": key})


def _is_just_running(new: Append) -> bool:
    """Whether the *new* run is running, and there is nothing to say besides."""
    status = new.status
    if new.unique or new.release or not (status is None or status == "running"):
        return False
    return status is None or not (new.reason or new.failures or new.dead_letters or new.outcome)


def _has_just_completed(last: Append) -> bool:
    """Whether the *last* events of a run complete and release it, and nothing has failed."""
    return last.status == "completed" and last.release and not (last.reason or last.failures or last.dead_letters)


def _new_run(key: int, append: Append, session: int) -> Row:
    status = append.status
    return (  # neither this nor _status_row() unpacks other tuples, which takes as long as all the rest
        key,
        append.run,
        append.workflow,
        append.version or "",
        status or "running",
        append.reason if status else "",
        bytearray(append.chain),
        FIRST_EPOCH,
        append.at,
        append.at,
        None if append.release else session,
        append.failures if status else 0,
        append.dead_letters if status else 0,
        append.at if status in FINISHED else None,
        _bound(append.outcome) if status else bytearray(),
        append.unique or None,
    )


def _taken_key(db: sqlite3.Connection, append: Append) -> UniqueKeyTaken | None:
    """Return why the new run of *append* cannot have its unique key; None if it can."""
    if append.status in FINISHED:
        return None
    row = db.execute(_KEY_HOLDER, {"workflow": append.workflow, "unique": append.unique}).fetchone()
    return None if row is None else UniqueKeyTaken(append.run, append.workflow or "", append.unique, row[0])


def _came_of(append: Append) -> Row:
    """Return what goes with the status of *append* besides its reason."""
    finished_at = append.at if append.status in FINISHED else None
    return append.failures, append.dead_letters, finished_at, _bound(append.outcome)


def _bound(blob: bytes) -> bytes | bytearray:
    """Return *blob* as it is bound in the least time."""
    return bytearray(blob) if len(blob) <= _COPIED else blob


def _segment(place: int, append: Append) -> Row:
    body = append.body
    return (
        place,
        append.count,
        bytearray(append.chain),
        append.at,
        bytearray(body) if len(body) <= _COPIED else body,
    )


def _advance(key: int, append: Append) -> Row:
    body, previous = append.body, append.previous
    return (  # what _segment() returns, and more, without a call for each append
        (key << 32) + append.expected + 1,
        append.count,
        bytearray(append.chain),
        append.at,
        bytearray(body) if len(body) <= _COPIED else body,
        key,
        append.epoch,
        append.run,
        None if previous is None else bytearray(previous),
    )


def _status_row(key: int, append: Append) -> Row:
    status = append.status
    return (
        key,
        append.epoch,
        append.run,
        append.at,
        bytearray(append.chain),
        status,
        append.reason,
        int(append.release),
        append.failures,
        append.dead_letters,
        append.at if status in FINISHED else None,
        _bound(append.outcome),
    )


def _change(key: int, append: Append) -> Row:
    return (
        *(key, append.epoch, append.run, append.head, append.at),
        *(append.status, append.reason, append.workflow, append.version, int(append.release)),
        None if append.count else append.previous,  # of events, those are asked that were added before
        *(_came_of(append) if append.status else _NOTHING_YET),
    )
