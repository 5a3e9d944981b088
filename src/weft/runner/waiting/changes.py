"""
Notifies callers that wait for runs of other processes that something may have changed.

A caller takes the number of the last change, looks at the run, and then waits for the next number: what changes between
the two is not missed.  A store that cannot notify is read again after short pauses, one that can after long ones.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final

from weft.errors import StoreError
from weft.ports.changes import ChangeStore
from weft.ports.store import Store
from weft.runner.waiting.pauses import pauses
from weft.shield import shielded

_log = logging.getLogger("weft.runner")

HEARD: Final = (0.25, 2.0, 5.0)
"""The pauses between two looks at a run, if changes are announced: the first, their factor, the longest."""
FOLLOWED: Final = 20.0
"""Seconds until a process is asked again to announce every change of a run."""


class Change:
    """The changes of one run, counted."""

    __slots__ = ("__weakref__", "_event", "number")

    def __init__(self) -> None:
        self.number = 0
        """How many there were."""
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Something may have changed."""
        self.number += 1
        told, self._event = self._event, asyncio.Event()
        told.set()

    async def beyond(self, number: int, seconds: float) -> None:
        """Wait until there were more changes than *number*, for at most *seconds*."""
        if self.number == number:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._event.wait()


class Changes:
    """The changes of runs that other processes drive, as far as *store* announces them."""

    def __init__(self, store: Store) -> None:
        self._store = store if isinstance(store, ChangeStore) else None
        self._of: weakref.WeakValueDictionary[str, Change] = weakref.WeakValueDictionary()
        """By run: its changes, for as long as a caller waits for them."""
        self._listening: asyncio.Task[None] | None = None
        self._end: Callable[[], object] = lambda: None

    @property
    def is_missing(self) -> bool:
        """Whether the store can announce changes, and was not asked to yet."""
        return self._store is not None and self._listening is None

    async def listen(self) -> None:
        """Ask the store to announce changes from now on; a look at a run has to follow."""
        if self._store is not None:
            if self._listening is None:
                self._listening = asyncio.get_running_loop().create_task(self._listen(self._store))
            await shielded(self._listening)

    async def _listen(self, store: ChangeStore) -> None:
        try:
            self._end = await store.watch_runs(self._heard)
        except StoreError as error:
            _log.debug("the store cannot be asked to notify of changes, so it is polled: %s", error)

    def close(self) -> None:
        """End the announcements, and let callers that wait look once more: the runner is closed."""
        self._end()
        self._heard(None)

    def of(self, run: str) -> Change:
        """Return the changes of *run*; the caller keeps it while it waits."""
        change = self._of.get(run)
        if change is None:
            change = self._of[run] = Change()
        return change

    def pauses(self, often: tuple[float, float, float]) -> Iterator[float]:
        """Yield how long to wait before the next look: as *often*, unless changes are announced."""
        short, long = pauses(*often), pauses(*HEARD)
        while True:
            yield next(long) if self._store is not None and self._store.hears_changes else next(short)

    async def follow(self, run: str) -> None:
        """Request that every event of *run* is announced for a while; if that fails now, they are polled for."""
        if self._store is not None:
            with suppress(StoreError):
                await self._store.follow(run)

    def _heard(self, runs: Collection[str] | None) -> None:
        for change in list(self._of.values()) if runs is None else [self._of.get(run) for run in runs]:
            if change is not None:
                change.tell()


class Follower:
    """Asks for everything in one run, again and again while it is followed."""

    def __init__(self, changes: Changes, run: str) -> None:
        self._changes, self._run, self._next = changes, run, 0.0

    async def ask(self) -> bool:
        """Ask if it is time to; return whether it was."""
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return False
        self._next = now + FOLLOWED
        await self._changes.follow(self._run)
        return True
