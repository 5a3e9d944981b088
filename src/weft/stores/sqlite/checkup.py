"""
Checks everything in the file for damage.

It finds three kinds of damage: pages that SQLite cannot read; rows with impossible values, or that do not belong
together; and logs whose hashes show that they were altered.  Nothing is changed, other processes may continue to write,
and one segment of a run is in memory at a time.

Each run is checked in one read transaction, so a concurrent write is never taken for damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from weft.errors import CorruptLog, DamagedRow, StoreNotFound
from weft.log import chain, verify
from weft.log.hash_chain import GENESIS
from weft.log.snapshot import Snapshot
from weft.ports.checkup import Finding
from weft.ports.store import RunRecord
from weft.stores.sqlite import commits, packs, reading, rows, schema
from weft.stores.sqlite.error_mapping import problem, translated
from weft.stores.sqlite.statements import query
from weft.stores.sqlite.view import Contents, Facts

_RUN = query("run_by_key")
_RUN_WITHOUT_PACKS = _RUN.replace(", t.first, t.link", ", null, null").replace(
    "left join truncations t on t.run = r.key\n", ""
)
_RUN_WITHOUT_WAKE = _RUN_WITHOUT_PACKS.replace(", w.at", ", null").replace("left join wakes w on w.run = r.key\n", "")
_RUN_WITHOUT_OUTCOME = _RUN_WITHOUT_WAKE.replace(
    "r.failures, r.dead_letters, r.finished_at, r.outcome", "0, 0, null, x''"
)
_LOG = query("whole_log")
_FACT_BODY = query("fact_body")
_UNFINISHED = query("unfinished_large")
_STRAYS = (("events", query("stray_segments")), ("large values", query("stray_facts")))
_STRAY_PACKS = query("stray_packs")
_STRAY_PARTS, _STRAY_LARGE = query("stray_parts"), query("stray_large")

_MOST = 100  # complaints of SQLite, or strays of one kind
_PAGE = 1_000  # keys
_SELDOM = 100  # runs between two words about how far it is
_FAILURES = (sqlite3.Error, UnicodeDecodeError)

_RESTORE = "restore the file from a copy"
_ONE_RUN = f"{_RESTORE}, or delete the run (store.delete); other runs are not touched by it"
_PAGES = f'{_RESTORE}, or save what can be read: sqlite3 FILE ".recover"'


class Checkup:
    """
    Looks at the file at *path*.

    Args:
        is_quick: leave out the check that takes SQLite long: whether indexes and tables agree.
        tell: called with what is being looked at, how many runs were looked at, and how many there are.

    Raises:
        StoreError: there is nothing to look at: no file, no store, or a newer one.
    """

    def __init__(
        self, path: Path, *, is_quick: bool, tell: Callable[[str, int, int], object], busy_timeout: float = 5.0
    ) -> None:
        self.path = schema.validated(path, "full", busy_timeout)
        self._is_quick, self._tell, self._busy_timeout = is_quick, tell, busy_timeout
        self.runs = 0
        """How many runs were looked at."""
        self.events = 0
        """How many events were found to be what was written."""
        self._has_parts, self._has_packs, self._one_run = False, False, _RUN
        schema.check_file(self.path)

    def findings(self) -> Iterator[Finding]:
        """Return everything that is found, as it is found."""
        noted, remark = self._noted()
        with translated(self.path), closing(schema.connect_for_reading(self.path, self._busy_timeout)) as db:
            db.text_factory = reading.lenient
            try:
                version = schema.checked_version(db, self.path)
            except _FAILURES as error:
                found = problem(self.path, error)
                if not _is_damage(error):
                    raise found from error
                yield Finding(where="the schema", what=str(error), next=_PAGES)
                return
            if not version:
                raise StoreNotFound(f"nothing has been stored in {self.path} yet")
            self._has_parts = version >= schema.IN_PARTS
            self._has_packs = version >= schema.WITH_PACKS
            self._one_run = _RUN if self._has_packs else _RUN_WITHOUT_PACKS
            if version < schema.WITH_INBOX:
                self._one_run = _RUN_WITHOUT_WAKE
            if version < schema.WITH_OUTCOMES:
                self._one_run = _RUN_WITHOUT_OUTCOME
            if remark is not None:
                yield remark
            yield from self._guarded("the last commit", partial(self._last_commit, db, noted, version))
            yield from self._guarded("the file", partial(self._pages, db))
            yield from self._guarded("the table of sessions", partial(self._sessions, db))
            yield from self._guarded("the table of runs", partial(self._every_run, db))
            for kind, sql in _STRAYS:
                yield from self._guarded(f"the table of {kind}", partial(self._strays, db, kind, sql))
            if self._has_packs:
                yield from self._guarded("the table of packs", partial(self._strays, db, "events", _STRAY_PACKS))
            if self._has_parts:
                yield from self._guarded("the table of parts", partial(self._parts, db))

    def _guarded(self, where: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
        """Return the findings of *check*; if it cannot continue, the error is a finding."""
        try:
            yield from check()
        except _FAILURES as error:
            if not _is_damage(error):
                raise
            yield Finding(where=where, what=f"it cannot be read any further: {error}", next=_PAGES)

    # -- the file --------------------------------------------------------------------------------

    def _noted(self) -> tuple[commits.Noted | None, Finding | None]:
        """Return the last commit that is noted; read before the database, which is never older then."""
        try:
            return commits.read(self.path), None
        except commits.UnreadableNote as error:
            where = str(commits.path_beside(self.path))
            return None, Finding(
                where=where,
                what=f"the note of the last commit cannot be read: {error}",
                next="nothing: the next commit writes it again; whether a commit is missing is unknown without it",
                is_damage=False,
            )

    def _last_commit(self, db: sqlite3.Connection, noted: commits.Noted | None, version: int) -> Iterator[Finding]:
        if noted is None or version < commits.FIRST_VERSION:
            return
        self._tell("the last commit", 0, 0)
        with _one_moment(db):
            missing = commits.missing(db, noted)
        if missing is not None:
            note = commits.path_beside(self.path)
            yield Finding(
                where="the last commit",
                what=f"{missing} was committed and is not there, and perhaps more that was committed before it: the "
                f"write-ahead log ({self.path}-wal) was damaged or removed, or an older copy was put in place",
                next="keep a copy of all files, and restore a better one if there is one; to go on with what is "
                f"there, delete {note}",
            )

    def _pages(self, db: sqlite3.Connection) -> Iterator[Finding]:
        self._tell("pages", 0, 0)
        if self._is_quick:
            yield from self._pragma_findings(db, "quick_check")
            return
        try:
            yield from self._pragma_findings(db, "integrity_check")
        except _FAILURES as error:
            if not _is_damage(error):
                raise
            what = f"SQLite's check stopped: {error}; its quick check and the runs are looked at all the same"
            yield Finding(where="the file", what=what, next=_PAGES)
            yield from self._pragma_findings(db, "quick_check")

    def _pragma_findings(self, db: sqlite3.Connection, pragma: str) -> Iterator[Finding]:
        for (said,) in reading.fetched(db, f"pragma {pragma}({_MOST})", ()):
            if said != "ok":
                yield Finding(where="pages", what=f"SQLite says: {' '.join(said.split())}", next=_PAGES)

    def _sessions(self, db: sqlite3.Connection) -> Iterator[Finding]:
        for key, token, pid, host in reading.fetched(db, "select key, token, pid, host from sessions", ()):
            whose = f"session {key}"
            try:
                rows.token(whose, token)
                rows.holder(whose, pid, host)
            except DamagedRow as error:
                yield Finding(where=whose, what=_damage(error), next=f"{_RESTORE}, or delete that row of sessions")

    def _strays(self, db: sqlite3.Connection, kind: str, sql: str) -> Iterator[Finding]:
        self._tell(f"{kind} of no run", self.runs, self.runs)
        for (key,) in reading.fetched(db, sql, (_MOST,)):
            yield Finding(
                where=f"{kind} of no run",
                what=f"there are {kind} of a run with the key {key!r:.60}, which is not there",
                next="if runs are missing, restore the file from a copy; else nothing needs them",
                certainty="likely",
            )

    def _parts(self, db: sqlite3.Connection) -> Iterator[Finding]:
        """Return what is there in parts and belongs to nothing."""
        for (key,) in reading.fetched(db, _STRAY_PARTS, (_MOST,)):
            yield Finding(
                where="parts of no large value",
                what=f"there are parts of a large value with the key {key!r:.60}, which is not there",
                next="if large values are missing, restore the file from a copy; else nothing needs them",
                certainty="likely",
            )
        for (key,) in reading.fetched(db, _STRAY_LARGE, (_MOST,)):
            yield Finding(
                where="large values of no run",
                what=f"there is a large value in parts with the key {key!r:.60}, which no run has",
                next="if runs are missing, restore the file from a copy; else nothing needs it",
                certainty="likely",
            )
        ((left,),) = reading.fetched(db, _UNFINISHED, ())
        if left:
            yield Finding(
                where="large values of no run",
                what=f"{left} large values in parts are left to be removed: of a process that ended while it wrote "
                "them, or of runs that were deleted",
                next="nothing: the next process that opens the store removes them",
                is_damage=False,
            )

    # -- runs ------------------------------------------------------------------------------------

    def _every_run(self, db: sqlite3.Connection) -> Iterator[Finding]:
        (total,) = db.execute("select count(*) from runs").fetchone()
        last = -(2**63)
        while keys := [
            key for (key,) in db.execute("select key from runs where key > ? order by key limit ?", (last, _PAGE))
        ]:
            for key in keys:
                if not self.runs % _SELDOM:
                    self._tell("runs", self.runs, total)
                yield from self._run(db, key)
            last = keys[-1]

    def _run(self, db: sqlite3.Connection, key: int) -> Iterator[Finding]:
        where, run = f"the run with the key {key}", None
        try:
            with _one_moment(db):
                found = reading.fetched(db, self._one_run, (key,))
                if not found:  # it was deleted meanwhile
                    return
                self.runs += 1
                where = rows.run_named(found[0][1], key)
                record = rows.record(found[0])
                run = record.id
                known = rows.blob(where, "runs.chain", found[0][6])
                link = rows.link_of(found[0]) if record.first > 1 else GENESIS
                self.events += self._verified(db, key, record, known, link)
        except DamagedRow as error:
            yield Finding(where=error.whose, what=_damage(error), next=_ONE_RUN, run=run)
        except CorruptLog as error:
            at = "" if error.position is None else f"event {error.position}: "
            what = f"its log is not what was written: {at}{error.message}"
            yield Finding(where=where, what=what, next=_ONE_RUN, run=run)
        except _FAILURES as error:
            if not _is_damage(error):
                raise
            yield Finding(where=where, what=f"it cannot be read: {error}", next=_PAGES, run=run)

    def _verified(self, db: sqlite3.Connection, key: int, record: RunRecord, known: bytes, link: bytes) -> int:
        """Return how many events a run has, if all of them are what was written."""

        def ask(question: Callable[[sqlite3.Connection], Any]) -> Any:
            return question(db)

        whose, of = f"run {record.id!r}", "facts where run = ?"
        has_parts = self._has_parts
        facts = Facts(ask, of, _FACT_BODY, whose, key) if has_parts else Contents(ask, "facts", of, whose, key)
        definitions = Contents(ask, "definitions", "definitions where true", "")
        if record.first > 1:
            _check_snapshot(db, record, facts, definitions)
        return verify(
            _bodies(db, key, record, link, has_packs=self._has_packs),
            facts=facts,
            definitions=definitions,
            head=record.chain,
            position=record.head,
            known=known,
            first=record.first,
            link=link,
        )


def _check_snapshot(
    db: sqlite3.Connection, record: RunRecord, facts: Mapping[bytes, bytes], definitions: Mapping[bytes, bytes]
) -> None:
    """
    Check that the snapshot of a run whose log was truncated is there, with all that it refers to.

    Raises:
        CorruptLog: it is not, and it alone has what was removed.
    """
    stored = reading.load_snapshot(db, record.id)
    why = "is missing" if stored is None else "is older than that" if stored.position < record.first - 1 else ""
    if stored is not None and not why:
        needed = Snapshot.opened(stored.body).references()
        is_whole = all(key in facts for key in needed.facts) and all(key in definitions for key in needed.definitions)
        why = "" if is_whole else "refers to a value or a definition that is missing"
    if why:
        raise CorruptLog(
            f"its log was truncated before event {record.first}, and the snapshot of what was removed {why}"
        )


def _bodies(db: sqlite3.Connection, key: int, record: RunRecord, link: bytes, *, has_packs: bool) -> Iterator[bytes]:
    """Return the bodies of a run one by one, if their places and links follow one another."""
    whose, following = f"run {record.id!r}", record.first
    with closing(db.execute(_LOG, {"run": key})) as found:
        for first, count, stored, at, body in _segments(db, whose, key, record, found) if has_packs else found:
            segment = rows.one_segment(whose, first, count, body)
            rows.moment(whose, "segments.at", at)
            if segment.first != following:
                raise CorruptLog(f"the next event that is there is event {segment.first}", following)
            link = chain(link, segment.body)
            if rows.blob(whose, "segments.chain", stored) != link:
                raise CorruptLog("this segment or one before it was altered: its hash is another one", following)
            following = segment.last + 1
            yield segment.body


def _segments(
    db: sqlite3.Connection, whose: str, key: int, record: RunRecord, found: Iterable[reading.Row]
) -> Iterator[reading.Row]:
    """Yield the segments of a run in packs, and then those that were *found*; not what was truncated."""
    for each in packs.read(db, whose, key, record.first - 1):
        yield each.first, each.count, each.chain, each.at, each.body
    for row in found:
        first, count, *_ = row
        if not (isinstance(first, int) and isinstance(count, int) and first + count <= record.first):
            yield row


def _damage(error: DamagedRow) -> str:
    return f"{error.column} is {error.found} and should be {error.expected}"


def _is_damage(error: Exception) -> bool:
    """Whether *error* is about what is in the file; else it could not be asked."""
    if isinstance(error, UnicodeDecodeError) or not isinstance(error, sqlite3.Error):
        return True
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT}


@contextmanager
def _one_moment(db: sqlite3.Connection) -> Generator[None, None, None]:
    db.execute("begin")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("rollback")
