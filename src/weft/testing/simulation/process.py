"""
The connection of a simulated process to its store, which may fail, report a false failure, be slow, and die.

The data are in *inner*; only what it has written survives.  The next connection finds all runs free, as after the
death of a real process.  A connection notifies *seen* of what was committed, whether or not the process got the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from random import Random
from typing import Literal, TypeAlias, TypeVar

import msgspec

from weft.errors import StoreError, StoreUnavailable
from weft.ports.store import Append, CompactStore, ContentHash
from weft.testing.faults import Crash
from weft.testing.simulation.committed import Committed
from weft.testing.wrapping import FullStore, WrappedStore
from weft.typing import RunId

T = TypeVar("T")

_FALLIBLE = frozenset(
    {
        *("append", "acquire", "acquire_many", "list_free", "release"),
        *("load_since", "load_many", "load_definitions", "load_facts", "post", "messages", "addressed"),
        *("truncate_before", "compact", "put_schedule", "due_schedules", "list_schedules"),
        *("write_chunks", "read_chunks"),
    }
)
_WRITES = frozenset({"append", "truncate_before", "compact"})
"""The calls at which a process may be made to die."""


class Weather(msgspec.Struct, frozen=True):
    """The shares of calls of a store that go wrong."""

    fails: float = 0.0
    """Of calls that do nothing and report that the store is unavailable."""
    lies: float = 0.0
    """Of calls that are made and then report that the store is unavailable."""
    dawdles: float = 0.0
    """Of calls that take a while, before or after."""
    most: int = 8
    """How many faults there are in one life."""


Moment: TypeAlias = Literal["before", "during", "after"]
"""
When a process dies at an append, a truncation or a compaction: before it is committed, when it is committed but not
acknowledged, or when the process has received the answer and has had a turn to react to it.
"""


class Connection(WrappedStore):
    """The connection of one process to *inner*; the process *dies* at that moment of that write, counted from 1."""

    def __init__(
        self,
        inner: FullStore,
        dice: Random,
        weather: Weather,
        tell: Callable[[str], None],
        seen: Committed,
        dies: tuple[int, Moment] | None = None,
    ) -> None:
        super().__init__(inner)
        self._dies, self._seen = dies, seen
        self.writes = 0
        """How many appends, truncations and compactions there were."""
        self.is_dying = False
        """Whether the process has had its last turn."""
        self._dice, self._weather, self._tell = dice, weather, tell
        self._faults = 0
        self._back_at = 0.0
        self._is_open = self.is_dead = False

    @property
    def is_open(self) -> bool:
        """Whether this connection is open; the data are always available."""
        return self._is_open

    async def open(self) -> None:
        """Open the connection, with all runs free: their owners are dead."""
        await self.inner.close()
        await self.inner.open()
        self._is_open = True

    async def close(self) -> None:
        """Free all runs."""
        self._is_open = False
        await self.inner.close()

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write *batch*, perhaps with a fault."""

        async def act() -> Sequence[StoreError | None]:
            results = await self.inner.append(batch)
            self._seen.written(batch, results)
            return results

        return await self.around("append", act)

    async def truncate_before(
        self,
        run: RunId,
        first: int,
        *,
        link: bytes,
        expected: int,
        epoch: int,
        facts: Collection[ContentHash] = (),
    ) -> None:
        """Remove the beginning of a log, and keep it for the examination."""

        async def act() -> None:
            begins = (await self.inner.find(run)).first
            segments = await self.inner.load_between(run, begins, first - 1)
            bodies = await self.inner.load_facts(run, facts)
            await self.inner.truncate_before(run, first, link=link, expected=expected, epoch=epoch, facts=facts)
            self._seen.truncated(run, segments, bodies)
            self._tell(f"the log of {run} begins with event {first}")

        await self.around("truncate_before", act)

    async def compact(self, run: RunId) -> int:
        """Store old segments of a run in fewer rows, where the store has that."""
        inner = self.inner
        return await self.around("compact", lambda: inner.compact(run)) if isinstance(inner, CompactStore) else 0

    async def delete(self, run: RunId) -> None:
        """Delete a run."""

        async def act() -> None:
            await self.inner.delete(run)
            self._seen.deleted(run)

        await self.around("delete", act)

    def lose(self, seconds: float) -> None:
        """Make the store unavailable for *seconds*."""
        self._back_at = asyncio.get_running_loop().time() + seconds

    def die(self) -> None:
        """Let no call through from now on."""
        self.is_dead = True

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Make the call, perhaps with a fault."""
        self._check()
        await self._dawdle()
        self._check()
        if call in _WRITES:
            self.writes += 1
            await self._die("before")
        if call in _FALLIBLE and asyncio.get_running_loop().time() < self._back_at:
            raise StoreUnavailable("the simulated store", "there is an outage")
        if self._happens(call, self._weather.fails):
            self._tell(f"the store is unavailable: {call}")
            raise StoreUnavailable("the simulated store", "an injected fault")
        result = await act()
        if call in _WRITES:
            await self._die("during")
            await self._die("after")
        lies = self._happens(call, self._weather.lies)
        await self._dawdle()
        self._check()
        if lies:
            self._tell(f"the store did it, and reports that it is unavailable: {call}")
            raise StoreUnavailable("the simulated store", "an injected fault")
        return result

    async def _die(self, moment: Moment) -> None:
        """Let the process die if this is the moment; after a write it continues for one more turn."""
        if self._dies == (self.writes, moment):
            self.is_dying = True
            if moment != "after":
                await asyncio.get_running_loop().create_future()

    async def _dawdle(self) -> None:
        if self._dice.random() < self._weather.dawdles:
            await asyncio.sleep(self._dice.choice((0.0, 0.001, 0.2, 3.0)))

    def _happens(self, call: str, share: float) -> bool:
        if call not in _FALLIBLE or self._faults >= self._weather.most or self._dice.random() >= share:
            return False
        self._faults += 1
        return True

    def _check(self) -> None:
        if self.is_dead:
            raise Crash("this process is dead")
