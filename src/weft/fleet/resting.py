"""
The runs of a worker that have nothing to do now: they are released, so that any worker can have them later.

    active ──only waits, or is idle──► resting ──it has something to do again──► active
                                          │
                                          └── its time here is over ──► released (due at its time, or at a message)

A run that is due soon stays, and one that waits for a message stays for a while: the next message then costs no load.
Runs that leave together are released by one statement.

Invariants: a run is released only when all of it is stored; it is locked from the moment that it leaves memory until
the store has released it, so that a claim of this worker waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from weft.fleet import decisions
from weft.runner.execution.worker import Worker
from weft.runner.registry.keyed_lock import HeldLock
from weft.runner.registry.sleepers import Sleepers
from weft.runner.runtime import Runtime

_log = logging.getLogger("weft.fleet")

TOGETHER: Final = 0.02
"""Seconds in which runs that leave are collected."""
LOOK: Final = 0.5
"""Seconds between two looks at the runs that stay for a while."""


class Resting(Sleepers):
    """The runs of one worker that have nothing to do now; none of them is asleep here."""

    def __init__(
        self,
        runtime: Runtime,
        left: Callable[[], object],
    ) -> None:
        """
        Release runs of *runtime*, whose registry is there.

        Args:
            left: called when runs have been released.
        """
        registry, time, timers = runtime.registry, runtime.dispatcher.clock.time, runtime.dispatcher.timers
        bring_back = runtime.bulk_resume.together
        super().__init__(runtime.table, 0, timers, time, put_to_sleep=registry.put_to_sleep, bring_back=bring_back)
        self._registry, self._ownership, self._now, self._left = registry, runtime.ownership, time, left
        self._since: dict[Worker, float] = {}
        """The workers that have nothing to do, and since when."""
        self._handle: asyncio.TimerHandle | None = None
        self._releases: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many runs are in memory and have nothing to do."""
        return len(self._since)

    def workers(self) -> set[Worker]:
        """Return the workers of these runs."""
        return set(self._since)

    def add(self, worker: Worker) -> None:
        """*worker* only waits, or is idle, and all of it is stored."""
        self._since[worker] = self._now()
        self._look_in(TOGETHER)

    def forget(self, worker: Worker) -> None:
        """*worker* has left."""
        self._since.pop(worker, None)

    def _look_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._handle is not None and self._handle.when() > loop.time() + seconds:
            self._handle.cancel()
            self._handle = None
        if self._handle is None:
            self._handle = loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._handle = None
        now, leaving = self._now(), dict[str, HeldLock]()
        for worker, since in list(self._since.items()):
            if not is_resting(worker):
                del self._since[worker]
                continue
            at = decisions.leaves_at(since, worker.wake_at if worker.only_waits else None)
            if worker.state == "parked":
                at = now
            if at is not None and at <= now and self._registry.put_to_sleep(worker):
                del self._since[worker]
                lock = self._registry.try_lock(worker.id)  # put_to_sleep() has seen that it is free
                assert lock is not None  # noqa: S101
                leaving[worker.id] = lock
        if leaving:
            task = asyncio.get_running_loop().create_task(self._release(leaving), name="weft-release")
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)
        if self._since:
            self._look_in(LOOK)

    async def _release(self, leaving: dict[str, HeldLock]) -> None:
        try:
            await self._ownership.release(list(leaving))
        except Exception:  # noqa: BLE001 - the lease of this process ends with it, and then they are free
            _log.exception("%d runs that wait could not be released", len(leaving))
        finally:
            for lock in leaving.values():
                lock.release()
        self._left()

    async def close(self) -> list[str]:
        """Release nothing more; the store does that when it is closed."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._releases:
            await asyncio.wait(self._releases)
        self._since.clear()
        return await super().close()


def is_resting(worker: Worker) -> bool:
    """Return whether the run of *worker* has nothing to do now, all of it is stored, and it may leave."""
    if worker.may_sleep:
        return True
    is_at_rest = worker.state in ("idle", "parked") and worker.is_settled and worker.is_status_stored
    return worker.may_rest and is_at_rest and not worker.unwritten
