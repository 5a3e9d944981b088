"""
The lease of an open store: how long its runs are certainly its own.

    none ──first write──► sure ──renewed──► sure
                           │
                           └── not renewed in time ──► unsure ──renewed──► sure
                                                          │
    each of them ──closed──► ended                        └── (others may take its runs)

A thread renews the lease, so a busy event loop does not lose it.  The database decides when the lease ends.  This
process only measures the time since it sent the last renewal that succeeded, so it stops being sure a little before
others may take its runs.  Its clock continues while the machine sleeps.
See docs/adr/0040-a-fleet-on-postgresql.md.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from weft.errors import InvalidStoreOption, StoreError, StoreUnavailable
from weft.shield import shielded
from weft.stores.postgres.error_mapping import problem
from weft.stores.postgres.presence import Presence
from weft.stores.postgres.process import Process
from weft.stores.postgres.statements import Statements

_log = logging.getLogger("weft.stores")

SHORTEST: Final = 0.1
"""Seconds of the shortest lease."""
_MARGIN: Final = 0.1
"""The part of a lease for which its holder is unsure and others still respect it: clocks do not run at one speed."""
_PER_LEASE: Final = 3
"""How often a lease is renewed while it lasts."""
_BETWEEN_TRIES: Final = 0.5
"""Seconds at most between two tries of a renewal that failed."""
POLL: Final = 1.0
"""Seconds between two looks at the inbox at most, if notifications do not arrive."""


def monotonic() -> float:
    """Return the seconds of a clock that is never set, and that goes on while the machine sleeps if there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def sure_until(sent: float, lease: float) -> float:
    """
    Return until when a lease is certain that was renewed by a statement *sent* at that time.

    The database has counted from a later moment.

    >>> sure_until(100.0, 10.0)
    109.0
    """
    return sent + lease * (1 - _MARGIN)


def pause(lease: float, *, has_failed: bool, is_polling: bool) -> float:
    """
    Return how long to wait before the next renewal.

    >>> pause(9.0, has_failed=False, is_polling=False), pause(9.0, has_failed=False, is_polling=True)
    (3.0, 1.0)
    >>> pause(9.0, has_failed=True, is_polling=False), pause(0.9, has_failed=True, is_polling=False)
    (0.5, 0.09)
    """
    if has_failed:
        return min(_BETWEEN_TRIES, lease / 10)
    return min(lease / _PER_LEASE, POLL) if is_polling else lease / _PER_LEASE


def checked(lease: float) -> float:
    """
    Return *lease*, in seconds.

    Raises:
        InvalidStoreOption: it is too short.
    """
    if not lease >= SHORTEST or lease == float("inf"):
        raise InvalidStoreOption(f"lease={lease!r} is not a time; use seconds, at least {SHORTEST}")
    return float(lease)


