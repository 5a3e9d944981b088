"""
Reads runs from the file; nothing here changes it.

Every call is one read transaction, so a record and the segments that come with it are of the same moment, even while
another process is appending.
"""

from __future__ import annotations

import heapq
import itertools
import math
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, get_args

from weft.errors import DamagedRow, MissingContent, RunNotFound, StoreError
from weft.ports.store import ContentHash, LoadedRun, RunRecord, RunStatus, Segment, StoredSnapshot, wake_order
from weft.stores.sqlite import packs, rows
from weft.stores.sqlite.statements import query
from weft.typing import RunId

Row = tuple[Any, ...]

_RECORD = query("record")
_FIRST_PAGE = query("first_page")
_PAGE = query("page")
_COUNT = query("count")
_COUNT_WORKFLOW = query("count_workflow")
_SAMPLES = query("samples")
_TALLY = query("tally")
_COUNT_VERSIONS = query("count_versions")
_HISTOGRAM = query("histogram")
_PERIOD = query("period")
_NEWEST = query("newest")
_FREE_PAGE = query("free_page")
_OLD_RUNS = query("old_runs")
_WAITING_WITH_TIME = query("waiting_with_time")
_WAITING_WITHOUT_TIME = query("waiting_without_time")
_WAITING_FEW = query("waiting_few")
_COUNT_AT_MOST = query("count_at_most")
_SEGMENTS = query("segments")
_SEGMENTS_BETWEEN = query("segments_between")
_SNAPSHOT = query("load_snapshot")
_TIMES = query("times")
_FACT_BODY = query("fact_body")
_SEEN = query("statuses")
_STRAYS = query("strays")
_TIMELESS = query("timeless")
_INDEXED = "select 1 from runs where id = ? limit 1"
_UNINDEXED = "select 1 from runs not indexed where id = ? limit 1"
_KEY_HOLDER = query("key_holder")
_KEY_RIVAL = query("key_rival")
_STATUSES = get_args(RunStatus)
COUNTED_PERIODS = 500
"""A histogram of at most this many periods is counted period by period; a longer one is grouped."""

_STATEMENTS = 28
"""How many parts of the index are read by a statement for each, side by side, at most."""
_AT_ONCE = 2
"""How many runs are read of each part at first, if there are more parts."""

SORTED = 300_000
"""Of at most this many waiting runs a page is sorted; of more, they are walked through in the order of time."""

Damaged = Callable[[DamagedRow], object]
"""Told of a row that cannot be read, and is left out."""


class Asked(NamedTuple):
    """The runs that a caller asks for; :meth:`weft.ports.store.ListableStore.list` says what each part means."""

    statuses: Collection[RunStatus] | None = None
    workflow: str | None = None
    failed: bool | None = None
    since: float | None = None

    def parts(self, db: sqlite3.Connection) -> list[dict[str, Any]]:
        """
        Return the parts of the index that these runs are in, each of which is in the order of time.

        Of several workflows, each has its own parts.
        """
        parts = self.wide_parts
        if self.workflow is not None:
            return parts
        return [part | {"sample": key} for part in parts for (key,) in db.execute(_SAMPLES, part).fetchall()]

    @property
    def wide_parts(self) -> list[dict[str, Any]]:
        """The same where workflows need not be apart: what is in the order of time in one of them is not in all."""
        bounds = {"workflow": self.workflow, "since": self.since}
        return [bounds | each for each in _parts(_STATUSES if self.statuses is None else self.statuses, self.failed)]

    def sql(self, sql: str) -> str:
        """Return *sql*, which is about one of the :meth:`parts`, for no other runs than these."""
        workflow = ":workflow" if self.workflow is not None else "(select workflow from runs where key = :sample)"
        sql = sql.replace("where r.status = :status", f"where r.status = :status and r.workflow is {workflow}")
        if self.since is not None:
            sql = sql.replace("= :failed", "= :failed and r.created_at >= :since")
        return sql

    def includes(self, status: Any, workflow: Any, failures: Any) -> bool:
        """Whether a run with these values, which may be damaged, is one of them as far as that can be said."""
        return (
            (self.statuses is None or status in self.statuses)
            and (self.workflow is None or workflow == self.workflow)
            and (self.failed is None or self.failed == (failures != 0))
        )


