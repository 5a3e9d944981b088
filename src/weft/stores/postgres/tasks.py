"""Steps that any worker of a queue may run: sending, claiming and finishing them, each by one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.ports.tasks import ClaimedTask, SentTask, Task, TaskNews
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

ANSWERS: Final = "answers"
"""The payload of a notification for an owner: a step of it was claimed, or has ended."""
DROPPED: Final = "dropped"
"""The payload of a notification for a worker: a step that it has claimed was removed."""
TOLD: Final = frozenset((ANSWERS, DROPPED))


async def send(
    db: Any, statements: Statements, owner: int, sent: Sequence[Task], values: Mapping[tuple[RunId, bytes], bytes]
) -> list[SentTask]:
    """Offer steps of *owner*; return those that are there now."""
    columns = [list(column) for column in zip(*sent, strict=True)]
    runs, hashes = [run for run, _ in values], [content for _, content in values]
    found = await db.fetch(statements["send_tasks"], owner, *columns, runs, hashes, list(values.values()))
    return [SentTask(key, run, runnable, has_news) for key, run, runnable, has_news, _ in found]


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
) -> list[ClaimedTask]:
    """Store *outcomes*, and claim steps for *worker*."""
    names, versions = [name for name, _ in workflows], [version for _, version in workflows]
    ended = [[outcome[place] for outcome in outcomes] for place in range(3)]
    found = await db.fetch(statements["claim_tasks"], limit, queues, names, versions, worker, deaths, *ended)
    return [ClaimedTask(*row) for row in found if row[0] is not None]


async def finish(db: Any, statements: Statements, outcomes: Sequence[tuple[int, int, bytes]]) -> None:
    """Store outcomes, by key and fence."""
    await db.fetchrow(statements["finish_tasks"], *(list(column) for column in zip(*outcomes, strict=True)))


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
