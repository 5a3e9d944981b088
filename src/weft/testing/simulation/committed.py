"""
The commits of a simulated store, whether or not the process that made them got the answer.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Protocol

from weft.errors import StoreError
from weft.ports.store import Append, ContentHash, RunStatus, Segment
from weft.testing.simulation.run_creation_check import RunCreationCheck


class Removed:
    """The beginning of the log of a run, which truncations have removed: the simulation examines it too."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.facts: dict[ContentHash, bytes] = {}


class Watcher(Protocol):
    """Told of runs that are deleted."""

    def deleted(self, run: str) -> None:
        """*run* was deleted: another one may have its id."""
        ...


class Committed:
    """The length of every log and the status of every run; tells *watchers* what is written and deleted."""

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}
        """By run: how many of its events are durable."""
        self.statuses: dict[str, RunStatus] = {}
        self.watchers: list[Watcher] = []
        self.life = 0
        """The number of the process that writes."""
        self.removed: dict[str, Removed] = {}
        """By run: what was removed from its log."""
        self._times: dict[str, list[tuple[int, float, int]]] = {}
        """By run: how long its log was after each commit, when that was by the loop, and the life."""

    def when(self, run: str, seq: int) -> tuple[float, int]:
        """Return when the event of a *run* at a position was committed, by the time of the loop, and in which life."""
        times = self._times[run]
        _, at, life = times[bisect_left(times, seq, key=itemgetter(0))]
        return at, life

    def written(self, batch: Sequence[Append], results: Sequence[StoreError | None]) -> None:
        """Note that a store has written *batch*, except what it refused."""
        for watcher in self.watchers:
            if isinstance(watcher, RunCreationCheck):
                watcher.committed(batch, results)
        for append, refused in zip(batch, results, strict=True):
            if refused is None:
                self.heads[append.run] = append.head
                times = self._times.setdefault(append.run, [])
                if not times or times[-1][0] < append.head:
                    times.append((append.head, asyncio.get_running_loop().time(), self.life))
                if append.status is not None:
                    self.statuses[append.run] = append.status

    def truncated(self, run: str, segments: Sequence[Segment], facts: Mapping[ContentHash, bytes]) -> None:
        """Note that a store has removed *segments* from the log of *run*, and *facts* that only they refer to."""
        removed = self.removed.setdefault(run, Removed())
        removed.segments += segments
        removed.facts |= facts

    def deleted(self, run: str) -> None:
        """Note that a store has deleted *run*: another one may have its id."""
        self.heads.pop(run, None)
        self.statuses.pop(run, None)
        self._times.pop(run, None)
        self.removed.pop(run, None)
        for watcher in self.watchers:
            watcher.deleted(run)
