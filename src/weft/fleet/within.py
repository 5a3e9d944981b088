"""
Starts a run inside the transaction of the caller: the run exists if that commits, and only then.

The caller passes its connection: of asyncpg, of psycopg, or a connection or session of SQLAlchemy over one of them.
The statement is the one of :meth:`PostgresStore.enqueue`, with ``$1`` for its values, which these drivers can take.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any, Final, cast

from weft.errors import InvalidOption

_KNOWN: Final = "use a connection of asyncpg or psycopg, or a connection or session of SQLAlchemy over one of them"


async def execute(connection: Any, statement: str, values: Sequence[Any]) -> Sequence[Any]:
    """
    Return the one row of *statement*, executed in the transaction of *connection*.

    Raises:
        InvalidOption: this is not a connection that can be used here, or it is not in a transaction.
    """
    made_by = _made_by(connection)
    if made_by == "sqlalchemy":
        return await execute(await _beneath(connection), statement, values)
    if made_by == "asyncpg":
        if not connection.is_in_transaction():
            raise InvalidOption(f"within={connection!r:.60}: begin a transaction first; a run alone needs none")
        return cast("Sequence[Any]", await connection.fetchrow(statement, *values))
    if made_by == "psycopg" and inspect.iscoroutinefunction(connection.commit):
        async with _psycopg().AsyncRawCursor(_in_transaction(connection)) as cursor:
            await cursor.execute(statement, list(values))
            return cast("Sequence[Any]", await cursor.fetchone())
    raise InvalidOption(f"within={connection!r:.60} blocks: pass it to weft.Client, which does too")


def execute_blocking(connection: Any, statement: str, values: Sequence[Any]) -> Sequence[Any]:
    """Like :func:`execute`, with a blocking connection."""
    made_by = _made_by(connection)
    if made_by == "sqlalchemy" and not _is_awaited(connection):
        plain = connection.connection() if hasattr(connection, "get_bind") else connection  # of a session
        plain.exec_driver_sql("select 1")  # it begins its transaction with its first statement
        return execute_blocking(plain.connection.driver_connection, statement, values)
    if made_by == "psycopg" and not inspect.iscoroutinefunction(connection.commit):
        with _psycopg().RawCursor(_in_transaction(connection)) as cursor:
            cursor.execute(statement, list(values))
            return cast("Sequence[Any]", cursor.fetchone())
    raise InvalidOption(f"within={connection!r:.60} has to be awaited: pass it to weft.AsyncClient")


def _made_by(connection: Any) -> str:
    """Return the library to which *connection* belongs."""
    for each in type(connection).__mro__:
        library = each.__module__.partition(".")[0]
        if library in ("asyncpg", "psycopg", "sqlalchemy"):
            return library
    raise InvalidOption(f"within={connection!r:.60}: {_KNOWN}")


def _is_awaited(connection: Any) -> bool:
    return type(connection).__module__.startswith("sqlalchemy.ext.asyncio")


async def _beneath(connection: Any) -> Any:
    """Return the connection of the driver beneath one of SQLAlchemy, whose transaction has begun."""
    if not _is_awaited(connection):
        raise InvalidOption(f"within={connection!r:.60} blocks: pass it to weft.Client, which does too")
    plain = await connection.connection() if hasattr(connection, "get_bind") else connection  # of a session
    await plain.exec_driver_sql("select 1")  # it begins its transaction with its first statement
    return (await plain.get_raw_connection()).driver_connection


def _in_transaction(connection: Any) -> Any:
    """Return *connection* of psycopg, in which a statement begins a transaction unless it commits each by itself."""
    if connection.autocommit and connection.info.transaction_status == _psycopg().pq.TransactionStatus.IDLE:
        raise InvalidOption(f"within={connection!r:.60}: begin a transaction first; a run alone needs none")
    return connection


def _psycopg() -> Any:
    return importlib.import_module("psycopg")
