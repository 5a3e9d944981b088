"""
The protocol of stores whose runs many workers share: runs are put into a queue, and workers claim them.

A run in the queue is *free* if it has no owner, or one that was closed or whose lease has expired.  It is *due* when
its time has come, by the clock of the store.  A claim owns free and due runs, each in a new epoch, so it is never wrong
to claim: at worst, the owner before finds its next append refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from weft.errors import StoreError
from weft.ports.store import Append, RunRecord
from weft.typing import RunId

QUEUE: Final = "default"
"""The queue of a run that names none."""


class Placement(msgspec.Struct, frozen=True):
    """Where new runs are put: which workers claim them, which of them first, and when."""

    queue: str = QUEUE
    priority: int = 0
    """Runs with a higher one are claimed first."""
    scheduled_at: float | None = None
    """Seconds since the epoch; None is now."""
    key: str | None = None
    """Runs with a key take turns: the keys of a queue share its workers evenly."""


class QueueStatus(msgspec.Struct, frozen=True):
    """A queue, as it is now."""

    queue: str
    waiting: int
    """How many runs are due and have no worker."""
    oldest: float
    """Seconds for which the oldest one has been due."""
    later: int
    """How many runs are due at a later time."""
    held: int
    """How many runs a worker has."""
    keys: int
    """How many keys the runs that wait have."""


@runtime_checkable
class QueueStore(Protocol):
    """A queue of runs that have work, which many owners share."""

    @property
    def is_sure(self) -> bool:
        """Whether no other process can claim the runs of this owner now; if not, it must start nothing more."""
        ...

    async def enqueue(self, batch: Sequence[Append], placement: Placement) -> Sequence[StoreError | None]:
        """
        Create runs that no process owns, in one transaction; return, for each, None or the error that refused it.

        Every append of *batch* has ``create`` and ``release`` set.  The error is RunExists.

        Raises:
            StoreUnavailable: not now; the batch may have been written, so pass ``again=True`` next time.
        """
        ...

    async def claim(
        self, limit: int, *, queues: Collection[str], workflows: Collection[tuple[str, str]]
    ) -> Sequence[RunRecord]:
        """
        Own at most *limit* runs that are due and free, in a new epoch; return their records, most urgent first.

        The order is priority, due time, creation.  Of new runs that have a key, each key has one run in turn; those and
        the runs without a key, or that come back, alternate.  Several owners may claim at once, and none waits for
        another.

        Args:
            queues: only runs in one of these.
            workflows: only runs of these names and versions; others are left to other workers.
        """
        ...

    async def defer(self, runs: Collection[RunId], seconds: float) -> None:
        """Release runs that this owner cannot continue; they are due again after *seconds*."""
        ...

    async def queue_depth(self, queue: str | None = None) -> int:
        """Return how many runs have something to do, now or later, in one *queue* or in all."""
        ...

    async def queues(self) -> Sequence[QueueStatus]:
        """Return the queues that have runs, in the order of their names."""
        ...

    async def watch_queue(self, notify: Callable[[], object]) -> Callable[[], None]:
        """
        Call *notify*, in the event loop, soon after a run may have become due and free.

        It may be called without reason, or not at all.  Return a function that ends this; closing the store does too.
        """
        ...
