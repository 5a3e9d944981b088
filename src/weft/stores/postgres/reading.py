"""Reading runs: each question is one statement, and so is about one moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from weft.errors import DamagedRow, MissingContent, RunNotFound, StoreError
from weft.ports.store import NEVER, ContentHash, LoadedRun, RunRecord, RunStatus, Segment, StoredSnapshot
from weft.stores.postgres import rows
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

_log = logging.getLogger("weft.stores")

FEW: Final = 4
"""The most runs that are loaded with a plan that is kept: it may be one for small tables, and read one for each."""


class Asked(NamedTuple):
    """The runs that a caller asks for."""

    statuses: Collection[RunStatus] | None
    workflow: str | None
    failed: bool | None
    since: float | None

    @property
    def bound(self) -> tuple[Any, ...]:
        """Return it as the first values of ``page.sql`` and ``count.sql``."""
        statuses = None if self.statuses is None else list(dict.fromkeys(self.statuses))
        return statuses, self.workflow, self.failed, None if self.since is None else float(self.since)


def can_exist(run: object) -> bool:
    """Return whether PostgreSQL can store *run* as an id; no run has another."""
    if not isinstance(run, str) or "\0" in run:
        return False
    try:
        run.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_id(run: RunId) -> None:
    """
    Refuse what cannot be an id.

    Raises:
        RunNotFound: no run has this id.
    """
    if not can_exist(run):
        raise RunNotFound(run)


async def find(db: Any, statements: Statements, run: RunId) -> RunRecord:
    """Return the record of a run."""
    check_id(run)
    found = await db.fetch(statements["find"], [run])
    if not found:
        raise RunNotFound(run)
    return rows.owned_record(found[0])


async def exists(db: Any, statements: Statements, run: RunId) -> bool:
    """Return whether a run is stored under this id."""
    return can_exist(run) and bool(await db.fetch(statements["find"], [run]))


async def load(db: Any, statements: Statements, run: RunId, position: int) -> LoadedRun:
    """Return a run with the segments that hold what came after *position*."""
    check_id(run)
    found = await db.fetch(statements.kept("load"), [run], position)
    if not found:
        raise RunNotFound(run)
    return rows.loaded(found[0], position)


async def load_many(db: Any, statements: Statements, runs: Collection[RunId]) -> dict[RunId, LoadedRun | StoreError]:
    """Return the whole logs of *runs*, or why one cannot be read."""
    answers: dict[RunId, LoadedRun | StoreError] = {run: RunNotFound(run) for run in runs}
    known = [run for run in answers if can_exist(run)]
    statement = statements.kept("load") if len(known) <= FEW else statements["load"]
    for row in await db.fetch(statement, known, 0) if known else ():
        try:
            answers[row["id"]] = rows.loaded(row, 0)
        except DamagedRow as error:
            answers[row["id"]] = error
    return answers


async def load_between(db: Any, statements: Statements, run: RunId, first: int, last: int) -> list[Segment]:
    """Return the segments of a run that hold the events from number *first* to *last*."""
    check_id(run)
    found = await db.fetch(statements["load_between"], run, first, last)
    if not found:
        raise RunNotFound(run)
    return [Segment(*row) for row in found if row[0] is not None]


async def load_snapshot(db: Any, statements: Statements, run: RunId) -> StoredSnapshot | None:
    """Return the snapshot of a run; None if it has none."""
    check_id(run)
    found = await db.fetchrow(statements["load_snapshot"], run)
    if found is None:
        raise RunNotFound(run)
    return None if found[0] is None else StoredSnapshot(*found)


async def load_definitions(
    db: Any, statements: Statements, hashes: Collection[ContentHash]
) -> Mapping[ContentHash, bytes]:
    """Return definitions."""
    found = dict(await db.fetch(statements["definitions"], list(hashes)))
    return _picked("definition", found, hashes)


async def load_facts(
    db: Any, statements: Statements, run: RunId, hashes: Collection[ContentHash]
) -> Mapping[ContentHash, bytes]:
    """Return large values of a run."""
    check_id(run)
    found = await db.fetch(statements["facts"], run, list(hashes))
    if not found:
        raise RunNotFound(run)
    return _picked("fact", dict(found), hashes, run)


async def page(db: Any, statements: Statements, asked: Asked, after: RunRecord | None, limit: int) -> list[RunRecord]:
    """Return a page of runs, newest first, as :func:`_readable` does."""
    name = "page" if asked.statuses is None else "page_by_status"
    return await _readable(db, statements[name], asked.bound, after, limit, _by_age)


async def waiting_page(
    db: Any,
    statements: Statements,
    asked: tuple[str | None, float | None, float | None],
    after: RunRecord | None,
    limit: int,
) -> list[RunRecord]:
    """Return a page of the waiting runs, by when they are woken, as :func:`_readable` does."""
    return await _readable(db, statements["waiting_page"], asked, after, limit, _by_wake)


def _by_age(created_at: float, id: RunId, _: float | None) -> tuple[Any, ...]:
    return created_at, id


def _by_wake(created_at: float, id: RunId, wake_at: float | None) -> tuple[Any, ...]:
    return NEVER if wake_at is None else wake_at, created_at, id


async def _readable(
    db: Any,
    statement: str,
    bound: Sequence[Any],
    after: RunRecord | None,
    limit: int,
    place: Callable[[float, RunId, float | None], tuple[Any, ...]],
) -> list[RunRecord]:
    """
    Return a page of runs; one that cannot be read is logged, left out, and does not count.

    So a page that is not full is the last one, whatever is damaged.

    Args:
        place: where a run is in the order of the statement.
    """
    none = (None,) * len(place(0.0, "", None))
    last = none if after is None else place(after.created_at, after.id, after.wake_at)
    dead: dict[tuple[int, int], bool] = {}
    records: list[RunRecord] = []
    while True:
        most = limit - len(records)
        found = await db.fetch(statement, *bound, *last, most)
        for row in found:
            try:
                records.append(rows.owned_record(row, dead))
            except DamagedRow as error:
                _log.error("a damaged run is skipped: %s", error)
        if len(found) < most or len(records) == limit:
            return records
        last = place(found[-1]["created_at"], found[-1]["id"], found[-1]["wake_at"])


async def count(db: Any, statements: Statements, asked: Asked) -> int:
    """Return how many runs there are."""
    return await db.fetchval(statements["count"], *asked.bound)  # type: ignore[no-any-return]


async def tally(db: Any, statements: Statements) -> dict[tuple[str, RunStatus], int]:
    """Return how many runs there are, by workflow and status."""
    return {(row[0], row[1]): row[2] for row in await db.fetch(statements["tally"])}


async def count_versions(db: Any, statements: Statements, workflow: str) -> dict[str, int]:
    """Return how many runs of *workflow* there are, by version."""
    if not can_exist(workflow):
        return {}
    return {row[0]: row[1] for row in await db.fetch(statements["count_versions"], workflow)}


async def histogram(
    db: Any, statements: Statements, since: float, width: float, workflow: str | None
) -> dict[tuple[int, RunStatus], int]:
    """Return how many runs were created in each period of *width* seconds, by its number and status."""
    rows = await db.fetch(statements["histogram"], since, width, workflow)
    return {(row[0], row[1]): row[2] for row in rows}


async def free_page(
    db: Any, statements: Statements, statuses: Collection[RunStatus], after: RunRecord | None, limit: int
) -> list[RunRecord]:
    """Return a page of runs without a living owner, oldest first, as :func:`_readable` does."""
    return await _readable(db, statements["free_page"], [list(dict.fromkeys(statuses))], after, limit, _by_age)


def _picked(
    kind: str, found: Mapping[ContentHash, bytes], hashes: Collection[ContentHash], run: RunId | None = None
) -> dict[ContentHash, bytes]:
    if missing := [each for each in hashes if each not in found]:
        raise MissingContent(kind, missing, run)
    return {each: found[each] for each in hashes}


async def key_holder(db: Any, statements: Statements, workflow: str, unique: str) -> RunId | None:
    """Return the unfinished run of *workflow* that has the key *unique*."""
    if not (can_exist(workflow) and can_exist(unique)):
        return None
    found = await db.fetchrow(statements["key_holders"], [workflow], [unique])
    return None if found is None else found[1]


async def key_rival(db: Any, statements: Statements, run: RunId) -> tuple[str, str, RunId] | None:
    """Return the workflow and the key of *run*, and the other run that has that key now."""
    check_id(run)
    found = await db.fetchrow(statements["key_rival"], run)
    if found is None:
        raise RunNotFound(run)
    workflow, unique, holder = found
    return None if holder is None else (workflow, unique, holder)
