"""
The port of limits that the workers of a fleet share (ADR 47): places with an end, turns, and states of breakers.

Times are by the clock of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class StoredBreaker(NamedTuple):
    """The state of a circuit breaker."""

    state: bytes
    revision: int
    now: float
    """The time at which it was read."""


class LimitRow(NamedTuple):
    """A limit, for display."""

    kind: str
    name: str
    rule: str
    due: float
    """When the next turn of a rate is due if all are evenly spread."""
    state: bytes
    used: int
    """How many attempts are in flight, as their workers last said."""
    places: int
    wanted: int
    """How many attempts are in flight or wait, as their workers last said."""
    owners: int
    """How many workers have asked for places, and are alive."""
    now: float


@runtime_checkable
class LimitStore(Protocol):
    """The limits of a fleet."""

    async def take_places(
        self, owner: str, name: str, rule: str, *, limit: int, used: int, wanted: int, asked: int, lease: float
    ) -> tuple[int, int]:
        """
        Take places of a concurrency limit for *lease* seconds, *asked* at most, or give back what is more than that.

        *wanted* is how many are in use or certainly needed: others see whether that is more than the owner has.

        Return how many *owner* has now, never fewer than it has in use (*used*), and its share: how many it should have
        while others want more than they have, or all.  All owners together have *limit* at most, besides those that
        were in use when their lease had ended.
        """
        ...

    async def leave_places(self, owner: str) -> None:
        """Give all places of *owner* back."""
        ...

    async def take_turns(self, name: str, rule: str, *, apart: float, count: int) -> tuple[float, float]:
        """Take turns of a rate that are *apart* seconds apart; return the time of the first, and the time now."""
        ...

    async def load_breakers(self, names: Sequence[str]) -> Mapping[str, StoredBreaker]:
        """Return the states of circuit breakers that are stored, by name."""
        ...

    async def put_breaker(self, name: str, rule: str, state: bytes, revision: int) -> bool:
        """Put a state in place of the one with this *revision* (0: none); return whether it was written."""
        ...

    async def list_limits(self) -> Sequence[LimitRow]:
        """Return all limits that workers have used."""
        ...
