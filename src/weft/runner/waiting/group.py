"""
A caller that waits for many runs, with one future for all of them.

The result of a run is kept when the run is settled: it may accept more input, or be released, before the last run of
the group is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.errors import RunnerClosed
from weft.runner.execution.worker import Worker
from weft.runner.handle import RunRef


class Member:
    """One run of a group, and its result."""

    __slots__ = ("_group", "error", "future", "ref", "value")

    answer = None
    """Whether it waits only for its run to become idle."""

    def __init__(self, group: WaitGroup, ref: RunRef) -> None:
        self._group: WaitGroup | None = group
        """The group, until the run has its result."""
        self.ref, self.future = ref, group.future
        self.value: Any = None
        self.error: Exception | None = None

    @property
    def is_left(self) -> bool:
        """Whether the run has no result yet."""
        return self._group is not None

    def tell(self, answer: Any) -> None:
        """End the wait with the error *answer*, unless it is over."""
        if self._group is not None and isinstance(answer, Exception):
            self.error = answer
            self._end(self._group)

    def settled(self, worker: Worker) -> None:
        """End the wait: *worker* has nothing left to do."""
        group = self._group
        if group is not None:
            try:
                self.value = group.read(worker, self.ref)
            except Exception as error:  # noqa: BLE001 - the caller is told
                self.error = error
            self._end(group)

    def have(self, value: Any) -> None:
        """End the wait with the result *value*."""
        if self._group is not None:
            self.value = value
            self._end(self._group)

    def closed(self) -> None:
        """End the wait: the runner is closed."""
        self.tell(RunnerClosed(again=True))

    def _end(self, group: WaitGroup) -> None:
        self._group = None  # else the two would keep each other
        group.ended()


class WaitGroup:
    """The runs that one caller waits for, in order."""

    def __init__(self, refs: Iterable[RunRef], read: Callable[[Worker, RunRef], Any]) -> None:
        """Wait for the runs *refs*; *read* returns the result of one, or raises its error."""
        self.read = read
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when all runs have their results."""
        self.members: Sequence[Member] = [Member(self, ref) for ref in refs]
        self._left = len(self.members)
        if not self._left:
            self.future.set_result(None)

    def ended(self) -> None:
        """One more run has its result."""
        self._left -= 1
        if not self._left and not self.future.done():
            self.future.set_result(None)
