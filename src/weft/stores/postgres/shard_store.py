"""
One of several databases of a fleet: the part of the store that keeps which they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weft.errors import ShardsChanged
from weft.stores.postgres import driver, shards
from weft.stores.postgres.shards import ShardRow
from weft.stores.postgres.store_base import StoreBase
from weft.typing import RunId


class ShardPart(StoreBase):
    """The list of the databases of a fleet, in each of them."""

    @property
    def name(self) -> str:
        """The address, without its password, for messages."""
        return driver.shown(self._dsn)

    async def read_shard(self) -> ShardRow:
        """Return what this database knows of itself and of the others of its fleet."""
        return await self._ask(shards.read)

    async def check_fence(self) -> None:
        """
        Check that the list of databases is still the one that :attr:`fence` says.

        Raises:
            ShardsChanged: it is not.
        """
        if self.fence is not None and (found := await self.read_shard()).fence != self.fence:
            count = len(found.shards) or "several"
            raise ShardsChanged(f"{self._name} is one of {count} databases of a fleet, and this process knows others")

    async def join_shards(self, alone: str, joining: str) -> bool:
        """Let no client start runs here that knows this database *alone*; return whether it has some."""
        return await self._ask(shards.join, alone, joining)

    async def record_shards(self, known: Mapping[str, tuple[int, bool]], fence: str, instead: Sequence[str]) -> bool:
        """Record the databases that are *known*, and their *fence*, if that is one of *instead* now."""
        return await self._ask(shards.record, known, fence, instead)

    async def existing(self, runs: Collection[RunId]) -> set[RunId]:
        """Return those of *runs* that are stored here."""
        return await self._ask(shards.existing, list(runs))
