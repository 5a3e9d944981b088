"""
The calls for workers that one store receives, and answers now, a moment later, or not at all (weft.ports.calls).

    received ──for this worker──► open ──the queue was looked at──► answered
      │                          └──this worker has no room──► passed on to one that had room, or to all
      └──it is a backup──time──► open

All are called if no worker is known to have room: what is known is as old as the last renewals.  That is done once a
second in the whole fleet, since workers that received it need not be called again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from weft.ports.calls import Call
from weft.stores.postgres.presence import Presence

BETWEEN: Final = 1.0
"""Seconds between two calls for all, at least."""
_MOST: Final = 16
"""How many calls are kept open: for more, all are called."""
FOR_ALL: Final = ""
"""The payload that calls all workers."""


class QueueWatch:
    """
    Calls *notify* for the calls that are meant for the worker of *presence*, which serves *queues*.

    Args:
        send: sends payloads to all workers.
    """

    def __init__(
        self,
        presence: Presence,
        notify: Callable[[], object],
        queues: Collection[str],
        send: Callable[[list[str]], Awaitable[object]],
    ) -> None:
        self._presence, self._notify, self._queues = presence, notify, frozenset(queues)
        self._send = send
        self._backup: asyncio.TimerHandle | None = None
        self._backed_up: Call | None = None
        """The last call that it is the backup for."""
        self._open: list[Call] = []
        """The calls for this worker that it has not looked for yet."""
        self._all_called_at = -BETWEEN
        """When all were called last, by this worker or another one."""
        self._calling_all: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Future[None]] = set()

    @property
    def has_calls(self) -> bool:
        """Whether calls are open."""
        return bool(self._open)

    def receive(self, payload: str | None) -> None:
        """Answer a notification; its payload is None if some may have been missed."""
        call = Call.read(payload)
        if payload == FOR_ALL:
            self._all_are_called()
        wait = self._presence.answers_after(call, self._queues)
        if wait == 0.0:
            self._keep(call)
            self._notify()
        elif wait is not None and call is not None and not call.hops:  # one that was passed on is for a worker alone
            self._backed_up = call
            if self._backup is None:
                self._backup = asyncio.get_running_loop().call_later(wait, self._look)

    def _look(self) -> None:
        self._backup = None
        self._keep(self._backed_up)
        self._notify()

    def _keep(self, call: Call | None) -> None:
        if call is not None and len(self._open) <= _MOST:
            self._open.append(call)

    def answered(self) -> None:
        """The queue was looked at, and there is nothing more in it."""
        self._open.clear()

    async def pass_on(self) -> None:
        """Call other workers for all open calls: this one has no room."""
        calls, self._open = self._open, []
        if not calls:
            return
        payloads, for_all = passed_on(calls, self._presence)
        if for_all:
            self._call_all()
        if payloads:
            await self._send(payloads)

    def _call_all(self) -> None:
        loop = asyncio.get_running_loop()
        if self._calling_all is None:
            self._calling_all = loop.call_at(max(loop.time(), self._all_called_at + BETWEEN), self._send_for_all)

    def _send_for_all(self) -> None:
        self._all_are_called()
        task = asyncio.ensure_future(self._sent([FOR_ALL]))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _sent(self, payloads: list[str]) -> None:
        await self._send(payloads)

    def _all_are_called(self) -> None:
        self._all_called_at = asyncio.get_running_loop().time()
        if self._calling_all is not None:
            self._calling_all.cancel()
            self._calling_all = None

    def stop(self) -> None:
        """Tell nothing more."""
        for timer in (self._backup, self._calling_all):
            if timer is not None:
                timer.cancel()
        for task in self._sending:
            task.cancel()


def passed_on(calls: Iterable[Call], presence: Presence) -> tuple[list[str], bool]:
    """Return the payloads that pass *calls* on to workers that had room, and whether all have to be called instead."""
    mine, peers = presence.reply.rank, presence.reply.peers
    free = [
        place + (place >= mine) for place, load in enumerate(peers) if load.active < load.concurrency
    ]  # the places of the peers among all
    random.shuffle(free)
    payloads: list[str] = []
    for call in calls:
        passed = call.passed_on((free.pop() + 0.5) / (len(peers) + 1)) if free else None
        if passed is None:
            return payloads, True
        payloads.append(passed.text)
    return payloads, False