class AskedWaiting(NamedTuple):
    """The waiting runs that a caller asks for, as :meth:`weft.ports.store.WaitingStore.list_waiting` says."""

    workflow: str | None = None
    since: float | None = None
    until: float | None = None

    @property
    def are_some(self) -> bool:
        """Whether a part of the index has them, which may be far smaller than that of all that wait."""
        return self.workflow is not None or self.since is not None

    @property
    def asked(self) -> Asked:
        """The same runs, in the form that finds the parts of the index."""
        return Asked(["waiting"], self.workflow, None, self.since)

    @property
    def bounds(self) -> dict[str, Any]:
        """The values that a walk in the order of time compares."""
        since, until = (end if at is None else at for at, end in ((self.since, -math.inf), (self.until, math.inf)))
        return {"workflow": self.workflow, "since": since, "until": until}


def _parts(statuses: Collection[RunStatus], failed: bool | None = None) -> list[dict[str, Any]]:
    """Return the parts of the index in which runs are by status, and by whether they have failures."""
    either = (False, True) if failed is None else (failed,)
    return [{"status": status, "failed": each} for status in dict.fromkeys(statuses) for each in either]


def find(db: sqlite3.Connection, run: RunId) -> tuple[int, RunRecord]:
    """
    Return the key and the record of a run.

    Raises:
        RunNotFound: nothing is stored under this id.
        DamagedRow: it cannot be read.
    """
    row = _row(db, run)
    return row[0], rows.record(row)


def find_owned(db: sqlite3.Connection, run: RunId) -> tuple[int, int | None, RunRecord]:
    """Return the key of a run, that of the session that took it, and its record; it raises what :func:`find` does."""
    row = _row(db, run)
    return row[0], row[10], rows.record(row)


def _row(db: sqlite3.Connection, run: RunId) -> Row:
    found = fetched(db, _RECORD, (run,))
    if not found:
        raise RunNotFound(run)
    return found[0]


def exists(db: sqlite3.Connection, run: RunId) -> bool:
    """Whether something is stored under this id."""
    return bool(db.execute("select exists (select 1 from runs where id = ?)", (run,)).fetchone()[0])


def load(db: sqlite3.Connection, run: RunId, position: int) -> LoadedRun:
    """Return the segments that hold what came after *position*."""
    with _one_moment(db):
        return _load(db, run, position)


def _load(db: sqlite3.Connection, run: RunId, position: int) -> LoadedRun:
    row = _row(db, run)
    key, whose, record = row[0], f"run {run!r}", rows.record(row)
    since = max(position, record.first - 1)
    found = _packed(db, run, key, since)
    found += fetched(db, _SEGMENTS, {"run": key, "position": since})
    known = rows.blob(whose, "runs.chain", row[6])
    link = rows.link_of(row) if record.first > 1 else b""
    return LoadedRun(record, rows.segments(run, found, since), known, link)


def _packed(db: sqlite3.Connection, run: RunId, key: int, position: int, last: int = 0xFFFFFFFF) -> list[Row]:
    """Return the segments in packs, from the pack that holds the event after *position*, as single rows."""
    return [(each.first, each.count, each.body) for each in packs.read(db, f"run {run!r}", key, position, last)]


def is_unindexed(db: sqlite3.Connection, run: RunId) -> bool:
    """
    Return whether *run* is stored and the index does not lead to it.

    Both are seen at one moment, because a run can be created between two looks.
    """
    with _one_moment(db):
        is_indexed, is_stored = (db.execute(sql, (run,)).fetchone() is not None for sql in (_INDEXED, _UNINDEXED))
        return is_stored and not is_indexed


def load_many(db: sqlite3.Connection, runs: Collection[RunId]) -> dict[RunId, LoadedRun | StoreError]:
    """Return the whole logs of *runs*, or why one cannot be read."""
    with _one_moment(db):
        return {run: _loaded(db, run) for run in runs}


def _loaded(db: sqlite3.Connection, run: RunId) -> LoadedRun | StoreError:
    try:
        return _load(db, run, 0)
    except (RunNotFound, DamagedRow) as error:
        return error


def load_between(db: sqlite3.Connection, run: RunId, first: int, last: int) -> list[Segment]:
    """Return the segments that hold the events from *first* to *last*."""
    with _one_moment(db):
        row = _row(db, run)
        key, first = row[0], max(first, rows.record(row).first)
        found = _packed(db, run, key, first - 1, last) if first <= last else []
        found += fetched(db, _SEGMENTS_BETWEEN, {"run": key, "first": first, "last": last}) if first <= last else []
    return [each for each in rows.segments(run, found, first - 1) if each.first <= last]


