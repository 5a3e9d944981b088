"""
The storage that outlives a simulated process: runs in memory, or in a real SQLite file.

A process gets the store from :meth:`Storage.connect`.  When it dies, :meth:`Storage.lose` takes the store away from it
without closing it, so that nothing more is written and no run is released: only the lock of the owner is released, as
the operating system would do.  The next owner of a run learns of the death, unless deaths are not to count.

A file needs threads, and virtual time has none.  So the store is in an event loop on a separate thread, and a caller
stands still, with its whole virtual world, until it has answered: a call takes no virtual time.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from weft.stores import MemoryStore, SQLiteStore
from weft.testing.wrapping import FullStore, WrappedStore
from weft.typing import RunId

T = TypeVar("T")

_FAST = Path("/dev/shm")  # noqa: S108 - a folder in memory, where there is one
"""The folder of temporary files: the disk is not simulated."""


class Storage(Protocol):
    """Keeps runs while processes come and go."""

    def connect(self) -> FullStore:
        """Return the store for the next process."""
        ...

    def lose(self, *, counts: bool) -> None:
        """Note that the process that was last connected has died; *counts* says whether its runs learn of that."""
        ...

    def clean(self) -> None:
        """Remove everything."""
        ...


class InMemory:
    """Keeps runs in *store*; opening it again finds all of them free."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def connect(self) -> FullStore:
        """Return the store."""
        return self._store

    def lose(self, *, counts: bool) -> None:
        """Free all runs."""
        if counts:
            self._store.crash()

    def clean(self) -> None:
        """Do nothing: there is nothing to remove."""


class OnFile:
    """Keeps runs in a temporary SQLite file."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weft-", dir=_FAST if _FAST.is_dir() else None)
        self._connected: list[Aside] = []

    def connect(self) -> FullStore:
        """Return a new store on the file."""
        self._connected.append(Aside(SQLiteStore(Path(self._folder.name) / "runs.db")))
        return self._connected[-1]

    def lose(self, *, counts: bool) -> None:
        """Release the lock; connections stay as they are, so that the next process finds the file as it was left."""
        self._connected[-1].lose(counts=counts)

    def clean(self) -> None:
        """End the threads, and remove the file."""
        for store in self._connected:
            store.abandon()
        self._folder.cleanup()


class Aside(WrappedStore):
    """A SQLite store in another event loop: a call is over before anything else can happen."""

    def __init__(self, inner: SQLiteStore) -> None:
        super().__init__(inner)
        self._sqlite = inner
        self._opened: Any = None
        self._listeners: dict[object, Callable[[], object]] = {}

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Make the call there, and block meanwhile."""
        result = _aside(act)
        if call == "open":
            self._opened = self._sqlite._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if call == "post":
            for notify in list(self._listeners.values()):
                notify()
        return result

    async def listen(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* after each post: the thread of the store would speak up at random."""
        me = object()
        self._listeners[me] = notify
        return lambda: self._listeners.pop(me, None) and None

    async def compact(self, run: RunId) -> int:
        """Store old segments of a run in fewer rows."""
        return await self.around("compact", lambda: self._sqlite.compact(run))

    def lose(self, *, counts: bool) -> None:
        """Release the lock without writing to the database; the file of a session that dies stays."""
        if self._opened is not None and counts:
            self._opened.session.abandon()
        elif self._opened is not None:
            self._opened.session.close()

    def abandon(self) -> None:
        """Let its threads end."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.session.close()
            _aside(lambda: _ended(opened))


async def _ended(opened: Any) -> None:
    opened.reader.abandon()
    opened.writer.abandon()


def _aside(act: Callable[[], Awaitable[T]]) -> T:
    async def done() -> T:
        return await act()

    return asyncio.run_coroutine_threadsafe(done(), _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop in which the stores are; it ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="weft-simulated-disk", daemon=True).start()
    return loop
