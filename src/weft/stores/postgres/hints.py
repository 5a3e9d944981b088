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

from weft.errors import StoreError
from weft.shield import shielded
from weft.stores.postgres.connection import Connection
from weft.stores.postgres.listener import Listener, Notify
from weft.stores.postgres.statements import Statements
from weft.typing import RunId

_log = logging.getLogger("weft.stores")

_LONGEST: Final = 7900
"""Bytes of a payload; PostgreSQL takes fewer than 8000."""
_MOST: Final = 10
"""Most payloads that are sent at once; for more, every listener looks for itself."""
FOLLOWED: Final = 60.0
"""Seconds that a run is followed after a request."""
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
    Sends and receives the hints of one open store.

    Args:
        connect: opens the connection that listens.
        others: the connection that sends while that one is lost.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], others: Connection, statements: Statements, store: str
    ) -> None:
        self._connect, self._others, self._statements, self._store = connect, others, statements, store
        self._listener: Listener | None = None
        self._callbacks: dict[str, dict[object, Notify]] = {}
        """The callbacks of each channel."""
        self._changed: set[RunId] = set()
        """Runs whose changes are to be sent."""
        self._told: dict[tuple[str, str], None] = {}
        """Other notifications that are to be sent: channel and payload."""
        self._sending: asyncio.Task[None] | None = None
        self.followed = Followed()

    @property
    def is_connected(self) -> bool:
        """Whether notifications arrive."""
        return self._listener is not None and self._listener.is_connected

    @property
    def needs_no_polling(self) -> bool:
        """Whether notifications arrive, or nothing listens."""
        return self._listener is None or self._listener.is_connected

    async def listen(self, channel: str, notify: Notify) -> Callable[[], None]:
        """Call *notify* after each notification on *channel*; return a function that ends this."""
        me, known = object(), self._callbacks.get(channel)
        if known is None:
            self._callbacks[channel] = known = {}
        known[me] = notify
        if self._listener is None:
            self._listener = Listener(self._connect, self._store)
        await self._listener.add(channel, partial(_notify, weakref.ref(self), channel))

        def end() -> None:
            known.pop(me, None)

        return end

    def notify(self, channel: str, payload: str | None = None) -> None:
        """Call the functions of this process that listen to *channel*."""
        for callback in list(self._callbacks.get(channel, {}).values()):
            callback(payload)

    def changed(self, runs: Iterable[RunId]) -> None:
        """Notify other processes soon that *runs* have changed, which is committed."""
        self._changed.update(runs)
        self._send_soon()

    def tell(self, told: Iterable[tuple[str, str]]) -> None:
        """Send notifications soon, each a channel and a payload; what they are about is committed."""
        self._told.update(dict.fromkeys(told))
        self._send_soon()

    def _send_soon(self) -> None:
        if (self._changed or self._told) and self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_changes(), name="weft-changes")

    async def follow(self, run: RunId) -> None:
        """Ask the other processes to announce every change of *run*."""
        await self._send(self._statements.followers, payloads([run]))

    async def call(self, calls: list[str]) -> None:
        """Call workers for runs that are free and due; that they could not be called is logged."""
        try:
            await self._send(self._statements.channel, calls)
        except StoreError as error:  # they look by themselves, a little later
            _log.debug("workers of %s could not be called: %s", self._store, error)

    def on_follow(self, payload: str | None) -> None:
        """Note that another process follows the runs in *payload*."""
        self.followed.add(runs_in(payload) or ())

    async def _send_changes(self) -> None:
        try:
            while self._changed or self._told:
                runs, self._changed, told, self._told = self._changed, set(), list(self._told), {}
                if runs:
                    await self._send(self._statements.changes, payloads(runs))
                if told:
                    channels, said = [channel for channel, _ in told], [payload for _, payload in told]
                    await self._execute(self._statements["notify_each"], channels, said)
        except Exception as error:  # noqa: BLE001 - callers that wait look again now and then
            _log.debug("changes in %s could not be announced: %s", self._store, error)
        finally:
            self._sending = None

    async def _send(self, channel: str, payloads: list[str]) -> None:
        await self._execute(self._statements["notify"], channel, payloads)

    async def _execute(self, statement: str, *arguments: Any) -> None:
        listener = self._listener
        if listener is None or not await listener.send(statement, *arguments):
            await self._others.call(lambda db: db.execute(statement, *arguments))

    async def close(self, timeout: float) -> None:
        """Send what is left, and stop listening."""
        if self._sending is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await shielded(self._sending)
        self._callbacks.clear()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()

    def abandon(self) -> None:
        """Break the connection off."""
        if self._sending is not None:
            self._sending.cancel()
        if self._listener is not None:
            self._listener.abandon()


# Below are functions, not methods: a reference from a thread or task must not keep a forgotten store alive.


def _notify(weakly: weakref.ref[Hints], channel: str, payload: str | None = None) -> None:
    hints = weakly()
    if hints is not None:
        hints.notify(channel, payload)


def notifier(hints: Hints, channel: str) -> Callable[[], None]:
    """Return a function that notifies the listeners of *channel*."""
    return partial(_notify, weakref.ref(hints), channel)


def listening_check(hints: Hints) -> Callable[[], bool]:
    """Return a function that says whether notifications replace polling for messages."""
    return partial(_needs_no_polling, weakref.ref(hints))


def _needs_no_polling(weakly: weakref.ref[Hints]) -> bool:
    hints = weakly()
    return hints is None or hints.needs_no_polling
