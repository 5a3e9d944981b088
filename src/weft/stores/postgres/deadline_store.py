"""
Deadlines that are in danger: the part of the store that reports them.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ports.deadlines import Endangered
from weft.stores.postgres import deadlines
from weft.stores.postgres.store_base import StoreBase
from weft.typing import RunId


class DeadlinePart(StoreBase):
    """The deadlines of the runs in a database."""

    async def endangered(self, now: float, *, limit: int = 100) -> Sequence[Endangered]:
        """Return the runs whose deadline is in danger, or past."""
        return await self._ask(deadlines.endangered, float(now), limit)

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        """Mark all unreported dangers as reported; return them and the time of the next one."""
        return await self._ask(deadlines.mark_all_reported, float(now), limit)

    async def tell_danger(self, run: RunId, deadline: float, now: float) -> Endangered | None:
        """Mark one danger as reported and return it; None if there is none."""
        return await self._ask(deadlines.mark_reported, run, deadline, now)
