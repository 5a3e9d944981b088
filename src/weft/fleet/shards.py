"""
The databases of a sharded fleet: which of them answer, and the list that they agree on.

    named ──open──► opened ──it has the fence of the newest list──► usable
      ▲               │
      └──unavailable──┘  tried again when it is needed

A database is usable when it knows the newest list: from then on no client with an older one can start runs in it.
The steps of a change of the list, and what holds when a process dies in between, are in docs/adr/0054.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NoReturn, TypeVar

from weft.errors import InvalidStoreOption, ShardsChanged, StoreError, StoreUnavailable
from weft.fleet.placement import ALONE, JOINING, Generations, Joined, agreed
from weft.stores.postgres import PostgresStore
from weft.stores.postgres.server_clock import ServerClock
from weft.stores.postgres.shards import ShardRow

_log = logging.getLogger("weft.fleet")
T = TypeVar("T")

_TRIES: Final = 5
"""How often a change of the list is tried while other processes change it."""


class Shards:
    """The databases of *stores*, which are opened and closed here."""

    def __init__(self, stores: Sequence[PostgresStore]) -> None:
        if not stores:
            raise InvalidStoreOption("a fleet needs a database: pass the address of one, or of several")
        self._stores = list(stores)
        self.known = Generations()
        """The shards that there are, as of the last time that they were read."""
        self._usable: dict[str, PostgresStore] = {}
        """By id."""
        self._absent: list[PostgresStore] = []
        """Databases that have not answered yet, so that their shards are unknown."""
        self._admitting = asyncio.Lock()
        self.on_admitted: Callable[[PostgresStore], Awaitable[object]] | None = None
        """Called with a database that did not answer at first and does now."""

    @property
    def is_open(self) -> bool:
        """Whether a database is open."""
        return any(store.is_open for store in self._usable.values())

    @property
    def names(self) -> list[str]:
        """The addresses, without passwords."""
        return [store.name for store in self._stores]

    @property
    def clock(self) -> ServerClock:
        """The clock of the first database that has answered."""
        return next((store.clock for store in self._stores if store.is_open), self._stores[0].clock)

    @property
    def usable(self) -> list[PostgresStore]:
        """The databases that have answered."""
        return list(self._usable.values())

    # -- opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """
        Open all databases that answer, and agree on the list; it is changed if this one has more.

        Raises:
            StoreUnavailable: none answers, or not all do and the list has to be changed.
            ShardsChanged: this list is outdated, or not the list of one fleet.
        """
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        self._usable, self._absent = {}, []
        absent: list[StoreUnavailable] = []
        for store, found in zip(self._stores, await _each(map(_opened, self._stores)), strict=True):
            if isinstance(found, StoreUnavailable):
                self._absent.append(store)
                absent.append(found)
            elif isinstance(found, StoreError):
                raise found
            elif found in self._usable:
                raise InvalidStoreOption(
                    f"{store.name} and {self._usable[found].name} are one database, or one is a copy of the other; "
                    "name each of them once"
                )
            else:
                self._usable[found] = store
        if not self._usable:
            raise absent[0]
        await self._agree(absent)
        for store in self._usable.values():
            store.fence = self.known.fence
        for error in absent:
            _log.warning("a database of the fleet does not answer, and is tried again when it is needed: %s", error)

    async def migrate(self, *, worker: str | None, reader: str | None) -> None:
        """Bring the tables of all databases to the version of this Weft."""
        for answer in await _each(store.migrate(worker=worker, reader=reader) for store in self._stores):
            if isinstance(answer, StoreError):
                raise answer

    async def close(self) -> None:
        """Close all databases."""
        await _each(store.close() for store in self._stores if store.is_open)
        self._usable, self._absent = {}, []

    # -- agreeing on the list --------------------------------------------------------------------

    async def _agree(self, absent: Sequence[StoreUnavailable]) -> None:
        """Find the newest list, let it have all databases that are named, and tell those that are usable."""
        for _ in range(_TRIES):
            rows = [await store.read_shard() for store in self._usable.values()]
            known = self.known = agreed(_generations(row) for row in rows)
            new = self._usable.keys() - known.shards.keys()
            if absent and (new or len(self._stores) > len(known.shards)):
                raise absent[0]
            if new or len(self._stores) < len(known.shards):
                known.grown(self._usable)  # raises for a list that lacks some, before anything is changed
            if not await self._tell([row for row in rows if row.id in known.shards]):
                continue
            if not new:
                return
            had_runs = [shard for shard in new if await self._usable[shard].join_shards(ALONE, JOINING)]
            wanted = known.grown(self._usable, had_runs)
            before, first = (known.fence, known.first) if known.shards else (JOINING, wanted.first)
            if await self._usable[first].record_shards(wanted.shards, wanted.fence, [before]):
                _log.info("the fleet has %d databases now, %d of them new", len(wanted.shards), len(new))
        raise StoreUnavailable("the list of databases", "other processes change it all the time")

    async def _tell(self, rows: Iterable[ShardRow]) -> bool:
        """Let the databases of *rows* know the newest list; return whether none of them has changed meanwhile."""
        told = [
            await self._usable[row.id].record_shards(self.known.shards, self.known.fence, [row.fence])
            for row in rows
            if row.fence != self.known.fence
        ]
        return all(told)

    # -- using them ------------------------------------------------------------------------------

    async def at(self, shard: str) -> PostgresStore:
        """
        Return the database with this id.

        Raises:
            StoreUnavailable: it has not answered yet.
            ShardsChanged: its address was not named.
        """
        found = self._usable.get(shard)
        if found is None:
            async with self._admitting:
                await self._admit_absent()
            found = self._usable.get(shard)
        if found is None:
            self._missing()
        return found

    async def all(self) -> list[PostgresStore]:
        """
        Return all databases.

        Raises:
            StoreUnavailable: one has not answered yet.
        """
        if self._absent:
            async with self._admitting:
                await self._admit_absent()
            if self._absent:
                self._missing()
        return list(self._usable.values())

    def _missing(self) -> NoReturn:
        if not self._absent:
            raise ShardsChanged(f"only {', '.join(self.names)} of {len(self.known.shards)} databases were named")
        raise StoreUnavailable(f"the store at {self._absent[0].name}", "it has not answered since this was opened")

    async def _admit_absent(self) -> None:
        for store in list(self._absent):
            try:
                await store.open()
                row = await store.read_shard()
            except StoreUnavailable:
                continue
            if row.id not in self.known.shards or not self.known.extends(_generations(row)):
                raise ShardsChanged(f"the store at {store.name} does not know the list of databases that others know")
            self._usable[row.id] = store
            if not await self._tell([row]):
                del self._usable[row.id]
                continue
            store.fence = self.known.fence
            self._absent.remove(store)
            if self.on_admitted is not None:
                await self.on_admitted(store)


async def _opened(store: PostgresStore) -> str:
    """Open *store*, and return the id of its database."""
    await store.open()
    return (await store.read_shard()).id


def _generations(row: ShardRow) -> Generations:
    return Generations({shard: Joined(*each) for shard, each in row.shards.items()})


async def _each(calls: Iterable[Awaitable[T]]) -> list[T | StoreError]:
    """Make all *calls* at once; return their answers, which may be errors of stores."""
    answers: list[T | StoreError] = []
    for each in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(each, BaseException) and not isinstance(each, StoreError):
            raise each
        answers.append(each)
    return answers
