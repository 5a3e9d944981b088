"""
The doorbell of an open store: tells its event loop that another process may have posted a message.

A datagram to a port of the loopback address rings it.  It carries nothing: the messages are in the file, and a datagram
that is lost is only late, since a thread also asks SQLite once a second whether another connection has committed.
See docs/adr/0034-an-inbox-per-run.md.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from weft.shield import shielded

_log = logging.getLogger("weft.stores")

_LOOPBACK = "127.0.0.1"
_SELDOM = 1.0
"""Seconds between two looks at the change counter."""


class Doorbell:
    """Calls *rung* in the event loop when a datagram arrives, or when another connection has changed the file."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        rung: Callable[[], object],
        *,
        seldom: float = _SELDOM,
    ) -> None:
        """
        Listen at a free port.

        Args:
            connect: opens a connection for reading.
            seldom: seconds between two looks at the change counter.
        """
        self._connect, self._rung, self._seldom = connect, rung, seldom
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((_LOOPBACK, 0))
            self._socket.settimeout(seldom)
        except BaseException:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        # A daemon, as the other threads of a store: one that was never closed must not keep the process from ending.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop listening; its connection is closed when this returns, so that the writer's is the last one."""
        self.abandon()
        await shielded(self._ended)

    def abandon(self) -> None:
        """Stop listening, without waiting for the thread."""
        if not self._is_closed:
            self._is_closed = True
            ring([self.port])

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # -- in the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        with self._socket:
            try:
                db = self._connect()
            except (sqlite3.Error, OSError) as error:
                _log.warning("messages from other processes are announced only by datagrams: %s", error)
                db = None
            try:
                self._listen(db)
            finally:
                if db is not None:
                    db.close()
                with suppress(RuntimeError):  # the loop is closed, and nothing waits
                    self._loop.call_soon_threadsafe(self._end)

    def _listen(self, db: sqlite3.Connection | None) -> None:
        seen = _changes(db)
        while not self._is_closed:
            try:
                self._socket.recv(1)
            except TimeoutError:
                found = _changes(db)
                if found == seen:
                    continue
                seen = found
            else:
                self._drain()
            if self._is_closed:
                return
            try:
                self._loop.call_soon_threadsafe(self._rung)
            except RuntimeError:  # the loop is closed, and the store was not
                return

    def _drain(self) -> None:
        """Read the datagrams that have arrived together with the first."""
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        self._socket.settimeout(self._seldom)


def _changes(db: sqlite3.Connection | None) -> int | None:
    """Return a number that is another one once another connection has committed."""
    if db is None:
        return None
    try:
        return int(db.execute("pragma data_version").fetchone()[0])
    except sqlite3.Error as error:  # the file is locked as a whole for a moment, or gone: the store says so elsewhere
        _log.debug("the change counter cannot be read: %s", error)
        return None


def ring(ports: Iterable[int]) -> None:
    """Ring the doorbells at *ports*; nothing is lost if that fails, since owners also look by themselves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for port in ports:
            try:
                sender.sendto(b"", (_LOOPBACK, port))
            except OSError as error:
                _log.debug("the owner at port %d was not rung: %s", port, error)
