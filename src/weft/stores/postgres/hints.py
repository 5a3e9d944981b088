"""
The hints that processes send one another by ``NOTIFY``: which runs have changed, and which are followed.

What has changed is sent after it was committed, by another statement: within the transaction, the lock of the server
for notifications would let all processes commit one after the other.  What changes while one is sent goes with the
next.  See docs/adr/0045-a-fleet-that-is-told-and-moves.md.

A payload is a JSON array of ids; an empty one says that any run may be meant.

    >>> payloads(["a", "b"]), runs_in('["a","b"]'), runs_in("")
    (['["a","b"]'], ['a', 'b'], None)
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from weft.stores.postgres.connection import Connection
from weft.stores.postgres.listener import Heard, Listener
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

_log = logging.getLogger("weft.stores")

_LONGEST: Final = 7900
"""Bytes of a payload; PostgreSQL takes fewer than 8000."""
_MOST: Final = 10
"""How many payloads are sent at once: for more, all are told to look."""
FOLLOWED: Final = 60.0
"""For how many seconds a run is followed after it was asked for."""
_MOST_FOLLOWED: Final = 10_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode


def payloads(runs: Iterable[RunId]) -> list[str]:
    """Return what to send for *runs*."""
    sent: list[str] = []
    held: list[bytes] = []
    size = 2
    for run in runs:
        quoted = _encode(run)
        if len(quoted) + 2 > _LONGEST:
            return [""]
        if size + len(quoted) + 1 > _LONGEST:
            sent.append(_joined(held))
            held, size = [], 2
        held.append(quoted)
        size += len(quoted) + 1
    if held:
        sent.append(_joined(held))
    return sent if len(sent) <= _MOST else [""]


def _joined(quoted: list[bytes]) -> str:
    return (b"[" + b",".join(quoted) + b"]").decode()


def runs_in(payload: str | None) -> list[RunId] | None:
    """Return the runs that a *payload* names; None if any may be meant, or if it says nothing that we know."""
    if not payload:
        return None
    try:
        return _decode(payload)
    except msgspec.DecodeError:
        return None


class Followed:
    """The runs that other processes follow, each for a while."""

    def __init__(self) -> None:
        self._until: dict[RunId, float] = {}

    def __len__(self) -> int:
        """Return how many there are, including some whose time is over."""
        return len(self._until)

    def add(self, runs: Iterable[RunId]) -> None:
        """*runs* are followed from now on."""
        now = time.monotonic()
        if len(self._until) > _MOST_FOLLOWED:
            self._until = {run: end for run, end in self._until.items() if end > now}
        self._until.update(dict.fromkeys(runs, now + FOLLOWED))

    def __contains__(self, run: object) -> bool:
        """Return whether *run* is followed now."""
        end = self._until.get(run)  # type: ignore[call-overload]
        if end is None:
            return False
        if end > time.monotonic():
            return True
        del self._until[run]  # type: ignore[arg-type]
        return False


class Hints:
    """
    Sends and hears the hints of one open store.

    Args:
        connect: makes the connection that listens.
        others: the connection that sends while that one is not there.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], others: Connection, statements: Statements, store: str
    ) -> None:
        self._connect, self._others, self._statements, self._store = connect, others, statements, store
        self._listener: Listener | None = None
        self._heard: dict[str, dict[object, Heard]] = {}
        """By channel: what is called."""
        self._changed: set[RunId] = set()
        """Runs whose changes are to be sent."""
        self._sending: asyncio.Task[None] | None = None
        self.followed = Followed()

    @property
    def is_connected(self) -> bool:
        """Whether notifications arrive."""
        return self._listener is not None and self._listener.is_connected

    @property
    def needs_no_look(self) -> bool:
        """Whether notifications arrive, or nothing listens."""
        return self._listener is None or self._listener.is_connected

    async def listen(self, channel: str, heard: Heard) -> Callable[[], None]:
        """Call *heard* after each notification on *channel*; return a function that ends this."""
        me, known = object(), self._heard.get(channel)
        if known is None:
            self._heard[channel] = known = {}
        known[me] = heard
        if self._listener is None:
            self._listener = Listener(self._connect, self._store)
        await self._listener.add(channel, partial(_tell, weakref.ref(self), channel))

        def end() -> None:
            known.pop(me, None)

        return end

    def tell(self, channel: str, payload: str | None = None) -> None:
        """Call those that listen to *channel* here."""
        for heard in list(self._heard.get(channel, {}).values()):
            heard(payload)

    def changed(self, runs: Iterable[RunId]) -> None:
        """*runs* have changed, and that is committed: tell other processes soon."""
        self._changed.update(runs)
        if self._changed and self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_changes(), name="weft-changes")

    async def follow(self, run: RunId) -> None:
        """Ask the other processes to tell of everything in *run*."""
        await self._send(self._statements.followers, payloads([run]))

    def hear_followers(self, payload: str | None) -> None:
        """Another process follows runs."""
        self.followed.add(runs_in(payload) or ())

    async def _send_changes(self) -> None:
        try:
            while self._changed:
                runs, self._changed = self._changed, set()
                await self._send(self._statements.changes, payloads(runs))
        except Exception as error:  # noqa: BLE001 - callers that wait look again now and then
            _log.debug("changes of runs in %s could not be told: %s", self._store, error)
        finally:
            self._sending = None

    async def _send(self, channel: str, told: list[str]) -> None:
        statement, listener = self._statements["notify"], self._listener
        if listener is None or not await listener.send(statement, channel, told):
            await self._others.call(lambda db: db.execute(statement, channel, told))

    async def close(self, timeout: float) -> None:
        """Send what is left, and hear nothing more."""
        if self._sending is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self._sending)
        self._heard.clear()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()

    def abandon(self) -> None:
        """Break the connection off."""
        if self._sending is not None:
            self._sending.cancel()
        if self._listener is not None:
            self._listener.abandon()


# Below are functions, not methods: what threads and tasks hold must not keep a store alive that was forgotten.


def _tell(weakly: weakref.ref[Hints], channel: str, payload: str | None = None) -> None:
    hints = weakly()
    if hints is not None:
        hints.tell(channel, payload)


def teller(hints: Hints, channel: str) -> Callable[[], None]:
    """Return a function that tells those that listen to *channel*."""
    return partial(_tell, weakref.ref(hints), channel)


def look_out(hints: Hints) -> Callable[[], bool]:
    """Return a function that returns whether the store needs no other way to hear of messages."""
    return partial(_needs_no_look, weakref.ref(hints))


def _needs_no_look(weakly: weakref.ref[Hints]) -> bool:
    hints = weakly()
    return hints is None or hints.needs_no_look
