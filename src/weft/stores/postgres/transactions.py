"""
The transactions that steps write in, on a pool of connections for them (ADR 51).

A coroutine function gets the connection of the driver, inside an open transaction.  A plain function, which runs on a
thread, gets an object with the same methods, which block.  A transaction that is not committed ends with its
connection: code that still has hold of it cannot write outside of a transaction.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, Protocol

from weft.errors import StoreError, TransactionEnded, TransactionLost
from weft.ports.store import Append
from weft.stores.postgres.driver import driver
from weft.stores.postgres.error_mapping import problem
from weft.typing import RunId

SIZE: Final = 4
"""How many transactions a store has at once, at most."""
_IDLE: Final = 60.0
"""Seconds after which a connection is closed that no step has used."""

_CHECK: Final = "set constraints all immediate; set local idle_in_transaction_session_timeout = '10s'"
"""
Whatever could fail the commit fails here.  From now on the server soon ends the transaction of a client that is gone:
its lock on the run keeps others from finding out whether it was committed.
"""


_BELONG: Final = r"""
with named as (
    select a.pid, case when a.application_name ~ ('^' || $1::text || '\d{1,18}$')
                       then substr(a.application_name, length($1) + 1)::bigint end as epoch
    from pg_stat_activity a
    where a.datname = current_database() and a.pid <> pg_backend_pid()
), ended as (
    select count(pg_terminate_backend(n.pid)) as count from named n where n.epoch < $2::bigint
)
select set_config('application_name', $1 || ($2::bigint)::text, true), e.count from ended e
"""
"""
Name the connection after its run and epoch, $1 and $2, while the transaction lasts, and end the transactions of earlier
owners of the run: the compare-and-set refuses them, and one that stands still would keep its locks for ever.
"""


def name_for(schema: str, run: RunId) -> str:
    """
    Return the beginning of the name of connections whose transactions are for *run*, before the number of the epoch.

    >>> name_for("public", "order-7")
    'weft.479cc211a0ad9621.'
    """
    return f"weft.{blake2b(f'{schema} {run}'.encode(), digest_size=8).hexdigest()}."


class RunWriter(Protocol):
    """Writes the append of a run in a transaction."""

    async def lock(self, db: Any, run: RunId) -> None:
        """Lock the run in the transaction that is open on *db*."""
        ...

    async def write(self, db: Any, append: Append) -> StoreError | None:
        """Write *append* in the transaction that is open on *db*; return why it was refused."""
        ...

    def committed(self, append: Append) -> None:
        """*append* is committed."""
        ...


class TransactionPool:
    """The connections for transactions of steps; they are made when they are needed."""

    def __init__(self, dsn: str, store: str, schema: str, *, size: int, timeout: float, is_prepared: bool) -> None:
        self._dsn, self.store, self._schema, self._size, self._timeout = dsn, store, schema, size, timeout
        self._options: dict[str, Any] = {} if is_prepared else {"statement_cache_size": 0}
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(self, writer: RunWriter) -> PostgresTransaction:
        """
        Begin a transaction when there is a connection for it; *writer* writes the append of its run.

        Raises:
            StoreUnavailable: the server cannot be reached.
        """
        try:
            async with self._opening:
                if self._pool is None:
                    self._pool = await driver().create_pool(
                        self._dsn,
                        min_size=0,
                        max_size=self._size,
                        timeout=self._timeout,
                        command_timeout=self._timeout,
                        max_inactive_connection_lifetime=_IDLE,
                        **self._options,
                    )
            db = await self._pool.acquire()
            try:
                transaction = db.transaction()
                await transaction.start()
            except BaseException:
                self.drop(db)
                raise
        except Exception as error:
            raise problem(self.store, error) from error
        return PostgresTransaction(self, db, transaction, writer, self._schema)

    def drop(self, db: Any) -> None:
        """Close *db*, which ends its transaction, and make room for another one."""
        with suppress(Exception):  # it is closed already
            db.terminate()
        self.free(db)

    def free(self, db: Any) -> None:
        """Make *db* available to another step."""
        task = asyncio.get_running_loop().create_task(self._release(db))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, db: Any) -> None:
        with suppress(Exception):  # the pool closes a connection that it cannot reset
            await self._pool.release(db)

    async def close(self, timeout: float) -> None:
        """Close all connections; those in use, after *timeout* seconds."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(timeout):
                    await pool.close()
            except Exception:  # noqa: BLE001 - they are not needed any more
                pool.terminate()

    def abandon(self) -> None:
        """Break all connections off."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()


class PostgresTransaction:
    """A transaction that a step writes in."""

    def __init__(self, pool: TransactionPool, db: Any, transaction: Any, writer: RunWriter, schema: str) -> None:
        self._schema = schema
        self._pool, self._transaction, self._writer = pool, transaction, writer
        self._is_over = False
        self.connection = db
        """The connection of the driver."""
        self.blocking = BlockingConnection(self, asyncio.get_running_loop())
        """The same for plain functions."""

    @property
    def is_lost(self) -> bool:
        """Whether the server or the network has closed the connection."""
        if self._is_over:
            return False
        try:
            return bool(self.connection.is_closed())
        except driver().InterfaceError:  # the pool took it back when the server closed it
            return True

    @property
    def is_over(self) -> bool:
        """Whether it was committed or rolled back from here."""
        return self._is_over

    async def belong_to(self, run: RunId, epoch: int) -> None:
        """Name it after *run*, and end those for it of earlier epochs."""
        try:
            await self.connection.execute(_BELONG, name_for(self._schema, run), epoch)
        except Exception as error:
            self.abandon()
            raise problem(self._pool.store, error) from error

    async def check(self, run: RunId) -> None:
        """Check that it can be committed, with an append of *run*."""
        if self.is_lost:
            raise TransactionLost("its connection was closed")
        if not self.connection.is_in_transaction():
            raise TransactionEnded("the step has committed or rolled it back by itself; leave that to Weft")
        await self.connection.execute(_CHECK)
        await self._writer.lock(self.connection, run)

    async def commit(self, append: Append) -> StoreError | None:
        """Write *append* in it, and commit."""
        try:
            refused = await self._writer.write(self.connection, append)
            if refused is None:
                await self._transaction.commit()
        except BaseException:
            self.abandon()
            raise
        if refused is None:
            self._is_over = True
            self._writer.committed(append)
            self._pool.free(self.connection)
        else:
            self.abandon()
        return refused

    def abandon(self) -> None:
        """Roll it back."""
        if not self._is_over:
            self._is_over = True
            self._pool.drop(self.connection)


class BlockingConnection:
    """The connection for a plain function: the methods of an asyncpg connection that most need, without ``await``."""

    def __init__(self, transaction: PostgresTransaction, loop: asyncio.AbstractEventLoop) -> None:
        self._transaction, self._loop = transaction, loop

    def execute(self, query: str, *args: Any) -> str:
        """Execute *query*, with *args* for ``$1``, ``$2``, …; return its status."""
        status: str = self._call("execute", query, *args)
        return status

    def executemany(self, query: str, args: Any) -> None:
        """Execute *query* for each of *args*."""
        self._call("executemany", query, args)

    def fetch(self, query: str, *args: Any) -> list[Any]:
        """Return the rows of *query*."""
        rows: list[Any] = self._call("fetch", query, *args)
        return rows

    def fetchrow(self, query: str, *args: Any) -> Any:
        """Return the first row of *query*; None if it has none."""
        return self._call("fetchrow", query, *args)

    def fetchval(self, query: str, *args: Any) -> Any:
        """Return the first value of the first row of *query*; None if it has none."""
        return self._call("fetchval", query, *args)

    def _call(self, method: str, *args: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self._called(method, *args), self._loop).result()

    async def _called(self, method: str, *args: Any) -> Any:
        if self._transaction.is_over:
            raise TransactionEnded("the attempt is over")
        return await getattr(self._transaction.connection, method)(*args)
