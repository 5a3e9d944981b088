"""
Steps that any worker of a queue may run: sending, claiming and finishing them, each by one statement.

What is to be notified is returned, and sent after the commit (:mod:`hints`): many workers claim and finish at once, and
a notification within the transaction would let them commit one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from weft.ports.tasks import ClaimedTask, SentTask, Task, TaskNews
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

_ANSWERS: Final = "answers"
"""How a notification for an owner begins; the keys of steps follow that were claimed, or have ended."""
DROPPED: Final = "dropped"
"""The payload of a notification for a worker: a step that it has claimed was removed."""
_MOST_KEYS: Final = 300
"""How many keys a payload has at most: 20 digits each are fewer than 8000 bytes."""

Told = tuple[str, Sequence[int]]
"""A channel, and the keys of the steps of which its listener is to be notified."""


def answers(keys: Sequence[int]) -> str:
    """
    Return the payload for the owner of the steps *keys*; without keys it may be any.

    >>> answers([7, 12]), answers(range(1000))
    ('answers 7 12', 'answers')
    """
    return " ".join((_ANSWERS, *map(str, keys))) if len(keys) <= _MOST_KEYS else _ANSWERS


def is_told(payload: str | None) -> bool:
    """
    Return whether *payload* is about steps, and not about messages.

    >>> is_told("answers 7 12"), is_told("dropped"), is_told(""), is_told(None)
    (True, True, False, False)
    """
    return payload is not None and (payload == DROPPED or payload.startswith(_ANSWERS))


def answered(payload: str | None) -> Collection[int] | None:
    """
    Return the keys of the steps that *payload* names; None if any may be meant.

    >>> answered("answers 7 12"), answered("dropped"), answered("answers"), answered(None), answered("answers x")
    ([7, 12], [], None, None, None)
    """
    if payload is not None and not payload.startswith(_ANSWERS):
        return []
    try:
        return [int(key) for key in (payload or "").split()[1:]] or None
    except ValueError:
        return None


async def send(
    db: Any, statements: Statements, owner: int, sent: Sequence[Task], values: Mapping[tuple[RunId, bytes], bytes]
) -> list[SentTask]:
    """Offer steps of *owner*; return those that are there now."""
    if not sent:
        return []
    columns = [list(column) for column in zip(*sent, strict=True)]
    runs, hashes = [run for run, _ in values], [content for _, content in values]
    found = await db.fetch(statements["send_tasks"], owner, *columns, runs, hashes, list(values.values()))
    return [SentTask(*row) for row in found]


async def news(db: Any, statements: Statements, owner: int, keys: Sequence[int], limit: int) -> list[TaskNews]:
    """Return which steps run, have ended, or are not there any more."""
    return [TaskNews(*row) for row in await db.fetch(statements["take_outcomes"], owner, keys, limit)]


async def drop(db: Any, statements: Statements, owner: int, keys: Sequence[int]) -> None:
    """Remove steps of *owner*."""
    await db.fetchrow(statements["drop_tasks"], owner, keys)


async def claim(
    db: Any,
    statements: Statements,
    limit: int,
    queues: Sequence[str],
    workflows: Sequence[tuple[str, str]],
    worker: int,
    deaths: int,
    outcomes: Sequence[tuple[int, int, bytes]],
) -> tuple[list[ClaimedTask], list[Told]]:
    """Store *outcomes*, and claim steps for *worker*; return also which owners are to be notified."""
    names, versions = [name for name, _ in workflows], [version for _, version in workflows]
    ended = [[outcome[place] for outcome in outcomes] for place in range(3)]
    found = await db.fetch(statements["claim_tasks"], limit, queues, names, versions, worker, deaths, *ended)
    claims = [ClaimedTask(*row[:6]) for row in found if row[0] is not None]
    return claims, [(row[6], row[7]) for row in found if row[0] is None]


async def finish(db: Any, statements: Statements, outcomes: Sequence[tuple[int, int, bytes]]) -> list[Told]:
    """Store outcomes, by key and fence; return which owners are to be notified."""
    found = await db.fetch(statements["finish_tasks"], *(list(column) for column in zip(*outcomes, strict=True)))
    return [(channel, keys) for channel, keys in found]


async def report(db: Any, statements: Statements, reports: Sequence[tuple[int, int, bytes]]) -> list[Told]:
    """Store reports of steps that run, by key and fence; return which owners are to be notified."""
    found = await db.fetch(statements["report_tasks"], *(list(column) for column in zip(*reports, strict=True)))
    return [(channel, keys) for channel, keys in found]


async def put_back(db: Any, statements: Statements, claims: Sequence[tuple[int, int]]) -> None:
    """Offer claimed steps again."""
    await db.fetchrow(statements["put_back_tasks"], *_claims(claims))


async def check(db: Any, statements: Statements, worker: int, claims: Sequence[tuple[int, int]]) -> list[int]:
    """Return the keys of steps that are not wanted any more."""
    return [row[0] for row in await db.fetch(statements["check_tasks"], worker, *_claims(claims))]


async def values(
    db: Any, statements: Statements, asked: Sequence[tuple[RunId, bytes]]
) -> dict[tuple[RunId, bytes], bytes]:
    """Return large values, by run and hash."""
    found = await db.fetch(statements["task_values"], *_claims(asked))
    return {(run, content): body for run, content, body in found}


async def sweep(db: Any, statements: Statements, after: float) -> int:
    """Remove steps that no run waits for; return how many."""
    removed: int = await db.fetchval(statements["sweep_tasks"], after)
    return removed


def _claims(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [first for first, _ in pairs], [second for _, second in pairs]
