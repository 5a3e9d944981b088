"""Messages for runs: posting and reading them.  An append removes the messages that its events come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from weft.errors import RunNotFound, StoreError
from weft.ports.store import Message
from weft.stores.postgres import rows
from weft.stores.postgres.reading import can_exist
from weft.stores.postgres.statements import Statements
from weft.typing import RunId


async def post(
    db: Any, statements: Statements, messages: Sequence[Message], owner: int | None
) -> tuple[list[int | StoreError], bool]:
    """Store *messages*; return the number of each, or why not, and whether *owner* has one of the runs."""
    answers: list[int | StoreError] = [RunNotFound(each.run) for each in messages]
    asked = [place for place, each in enumerate(messages) if can_exist(each.run)]
    runs = [messages[place].run for place in asked]
    while True:
        places, numbers, is_own, _, _, continued = await db.fetchrow(
            statements["post"],
            runs,
            [messages[place].kind for place in asked],
            [messages[place].at for place in asked],
            [messages[place].body for place in asked],
            owner,
        )
        if not continued:
            break
        last = dict(await db.fetch(statements["successors"], continued))
        runs = [last.get(run, run) for run in runs]
    for place, number in zip(places, numbers, strict=True):
        answers[asked[place - 1]] = number
    return answers, is_own


async def messages(
    db: Any, statements: Statements, owner: int | None, runs: Collection[RunId] | None, after: int, limit: int
) -> list[Message]:
    """Return the messages of *runs*, or of all runs of *owner*, in their order."""
    if runs is not None:
        asked = [run for run in dict.fromkeys(runs) if can_exist(run)]
        found = await db.fetch(statements["messages_of_runs"], asked, after, limit)
    elif owner is not None:
        found = await db.fetch(statements["messages_of_owner"], owner, after, limit)
    else:
        return []
    return [rows.message(row) for row in found]


async def addressed(db: Any, statements: Statements, after: RunId, limit: int) -> list[RunId]:
    """Return the ids of idle runs that have messages and no living owner."""
    return [row[0] for row in await db.fetch(statements["addressed"], after, limit)]
