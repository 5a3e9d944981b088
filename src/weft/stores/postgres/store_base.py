"""
A store that is open, as the parts of its ports see it: each part is a class in another file.

    StoreBase ◄── deadline_store, task_store, limit_store, schedule_store, shard_store ◄── PostgresStore

A part asks the database by ``_ask``, one statement or transaction at a time, on the connection for everything but
appends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from weft.errors import StoreClosed, WrongLoop
from weft.stores.postgres import driver
from weft.stores.postgres.appending import Appender
from weft.stores.postgres.claims import Claims
from weft.stores.postgres.connection import Connection
from weft.stores.postgres.hints import Hints
from weft.stores.postgres.lease import Lease
from weft.stores.postgres.process import Process
from weft.stores.postgres.statements import Statements
from weft.stores.postgres.transactions import TransactionPool

P = ParamSpec("P")
T = TypeVar("T")


class Opened(NamedTuple):
    """The parts of a store that is open."""

    loop: asyncio.AbstractEventLoop
    pid: int
    process: Process
    channel: str
    lease: Lease
    appends: Connection
    """Used only for appends, so that slow queries never delay them."""
    others: Connection
    appender: Appender
    hints: Hints
    claims: Claims
    transactions: TransactionPool


class StoreBase:
    """The database of a store, and its connections while it is open."""

    _dsn: str
    _statements: Statements
    _opened: Opened | None
    fence: str | None

    @property
    def _name(self) -> str:
        return f"the store at {driver.shown(self._dsn)}"

    def _usable(self) -> Opened:
        opened = self._opened
        if opened is None or opened.pid != os.getpid():
            raise StoreClosed(self._name)
        if opened.loop is not asyncio.get_running_loop():
            raise WrongLoop(self._name)
        return opened

    async def _ask(
        self, work: Callable[Concatenate[Any, Statements, P], Awaitable[T]], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Return the answer of *work*, on the connection for everything but appends."""
        statements = self._statements
        return await self._usable().others.call(lambda db: work(db, statements, *arguments, **named))
