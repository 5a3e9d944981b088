"""
This database as one of several: its id, the shards that it knows, and its fence.

A statement that creates a run for workers is sent with the fence that its client knows, and creates nothing if the
database has another one.  A fence is changed under a lock that waits for all such statements.  See docs/adr/0054.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from weft.stores.postgres.reading import can_exist
from weft.stores.postgres.statements import Statements
from weft.typing import RunId


class ShardRow(NamedTuple):
    """The knowledge of a database of itself and of the others."""

    id: str
    fence: str
    shards: Mapping[str, tuple[int, bool]]
    """By id: with which generation it joined, and whether it had runs before."""


async def read(db: Any, statements: Statements) -> ShardRow:
    """Return what the database knows."""
    rows = await db.fetch(statements["shard"])
    shards = {shard: (since, had_runs) for _, _, shard, since, had_runs in rows if shard is not None}
    return ShardRow(rows[0][0], rows[0][1], shards)


async def join(db: Any, statements: Statements, alone: str, joining: str) -> bool:
    """Let no client create runs that knows this database *alone*; return whether it has some."""
    async with db.transaction():
        await db.execute(statements["lock_starts"])
        await db.execute(statements["put_fence"], joining, [alone])
        return bool(await db.fetchval(statements["has_runs"]))


async def record(
    db: Any, statements: Statements, shards: Mapping[str, tuple[int, bool]], fence: str, instead: Sequence[str]
) -> bool:
    """Record *shards* and their *fence*, if the fence is one of *instead*; return whether it was."""
    async with db.transaction():
        await db.execute(statements["lock_starts"])
        if not await db.fetchval(statements["put_fence"], fence, list(instead)):
            return False
        sinces, had_runs = [since for since, _ in shards.values()], [had for _, had in shards.values()]
        await db.execute(statements["put_shards"], list(shards), sinces, had_runs)
        return True


async def existing(db: Any, statements: Statements, runs: Collection[RunId]) -> set[RunId]:
    """Return those of *runs* that are stored here."""
    return {run for (run,) in await db.fetch(statements["existing"], [run for run in runs if can_exist(run)])}
