"""
One connection to the database, for one caller at a time; it is opened again after it was lost.

There are two ways to use it (docs/adr/0063-a-lone-append-is-sent-by-its-caller.md):

- :meth:`Connection.call` does work of one or more statements, in another task.  A caller that is cancelled does not
  stop what it has begun: the work ends, and the next caller waits for it.  Deadlocks and serialization failures are
  tried again; other errors are translated for the caller.
- :meth:`Connection.insert` is for the one statement that a lone run waits for at each step.  The caller sends it and
  reads the answer, with no task, future or timer in between; if it is cancelled, the driver cancels the statement.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from weft.errors import StoreUnavailable
from weft.stores.postgres.driver import ONE_ROW, no_timeout, together
from weft.stores.postgres.error_mapping import AGAIN, code_of, is_bad_data, is_connection_lost, problem
from weft.stores.postgres.overdue import Overdue

T = TypeVar("T")

_TRIES = 10
"""How often work is tried that others are in the way of."""
_LONGEST_PAUSE = 0.05  # seconds between two such tries
_PLANS_LAST = 5.0
"""
Seconds after which the server makes its plans again.

A plan is made for tables as they are, and a prepared statement keeps it.  One that was made while there were few runs
reads the whole table, and the server notices growth after a minute at best.
"""
_FEWEST = 10
"""Calls after which plans are made again at the earliest: a connection with little to do can afford a bad plan."""


class Connection:
    """
    A connection that *connect* makes when it is needed; *store* names the store in messages.

    *timeout* is how many seconds :meth:`insert` waits for an answer; what *connect* makes has its own for all else.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], store: str, *, is_prepared: bool, timeout: float = 60.0
    ) -> None:
        self._connect, self._store, self._is_prepared = connect, store, is_prepared
        self._lock = asyncio.Lock()
        self._timeout, self._overdue = timeout, Overdue(timeout, self.abandon)
        self._no_timeout = no_timeout()
        self._inserts: dict[str, Any] = {}
        """The statements of :meth:`insert`, prepared on this connection."""
        self._db: Any = None
        self._planned, self._called = 0.0, 0
        """When plans were made last, and how often the connection was used since."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def call(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """
        Return the answer of *work*, which is called with the connection and may be called again.

        Raises:
            StoreError: it failed.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        task = loop.create_task(self._answer(work, answer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, answer))
        return await answer

    async def insert(self, statement: str, values: Sequence[Any]) -> bool:
        """
        Execute *statement*, which inserts one row, in the task of the caller; return whether it has.

        If it has not, nothing was written, and :meth:`call` finds out why: it also connects, makes plans again, and
        tries again what others are in the way of.

        Raises:
            StoreError: it failed.  If that is a StoreUnavailable, the row may have been inserted.
        """
        lock, overdue = self._lock, self._overdue
        await lock.acquire()
        db = self._db
        try:
            now = overdue.now()
            if db is None or not self._is_prepared or self._has_old_plans(now) or db.is_closed():
                return False
            prepared = self._inserts.get(statement)
            if prepared is None:
                prepared = self._inserts[statement] = await db.prepare(statement)
            self._called += 1
            overdue.begin(now)
            await prepared.fetch(*values, timeout=self._no_timeout)
            return bool(prepared.get_statusmsg() == ONE_ROW)
        except Exception as error:
            if overdue.is_over:
                raise StoreUnavailable(self._store, f"no answer for {self._timeout:g} s") from error
            if is_connection_lost(error):
                if self._db is db:
                    self.abandon()
            elif code_of(error) or is_bad_data(error):  # the server, or the driver, has refused it
                self._inserts.pop(statement, None)  # perhaps the server has forgotten it
                return False
            raise problem(self._store, error) from error
        finally:
            overdue.end()
            lock.release()

    async def close(self, timeout: float) -> None:
        """Wait for the work that has begun, and disconnect."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        with suppress(TimeoutError):  # then it is broken off, whatever is being done on it
            async with asyncio.timeout(timeout), self._lock:
                pass
        self._overdue.stop()
        db, self._db = self._db, None
        if db is not None:
            try:
                await db.close(timeout=timeout)
            except Exception:  # noqa: BLE001 - it is not needed any more
                db.terminate()

    def abandon(self) -> None:
        """Break the connection off."""
        db, self._db = self._db, None
        if db is not None and not db.is_closed():
            db.terminate()

    async def _answer(self, work: Callable[[Any], Awaitable[T]], answer: asyncio.Future[T]) -> None:
        """
        Do *work*, and put what it returns or raises into *answer*, unless its caller has gone away.

        The caller gets it in the next round of the loop; ``shield`` takes one more.
        """
        try:
            found = await self._call(work)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(found)

    def _done(self, answer: asyncio.Future[Any], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        answer.cancel()  # if there is none: the task was cancelled

    async def _call(self, work: Callable[[Any], Awaitable[T]]) -> T:
        async with self._lock:
            for attempt in range(_TRIES):
                try:
                    return await self._attempt(work)
                except Exception as error:
                    if code_of(error) not in AGAIN or attempt + 1 == _TRIES:
                        raise problem(self._store, error) from error
                await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE))  # noqa: S311 - not a secret
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, work: Callable[[Any], Awaitable[T]]) -> T:
        now = asyncio.get_running_loop().time()
        if self._db is None or self._db.is_closed():
            self._db, self._planned, self._called, self._inserts = await self._connect(), now, 0, {}
        db = self._db
        try:
            self._called += 1
            if self._is_prepared and self._has_old_plans(now):
                await db.execute("discard plans")
                self._planned, self._called = now, 0
            async with together(db, is_prepared=self._is_prepared):
                return await work(db)
        except Exception as error:
            if is_connection_lost(error) and self._db is db:
                self.abandon()
            raise

    def _has_old_plans(self, now: float) -> bool:
        """Whether the plans of the server are from when the tables may have been much smaller."""
        return self._called > _FEWEST and now - self._planned > _PLANS_LAST
