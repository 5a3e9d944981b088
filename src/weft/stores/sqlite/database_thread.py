"""
A thread with its own database connection, which executes the requests of coroutines.

A request costs two wake-ups, one each way.  The thread takes all waiting requests at once, and returns all the results
of one piece of work together.

    >>> async def main():
    ...     thread = DatabaseThread("doctest", lambda: sqlite3.connect(":memory:"))
    ...     await thread.start()
    ...     (three,) = await thread.call(lambda db: db.execute("select 1 + 2").fetchone())
    ...     await thread.stop()
    ...     return three
    >>> asyncio.run(main())
    3
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft.shield import shielded

T = TypeVar("T")

Work = Callable[[sqlite3.Connection], Any]
Answer = tuple["asyncio.Future[Any]", Any, BaseException | None]


class DatabaseThread:
    """
    Runs work on its connection, one piece after the other, for the event loop that started it.

    The work of a caller that is cancelled is done nevertheless.
    """

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        # (work, future); no work ends the thread.  It is as long as there are callers, each waits for an answer.
        self._queue: queue.SimpleQueue[tuple[Any, asyncio.Future[Any]]] = queue.SimpleQueue()
        # A daemon: a store that was never closed must not keep the process from ending.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    async def start(self) -> None:
        """Connect; raise what connecting raises."""
        connected = self._loop.create_future()
        self._queue.put((_nothing, connected))
        self._thread.start()
        try:
            await shielded(connected)
        except BaseException:
            self.abandon()
            raise

    def call(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Hand *work* over to the thread; return the future of its result."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((work, future))
        return future

    async def stop(self) -> None:
        """Finish what was handed over, and disconnect."""
        stopped = self._loop.create_future()
        self._queue.put((None, stopped))
        await shielded(stopped)

    def abandon(self) -> None:
        """Let it end by itself, without waiting for it."""
        self._queue.put((None, self._loop.create_future()))

    # -- in the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        work, future = self._queue.get()
        try:
            db = self._connect()
        except BaseException as error:  # noqa: BLE001 - the caller that waits gets it, whatever it is
            self._deliver([(future, None, error)])
            return
        try:
            while work is not None:
                following = self._handle(db, work, future)
                work, future = following or self._next(db)
        finally:
            db.close()
            self._disconnected()
            self._deliver([(future, None, None)])

    def _disconnected(self) -> None:
        """Called when the connection is closed; subclasses may override it."""

    def _next(self, db: sqlite3.Connection) -> tuple[Any, asyncio.Future[Any]]:  # noqa: ARG002 - for subclasses
        return self._queue.get()

    def _handle(
        self, db: sqlite3.Connection, work: Any, future: asyncio.Future[Any]
    ) -> tuple[Any, asyncio.Future[Any]] | None:
        """Do *work*; return what was taken from the queue and not done, if anything was."""
        self._deliver([(future, *attempt(work, db))])
        return None

    def _deliver(self, answers: Sequence[Answer]) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, answers)
        except RuntimeError:
            if not self._loop.is_closed():  # once the loop is closed, no caller waits any more
                raise


def attempt(work: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """Return what *work* returns, and None; or None, and what it raises."""
    try:
        return work(*arguments), None
    except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
        return None, error


def _nothing(_: sqlite3.Connection) -> None:
    """Do nothing: work that only shows that there is a connection."""


def _settle(answers: Sequence[Answer]) -> None:
    for future, result, error in answers:
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