def times(db: sqlite3.Connection, run: RunId) -> list[Row]:
    """Return when each segment of a run was written: its first event, how many it has, and the time."""
    with _one_moment(db):
        row = db.execute(_RECORD, (run,)).fetchone()
        if row is None:
            return []
        first = rows.record(row).first
        packed = [(each.first, each.count, each.at) for each in packs.read(db, f"run {run!r}", row[0], first - 1)]
        found = [*packed, *fetched(db, _TIMES, (run,))]
    return [each for each in found if each[0] >= first]


def load_snapshot(db: sqlite3.Connection, run: RunId) -> StoredSnapshot | None:
    """Return the snapshot of a run; None if it has none."""
    row = db.execute(_SNAPSHOT, (run,)).fetchone()
    if row is None:
        raise RunNotFound(run)
    return None if row[0] is None else rows.snapshot(run, *row)


def load_facts(db: sqlite3.Connection, run: RunId, hashes: Collection[ContentHash]) -> dict[ContentHash, bytes]:
    """Return large values of a run."""
    with _one_moment(db):
        key = _row(db, run)[0]
        found = {each: db.execute(_FACT_BODY, (key, each)).fetchall() for each in hashes}
    if missing := [each for each, parts in found.items() if not parts]:
        raise MissingContent("fact", missing, run)
    return {each: rows.content(f"run {run!r}", parts) for each, parts in found.items()}


def load_definitions(db: sqlite3.Connection, hashes: Collection[ContentHash]) -> dict[ContentHash, bytes]:
    """Return definitions."""
    with _one_moment(db):
        sql = "select body from definitions where hash = ?"
        found = {each: db.execute(sql, (each,)).fetchone() for each in hashes}
    if missing := [each for each, row in found.items() if row is None]:
        raise MissingContent("definition", missing)
    return {each: rows.blob(definition(each), "definitions.body", row[0]) for each, row in found.items()}


def definition(content: ContentHash) -> str:
    """Return the name of a definition in messages; it may belong to many runs."""
    return f"the definition {content.hex()}"


def page(
    db: sqlite3.Connection, asked: Asked, after: RunRecord | None, limit: int, damaged: Damaged | None = None
) -> list[RunRecord]:
    """
    Return a page of runs, newest first, merged from one page per part of the index.

    Args:
        damaged: called for each run that cannot be read, and is left out.

    Raises:
        DamagedRow: a run cannot be read, and *damaged* is None.
    """
    tell = damaged or _raise
    with _one_moment(db):
        parts = asked.parts(db)
        if after is None:
            _look_for_strays(db, asked, parts, tell)
            return _merged(db, asked.sql(_FIRST_PAGE), parts, limit, tell, _order, newest_first=True)
        end = _place(after)
        return _merged(db, asked.sql(_PAGE), [part | end for part in parts], limit, tell, _order, newest_first=True)


def count(db: sqlite3.Connection, asked: Asked) -> int:
    """Return how many runs there are; one that cannot be read is one of them."""
    with _one_moment(db):
        if asked == Asked(workflow=asked.workflow):
            sql = "select count(*) from runs" if asked.workflow is None else _COUNT_WORKFLOW
            return int(db.execute(sql, {"workflow": asked.workflow}).fetchone()[0])
        if asked.workflow is None and asked.since is None:
            sql, parts = _COUNT, asked.wide_parts
        else:
            sql, parts = asked.sql(_COUNT), asked.parts(db)
        return sum(db.execute(sql, part).fetchone()[0] for part in parts)


def tally(db: sqlite3.Connection) -> dict[tuple[str, RunStatus], int]:
    """Return how many runs there are, by workflow and status; a status that does not exist is left out."""
    found: dict[tuple[str, RunStatus], int] = {}
    for workflow, status, number in fetched(db, _TALLY, ()):
        if status in _STATUSES:
            found[workflow, status] = found.get((workflow, status), 0) + number
    return found


def count_versions(db: sqlite3.Connection, workflow: str) -> dict[str, int]:
    """Return how many runs of *workflow* there are, by version."""
    return dict(fetched(db, _COUNT_VERSIONS, (workflow,)))


