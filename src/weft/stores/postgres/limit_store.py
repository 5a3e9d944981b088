"""
Limits and circuit breakers that all workers share: the part of the store that keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ports.limits import LimitRow, StoredBreaker
from weft.stores.postgres import limits
from weft.stores.postgres.store_base import StoreBase


class LimitPart(StoreBase):
    """The limits and circuit breakers in a database."""

    async def take_places(
        self, owner: str, name: str, rule: str, *, limit: int, used: int, wanted: int, asked: int, lease: float
    ) -> tuple[int, int]:
        """Take places of a limit, or give some back; return how many *owner* has, and its share."""
        return await self._ask(limits.take_places, owner, name, rule, limit, used, wanted, asked, lease)

    async def leave_places(self, owner: str) -> None:
        """Give all places of *owner* back."""
        await self._ask(limits.leave_places, owner)

    async def take_turns(self, name: str, rule: str, *, apart: float, count: int) -> tuple[float, float]:
        """Take turns of a rate; return the time of the first, and the time now."""
        return await self._ask(limits.take_turns, name, rule, apart, count)

    async def load_breakers(self, names: Sequence[str]) -> Mapping[str, StoredBreaker]:
        """Return the states of circuit breakers that are stored, by name."""
        return await self._ask(limits.load_breakers, list(names))

    async def put_breaker(self, name: str, rule: str, state: bytes, revision: int) -> bool:
        """Put the state of a breaker in place of the one with this *revision*; return whether it was written."""
        return await self._ask(limits.put_breaker, name, rule, state, revision)

    async def list_limits(self) -> Sequence[LimitRow]:
        """Return all limits that workers have used."""
        return await self._ask(limits.listed)
