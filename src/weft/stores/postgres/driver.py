"""
The driver, asyncpg, behind the few names that this store uses.

It is an extra, so it is imported when a store is made.  It has no types, so all of it is ``Any``, here and nowhere
else; a connection is used in :mod:`weft.stores.postgres.connection`.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from contextlib import nullcontext
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from weft.errors import InvalidStoreOption

SCHEMES = ("postgresql", "postgres")
ONE_ROW = "INSERT 0 1"
"""The answer of the driver to a statement that has inserted one row, and returns none."""

PUBLIC = "public"
"""The schema that a store uses if none is named."""
_IS_PREPARED = {"true": True, "false": False}
_PASSWORD = re.compile(r"password\s*=\s*('[^']*'|\S+)")


def driver() -> Any:
    """
    Return asyncpg.

    Raises:
        InvalidStoreOption: it is not installed.
    """
    try:
        return importlib.import_module("asyncpg")
    except ModuleNotFoundError as error:
        raise InvalidStoreOption(
            "PostgresStore needs asyncpg, which is not installed: pip install 'weft[postgres]'"
        ) from error


def no_timeout() -> Any:
    """Return what stands for no timeout at all: None is the timeout of the connection."""
    return importlib.import_module("asyncpg.protocol").NO_TIMEOUT


def checked(dsn: Any) -> str:
    """
    Return *dsn*.

    Raises:
        InvalidStoreOption: it does not name a PostgreSQL database.
    """
    if isinstance(dsn, str) and urlsplit(dsn).scheme in SCHEMES:
        return dsn
    named = _PASSWORD.sub("password=***", shown(dsn)) if isinstance(dsn, str) else repr(dsn)
    raise InvalidStoreOption(f"{named} does not name a database; use postgresql://user:password@host:port/database")


class Address(NamedTuple):
    """Where a store is, as its address says."""

    dsn: str
    """The part for the driver."""
    is_prepared: bool = True
    """Whether statements are prepared."""
    schema: str = PUBLIC
    """Where the tables are."""


def read(dsn: Any, schema: str = PUBLIC) -> Address:
    """
    Return what *dsn* says: ``?prepared=false`` and ``?schema=name`` are for the store, all else is for the driver.

    >>> read("postgresql://weft@db/runs?sslmode=require&prepared=false&schema=weft")
    Address(dsn='postgresql://weft@db/runs?sslmode=require', is_prepared=False, schema='weft')
    >>> read("postgresql://weft@db/runs")
    Address(dsn='postgresql://weft@db/runs', is_prepared=True, schema='public')

    Args:
        schema: another one than "public" has to be the one that *dsn* names, if it names one.

    Raises:
        InvalidStoreOption: it does not name a PostgreSQL database, or says something else.
    """
    address, question, query = checked(dsn).partition("?")
    kept: list[str] = []
    is_prepared, named = True, schema
    for each in query.split("&"):
        name, _, value = each.partition("=")
        if name == "schema":
            named = unquote(value)
            if schema not in (PUBLIC, named):
                raise InvalidStoreOption(f"{shown(dsn)} has {each}, and schema={schema!r} was passed; name it once")
        elif name != "prepared":
            kept.append(each)
        elif value in _IS_PREPARED:
            is_prepared = _IS_PREPARED[value]
        else:
            raise InvalidStoreOption(f"{shown(dsn)} has {each}; use prepared=false, or leave it out")
    return Address(f"{address}{question}{'&'.join(kept)}" if any(kept) else address, is_prepared, named)


def shown(dsn: str) -> str:
    """
    Return *dsn* without its password, for messages.

    >>> shown("postgresql://weft:secret@db.example/runs?sslmode=require&password=secret")
    'postgresql://weft@db.example/runs'
    >>> shown("postgresql:///runs")
    'postgresql:///runs'
    """
    parts = urlsplit(dsn)
    user, at, host = parts.netloc.rpartition("@")
    where = f"{user.partition(':')[0]}{at}{host}{parts.path}"
    return f"{parts.scheme}://{where}" if "://" in dsn else urlunsplit((parts.scheme, "", where, "", ""))


def together(db: Any, *, is_prepared: bool) -> Any:
    """
    Return a context for a statement on *db*: a transaction, if a pooler may put anything else on different sessions.

    The driver sends a statement that is not prepared in two parts.
    """
    return nullcontext() if is_prepared else db.transaction()


async def connect(dsn: str, *, timeout: float, is_prepared: bool = True) -> Any:
    """Connect; *timeout* is for connecting, and for each answer later."""
    cached: dict[str, Any] = {} if is_prepared else {"statement_cache_size": 0}
    async with asyncio.timeout(timeout):  # the driver tries each address in turn, each with its own timeout
        return await driver().connect(dsn, timeout=timeout, command_timeout=timeout, **cached)


class Pooled:
    """A connection through a transaction pooler: each of its statements is a transaction."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.get_settings, self.terminate, self.add_listener = db.get_settings, db.terminate, db.add_listener
        self.transaction = db.transaction

    async def fetch(self, *statement: Any) -> Any:
        """Return the rows."""
        async with self._db.transaction():
            return await self._db.fetch(*statement)

    async def fetchrow(self, *statement: Any) -> Any:
        """Return the first row."""
        async with self._db.transaction():
            return await self._db.fetchrow(*statement)

    async def fetchval(self, *statement: Any) -> Any:
        """Return the first value of the first row."""
        async with self._db.transaction():
            return await self._db.fetchval(*statement)

    async def execute(self, *statement: Any) -> Any:
        """Execute it."""
        async with self._db.transaction():
            return await self._db.execute(*statement)