def histogram(db: sqlite3.Connection, asked: Asked, width: float) -> dict[tuple[int, RunStatus], int]:
    """Return how many runs were created in each period of *width* seconds, by its number and status."""
    found: dict[tuple[int, RunStatus], int] = {}
    with _one_moment(db):
        parts = asked.parts(db)
        most = COUNTED_PERIODS * _STATEMENTS / max(_STATEMENTS, len(parts))
        for part in parts:
            for period, number in _periods(db, asked, part, width, most):
                key = (period, part["status"])
                found[key] = found.get(key, 0) + number
    return found


def _periods(
    db: sqlite3.Connection, asked: Asked, part: dict[str, Any], width: float, most: float
) -> Iterable[tuple[int, int]]:
    """
    Return how many runs of one part of the index were created in each period.

    Counting a stretch of the index costs a quarter of grouping it, so a histogram of a few periods, *most* of them at
    most, is counted.
    """
    since = part["since"]
    (newest,) = db.execute(asked.sql(_NEWEST), part).fetchone()
    if newest is None:
        return []
    last = (newest - since) / width if isinstance(newest, int | float) else math.inf
    if not last < most:
        return db.execute(asked.sql(_HISTOGRAM), part | {"width": width}).fetchall()
    sql = asked._replace(since=None).sql(_PERIOD)  # a period begins later than the list
    bounds = [since + number * width for number in range(int(last) + 1)] + [math.inf]
    counted = (
        (number, db.execute(sql, part | {"begin": begin, "end": end}).fetchone()[0])
        for number, (begin, end) in enumerate(itertools.pairwise(bounds))
    )
    return [(number, runs) for number, runs in counted if runs]


def free_page(
    db: sqlite3.Connection, statuses: Collection[RunStatus], after: RunRecord | None, limit: int, damaged: Damaged
) -> list[RunRecord]:
    """Return a page of runs that belong to no session, oldest first; *damaged* is called for each run left out."""
    begin = {"created_at": -math.inf, "id": ""} if after is None else _place(after)
    asked = Asked(statuses)
    with _one_moment(db):
        parts = [part | begin for part in asked.parts(db)]
        return _merged(db, asked.sql(_FREE_PAGE), parts, limit, damaged, _order)


def old_runs(db: sqlite3.Connection, statuses: Collection[RunStatus], before: float) -> Iterable[Row]:
    """Return the keys and owners of runs in these statuses that were last written *before* a time."""
    asked = Asked(statuses)
    sql = asked.sql(_OLD_RUNS)
    for part in asked.parts(db):
        yield from db.execute(sql, part | {"before": before})


def waiting_page(
    db: sqlite3.Connection, asked: AskedWaiting, after: RunRecord | None, limit: int, damaged: Damaged | None = None
) -> list[RunRecord]:
    """
    Return a page of the waiting runs, by when they are woken.

    The timers have an order, and so has the index of runs, but by other things.  Few runs are found by the index and
    sorted.  Many are found on a walk along the timers, which meets enough of them soon.
    """
    tell = damaged or _raise
    at, created_at, id = (-math.inf, -math.inf, "") if after is None else wake_order(after)
    begin = {"at": at, "created_at": created_at, "id": id}
    bounds = asked.bounds
    with _one_moment(db):
        parts = [part | bounds | begin for part in asked.asked.parts(db)]
        if asked.are_some and _are_few(db, asked, parts):
            return _merged(db, asked.asked.sql(_WAITING_FEW), parts, limit, tell, wake_order)
        found: list[RunRecord] = []
        if at < math.inf:
            found = _merged(db, _WAITING_WITH_TIME, [bounds | begin], limit, tell, wake_order)
            begin |= {"created_at": -math.inf, "id": ""}
        if len(found) < limit:
            parts = [part | begin for part in parts]
            sql = asked.asked.sql(_WAITING_WITHOUT_TIME)
            found += _merged(db, sql, parts, limit - len(found), tell, wake_order)
    return found


def _are_few(db: sqlite3.Connection, asked: AskedWaiting, parts: list[dict[str, Any]]) -> bool:
    """Return whether so few waiting runs are asked for that they may be sorted for each page."""
    sql, most = asked.asked.sql(_COUNT_AT_MOST), SORTED + 1
    return sum(int(db.execute(sql, part | {"most": most}).fetchone()[0]) for part in parts) < most


