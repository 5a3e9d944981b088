"""Deadlines of runs that are in danger.  An append writes the row of its run; renewals of leases find what is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ports.deadlines import Endangered
from weft.stores.postgres.statements import Statements
from weft.typing import RunId


async def endangered(db: Any, statements: Statements, now: float, limit: int) -> Sequence[Endangered]:
    """Return the runs whose deadline is in danger, or past."""
    return [Endangered(*row) for row in await db.fetch(statements["endangered"], now, limit)]


async def mark_all_reported(
    db: Any, statements: Statements, now: float, limit: int
) -> tuple[Sequence[Endangered], float | None]:
    """Mark all unreported dangers as reported; return them and the time of the next one."""
    told = [Endangered(*row) for row in await db.fetch(statements["tell_dangers"], now, limit)]
    return told, now if len(told) == limit else await db.fetchval(statements["next_danger"], now)


async def mark_reported(db: Any, statements: Statements, run: RunId, deadline: float, now: float) -> Endangered | None:
    """Mark one danger as reported and return it; None if there is none."""
    row = await db.fetchrow(statements["tell_danger"], run, deadline, now)
    return None if row is None else Endangered(*row)
