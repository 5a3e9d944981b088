"""
Receives notifications by ``LISTEN``, over a connection that otherwise only sends some.

A notification is a hint.  While there is no connection, or one through a pooler that loses notifications, the renewals
of the lease and other polls find what there is a little later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from weft.shield import shielded

_log = logging.getLogger("weft.stores")

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0  # seconds before the next try to connect

Notify = Callable[[str | None], object]
"""Called with the payload of a notification; with None if some may have been missed."""


class Listener:
    """Calls functions after each notification on their channels, and whenever some may have been missed."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], store: str) -> None:
        self._connect, self._store = connect, store
        self._callbacks: dict[str, Notify] = {}
        """The callback of each channel."""
        self._calls: dict[str, Callable[..., None]] = {}
        """The function of each channel that the driver calls."""
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lock = asyncio.Lock()
        """Held for each statement: the driver takes one at a time."""
        self._db: Any = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="weft-listener")

    @property
    def is_connected(self) -> bool:
        """Whether notifications arrive."""
        return self._db is not None

    async def add(self, channel: str, notify: Notify) -> None:
        """Call *notify* after each notification on *channel*; wait until the first attempt to connect is over."""
        is_new = channel not in self._callbacks
        self._callbacks[channel], self._calls[channel] = notify, partial(_call, notify)
        await shielded(self._first)
        db = self._db
        if is_new and db is not None:
            try:
                async with self._lock:
                    await db.add_listener(channel, self._calls[channel])  # the driver keeps it once, if added twice
            except Exception:  # noqa: BLE001 - it is added again with the next connection
                db.terminate()

    async def send(self, statement: str, *arguments: Any) -> bool:
        """Send notifications by *statement*; return False if there is no connection."""
        db = self._db
        if db is None:
            return False
        try:
            async with self._lock:
                await db.execute(statement, *arguments)
        except Exception:  # noqa: BLE001 - the next connection is another one
            db.terminate()
            return False
        return True

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Break the connection off."""
        db, self._db = self._db, None
        if db is not None:
            db.terminate()

    async def _run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                await self._listen()
                wait = _FIRST_WAIT
            except Exception as error:  # noqa: BLE001 - tried again for as long as the store is open
                level = logging.WARNING if wait == _FIRST_WAIT else logging.DEBUG
                _log.log(level, "%s cannot be listened to, messages are looked for instead: %s", self._store, error)
            finally:
                self._db = None
                if not self._first.done():
                    self._first.set_result(None)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _listen(self) -> None:
        """Listen until the connection is lost."""
        db, lost = await self._connect(), asyncio.Event()
        try:
            db.add_termination_listener(partial(_set, lost))
            await asyncio.sleep(0)  # the first channel is added as soon as this was made
            for channel, call in list(self._calls.items()):
                await db.add_listener(channel, call)
            self._db = db
            if not self._first.done():
                self._first.set_result(None)
            else:
                for notify in list(self._callbacks.values()):
                    notify(None)  # something may have come while there was no connection
            await lost.wait()
        finally:
            with suppress(Exception):
                db.terminate()


def _set(event: asyncio.Event, *_: Any) -> None:
    """Set *event*, whatever the driver has to say."""
    event.set()


def _call(notify: Notify, *payload: Any) -> None:
    """Call *notify* with the payload, the last argument of the driver."""
    notify(payload[-1])