def _place(record: RunRecord) -> dict[str, Any]:
    """Return the place of a run among all, for a statement."""
    return {"created_at": record.created_at, "id": record.id}


def _order(record: RunRecord) -> tuple[float, RunId]:
    return record.created_at, record.id


def _look_for_strays(db: sqlite3.Connection, asked: Asked, parts: list[dict[str, Any]], tell: Damaged) -> None:
    """Report runs whose status or time of creation does not exist, and which no page would show."""
    timeless = asked._replace(since=None).sql(_TIMELESS)
    if all(row[0] in _STATUSES for row in fetched(db, _SEEN, ())) and not any(
        db.execute(timeless, part).fetchone()[0] for part in parts
    ):
        return
    for row in fetched(db, _STRAYS, ()):
        if asked.includes(status=row[4], workflow=row[2], failures=row[11]):
            _read(row, tell)


def _merged(
    db: sqlite3.Connection,
    sql: str,
    parts: list[dict[str, Any]],
    limit: int,
    tell: Damaged,
    order: Callable[[RunRecord], Any],
    *,
    newest_first: bool = False,
) -> list[RunRecord]:
    """Return up to *limit* runs, merged from *parts* of the index that are in order, however many are damaged."""
    at_once = 0 if len(parts) <= _STATEMENTS else _AT_ONCE
    read = [_runs(db, sql, part, at_once, limit, tell) for part in parts]
    try:
        return list(itertools.islice(heapq.merge(*read, key=order, reverse=newest_first), limit))
    finally:
        for each in read:
            each.close()


def _runs(
    db: sqlite3.Connection, sql: str, part: dict[str, Any], at_once: int, limit: int, tell: Damaged
) -> Generator[RunRecord, None, None]:
    """
    Return the runs of one part of the index that can be read.

    They are read by one statement as far as they are asked for; or, if they are to be read *at_once*, so many together,
    and then twice as many.
    """
    offset = 0
    if not at_once:
        at_once = limit
        with closing(db.execute(sql, part | {"limit": limit, "offset": 0})) as cursor:
            try:
                for row in cursor:
                    offset += 1
                    if (record := _read(row, tell)) is not None:
                        yield record
            except sqlite3.OperationalError as error:  # text that is not valid: fetched() reads it
                if "UTF-8" not in str(error):
                    raise
            else:
                if offset < limit:
                    return
    while True:
        found = fetched(db, sql, part | {"limit": at_once, "offset": offset})
        for row in found:
            if (record := _read(row, tell)) is not None:
                yield record
        if len(found) < at_once:
            return
        offset += at_once
        at_once = min(2 * at_once, limit)


def _read(row: Row, tell: Damaged) -> RunRecord | None:
    try:
        return rows.record(row)
    except DamagedRow as error:
        tell(error)
        return None


def _raise(error: DamagedRow) -> None:
    raise error


def fetched(db: sqlite3.Connection, sql: str, asked: Sequence[Any] | dict[str, Any]) -> list[Row]:
    """Return all rows; bytes that are not valid text become stray surrogates, so that the caller learns the run."""
    try:
        return db.execute(sql, asked).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    db.text_factory = lenient
    try:
        return db.execute(sql, asked).fetchall()
    finally:
        db.text_factory = str


def lenient(found: bytes) -> str:
    """Return text as it is stored; bytes that are not text become stray surrogates."""
    return found.decode(errors="surrogateescape")


@contextmanager
def _one_moment(db: sqlite3.Connection) -> Generator[None, None, None]:
    db.execute("begin")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("commit")


def key_holder(db: sqlite3.Connection, workflow: str, unique: str) -> RunId | None:
    """Return the unfinished run of *workflow* that has the key *unique*."""
    found = fetched(db, _KEY_HOLDER, {"workflow": workflow, "unique": unique})
    return found[0][0] if found else None


def key_rival(db: sqlite3.Connection, run: RunId) -> tuple[str, str, RunId] | None:
    """Return the workflow and the key of *run*, and the other run that has that key now."""
    found = fetched(db, _KEY_RIVAL, (run,))
    if not found:
        raise RunNotFound(run)
    workflow, unique, holder = found[0]
    return None if holder is None else (workflow, unique, holder)
