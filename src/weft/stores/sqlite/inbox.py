"""
Messages for runs: posting and reading them.  An append removes the messages that its events come from (appending.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

from weft.errors import RunNotFound, StoreError
from weft.ports.store import Message
from weft.stores.sqlite import rows
from weft.stores.sqlite.ownership import Session, transaction
from weft.stores.sqlite.reading import fetched
from weft.stores.sqlite.statements import query
from weft.typing import RunId

_POST = query("post")
_SUCCESSOR = query("successor")
_OWNER_PORT = query("owner_port")
_OF_SESSION = query("inbox_of_session")
_OF_RUN = query("inbox_of_run")
_ADDRESSED = query("addressed")


def post(
    db: sqlite3.Connection, _: Session, messages: Iterable[Message]
) -> tuple[list[int | StoreError], dict[int, int | None]]:
    """Store *messages*; return the number of each, or why not, and the owners to tell: sessions and their ports."""
    with transaction(db):
        return post_within(db, messages)


def post_within(
    db: sqlite3.Connection, messages: Iterable[Message]
) -> tuple[list[int | StoreError], dict[int, int | None]]:
    """Like :func:`post`, in the transaction that is open on *db*."""
    answers: list[int | StoreError] = []
    owners: dict[int, int | None] = {}
    for each in messages:
        run = each.run
        while (row := db.execute(_SUCCESSOR, (run,)).fetchone()) is not None:
            (run,) = row
        done = db.execute(_POST, (each.kind, each.at, each.body, run))
        if not done.rowcount:
            answers.append(RunNotFound(run))
            continue
        answers.append(int(done.lastrowid or 0))
        owners.update(db.execute(_OWNER_PORT, (run,)).fetchall())
    return answers, owners


def messages(
    db: sqlite3.Connection, session: int, runs: Collection[RunId] | None, after: int, limit: int
) -> Sequence[Message]:
    """Return the messages of *runs*, or of all runs of a session, in their order."""
    asked = {"session": session, "after": after, "limit": limit}
    if runs is None:
        return [rows.message(row) for row in fetched(db, _OF_SESSION, asked)]
    found = [row for run in dict.fromkeys(runs) for row in fetched(db, _OF_RUN, asked | {"run": run})]
    return [rows.message(row) for row in sorted(found)[:limit]]


def addressed(db: sqlite3.Connection, after: RunId, limit: int) -> Sequence[RunId]:
    """Return the ids of idle runs that have messages and belong to no session."""
    return [row[0] for row in fetched(db, _ADDRESSED, {"after": after, "limit": limit})]


def listen_at(db: sqlite3.Connection, session: Session, port: int | None) -> None:
    """Store the port at which this session is notified of messages."""
    with transaction(db):
        db.execute("update sessions set port = ? where key = ?", (port, session.key))
