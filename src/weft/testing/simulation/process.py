"""
What a simulated process sees of a store: a connection that may fail, lie, dawdle, and die with its process.

The data live on in *inner*; only what it has taken survives.  Whoever opens the next connection finds all runs free,
as after the death of a real process.  *heads* is where a connection writes down what was committed, whether or not
the process has heard of it: the length of every log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Literal, TypeAlias, TypeVar

import msgspec

from weft.errors import StoreError, StoreUnavailable
from weft.ports.store import Append
from weft.testing.faults import Crash
from weft.testing.simulation.run_creation_check import RunCreationCheck
from weft.testing.wrapping import FullStore, WrappedStore

T = TypeVar("T")

_FALLIBLE = frozenset(
    {
        *("append", "acquire", "acquire_many", "acquire_all", "list_free", "release"),
        *("load_since", "load_many", "load_definitions", "load_facts"),
    }
)


class Weather(msgspec.Struct, frozen=True):
    """How bad a store is: shares of calls."""

    fails: float = 0.0
    """Of calls that do nothing and say that the store is away."""
    lies: float = 0.0
    """Of calls that are carried out and then say that the store is away."""
    dawdles: float = 0.0
    """Of calls that take a while, before or after."""
    most: int = 8
    """How many faults there are in one life."""


Moment: TypeAlias = Literal["before", "during", "after"]
"""
When a process dies by an append: before it is written, when it is written and nobody has heard of it, or when the
process has heard of it and has had a turn to do something about it.
"""


class Connection(WrappedStore):
    """One process's view of *inner*; the process *dies* at that moment of that append, counted from 1."""

    def __init__(
        self,
        inner: FullStore,
        dice: Random,
        weather: Weather,
        tell: Callable[[str], None],
        heads: dict[str, int],
        creations: RunCreationCheck,
        dies: tuple[int, Moment] | None = None,
    ) -> None:
        super().__init__(inner)
        self._dies, self._heads, self._creations = dies, heads, creations
        self.appends = 0
        """How many there were."""
        self.is_dying = False
        """Whether the process has had its last turn."""
        self._dice, self._weather, self._tell = dice, weather, tell
        self._faults = 0
        self._back_at = 0.0
        self._is_open = self.is_dead = False

    @property
    def is_open(self) -> bool:
        """Whether this connection is; the data are always there."""
        return self._is_open

    async def open(self) -> None:
        """Find all runs free: whoever had them is dead."""
        await self.inner.close()
        await self.inner.open()
        self._is_open = True

    async def close(self) -> None:
        """Free all runs."""
        self._is_open = False
        await self.inner.close()

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write *batch*, in this weather, and keep how long that has made the logs."""

        async def act() -> Sequence[StoreError | None]:
            results = await self.inner.append(batch)
            self._creations.committed(batch, results)
            for append, refused in zip(batch, results, strict=True):
                if refused is None:
                    self._heads[append.run] = append.head
            return results

        return await self.around("append", act)

    def lose(self, seconds: float) -> None:
        """Let the store be unavailable for so many seconds."""
        self._back_at = asyncio.get_running_loop().time() + seconds

    def die(self) -> None:
        """From now on nothing gets through."""
        self.is_dead = True

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do what was asked for, in this weather."""
        self._check()
        await self._dawdle()
        self._check()
        if call == "append":
            self.appends += 1
            await self._die("before")
        if call in _FALLIBLE and asyncio.get_running_loop().time() < self._back_at:
            raise StoreUnavailable("the simulated store", "there is an outage")
        if self._happens(call, self._weather.fails):
            self._tell(f"the store is away: {call}")
            raise StoreUnavailable("the simulated store", "the weather is bad")
        result = await act()
        if call == "append":
            await self._die("during")
            await self._die("after")
        lies = self._happens(call, self._weather.lies)
        await self._dawdle()
        self._check()
        if lies:
            self._tell(f"the store did it, and says it is away: {call}")
            raise StoreUnavailable("the simulated store", "the weather is bad")
        return result

    async def _die(self, moment: Moment) -> None:
        """Let the process die if this is the moment; only after an append it goes on, for a turn."""
        if self._dies == (self.appends, moment):
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
