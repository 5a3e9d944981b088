"""
The runs of a runner that only wait: how many of them stay in memory, and when the others come back.

    resident ──too many, and it has waited longest──► asleep ──due, a message, a call──► resident

A run that is asleep is still owned: its runner knows its id, when to wake it, and how it is driven (ADR 35).

Invariants:

1. A run is asleep or in memory, never both; it falls asleep in one step, after all of it is stored.
2. A run that a caller waits for, or is about to change, stays in memory.
3. Runs that are due together come back in pages.
4. What is known of a run that is asleep is shared with others of which the same is known: there are very many.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from weft.core.fold.scope import Key
from weft.core.workflow import Workflow
from weft.errors import RunnerClosed
from weft.ports.store import RunRecord
from weft.runner.execution.timers import Timers
from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions
from weft.runner.registry.run_table import Asleep, RunTable

AGAIN: Final = 1.0
"""Seconds until due runs that could not be loaded are loaded again."""
SOON: Final = 1.0
"""A run that is due within this many seconds stays in memory."""
LATER: Final = 0.1
"""Seconds until runs that had to stay in memory are checked again."""
AT_ONCE: Final = 1000
"""How many of them are looked at."""
MOST_SHARED: Final = 64
"""How many different states of runs are remembered, to be shared with those that fall asleep next."""
_log = logging.getLogger("weft.runner")

RESIDENT: Final = 10_000
"""Waiting runs that stay in memory, unless a runner is given another number."""


class Sleepers:
    """The waiting runs of one runner."""

    def __init__(
        self,
        table: RunTable,
        resident: int,
        timers: Timers,
        time: Callable[[], float],
        *,
        put_to_sleep: Callable[[Worker], bool],
        bring_back: Callable[[Collection[str], RunOptions], Awaitable[object]],
    ) -> None:
        """
        Keep at most *resident* runs of *table* that only wait in memory.

        Args:
            put_to_sleep: removes a worker from memory; returns False if it has to stay, since a caller waits for it.
            bring_back: brings runs that are driven with the same options back into memory.
        """
        self._most, self._timers, self._time = resident, timers, time
        self._put_to_sleep, self._bring_back = put_to_sleep, bring_back
        self._resident: dict[Worker, None] = {}
        """Workers that only wait, or did when they were last looked at; those that have waited longest first."""
        self._asleep = table.asleep
        self._shared: dict[tuple[int, int, int | None, int], Asleep] = {}
        """The last of them, to be shared with the next runs of which the same is known."""
        self._coming: list[set[str]] = []
        """By call that brings runs back: those that have neither come back nor left since it began."""
        self._due: dict[str, None] = {}
        self._kept: Counter[str] = Counter()
        """By run: how many callers are about to change it, which keeps it: two could evict each other's runs."""
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        """Looks again at runs that had to stay, since a caller waited for them."""

    def __contains__(self, run: object) -> bool:
        return run in self._asleep

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._asleep))

    def get(self, run: str) -> Asleep | None:
        """Return what is known of *run*, if it is asleep."""
        return self._asleep.get(run)

    @property
    def is_full(self) -> bool:
        """Whether no further run that only waits stays in memory."""
        return len(self._resident) >= self._most

    @contextmanager
    def kept(self, run: str) -> Generator[None, None, None]:
        """Keep *run* in memory, once it is there, as long as this context lasts."""
        self._kept[run] += 1
        try:
            yield
        finally:
            self._kept[run] -= 1
            if not self._kept[run]:
                del self._kept[run]

    # -- falling asleep --------------------------------------------------------------------------

    def add(self, worker: Worker) -> None:
        """*worker* only waits, and all of it is stored; another one that has waited longer may have to leave."""
        self._resident.pop(worker, None)
        self._resident[worker] = None
        if len(self._resident) > self._most:
            self._make_room(2)

    def _make_room(self, most: int) -> None:
        """Let workers that have waited longest leave, as far as they may; look at *most* of them now."""
        resident = self._resident
        for oldest in list(islice(resident, max(0, min(most, len(resident) - self._most)))):
            del resident[oldest]
            if not oldest.may_sleep:  # it has something to do again, and comes back when it has done that
                continue
            wake_at = oldest.wake_at
            is_soon = wake_at is not None and wake_at < self._time() + SOON
            is_needed = oldest.heard < 0 or oldest.id in self._kept  # its inbox is read first
            if not is_soon and not is_needed and self._put_to_sleep(oldest):
                unsaved = oldest.unsaved
                epoch = unsaved.epoch if oldest.taken_over is None else None
                self._put(oldest.id, oldest.options, oldest.run.workflow, epoch, unsaved.acknowledged, wake_at)
            else:
                resident[oldest] = None
        if len(resident) > self._most and self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER, self._look_again)

    def _look_again(self) -> None:
        self._later = None
        self._make_room(AT_ONCE)

    def _put(
        self,
        run: str,
        options: RunOptions,
        workflow: Workflow | None,
        epoch: int | None,
        head: int,
        wake_at: float | None,
    ) -> None:
        """Let *run*, which is owned and not in memory, be woken when it is due; that time is in its timer alone."""
        self._keep(run, options, workflow, epoch, head)
        if wake_at is not None:
            self._timers.add(self, (run, ()), wake_at, is_relative=False)

    def _keep(self, run: str, options: RunOptions, workflow: Workflow | None, epoch: int | None, head: int) -> None:
        """Keep what is known of *run*, in an object that others of which the same is known share."""
        key = (id(options), id(workflow), epoch, head)
        known = self._shared.get(key)
        if known is None:
            if len(self._shared) >= MOST_SHARED:
                self._shared.clear()
            known = self._shared[key] = Asleep(options, workflow, epoch, head)
        self._asleep[run] = known
        self._is_not_coming(run)

    def _is_not_coming(self, run: str) -> None:
        """No call that brings *run* back has to look what became of it."""
        for coming in self._coming:
            coming.discard(run)

    def put_stored(self, record: RunRecord, options: RunOptions) -> None:
        """Let a stored run, which was acquired, sleep on until it is due."""
        epoch = record.epoch if record.died_in is None and record.first == 1 else None
        self._put(record.id, options, None, epoch, record.head, record.wake_at)

    def owned(self, run: str) -> RunRecord | None:
        """Return what is known of the record of *run*, if it is asleep and is not to be acquired again."""
        asleep = self._asleep.get(run)
        if asleep is None or asleep.epoch is None:
            return None
        return RunRecord(id=run, workflow="", head=asleep.head, epoch=asleep.epoch, created_at=0.0, updated_at=0.0)

    def disown(self, run: str) -> None:
        """*run* was acquired by another caller, and may be asleep: it is acquired again before it is loaded."""
        asleep = self._asleep.get(run)
        if asleep is not None:
            self._keep(run, asleep.options, asleep.workflow, None, asleep.head)

    def forget(self, worker: Worker) -> None:
        """*worker* has left."""
        if self._resident:
            self._resident.pop(worker, None)

    # -- waking up -------------------------------------------------------------------------------

    def woken(self, run: str) -> None:
        """*run* is in memory, or was released."""
        self._asleep.pop(run, None)
        self._due.pop(run, None)
        self._is_not_coming(run)
        if not self._asleep:  # else the definitions of runs that have left would be kept
            self._shared.clear()

    def has_timer(self, key: Key) -> bool:
        """Whether the run that is named in *key* is asleep."""
        return key[0] in self._asleep

    def time_is_up(self, key: Key, due: float) -> None:  # noqa: ARG002 - as the timers call it
        """The run that is named in *key* is due."""
        self._due[key[0]] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._wake_due(), name="weft-sleepers")

    async def _wake_due(self) -> None:
        await asyncio.sleep(0)  # the timers tell of others that are due now
        while self._due:
            due, self._due = self._due, {}
            try:
                await self.awaken(due)
            except RunnerClosed:
                return
            except Exception as error:  # noqa: BLE001 - they are asleep still, and due
                _log.warning("%d runs that are due could not be loaded, trying again: %s", len(due), error)
                self._due = {**due, **self._due}
                await asyncio.sleep(AGAIN)

    async def awaken(self, runs: Iterable[str]) -> None:
        """Bring *runs* back into memory, those of them that are asleep."""
        groups: dict[int, tuple[RunOptions, list[str]]] = {}
        for run in runs:
            asleep = self._asleep.get(run)
            if asleep is not None:
                groups.setdefault(id(asleep.options), (asleep.options, []))[1].append(run)
        for options, group in groups.values():
            coming = set(group)
            self._coming.append(coming)
            try:
                await self._bring_back(group, options)
            finally:
                self._coming = [each for each in self._coming if each is not coming]
            for run in coming:  # it could not be rebuilt and was released, and a log line says why
                self.woken(run)

    async def close(self) -> list[str]:
        """Wake nothing more; return the runs that are asleep."""
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        asleep = list(self._asleep)
        self._asleep.clear()
        self._shared.clear()
        self._resident.clear()
        return asleep
