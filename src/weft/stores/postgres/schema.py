"""
The version of the schema, and its migrations.

A migration is a file of plain SQL.  All that are missing are applied in one transaction, under a lock that the
transaction holds: processes that migrate at once wait for each other, and a process that dies leaves nothing behind.
A process that meets a newer schema does nothing to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

from weft.errors import ForeignStore, NewerStore, ReadOnlyStore
from weft.stores.postgres.error_mapping import code_of
from weft.stores.postgres.statements import Statements, quoted

_NOT_ALLOWED = "42501"
RIGHTS: Final = ("select", "insert", "update", "delete")
_LESS: Final[Mapping[str, tuple[str, ...]]] = {
    "weft_definitions": ("select", "insert"),
    "weft_events": ("select", "insert", "delete"),
    "weft_facts": ("select", "insert", "delete"),
    "weft_chunks": ("select", "insert", "delete"),
    "weft_limits": ("select", "insert", "update"),
    "weft_shard": ("select", "update"),
    "weft_shards": ("select", "insert"),
    "weft_schema": ("select",),
}
"""The tables in which a worker needs less: most of their rows are added, and deleted with their run, not changed."""


def rights(table: str) -> tuple[str, ...]:
    """
    Return the rights that a worker needs in *table*.

    >>> rights("weft_queue"), rights("weft_events")
    (('select', 'insert', 'update', 'delete'), ('select', 'insert', 'delete'))
    """
    return _LESS.get(table, RIGHTS)


_LOCK = 0x77656674  # "weft"; the schema is the second half of the lock
_LONGEST = 3600.0
"""Seconds for one migration: with millions of runs it takes longer than any other statement."""


def newest(statements: Statements) -> int:
    """Return the version that this Weft knows."""
    return statements.newest


async def version_of(db: Any, statements: Statements) -> int:
    """Return the version of the schema; 0 if there is none."""
    if not await db.fetchval("select to_regclass($1) is not null", f"{statements.schema}.weft_schema"):
        return 0
    return await db.fetchval(statements["version"]) or 0


async def check(db: Any, statements: Statements, store: str) -> bool:
    """
    Return whether the schema is as new as this Weft; False if it has to be migrated.

    Raises:
        NewerStore: it is newer.
    """
    found, known = await version_of(db, statements), newest(statements)
    if found > known:
        raise NewerStore(store, found, known)
    return found == known


async def migrate(
    db: Any, statements: Statements, store: str, *, worker: str | None = None, reader: str | None = None
) -> None:
    """
    Bring the schema to this version, and let the roles *worker* and *reader* use it.

    Roles that could use the tables of an older version can use the new ones.

    Raises:
        NewerStore: it is newer.
        ReadOnlyStore: this role may not create tables.
        ForeignStore: there are tables of these names that Weft did not create.
    """
    try:
        async with db.transaction():
            await db.execute("select pg_advisory_xact_lock($1, $2)", _LOCK, _hashed(statements.schema))
            roles = await _granted(db, statements) if await _apply(db, statements, store) else {}
            named = {worker: True, reader: False}
            roles |= {role: may_write for role, may_write in named.items() if role is not None}
            for role, may_write in roles.items():
                await _grant(db, statements.schema, quoted(role), may_write=may_write)
    except Exception as error:
        if code_of(error) == _NOT_ALLOWED:
            raise ReadOnlyStore(
                store, f"{error}: its schema has to be created or migrated, by a role that may create tables"
            ) from error
        raise


async def _apply(db: Any, statements: Statements, store: str) -> bool:
    """Apply the migrations that are missing; return whether there were some."""
    schema, known = statements.schema, newest(statements)
    if not await db.fetchval("select to_regnamespace($1) is not null", schema):
        await db.execute(f"create schema {schema}")
    table = f"{schema}.weft_schema"
    found = await version_of(db, statements)
    if not found and await db.fetchval("select to_regclass($1) is not null", f"{schema}.weft_runs"):
        raise ForeignStore(store, "it has a table weft_runs, and Weft has not created it")
    await db.execute(
        f"create table if not exists {table} (version integer primary key, applied_at timestamptz default now())"
    )
    if found > known:
        raise NewerStore(store, found, known)
    for version, script in statements.migrations():
        if version > found:
            await db.execute(script, timeout=_LONGEST)
            await db.execute(f"insert into {table} (version) values ($1)", version)  # noqa: S608
    return found < known


async def _granted(db: Any, statements: Statements) -> dict[str, bool]:
    """Return the roles that may use the runs, each with whether it may write them."""
    return dict(await db.fetch(statements["roles"], f"{statements.schema}.weft_runs"))


async def _grant(db: Any, schema: str, role: str, *, may_write: bool) -> None:
    found = await db.fetch(
        "select relname from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r'", schema
    )
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(name for (name,) in found if name.startswith("weft_")):
        alike.setdefault(rights(name) if may_write else ("select",), []).append(f"{schema}.{quoted(name)}")
    await db.execute(f"grant usage on schema {schema} to {role}")
    for needed, tables in alike.items():
        await db.execute(f"grant {', '.join(needed)} on {', '.join(tables)} to {role}")


def _hashed(schema: str) -> int:
    """Return a number for *schema*, of the 32 bits with a sign that a lock takes."""
    number = zlib.crc32(schema.encode())
    return number - (1 << 32) if number >= 1 << 31 else number
