"""Three databases for one test, each with its own copy of a schema."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from weft import AsyncClient
from weft.fleet.sharded_store import ShardedStore
from weft.fleet.shards import Shards
from weft.stores import PostgresStore


class Databases(NamedTuple):
    """Where they are."""

    dsns: list[str]
    schema: str

    def client(self, *numbers: int) -> AsyncClient:
        """Return a client of some of them, as a list."""
        return AsyncClient([self.dsns[number] for number in numbers], schema=self.schema)

    def alone(self, number: int) -> AsyncClient:
        """Return a client that knows one of them, and not that there may be others."""
        return AsyncClient(self.dsns[number], schema=self.schema)

    def store(self, number: int) -> PostgresStore:
        """Return a store on one of them."""
        return PostgresStore(self.dsns[number], schema=self.schema)

    def sharded(self, *stores: PostgresStore) -> ShardedStore:
        """Return a store on *stores*, or on all of them."""
        return ShardedStore(Shards(stores or [self.store(number) for number in range(3)]))

    def on(self, numbers: tuple[int, ...], act: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
        """Do something with a client of some of them."""

        async def main() -> Any:
            async with asyncio.timeout(120), self.client(*numbers) as client:
                return await act(client)

        return asyncio.run(main())

    async def agree(self, *numbers: int) -> None:
        """Open and close a client of some of them."""
        async with self.client(*numbers):
            pass

    async def ids(self, number: int) -> set[str]:
        """Return the runs that one of them has."""
        async with self.store(number) as store:
            return {record.id for record in await store.list(limit=10_000)}

    async def shard(self, number: int) -> Any:
        """Return what one of them knows of itself and of the others."""
        async with self.store(number) as store:
            return await store.read_shard()
