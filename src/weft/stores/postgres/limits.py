"""Limits that hold across a fleet: places with an end, turns, and the states of breakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.ports.limits import LimitRow, StoredBreaker
from weft.stores.postgres.statements import Statements


async def take_places(
    db: Any,
    statements: Statements,
    owner: str,
    name: str,
    rule: str,
    limit: int,
    used: int,
    wanted: int,
    asked: int,
    lease: float,
) -> tuple[int, int]:
    """Take places, or return some; return how many *owner* has, and its share."""
    async with db.transaction():
        await db.execute(statements["lock_limit"], "concurrency_limit", name, rule)
        places, share = await db.fetchrow(statements["take_places"], name, owner, limit, used, wanted, asked, lease)
    return places, share


async def leave_places(db: Any, statements: Statements, owner: str) -> None:
    """Give all places of *owner* back."""
    await db.execute(statements["leave_places"], owner)


async def take_turns(
    db: Any, statements: Statements, name: str, rule: str, apart: float, count: int
) -> tuple[float, float]:
    """Take turns of a rate; return the time of the first, and the time, by the clock of the database."""
    first, now = await db.fetchrow(statements["take_turns"], name, rule, apart, count)
    return first, now


async def load_breakers(db: Any, statements: Statements, names: Sequence[str]) -> Mapping[str, StoredBreaker]:
    """Return the states of breakers, by name."""
    return {name: StoredBreaker(*row) for name, *row in await db.fetch(statements["load_breakers"], names)}


async def put_breaker(db: Any, statements: Statements, name: str, rule: str, state: bytes, revision: int) -> bool:
    """Put a state in place of the one with this *revision*; return whether it was written."""
    return bool(await db.fetchval(statements["put_breaker"], name, rule, state, revision))


async def listed(db: Any, statements: Statements) -> Sequence[LimitRow]:
    """Return all limits that workers have used."""
    return [LimitRow(*row) for row in await db.fetch(statements["limits"])]
