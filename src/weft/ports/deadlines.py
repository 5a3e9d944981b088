"""
The protocol of stores that know the deadlines of runs: which of them are in danger, and whether that was reported.

The row of a run is written by its appends (:attr:`weft.ports.store.Append.due`).  See
docs/adr/0057-a-deadline-in-danger-is-told.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from weft.ports.store import RunStatus
from weft.typing import RunId


class Endangered(msgspec.Struct, frozen=True):
    """A run whose deadline is in danger, or past, and that is not done."""

    run: RunId
    workflow: str
    status: RunStatus
    deadline: float
    """When everything must be done, in seconds since the epoch."""
    danger_at: float
    """Since when it is in danger."""
    is_held: bool
    """Whether a process drives it, as far as the store can tell."""


@runtime_checkable
class DeadlineStore(Protocol):
    """Keeps the earliest deadline of what is open in each run."""

    async def endangered(self, now: float, *, limit: int = 100) -> Sequence[Endangered]:
        """Return the runs whose deadline is in danger at the time *now*, or past; the earliest deadline first."""
        ...

    async def tell_dangers(self, now: float, *, limit: int = 100) -> tuple[Sequence[Endangered], float | None]:
        """
        Mark the deadlines in danger at the time *now* as reported, and return those that were not reported before.

        Also return the time of the next unreported one; None if there is none.
        """
        ...

    async def tell_danger(self, run: RunId, deadline: float, now: float) -> Endangered | None:
        """
        Mark this *deadline* of *run* as reported, which is in danger at the time *now* at the latest.

        Return the danger; None if it was reported before, or if nothing that is open has this deadline.
        """
        ...