class Lease:
    """
    The lease of one open store, renewed by a thread from the first :meth:`key` on.

    Args:
        connect: makes the connection of the thread.
        together: the context of each statement.
        notify: called in the event loop of the store when there are new messages for its runs.
        is_listening: whether the store is notified of messages; else the lease is renewed more often.
        presence: the report that each renewal sends, and the reply that it stores.
        timed: called with when a renewal was sent, the time of day of the database, and when the answer came.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        together: Callable[[Any], Any],
        statements: Statements,
        store: str,
        seconds: float,
        process: Process,
        channel: str,
        notify: Callable[[], object],
        is_listening: Callable[[], bool],
        presence: Presence,
        timed: Callable[[float, float, float], object],
    ) -> None:
        self._connect, self._together, self._statements, self._store = connect, together, statements, store
        self._seconds, self._process, self._channel = seconds, process, channel
        self._notify, self._is_listening, self._presence = notify, is_listening, presence
        self._timed = timed
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._inside: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._wake: asyncio.Event | None = None
        """Set when it has to be renewed at once, or is over."""
        self._registered: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._has_to_end = True
        self._known: int | None = None
        self._sure_until = 0.0
        self._last_message = 0
        self.problem: StoreError | None = None
        """Why it was not renewed."""

    @property
    def known(self) -> int | None:
        """The key of this owner; None if it has never owned anything."""
        return self._known

    @property
    def is_sure(self) -> bool:
        """Whether no other process can take the runs of this one now."""
        return monotonic() < self._sure_until

    async def key(self) -> int:
        """
        Return the key of this owner, whose lease is certain.

        Raises:
            StoreUnavailable: it was not renewed in time.
        """
        if self._known is not None:
            if self.is_sure:
                return self._known
            reason = f"its lease of {self._seconds:g} s was not renewed in time ({self.problem or 'no answer'})"
            raise StoreUnavailable(self._store, reason)
        if self._registered is None or self._registered.done():
            self._registered = self._loop.create_future()
            self._thread = threading.Thread(target=self._run, name="weft-lease", daemon=True)
            self._thread.start()
        await shielded(self._registered)
        assert self._known is not None  # noqa: S101
        return self._known

    async def close(self, timeout: float) -> None:
        """End the lease, so that the runs are free; if the database does not answer, it ends by itself."""
        if self._thread is None or not self._thread.is_alive():
            return
        self._ended = self._loop.create_future()
        self._stop_thread()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ended

    def abandon(self) -> None:
        """Stop renewing, and leave the row as it is, as the death of the process does."""
        self._has_to_end, self._sure_until = False, 0.0
        self._stop_thread()

    def renew_soon(self) -> None:
        """Renew it now: there is something to report or to receive."""
        inside, stop = self._inside, self._wake
        if inside is not None and stop is not None:
            with suppress(RuntimeError):  # its loop has ended
                inside.call_soon_threadsafe(stop.set)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _stop_thread(self) -> None:
        inside, stop = self._inside, self._stop
        if inside is not None and stop is not None:
            with suppress(RuntimeError):  # its loop has ended
                inside.call_soon_threadsafe(stop.set)
                self.renew_soon()

    # -- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - told to the store, whose owner can do something about it
            failed = problem(self._store, error) if isinstance(error, Exception) else None
            self.problem = failed
            self._tell(self._answer, self._registered, failed or error)
        finally:
            self._tell(self._answer, self._ended, None)

    async def _main(self) -> None:
        self._inside, self._stop, self._wake = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        db = None
        try:
            db = await self._connect()
            await self._register(db)
            self._tell(self._answer, self._registered, None)
            while not self._stop.is_set():
                wait = pause(self._seconds, has_failed=self.problem is not None, is_polling=not self._is_listening())
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                self._wake.clear()
                if not self._stop.is_set():
                    db = await self._renewed(db)
            if self._has_to_end:
                with suppress(Exception):  # then it expires
                    async with self._together(db):
                        await db.execute(self._statements["end_lease"], self._known)
        finally:
            if db is not None:
                db.terminate()

    async def _register(self, db: Any) -> None:
        sent, process = monotonic(), self._process
        async with self._together(db):
            self._known = await db.fetchval(
                self._statements["register"],
                *(self._seconds, process.pid, process.born, process.machine, process.name, self._channel),
                *self._presence.report,
            )
        self._sure_until = sure_until(sent, self._seconds)
        with suppress(Exception):  # another opening does it
            async with self._together(db):
                await db.execute(self._statements["forget_workers"])

    async def _renewed(self, db: Any) -> Any:
        """Renew the lease; return the connection to use from now on."""
        sent, process = monotonic(), self._process
        try:
            if db.is_closed():
                db = await self._connect()
            async with self._together(db):
                last, *reply, now = await db.fetchrow(
                    self._statements["renew"],
                    *(self._known, self._seconds),
                    *(process.pid, process.born, process.machine, process.name, self._channel),
                    *self._presence.report,
                )
        except Exception as error:  # noqa: BLE001 - tried again until it succeeds
            if self.problem is None:
                _log.warning("the lease of %s could not be renewed, trying again: %s", self._store, error)
            self.problem = problem(self._store, error)
            db.terminate()
            return db
        self._timed(sent, now, monotonic())
        if self.problem is not None:
            _log.warning("the lease of %s is renewed again", self._store)
        self._sure_until, self.problem = sure_until(sent, self._seconds), None
        self._presence.receive(*reply)
        self._tell(self._presence.changed)
        if last > self._last_message:
            self._last_message = last
            self._tell(self._notify)
        return db

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop of the store was closed
            self._loop.call_soon_threadsafe(call, *arguments)

    @staticmethod
    def _answer(future: asyncio.Future[None] | None, error: BaseException | None) -> None:
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                future.exception()  # its caller may have gone away
